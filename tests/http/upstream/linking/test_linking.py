"""The people whom a provider's statement lets in: every kind of account here, with every kind of statement there."""

from itertools import product
from typing import Any, Final, NamedTuple

import pytest

from tests.http.federation.arriving import answer_in, is_page
from tests.http.people import Person
from tests.http.signing_in import PASSWORD
from tests.http.upstream.scene import ADA, UpstreamScene


class Local(NamedTuple):
    """The account here that has the address."""

    verified: bool
    opens: str
    """With what it is opened: `password`, `passkey`, or neither, `none`."""
    made: str = "registered"
    """`registered`, `invited`, or `provisioned` by an organization."""


LOCALS: Final = (
    None,
    *(
        Local(verified, opens, made)
        for verified, opens, made in product((True, False), ("password", "passkey", "none"), ("registered", "invited", "provisioned"))
    ),
)
# The provider's statement about the address.
WORDS: Final = ("verified", "unverified", "silent")
# Whether the account has another identity already: at the same provider, at another one, or none.
CONNECTED: Final = ("no", "same", "other")

CREATED, SIGNED_IN, CONNECTS, RECLAIMED, REFUSED = "created", "signed in", "connects", "reclaimed", "refused"


def expected(local: Local | None, word: str, connected: str) -> str:
    """The outcome according to docs/guides/upstream-sign-in.md."""
    if word != "verified":
        return REFUSED
    if local is None:
        return CREATED
    if not local.verified:
        return RECLAIMED
    return REFUSED if connected == "same" else CONNECTS


async def put_there(scene: UpstreamScene, local: Local, connected: str) -> Person:
    ada = await scene.people.with_password(PASSWORD, ADA, verified=local.verified)
    if local.opens != "password":
        scene.people.change("update users set password_hash = null where id = %s", ada.user)
    if local.opens == "passkey":
        scene.people.give_passkey(ada)
    if local.made == "invited":
        boss = scene.resident(scene.acme, "owner", "boss")
        (await scene.request("POST", "/api/organizations/acme/invitations", {"email": ADA, "role": "member"}, by=boss)).ok()
    if local.made == "provisioned":
        scene.tenants.join(ada, scene.acme)
    if connected != "no":
        provider = "websuite" if connected == "same" else "codehost"
        scene.people.connect(ada, provider, scene.fakes[provider].issuer, "somebody-else")
    return ada


def says(scene: UpstreamScene, word: str) -> None:
    match word:
        case "verified":
            scene.sits()
        case "unverified":
            scene.sits(verified=False)
        case _:
            fake = scene.sits()
            del fake.person["email"], fake.person["email_verified"]


@pytest.mark.parametrize("connected", CONNECTED)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("local", LOCALS, ids=str)
async def test_every_account_against_every_word(scene: UpstreamScene, local: Local | None, word: str, connected: str) -> None:
    if local is None and connected != "no":
        return
    ada = None if local is None else await put_there(scene, local, connected)
    before = scene.identities()
    says(scene, word)
    tabs = scene.browser()
    answer = await scene.go(tabs)
    outcome = expected(local, word, connected)
    who = await scene.who(tabs)
    if outcome == REFUSED:
        is_page(answer, 400)
        assert (who, scene.identities()) == (None, before)
        return
    assert answer.status == 303
    (account,) = scene.people.rows("select id, password_hash is not null as password, email_verified_at from users where email = %s", ADA)
    assert who == account["id"]
    assert account["email_verified_at"] is not None
    if ada is not None and local is not None:
        assert account["id"] == ada.user
        # A person who never proved the address loses everything they added to the account.
        stays = outcome != RECLAIMED
        assert account["password"] == (local.opens == "password" and stays)
        assert len(scene.people.rows("select from passkeys")) == (local.opens == "passkey" and stays)
        assert (await scene.unlimited.post("/api/auth/login", {"email": ADA, "password": PASSWORD})).status == (
            200 if account["password"] else 401
        )
        assert scene.people.rows("select from jobs where kind = 'mail'"), "the person is told"
    linked = [one for one in scene.identities() if one["subject"] == scene.fakes["websuite"].person["sub"]]
    assert [one["user_id"] for one in linked] == [account["id"]]
    if outcome == RECLAIMED:
        assert len(scene.identities()) == 1, "what was connected before goes"


async def test_a_known_identity_is_the_account_whatever_the_addresses_say(scene: UpstreamScene) -> None:
    scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    ada = await scene.who(tabs)
    other = scene.verified("grace@example.org")
    for person in ({"email": "grace@example.org"}, {"email": "grace@example.org", "email_verified": False}, {"email": None}):
        scene.sits().person |= person
        tabs = scene.browser()
        await scene.go(tabs)
        assert await scene.who(tabs) == ada != other.user
    # The account keeps its own address; the provider's address is kept with the identity.
    assert scene.people.rows("select email from users where id = %s", ada) == [{"email": ADA}]


@pytest.mark.parametrize("word", ["codehost", "websuite", "officesuite"])
async def test_a_word_that_is_not_verified_by_the_providers_own_rule(scene: UpstreamScene, word: str) -> None:
    scene.verified()
    fake = scene.sits(word=word, verified=False)
    people: dict[str, tuple[dict[str, Any], ...]] = {
        "codehost": (
            {"emails": [{"email": ADA, "primary": False, "verified": True}]},
            {"emails": [{"email": ADA, "primary": True, "verified": 1}]},
        ),
        # Verified once, at an address that it does not manage.
        "websuite": ({"email_verified": True, "hd": None}, {"email_verified": True, "hd": ""}),
        "officesuite": ({"xms_edov": None, "email_verified": True}, {"xms_edov": False, "preferred_username": ADA}, {"xms_edov": "0"}),
    }
    for person in people[word]:
        fake.person = {**fake.person, **person}
        tabs = scene.browser()
        is_page(await scene.go(tabs, word=word), 400, "does not confirm")
        assert await scene.who(tabs) is None
    assert scene.identities() == []
    assert await scene.who(scene.browser()) is None


@pytest.mark.parametrize(
    ("word", "person"),
    [
        ("websuite", {"email": "ada@gmail.com", "hd": None}),
        ("officesuite", {"tid": "9188040d-6c67-4c5b-b112-36a304b66dad", "xms_edov": None}),
        ("officesuite", {"xms_edov": 1}),
        ("officesuite", {"xms_edov": "1"}),
    ],
)
async def test_a_word_that_is_verified_by_the_providers_own_rule(scene: UpstreamScene, word: str, person: dict[str, Any]) -> None:
    fake = scene.sits(word=word, **person)
    ada = scene.verified(fake.person["email"])
    tabs = scene.browser()
    await scene.go(tabs, word=word)
    assert await scene.who(tabs) == ada.user


async def test_an_account_that_a_directory_has_switched_off_is_its_owners_once_proved(scene: UpstreamScene) -> None:
    """Nobody had proved the address, and the organization's own tie stays as it is."""
    ada = scene.people.add(ADA)
    scene.people.change(
        "update users set deactivated_at = now(), deactivated_by_org_id = %s, origin_org_id = %s where id = %s",
        *(scene.acme.id, scene.acme.id, ada.user),
    )
    scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    assert await scene.who(tabs) == ada.user
    (row,) = scene.people.rows("select * from users where id = %s", ada.user)
    assert (row["deactivated_at"], row["deactivated_by"], row["origin_org_id"]) == (None, None, None)
    assert row["email_verified_at"] is not None
    activated = scene.people.rows("select details from audit_log where action = 'user.activated' and target_id = %s", str(ada.user))
    assert [entry["details"] for entry in activated] == [{"how": "address_proved"}]
    assert scene.people.rows("select from memberships where user_id = %s", ada.user) == []


async def test_an_account_that_a_directory_has_switched_off_and_its_owner_had_proved_stays_closed(scene: UpstreamScene) -> None:
    ada = scene.verified()
    scene.people.change("update users set deactivated_at = now(), deactivated_by_org_id = %s where id = %s", scene.acme.id, ada.user)
    scene.sits()
    tabs = scene.browser()
    is_page(await scene.go(tabs), 400, "deactivated")
    assert await scene.who(tabs) is None


async def test_a_deactivated_account_stays_closed(scene: UpstreamScene) -> None:
    scene.sits()
    await scene.go(scene.browser())
    scene.people.change("update users set deactivated_at = now()")
    tabs = scene.browser()
    is_page(await scene.go(tabs), 400, "deactivated")
    assert scene.people.rows("select reason from login_events where not success") == [{"reason": "deactivated"}]
    scene.people.change("delete from identities")
    is_page(await scene.go(tabs), 400, "deactivated")
    assert (tabs.session, scene.identities()) == (None, [])


async def test_an_address_that_was_reclaimed_loses_sessions_factors_and_trust(scene: UpstreamScene) -> None:
    squatter = scene.people.add(ADA)
    scene.people.change("update users set password_hash = 'x', pending_email = 'evil@example.net', pending_email_key = 'evil@example.net'")
    scene.people.change(
        "insert into mfa_secrets (user_id, sealed_secret, enabled_at, created_at) values (%s, 'x', now(), now())", squatter.user
    )
    token = await scene.people.token(squatter)
    scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    assert await scene.who(tabs) == squatter.user
    assert (await scene.unlimited.get("/api/user", token=token)).status == 401
    assert scene.people.rows("select from mfa_secrets") == []
    assert scene.people.rows("select pending_email from users where id = %s", squatter.user) == [{"pending_email": None}]
    assert [one["name"] for one in scene.told("audit_log") if one["actor_id"] == squatter.user][:2] == [
        "user.account.reclaimed",
        "user.identity.linked",
    ]


async def test_what_the_earlier_holder_has_allowed_an_application_is_asked_again(scene: UpstreamScene) -> None:
    """Otherwise an organization could make an account at its service, give all consents, and move the account to another
    person's address.
    """
    squatter = scene.people.add(ADA)
    scene.allow(squatter)
    scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    assert await scene.who(tabs) == squatter.user
    answer = await tabs.request("GET", scene.asking(prompt="none"))
    assert answer_in(answer.header("location"))["error"] == "consent_required"


async def test_an_organizations_own_provider_vouches_for_its_domain_alone(scene: UpstreamScene) -> None:
    provider = await scene.own_provider(domain="example.org")
    ada, eve = scene.verified(), scene.verified("eve@elsewhere.example")
    scene.sits(word="own")
    tabs = scene.browser()
    await scene.go(tabs, "?org=acme", word=provider)
    assert await scene.who(tabs) == ada.user
    scene.sits("eve@elsewhere.example", word="own", sub="u-2")
    tabs = scene.browser()
    is_page(await scene.go(tabs, "?org=acme", word=provider), 400, "does not confirm")
    # The account's address moved out of the domain, or the domain was lost: the connection counts no more.
    scene.sits(word="own")
    for change in (
        "update users set email = 'ada@elsewhere.example', email_key = 'ada@elsewhere.example' where email = 'ada@example.org'",
        "update domains set verified_at = null, next_check_at = null",
    ):
        scene.people.change(change)
        tabs = scene.browser()
        is_page(await scene.go(tabs, "?org=acme", word=provider), 400, "cannot be used with this provider")
        assert await scene.who(tabs) is None
        scene.people.change("update users set email = 'ada@example.org', email_key = 'ada@example.org' where id = %s", ada.user)
    assert eve.user not in {one["user_id"] for one in scene.identities()}


async def test_an_organizations_own_provider_never_lets_a_platform_owner_in(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    owner = scene.verified()
    scene.people.change("update users set is_platform_owner = true where id = %s", owner.user)
    scene.sits(word="own")
    tabs = scene.browser()
    is_page(await scene.go(tabs, "?org=acme", word=provider), 400, "cannot be used with this provider")
    # Nor a person who was connected before becoming a platform owner.
    scene.people.change("update users set is_platform_owner = false")
    await scene.go(tabs, "?org=acme", word=provider)
    scene.people.change("update users set is_platform_owner = true where id = %s", owner.user)
    tabs = scene.browser()
    is_page(await scene.go(tabs, "?org=acme", word=provider), 400, "cannot be used with this provider")
    assert tabs.session is None


async def test_who_becomes_a_platform_owner_is_signed_out_where_a_provider_vouched_for_them(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    ada = scene.verified()
    scene.sits(word="own")
    by_password, tabs = scene.browser(), scene.browser()
    await scene.go(by_password, "?org=acme", word=provider)
    scene.people.change("update sessions set authenticated_by = '{pwd}' where user_id = %s", ada.user)
    await scene.go(tabs, "?org=acme", word=provider)
    assert await scene.who(tabs) == ada.user
    owner = scene.people.add(platform_owner=True)
    token = await scene.people.token(owner, is_platform_owner=True)
    (await scene.unlimited.post("/api/platform/owners", {"user_id": str(ada.user)}, token=token)).ok()
    assert await scene.who(tabs) is None
    assert await scene.who(by_password) == ada.user


async def test_a_platform_owner_who_never_proved_the_address_is_not_reclaimed(scene: UpstreamScene) -> None:
    scene.people.add(ADA, platform_owner=True)
    scene.sits()
    is_page(await scene.go(scene.browser()), 400, "cannot be used with this provider")


async def test_two_organizations_with_the_same_issuer_do_not_share_people(scene: UpstreamScene) -> None:
    """Globex sets up the provider that acme uses, too, and would like acme's people."""
    mine = await scene.own_provider()
    scene.verified()
    scene.sits(word="own")
    await scene.go(scene.browser(), "?org=acme", word=mine)
    globex = scene.tenants.add("globex")
    boss = scene.resident(globex, "owner", "boss")
    fake = scene.fakes["own"]
    body = {"name": "Login", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret}
    theirs = (await scene.request("POST", "/api/organizations/globex/upstream-providers", body, by=boss)).ok(201)["id"]
    tabs = scene.browser()
    is_page(await scene.go(tabs, "?org=globex", word=theirs), 400, "does not confirm")
    assert await scene.who(tabs) is None


async def test_many_at_once_make_one_account(scene: UpstreamScene) -> None:
    import trio  # noqa: PLC0415 - here alone

    scene.sits()
    browsers = [scene.browser() for _ in range(8)]
    async with trio.open_nursery() as nursery:
        for tabs in browsers:
            nursery.start_soon(scene.go, tabs)
    assert len({await scene.who(tabs) for tabs in browsers}) == 1
    assert len(scene.identities()) == len(scene.people.rows("select from users where email = %s", ADA)) == 1

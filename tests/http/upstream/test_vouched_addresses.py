"""An organization's own provider vouches for an address, and proves none. Whoever proves it by the mailbox keeps nothing that somebody else
may have left there, and another provider's word gives the account to that provider's person.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final

import pytest

from adapters.postgres.identity.upstream.vouched_accounts import VouchedAccountRows
from core.domain.errors import Forbidden
from core.domain.identifiers import OrganizationId
from core.domain.secrets import Token
from tests.http.browsing import Tab, Tabs
from tests.http.client import Received
from tests.http.federation.arriving import CALLBACK, answer_in
from tests.http.federation.scim.directories import PATCH_OP, USERS, Directory
from tests.http.people import BASE_URL, Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.signing_in import LOGIN, PASSWORD
from tests.http.upstream.scene import ADA, UpstreamScene
from tests.http.upstream.test_races import meanwhile
from tests.meanwhile import meanwhile as during

FORGOTTEN: Final = "/api/auth/forgot-password"
RESET: Final = "/api/auth/reset-password"
NEW: Final = "a fresh and lively password"
SECOND_FACTOR: Final = "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now())"
# What the account has left of what somebody may have added.
LEFT: Final = """
    select exists (select from passkeys where user_id = users.id) as passkey,
           exists (select from mfa_secrets where user_id = users.id) as factor,
           exists (select from identities where user_id = users.id) as identity,
           exists (select from sessions where user_id = users.id and revoked_at is null) as session,
           exists (select from consents where user_id = users.id) as consent
      from users
     where email = %s
"""


def account(house: UpstreamScene, email: str = ADA) -> Mapping[str, Any]:
    (row,) = house.people.rows("select id, email_verified_at, address_vouched_by, password_hash, name from users where email = %s", email)
    return row


def left(house: UpstreamScene, email: str = ADA) -> set[str]:
    (row,) = house.people.rows(LEFT, email)
    return {name for name, there in row.items() if there}


async def another(house: UpstreamScene, keeper: str = "second-keeper") -> str:
    """One more provider of the same organization. Returns its id."""
    fake = house.fakes["own"]
    body = {"name": keeper, "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret}
    boss = house.resident(house.acme, "owner", keeper)
    made = await house.request("POST", "/api/organizations/acme/upstream-providers", body, by=boss)
    return str(made.ok(201)["id"])


async def come(house: UpstreamScene, provider: str, tabs: Tabs | None = None, *, sub: str = "u-1", email: str = ADA) -> Tabs:
    """Somebody signs in through the organization's provider."""
    tabs = tabs or house.browser()
    house.sits(email, word="own", sub=sub)
    await house.go(tabs, "?org=acme", word=provider)
    return tabs


async def person(house: UpstreamScene, tabs: Tabs) -> Person:
    user = await house.who(tabs)
    assert user is not None
    (session,) = house.people.rows("select id from sessions where user_id = %s and revoked_at is null order by id desc limit 1", user)
    return Person(user, session["id"], ADA)


def plant(house: UpstreamScene, person: Person) -> None:
    """What somebody who is signed in may add, and a name and a consent."""
    house.people.give_passkey(person)
    house.people.change("update users set name = 'Ada', profile_updated_at = now() where id = %s", person.user)
    house.allow(person)


def form_of(tab: Tab, action: str) -> int:
    return next(number for number, form in enumerate(tab.page.forms) if form.action == action)


async def reset(house: UpstreamScene, email: str = ADA) -> None:
    """The mailbox's owner asks for a link, and chooses a password by it."""
    (await house.unlimited.post(FORGOTTEN, {"email": email})).ok()
    mails = [mail for mail in await Postbox(house.postern).empty() if "reset" in mail.text]
    token = token_in(link_in(mails[-1]))
    house.log.remember(token, NEW)
    (await house.unlimited.post(RESET, {"token": token, "new_password": NEW})).ok()


async def signs_in(house: UpstreamScene, password: str = NEW, email: str = ADA) -> Received:
    return await house.unlimited.post(LOGIN, {"email": email, "password": password})


async def test_the_first_proof_by_the_mailbox_ends_what_nobody_has_proved(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    attacker = await person(house, await come(house, provider))
    assert account(house)["email_verified_at"] is None
    assert account(house)["address_vouched_by"] == f"{house.acme.id}/{provider}"
    plant(house, attacker)
    house.people.change("delete from domains")
    await reset(house)
    assert left(house) == set()
    assert (account(house)["name"], account(house)["address_vouched_by"]) == ("Ada", None)
    assert account(house)["email_verified_at"] is not None
    assert (await signs_in(house)).status == 200
    # A second reset ends no second factor, as for anybody who has proved the address.
    house.people.change(SECOND_FACTOR, attacker.user)
    await reset(house)
    assert "factor" in left(house)


async def test_nobody_is_locked_out_by_a_second_factor_that_somebody_else_added(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    attacker = await person(house, await come(house, provider))
    house.people.change(SECOND_FACTOR, attacker.user)
    await reset(house)
    answer = (await signs_in(house)).ok()
    assert (answer.get("mfa_required"), bool(answer["access_token"])) == (None, True), answer


async def test_another_provider_of_the_same_organization_gets_the_account_without_what_the_first_left(house: UpstreamScene) -> None:
    first = await house.own_provider()
    attacker = await person(house, await come(house, first))
    house.tenants.join(attacker, house.acme)
    plant(house, attacker)
    house.people.change(SECOND_FACTOR, attacker.user)
    house.people.change("delete from upstream_providers where id = %s", first)
    second = await another(house)
    tabs = await come(house, second, sub="the-real-one")
    assert await house.who(tabs) == attacker.user
    assert left(house) == {"identity", "session"}
    assert account(house)["address_vouched_by"] == f"{house.acme.id}/{second}"
    assert account(house)["email_verified_at"] is None
    assert house.people.rows("select from memberships where user_id = %s and org_id = %s", attacker.user, house.acme.id)
    assert not house.people.rows("select from sessions where id = %s and revoked_at is null", attacker.session)


async def test_one_of_the_three_providers_proves_the_address_and_takes_the_account_over(house: UpstreamScene) -> None:
    attacker = await person(house, await come(house, await house.own_provider()))
    plant(house, attacker)
    house.sits()
    tabs = house.browser()
    await house.go(tabs, word="websuite")
    assert await house.who(tabs) == attacker.user
    assert left(house) == {"identity", "session"}
    assert account(house)["email_verified_at"] is not None
    assert account(house)["address_vouched_by"] is None


async def test_its_own_provider_knows_the_person_again_and_nobody_else_can(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    ada = await person(house, await come(house, provider))
    plant(house, ada)
    assert await house.who(await come(house, provider)) == ada.user
    # The identity is gone, and comes back by the same provider's word, which ends nothing.
    house.people.change("delete from identities")
    assert await house.who(await come(house, provider)) == ada.user
    assert left(house) >= {"passkey", "identity", "consent"}
    # Another person at the provider with the same address gets nothing.
    assert await house.who(await come(house, provider, sub="another")) is None
    # A password does not sign in before somebody has proved the address.
    hashed = house.people.rows("select password_hash from users where id = %s", (await house.people.with_password(PASSWORD)).user)[0]
    house.people.change("update users set password_hash = %s where id = %s", hashed["password_hash"], ada.user)
    answer = await signs_in(house, PASSWORD)
    assert (answer.status, b"is not verified" in answer.body) == (401, True), answer.body


async def test_a_deactivated_account_is_not_opened_by_the_provider_that_vouched(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    ada = await person(house, await come(house, provider))
    house.people.change("delete from identities")
    house.people.change("update users set deactivated_at = now(), deactivated_by_org_id = %s where id = %s", house.acme.id, ada.user)
    assert await house.who(await come(house, provider)) is None
    assert house.people.rows("select from users where id = %s and deactivated_at is not null", ada.user)


@pytest.mark.parametrize("vouched_by_another", [False, True])
async def test_no_own_provider_opens_what_its_organization_has_switched_off(house: UpstreamScene, *, vouched_by_another: bool) -> None:
    """It proves nothing, so the directory's word holds, whether or not another provider has vouched before."""
    provider = await house.own_provider()
    ada = house.people.add(ADA)
    other = await another(house) if vouched_by_another else None
    house.people.change(
        "update users set deactivated_at = now(), deactivated_by_org_id = %s, origin_org_id = %s, address_vouched_by = %s where id = %s",
        *(house.acme.id, house.acme.id, other and f"{house.acme.id}/{other}", ada.user),
    )
    assert await house.who(await come(house, provider)) is None
    (row,) = house.people.rows("select deactivated_at, origin_org_id from users where id = %s", ada.user)
    assert (row["deactivated_at"] is None, row["origin_org_id"]) == (False, house.acme.id)


async def test_no_other_directory_opens_what_the_makers_has_switched_off(house: UpstreamScene) -> None:
    """The person signs in by the provider that vouches, without any proof: so that nobody has proved the address opens nothing."""
    provider = await house.own_provider()
    ada = await person(house, await come(house, provider))
    house.people.change("update users set deactivated_at = now(), deactivated_by_org_id = %s where id = %s", house.acme.id, ada.user)
    evil = await Directory(house.postern, house.client, house.people, "evil").connect()
    listed = await evil.create(ADA)
    assert (listed["id"], listed["active"]) == (str(ada.user), False)
    body = {"schemas": [PATCH_OP], "Operations": [{"op": "replace", "path": "active", "value": True}]}
    assert (await evil.ask("PATCH", f"{USERS}/{ada.user}", body)).status == 400
    assert await house.who(await come(house, provider)) is None
    assert house.people.rows("select from users where id = %s and deactivated_at is not null", ada.user)


async def test_an_identity_that_came_along_vouches_at_its_first_sign_in(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    ada = await person(house, await come(house, provider))
    house.people.change("update users set address_vouched_by = null where id = %s", ada.user)
    house.sits("elsewhere@example.org", word="own")
    await house.go(house.browser(), "?org=acme", word=provider)
    assert account(house)["address_vouched_by"] is None, "the provider told another address"
    await come(house, provider)
    assert account(house)["address_vouched_by"] == f"{house.acme.id}/{provider}"


async def test_a_vouched_person_proves_the_address_in_their_own_session_and_says_what_stays(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    tabs = await come(house, provider)
    ada = await person(house, tabs)
    other = await come(house, provider)
    plant(house, ada)
    house.people.change(SECOND_FACTOR, ada.user)
    house.people.connect(ada, "websuite", subject="hers")
    house.people.change("update passkeys set name = 'Theirs'")
    here = house.people.rows("select session_id from browser_sessions order by session_id limit 1")[0]["session_id"]
    house.people.change(
        "insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,"
        " created_at, made_in) values (gen_random_uuid(), %s, 'b', 'k', 0, 'Hers', gen_random_uuid(), '{}', false, false, now(), %s)",
        ada.user,
        here,
    )
    overview = await tabs.tab().open("/ui")
    assert "/ui/confirm-address" in overview.page.links
    tab = await tabs.tab().open("/ui/confirm-address")
    await tab.send(form_of(tab, "/ui/confirm-address"))
    path = (await Postbox(house.postern).link()).removeprefix(BASE_URL)
    house.log.remember(token_in(path))
    tab = await tabs.tab().open(path)
    assert "Theirs" in tab.page.text
    assert "Hers" not in tab.page.text
    identity = house.people.rows("select id from identities where provider = 'websuite'")[0]["id"]
    await tab.send(form_of(tab, "/ui/verify-email/here"), stays=f"identity:{identity}")
    assert tab.place.startswith("/ui/verify-email/done?what=address_confirmed"), tab.page
    assert [row["name"] for row in house.people.rows("select name from passkeys")] == ["Hers"]
    assert {row["provider"] for row in house.people.rows("select provider from identities")} == {"websuite", provider}
    assert not house.people.rows("select from mfa_secrets")
    assert account(house)["email_verified_at"] is not None
    assert await house.who(tabs) == ada.user
    assert await house.who(other) is None
    # The same form, sent twice.
    again = await tabs.tab().open("/ui/verify-email/done?what=address_confirmed")
    assert again.place.startswith("/ui/verify-email/done")


async def asked_here(house: UpstreamScene, tabs: Tabs) -> Tab:
    """Ada asks for a mail in her session, and opens its link in the same browser."""
    tab = await tabs.tab().open("/ui/confirm-address")
    await tab.send(form_of(tab, "/ui/confirm-address"))
    path = (await Postbox(house.postern).link()).removeprefix(BASE_URL)
    house.log.remember(token_in(path))
    return await tabs.tab().open(path)


async def test_a_password_of_a_vouched_account_goes_unless_its_person_says_that_it_is_theirs(house: UpstreamScene) -> None:
    tabs = await come(house, await house.own_provider())
    ada = await person(house, tabs)
    house.people.change("update users set password_hash = 'not a hash', password_changed_at = now() where id = %s", ada.user)
    # Of the second factor the session itself says that it is hers.
    own = "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at, made_in) values (%s, 'x', now(), now(), %s)"
    house.people.change(own, ada.user, house.people.rows("select session_id from browser_sessions")[0]["session_id"])
    house.people.connect(ada, "websuite", subject="theirs")
    tab = await asked_here(house, tabs)
    await tab.send(form_of(tab, "/ui/verify-email/here"))
    assert tab.place.startswith("/ui/verify-email/done?what=address_confirmed"), tab.page
    assert (account(house)["password_hash"], "factor" in left(house)) == (None, True)
    assert not house.people.rows("select from identities where provider = 'websuite'")
    told = house.people.rows("select details->>'how' as how from audit_log where action = 'security.password.changed'")
    assert told == [{"how": "removed_unverified"}]


async def give_password(house: UpstreamScene, ada: Person) -> None:
    """Somebody who is signed in chooses a password."""
    hashed = house.people.rows("select password_hash from users where id = %s", (await house.people.with_password(PASSWORD)).user)[0]
    chosen = "update users set password_hash = %s, password_changed_at = now() where id = %s"
    house.people.change(chosen, hashed["password_hash"], ada.user)


async def test_a_password_that_the_person_of_a_vouched_account_calls_theirs_stays(house: UpstreamScene) -> None:
    tabs = await come(house, await house.own_provider())
    ada = await person(house, tabs)
    await give_password(house, ada)
    tab = await asked_here(house, tabs)
    await tab.send(form_of(tab, "/ui/verify-email/here"), stays=f"password:{ada.user}")
    assert tab.place.startswith("/ui/verify-email/done?what=address_confirmed"), tab.page
    assert (await signs_in(house, PASSWORD)).status == 200
    assert not house.people.rows("select from audit_log where action = 'security.password.changed'")


async def test_the_right_password_of_a_vouched_account_proves_no_address(house: UpstreamScene) -> None:
    """Whoever came by the provider's word may have chosen it, and the holder of the mailbox may have been told it."""
    tabs = await come(house, await house.own_provider())
    ada = await person(house, tabs)
    await give_password(house, ada)
    (await house.unlimited.post("/api/auth/resend-verification", {"email": ADA})).ok()
    token = token_in(await Postbox(house.postern).link())
    house.log.remember(token)
    answer = await house.browser().request("POST", "/ui/verify-email", {"token": token, "password": PASSWORD})
    assert (answer.status, b"new_password" in answer.body) == (400, True), answer.body
    assert account(house)["email_verified_at"] is None
    assert await house.who(tabs) == ada.user


async def test_what_goes_meanwhile_needs_no_end(house: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    tabs = await come(house, await house.own_provider())
    ada = await person(house, tabs)
    plant(house, ada)
    house.people.connect(ada, "websuite", subject="hers")
    tab = await asked_here(house, tabs)

    def go() -> None:
        house.people.change("delete from passkeys")
        house.people.change("delete from identities where provider = 'websuite'")

    during(monkeypatch, VouchedAccountRows, "added", go)
    await tab.send(form_of(tab, "/ui/verify-email/here"))
    assert tab.place.startswith("/ui/verify-email/done?what=address_confirmed"), tab.page
    ends = house.people.rows("select action from audit_log where action in ('security.passkey.removed', 'user.identity.unlinked')")
    assert ends == []


async def test_the_form_of_a_session_proves_no_address_of_another_account(house: UpstreamScene) -> None:
    tabs = await come(house, await house.own_provider())
    ada = await person(house, tabs)
    plant(house, ada)
    tab = await asked_here(house, tabs)
    form = tab.page.forms[form_of(tab, "/ui/verify-email/here")]
    stranger = house.signed_in(house.people.session_of(house.verified("stranger@example.org")))
    page = await stranger.tab().open("/ui/password")
    fields = {**form.fields, "form_token": page.page.forms[0].fields["form_token"]}
    assert (await stranger.request("POST", "/ui/verify-email/here", fields)).status == 400
    # Nobody knows whose the password of such an account is, so the form of a registration changes nothing.
    answer = await house.browser().request("POST", "/ui/verify-email", {"token": form.fields["token"], "password": PASSWORD})
    assert (answer.status, b"new_password" in answer.body) == (400, True), answer.body
    assert account(house)["email_verified_at"] is None
    assert left(house) >= {"passkey", "consent"}


async def test_an_address_that_is_proved_meanwhile_ends_nothing(house: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    tabs = await come(house, await house.own_provider())
    ada = await person(house, tabs)
    plant(house, ada)
    tab = await asked_here(house, tabs)
    proved = "update users set email_verified_at = now() where id = %s"
    during(monkeypatch, house.postern.identity.address_proofs, "_find", lambda: house.people.change(proved, ada.user))
    await tab.send(form_of(tab, "/ui/verify-email/here"))
    assert (tab.status, left(house) >= {"passkey", "consent", "session"}) == (400, True), tab.page


async def test_elsewhere_the_link_asks_for_a_password_and_ends_everything(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    ada = await person(house, await come(house, provider))
    plant(house, ada)
    (await house.unlimited.post("/api/auth/resend-verification", {"email": ADA})).ok()
    path = (await Postbox(house.postern).link()).removeprefix(BASE_URL)
    house.log.remember(token_in(path), NEW)
    # Somebody else's browser, signed in as somebody else, is none of theirs.
    stranger = house.signed_in(house.people.session_of(house.verified("stranger@example.org")))
    tab = await stranger.tab().open(path)
    assert "new_password" in tab.page.inputs
    await tab.send(new_password=NEW, repeated=NEW)
    assert tab.place.startswith("/ui/verify-email/done?what=first_proof"), tab.page
    assert left(house) == set()
    assert account(house)["name"] == "Ada"
    assert (await signs_in(house)).status == 200


async def test_the_interface_s_own_link_ends_everything_too(house: UpstreamScene) -> None:
    ada = await person(house, await come(house, await house.own_provider()))
    plant(house, ada)
    (await house.unlimited.post("/api/auth/resend-verification", {"email": ADA})).ok()
    proof = await Postbox(house.postern).proof()
    assert (await house.unlimited.request("GET", proof)).status == 200
    assert left(house) == set()
    assert account(house)["email_verified_at"] is not None


@pytest.mark.parametrize("stage", ["vouched", "proved"])
async def test_what_a_vouched_address_counts_as(house: UpstreamScene, stage: str) -> None:
    provider = await house.own_provider()
    globex = house.tenants.add("globex")
    tabs = await come(house, provider)
    ada = await person(house, tabs)
    house.tenants.join(ada, globex, listed=True)
    house.tenants.join(ada, house.acme, listed=True)
    if stage == "proved":
        house.people.change("update users set email_verified_at = now() where id = %s", ada.user)
        assert account(house)["address_vouched_by"] is None
    proved = stage == "proved"
    # Towards services of the organization that vouched it is verified, towards others it is not.
    for tenant, told in ((house.acme, True), (globex, proved)):
        service = house.tenants.service(tenant, "crm")
        house.tenants.uses(ada, service)
        inside = house.tenants.session(ada, service)
        house.people.change("update sessions set scopes = '{openid,email}' where id = %s", inside.session)
        token = await house.tenants.token(inside, service, scope="openid email")
        answer = await house.unlimited.request("GET", "/oauth/userinfo", token=token)
        assert answer.ok()["email_verified"] is told, (tenant, answer.body)
    # The membership of the organization whose provider has opened the session, and no other.
    for tenant, own in ((house.acme, True), (globex, proved)):
        caller = await house.postern.tenancy.callers.resolve_browser(Token(tabs.session or "none"))
        assert caller is not None
        with nullcontext() if own else pytest.raises(Forbidden, match="Confirm your e-mail address first"):
            await house.postern.tenancy.members.confirm(caller, [OrganizationId(tenant.id)])
        confirmed = house.people.rows(
            "select from memberships where user_id = %s and org_id = %s and own_since is not null", ada.user, tenant.id
        )
        assert bool(confirmed) is own, tenant


async def test_an_owner_names_a_successor_and_then_nothing_is_lost(house: UpstreamScene) -> None:
    first = await house.own_provider()
    ada = await person(house, await come(house, first))
    plant(house, ada)
    second = await another(house)
    path = f"/api/organizations/acme/upstream-providers/{second}/succeed"
    owner = house.people.rows("select user_id from memberships where role = 'owner' and org_id = %s limit 1", house.acme.id)[0]["user_id"]
    boss = house.people.session_of(Person(owner, ada.session, "boss@example.org"))
    admin = house.resident(house.acme, "admin", "admin")
    # Neither an admin, nor a provider that never was, nor the provider itself.
    assert (await house.request("POST", path, {"provider_id": first}, by=admin)).status == 403
    assert (await house.request("POST", path, {"provider_id": second}, by=boss)).status == 400
    assert (await house.request("POST", path, {"provider_id": str(ada.user)}, by=boss)).status == 404
    # The former one may be gone: the account knows it.
    house.people.change("delete from upstream_providers where id = %s", first)
    for _ in range(2):
        told = (await house.request("POST", path, {"provider_id": first}, by=boss)).ok()
        assert told["successor_of"] == [first]
    third = await another(house, "third-keeper")
    inherited = await house.request("POST", path.replace(second, third), {"provider_id": second}, by=boss)
    assert set(inherited.ok()["successor_of"]) == {first, second}
    for provider in (second, third):
        tabs = await come(house, provider, sub=f"at-{provider}")
        assert await house.who(tabs) == ada.user
        assert left(house) >= {"passkey", "consent", "identity", "session"}
    changes = house.people.rows("select details from audit_log where action = 'organization.upstream_provider.updated' order by id")
    assert [row["details"]["new_successor_of"] for row in changes] == [[first], [second, first]]


async def test_nobody_names_a_successor_of_another_organization_s_provider(house: UpstreamScene) -> None:
    first = await house.own_provider()
    await come(house, first)
    globex = house.tenants.add("globex")
    boss = house.resident(globex, "owner", "boss")
    fake = house.fakes["own"]
    body = {"name": "Globex", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret}
    mine = (await house.request("POST", "/api/organizations/globex/upstream-providers", body, by=boss)).ok(201)["id"]
    path = f"/api/organizations/globex/upstream-providers/{mine}/succeed"
    assert (await house.request("POST", path, {"provider_id": first}, by=boss)).status == 404


async def test_the_owner_proves_the_address_while_another_provider_is_asked(house: UpstreamScene) -> None:
    ada = await person(house, await come(house, await house.own_provider()))
    plant(house, ada)
    second = await another(house)
    meanwhile(house, lambda: house.people.change("update users set email_verified_at = now() where id = %s", ada.user))
    tabs = await come(house, second, sub="second")
    assert await house.who(tabs) == ada.user
    assert left(house) >= {"passkey", "consent"}, "what its owner has is theirs"


async def test_the_owner_proves_the_address_while_the_vouching_provider_is_asked(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    ada = await person(house, await come(house, provider))

    def proves() -> None:
        house.people.change("update users set email_verified_at = now() where id = %s", ada.user)
        house.people.change("delete from identities where user_id = %s", ada.user)

    meanwhile(house, proves)
    assert await house.who(await come(house, provider)) is None, "the identity that was met is gone"
    assert await house.who(await come(house, provider)) == ada.user


async def test_the_directory_switches_the_account_off_while_the_provider_is_asked(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    ada = house.people.add(ADA)
    off = "update users set deactivated_at = now(), deactivated_by_org_id = %s where id = %s"
    meanwhile(house, lambda: house.people.change(off, house.acme.id, ada.user))
    assert await house.who(await come(house, provider)) is None
    assert house.people.rows("select from users where id = %s and deactivated_at is not null", ada.user)


async def test_invitations_in_the_own_list_need_a_proof_or_the_organization_s_own_provider(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    tabs = await come(house, provider)
    ada = await person(house, tabs)
    globex = house.tenants.add("globex")
    for tenant in (house.acme, globex):
        boss = house.resident(tenant, "owner", "inviter")
        sent = await house.request("POST", f"/api/organizations/{tenant.slug}/invitations", {"email": ADA, "role": "member"}, by=boss)
        sent.ok()
    caller = await house.postern.tenancy.callers.resolve_browser(Token(tabs.session or "none"))
    assert caller is not None

    async def listed(by: Any) -> set[str]:
        return {one.organization_slug for one, _ in await house.postern.tenancy.invitations.list_own(by)}

    assert await listed(caller) == {"acme"}
    # Another session of the same person was opened by no provider.
    other = house.signed_in(house.people.session_of(ada))
    elsewhere = await house.postern.tenancy.callers.resolve_browser(Token(other.session or "none"))
    assert elsewhere is not None
    assert await listed(elsewhere) == set()
    house.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    assert await listed(elsewhere) == {"acme", "globex"}


@pytest.mark.parametrize("mailed", [True, False], ids=["the mailed token", "the inviter's token"])
async def test_an_invitation_elsewhere_ends_what_nobody_has_proved_by_the_mailed_token_alone(house: UpstreamScene, *, mailed: bool) -> None:
    ada = await person(house, await come(house, await house.own_provider()))
    plant(house, ada)
    globex = house.tenants.add("globex")
    boss = house.resident(globex, "owner", "inviter")
    sent = (await house.request("POST", "/api/organizations/globex/invitations", {"email": ADA, "role": "member"}, by=boss)).ok()
    token = sent["token"]
    if mailed:
        (mail,) = [mail for mail in await Postbox(house.postern).empty() if mail.to == ADA]
        token = token_in(link_in(mail))
    house.log.remember(token)
    (await house.unlimited.post("/api/invitations/accept", {"token": token})).ok()
    assert (left(house) == set()) is mailed
    rows = house.people.rows("select own_since is not null as own from memberships where user_id = %s and org_id = %s", ada.user, globex.id)
    assert rows == [{"own": mailed}]


async def test_in_their_own_session_the_person_confirms_the_address_before_an_invitation(house: UpstreamScene) -> None:
    tabs = await come(house, await house.own_provider())
    plant(house, await person(house, tabs))
    globex = house.tenants.add("globex")
    boss = house.resident(globex, "owner", "inviter")
    (await house.request("POST", "/api/organizations/globex/invitations", {"email": ADA, "role": "member"}, by=boss)).ok()
    (mail,) = [mail for mail in await Postbox(house.postern).empty() if mail.to == ADA]
    link = link_in(mail)
    house.log.remember(token_in(link))
    tab = await tabs.tab().open(f"/ui/invitations/accept?token={token_in(link)}")
    await tab.send(answer="accept")
    assert "/ui/confirm-address" in tab.page.links
    assert left(house) >= {"passkey", "consent", "session"}
    assert not house.people.rows("select from memberships where org_id = %s and user_id = %s", globex.id, account(house)["id"])


async def test_a_vouched_person_founds_no_organization_before_the_proof(house: UpstreamScene) -> None:
    ada = await person(house, await come(house, await house.own_provider()))
    asked = {"slug": "hers", "name": "Hers"}
    assert (await house.request("POST", "/api/organizations", asked, by=ada)).status == 400
    house.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    (await house.request("POST", "/api/organizations", asked, by=ada)).ok()


@pytest.mark.parametrize("wanted", ["mine@evil.example", "Ada@example.org"], ids=["another", "another spelling"])
async def test_a_vouched_person_moves_the_account_nowhere_before_the_proof(house: UpstreamScene, wanted: str) -> None:
    """Otherwise the provider's people would take the account, with what others have listed there, to a mailbox of theirs."""
    ada = await person(house, await come(house, await house.own_provider()))
    globex = house.tenants.add("globex")
    house.tenants.join(ada, globex, "admin", listed=True)
    refusal = await house.request("PATCH", "/api/user", {"email": wanted}, by=ada)
    assert (refusal.status, b"Confirm your e-mail address first" in refusal.body) == (400, True), refusal.body
    assert await Postbox(house.postern).empty() == []
    # A link from before somebody vouched, or from a process of the release before.
    house.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    (await house.request("PATCH", "/api/user", {"email": wanted}, by=ada)).ok()
    (mail,) = [mail for mail in await Postbox(house.postern).empty() if "token=" in mail.text]
    proof = f"/auth/verify-email?token={token_in(link_in(mail))}"
    house.log.remember(token_in(link_in(mail)))
    vouched = f"{house.acme.id}/{ada.user}"
    house.people.change("update users set email_verified_at = null, address_vouched_by = %s where id = %s", vouched, ada.user)
    assert (await house.unlimited.request("GET", proof)).status == 400
    assert account(house)["email_verified_at"] is None
    # The own address takes the wish back.
    (await house.request("PATCH", "/api/user", {"email": ADA}, by=ada)).ok()


async def test_a_vouched_person_is_led_to_the_proof_from_a_membership_elsewhere(house: UpstreamScene) -> None:
    tabs = await come(house, await house.own_provider())
    ada = await person(house, tabs)
    globex = house.tenants.add("globex")
    house.tenants.join(ada, globex, listed=True)
    tab = await tabs.tab().open("/ui/organizations/globex/membership")
    number = form_of(tab, "/ui/organizations/globex/membership")
    await tab.send(number, answer="accept")
    assert "/ui/confirm-address" in tab.page.links
    # Leaving needs no proof.
    tab = await tabs.tab().open("/ui/organizations/globex/membership")
    await tab.send(number, answer="leave")
    assert not house.people.rows("select from memberships where org_id = %s and user_id = %s", globex.id, ada.user)


async def test_what_another_organization_lists_for_the_address_opens_nothing_before_the_proof(house: UpstreamScene) -> None:
    """Globex has listed the reader of the mailbox as an administrator. Whoever comes by acme's word is that reader for acme alone."""
    provider = await house.own_provider()
    ada = await person(house, await come(house, provider))
    globex = house.tenants.add("globex")
    house.tenants.join(ada, globex, "admin", listed=True)
    house.tenants.join(ada, house.acme, "admin", listed=True)

    async def statuses(slug: str) -> list[int]:
        path = f"/api/organizations/{slug}"
        asked = [("GET", f"{path}/members", None), ("PATCH", path, {"name": "Taken"}), ("POST", f"{path}/select", None)]
        return [(await house.request(method, target, body, by=ada)).status for method, target, body in asked]

    assert await statuses("globex") == [403, 403, 403]
    inside = house.tenants.session(ada, globex)
    token = await house.tenants.token(inside, globex)
    assert (await house.client.get("/api/organizations/globex/members", token=token)).status == 403
    house.people.change("update all_organizations set owner_user_id = %s where id = %s", ada.user, globex.id)
    house.people.change("update memberships set role = 'owner' where org_id = %s", globex.id)
    house.people.change(
        "insert into ownerships (org_id, membership_id, former_role, since)"
        " select org_id, id, 'admin', now() from memberships where org_id = %s",
        globex.id,
    )
    await house.request("POST", "/api/organizations/globex/ownership", {"answer": "confirm"}, by=ada)
    assert house.people.rows("select from ownerships where confirmed_at is null")
    assert await statuses("acme") == [200, 200, 200]
    # Neither do applications that globex has for its members.
    app = house.application(globex, "intranet", CALLBACK)
    house.set(app, sign_in_policy="members")
    tabs = house.signed_in(house.people.session_of(ada))
    house.allow(ada, app)
    assert answer_in((await tabs.request("GET", house.asking(app, prompt="none"))).header("location"))["error"] == "access_denied"
    # The reader of the mailbox is whom globex has listed.
    house.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    house.people.change("update memberships set role = 'admin' where org_id = %s", globex.id)
    assert (await statuses("globex"))[0] == 200

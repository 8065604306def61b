"""An organization's own provider vouches for an address, and proves none. Whoever proves it by the mailbox keeps nothing that somebody else
may have left there, and another provider's word gives the account to that provider's person.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final

import pytest

from adapters.postgres.identity.upstream.identities import IdpVerifiedAccountRows
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


def account(scene: UpstreamScene, email: str = ADA) -> Mapping[str, Any]:
    (row,) = scene.people.rows("select id, email_verified_at, address_vouched_by, password_hash, name from users where email = %s", email)
    return row


def left(scene: UpstreamScene, email: str = ADA) -> set[str]:
    (row,) = scene.people.rows(LEFT, email)
    return {name for name, there in row.items() if there}


async def another(scene: UpstreamScene, keeper: str = "second-keeper") -> str:
    """One more provider of the same organization. Returns its id."""
    fake = scene.fakes["own"]
    body = {"name": keeper, "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret}
    boss = scene.resident(scene.acme, "owner", keeper)
    made = await scene.request("POST", "/api/organizations/acme/upstream-providers", body, by=boss)
    return str(made.ok(201)["id"])


async def come(scene: UpstreamScene, provider: str, tabs: Tabs | None = None, *, sub: str = "u-1", email: str = ADA) -> Tabs:
    """Somebody signs in through the organization's provider."""
    tabs = tabs or scene.browser()
    scene.sits(email, word="own", sub=sub)
    await scene.go(tabs, "?org=acme", word=provider)
    return tabs


async def person(scene: UpstreamScene, tabs: Tabs) -> Person:
    user = await scene.who(tabs)
    assert user is not None
    (session,) = scene.people.rows("select id from sessions where user_id = %s and revoked_at is null order by id desc limit 1", user)
    return Person(user, session["id"], ADA)


def plant(scene: UpstreamScene, person: Person) -> None:
    """What somebody who is signed in may add, and a name and a consent."""
    scene.people.give_passkey(person)
    scene.people.change("update users set name = 'Ada', profile_updated_at = now() where id = %s", person.user)
    scene.allow(person)


def form_of(tab: Tab, action: str) -> int:
    return next(number for number, form in enumerate(tab.page.forms) if form.action == action)


async def reset(scene: UpstreamScene, email: str = ADA) -> None:
    """The mailbox's owner asks for a link, and chooses a password by it."""
    (await scene.unlimited.post(FORGOTTEN, {"email": email})).ok()
    mails = [mail for mail in await Postbox(scene.postern).empty() if "reset" in mail.text]
    token = token_in(link_in(mails[-1]))
    scene.log.remember(token, NEW)
    (await scene.unlimited.post(RESET, {"token": token, "new_password": NEW})).ok()


async def signs_in(scene: UpstreamScene, password: str = NEW, email: str = ADA) -> Received:
    return await scene.unlimited.post(LOGIN, {"email": email, "password": password})


async def test_the_first_proof_by_the_mailbox_ends_what_nobody_has_proved(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    attacker = await person(scene, await come(scene, provider))
    assert account(scene)["email_verified_at"] is None
    assert account(scene)["address_vouched_by"] == f"{scene.acme.id}/{provider}"
    plant(scene, attacker)
    scene.people.change("delete from domains")
    await reset(scene)
    assert left(scene) == set()
    assert (account(scene)["name"], account(scene)["address_vouched_by"]) == ("Ada", None)
    assert account(scene)["email_verified_at"] is not None
    assert (await signs_in(scene)).status == 200
    # A second reset ends no second factor, as for anybody who has proved the address.
    scene.people.change(SECOND_FACTOR, attacker.user)
    await reset(scene)
    assert "factor" in left(scene)


async def test_nobody_is_locked_out_by_a_second_factor_that_somebody_else_added(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    attacker = await person(scene, await come(scene, provider))
    scene.people.change(SECOND_FACTOR, attacker.user)
    await reset(scene)
    answer = (await signs_in(scene)).ok()
    assert (answer.get("mfa_required"), bool(answer["access_token"])) == (None, True), answer


async def test_another_provider_of_the_same_organization_gets_the_account_without_what_the_first_left(scene: UpstreamScene) -> None:
    first = await scene.own_provider()
    attacker = await person(scene, await come(scene, first))
    scene.tenants.join(attacker, scene.acme)
    plant(scene, attacker)
    scene.people.change(SECOND_FACTOR, attacker.user)
    scene.people.change("delete from upstream_providers where id = %s", first)
    second = await another(scene)
    tabs = await come(scene, second, sub="the-real-one")
    assert await scene.who(tabs) == attacker.user
    assert left(scene) == {"identity", "session"}
    assert account(scene)["address_vouched_by"] == f"{scene.acme.id}/{second}"
    assert account(scene)["email_verified_at"] is None
    assert scene.people.rows("select from memberships where user_id = %s and org_id = %s", attacker.user, scene.acme.id)
    assert not scene.people.rows("select from sessions where id = %s and revoked_at is null", attacker.session)


async def test_one_of_the_three_providers_proves_the_address_and_takes_the_account_over(scene: UpstreamScene) -> None:
    attacker = await person(scene, await come(scene, await scene.own_provider()))
    plant(scene, attacker)
    scene.sits()
    tabs = scene.browser()
    await scene.go(tabs, word="websuite")
    assert await scene.who(tabs) == attacker.user
    assert left(scene) == {"identity", "session"}
    assert account(scene)["email_verified_at"] is not None
    assert account(scene)["address_vouched_by"] is None


async def test_its_own_provider_knows_the_person_again_and_nobody_else_can(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    ada = await person(scene, await come(scene, provider))
    plant(scene, ada)
    assert await scene.who(await come(scene, provider)) == ada.user
    # The identity is gone, and comes back by the same provider's word, which ends nothing.
    scene.people.change("delete from identities")
    assert await scene.who(await come(scene, provider)) == ada.user
    assert left(scene) >= {"passkey", "identity", "consent"}
    # Another person at the provider with the same address gets nothing.
    assert await scene.who(await come(scene, provider, sub="another")) is None
    # A password does not sign in before somebody has proved the address.
    hashed = scene.people.rows("select password_hash from users where id = %s", (await scene.people.with_password(PASSWORD)).user)[0]
    scene.people.change("update users set password_hash = %s where id = %s", hashed["password_hash"], ada.user)
    answer = await signs_in(scene, PASSWORD)
    assert (answer.status, b"is not verified" in answer.body) == (401, True), answer.body


async def test_a_deactivated_account_is_not_opened_by_the_provider_that_vouched(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    ada = await person(scene, await come(scene, provider))
    scene.people.change("delete from identities")
    scene.people.change("update users set deactivated_at = now(), deactivated_by_org_id = %s where id = %s", scene.acme.id, ada.user)
    assert await scene.who(await come(scene, provider)) is None
    assert scene.people.rows("select from users where id = %s and deactivated_at is not null", ada.user)


@pytest.mark.parametrize("vouched_by_another", [False, True])
async def test_no_own_provider_opens_what_its_organization_has_switched_off(scene: UpstreamScene, *, vouched_by_another: bool) -> None:
    """It proves nothing, so the directory's word holds, whether or not another provider has vouched before."""
    provider = await scene.own_provider()
    ada = scene.people.add(ADA)
    other = await another(scene) if vouched_by_another else None
    scene.people.change(
        "update users set deactivated_at = now(), deactivated_by_org_id = %s, origin_org_id = %s, address_vouched_by = %s where id = %s",
        *(scene.acme.id, scene.acme.id, other and f"{scene.acme.id}/{other}", ada.user),
    )
    assert await scene.who(await come(scene, provider)) is None
    (row,) = scene.people.rows("select deactivated_at, origin_org_id from users where id = %s", ada.user)
    assert (row["deactivated_at"] is None, row["origin_org_id"]) == (False, scene.acme.id)


async def test_no_other_directory_opens_what_the_makers_has_switched_off(scene: UpstreamScene) -> None:
    """The person signs in by the provider that vouches, without any proof: so that nobody has proved the address opens nothing. The other
    directory reads what it wrote itself, as of anybody (0071).
    """
    provider = await scene.own_provider()
    tabs = await come(scene, provider)
    ada = await person(scene, tabs)
    scene.people.change("update users set deactivated_at = now(), deactivated_by_org_id = %s where id = %s", scene.acme.id, ada.user)
    (before,) = scene.people.rows("select * from users where id = %s", ada.user)
    evil = await Directory(scene.postern, scene.client, scene.people, "evil").connect()
    listed = await evil.create(ADA)
    assert (listed["id"], listed["active"]) == (str(ada.user), True)
    for active in (False, True):
        body = {"schemas": [PATCH_OP], "Operations": [{"op": "replace", "path": "active", "value": active}]}
        assert (await evil.ask("PATCH", f"{USERS}/{ada.user}", body)).ok()["active"] is active
        assert await scene.who(tabs) is None
        assert await scene.who(await come(scene, provider)) is None
    (after,) = scene.people.rows("select * from users where id = %s", ada.user)
    assert (after["deactivated_at"], after["deactivated_by_org_id"]) == (before["deactivated_at"], scene.acme.id)
    assert after == before


async def test_an_identity_that_came_along_vouches_at_its_first_sign_in(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    ada = await person(scene, await come(scene, provider))
    scene.people.change("update users set address_vouched_by = null where id = %s", ada.user)
    scene.sits("elsewhere@example.org", word="own")
    await scene.go(scene.browser(), "?org=acme", word=provider)
    assert account(scene)["address_vouched_by"] is None, "the provider told another address"
    await come(scene, provider)
    assert account(scene)["address_vouched_by"] == f"{scene.acme.id}/{provider}"


async def test_a_vouched_person_proves_the_address_in_their_own_session_and_says_what_stays(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    tabs = await come(scene, provider)
    ada = await person(scene, tabs)
    other = await come(scene, provider)
    plant(scene, ada)
    scene.people.change(SECOND_FACTOR, ada.user)
    scene.people.connect(ada, "websuite", subject="hers")
    scene.people.change("update passkeys set name = 'Theirs'")
    here = scene.people.rows("select session_id from browser_sessions order by session_id limit 1")[0]["session_id"]
    scene.people.change(
        "insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,"
        " created_at, made_in) values (gen_random_uuid(), %s, 'b', 'k', 0, 'Hers', gen_random_uuid(), '{}', false, false, now(), %s)",
        ada.user,
        here,
    )
    overview = await tabs.tab().open("/ui")
    assert "/ui/confirm-address" in overview.page.links
    tab = await tabs.tab().open("/ui/confirm-address")
    await tab.send(form_of(tab, "/ui/confirm-address"))
    path = (await Postbox(scene.postern).link()).removeprefix(BASE_URL)
    scene.log.remember(token_in(path))
    tab = await tabs.tab().open(path)
    assert "Theirs" in tab.page.text
    assert "Hers" not in tab.page.text
    identity = scene.people.rows("select id from identities where provider = 'websuite'")[0]["id"]
    await tab.send(form_of(tab, "/ui/verify-email/here"), stays=f"identity:{identity}")
    assert tab.place.startswith("/ui/verify-email/done?what=address_confirmed"), tab.page
    assert [row["name"] for row in scene.people.rows("select name from passkeys")] == ["Hers"]
    assert {row["provider"] for row in scene.people.rows("select provider from identities")} == {"websuite", provider}
    assert not scene.people.rows("select from mfa_secrets")
    assert account(scene)["email_verified_at"] is not None
    assert await scene.who(tabs) == ada.user
    assert await scene.who(other) is None
    # The same form, sent twice.
    again = await tabs.tab().open("/ui/verify-email/done?what=address_confirmed")
    assert again.place.startswith("/ui/verify-email/done")


async def asked_here(scene: UpstreamScene, tabs: Tabs) -> Tab:
    """Ada asks for a mail in her session, and opens its link in the same browser."""
    tab = await tabs.tab().open("/ui/confirm-address")
    await tab.send(form_of(tab, "/ui/confirm-address"))
    path = (await Postbox(scene.postern).link()).removeprefix(BASE_URL)
    scene.log.remember(token_in(path))
    return await tabs.tab().open(path)


async def test_a_password_of_a_vouched_account_goes_unless_its_person_says_that_it_is_theirs(scene: UpstreamScene) -> None:
    tabs = await come(scene, await scene.own_provider())
    ada = await person(scene, tabs)
    scene.people.change("update users set password_hash = 'not a hash', password_changed_at = now() where id = %s", ada.user)
    # Of the second factor the session itself says that it is hers.
    own = "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at, made_in) values (%s, 'x', now(), now(), %s)"
    scene.people.change(own, ada.user, scene.people.rows("select session_id from browser_sessions")[0]["session_id"])
    scene.people.connect(ada, "websuite", subject="theirs")
    tab = await asked_here(scene, tabs)
    await tab.send(form_of(tab, "/ui/verify-email/here"))
    assert tab.place.startswith("/ui/verify-email/done?what=address_confirmed"), tab.page
    assert (account(scene)["password_hash"], "factor" in left(scene)) == (None, True)
    assert not scene.people.rows("select from identities where provider = 'websuite'")
    told = scene.people.rows("select details->>'how' as how from audit_log where action = 'security.password.changed'")
    assert told == [{"how": "removed_unverified"}]


async def give_password(scene: UpstreamScene, ada: Person) -> None:
    """Somebody who is signed in chooses a password."""
    hashed = scene.people.rows("select password_hash from users where id = %s", (await scene.people.with_password(PASSWORD)).user)[0]
    chosen = "update users set password_hash = %s, password_changed_at = now() where id = %s"
    scene.people.change(chosen, hashed["password_hash"], ada.user)


async def test_a_password_that_the_person_of_a_vouched_account_calls_theirs_stays(scene: UpstreamScene) -> None:
    tabs = await come(scene, await scene.own_provider())
    ada = await person(scene, tabs)
    await give_password(scene, ada)
    tab = await asked_here(scene, tabs)
    await tab.send(form_of(tab, "/ui/verify-email/here"), stays=f"password:{ada.user}")
    assert tab.place.startswith("/ui/verify-email/done?what=address_confirmed"), tab.page
    assert (await signs_in(scene, PASSWORD)).status == 200
    assert not scene.people.rows("select from audit_log where action = 'security.password.changed'")


async def test_the_right_password_of_a_vouched_account_proves_no_address(scene: UpstreamScene) -> None:
    """Whoever came by the provider's word may have chosen it, and the holder of the mailbox may have been told it."""
    tabs = await come(scene, await scene.own_provider())
    ada = await person(scene, tabs)
    await give_password(scene, ada)
    (await scene.unlimited.post("/api/auth/resend-verification", {"email": ADA})).ok()
    token = token_in(await Postbox(scene.postern).link())
    scene.log.remember(token)
    answer = await scene.browser().request("POST", "/ui/verify-email", {"token": token, "password": PASSWORD})
    assert (answer.status, b"new_password" in answer.body) == (400, True), answer.body
    assert account(scene)["email_verified_at"] is None
    assert await scene.who(tabs) == ada.user


async def test_what_goes_meanwhile_needs_no_end(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    tabs = await come(scene, await scene.own_provider())
    ada = await person(scene, tabs)
    plant(scene, ada)
    scene.people.connect(ada, "websuite", subject="hers")
    tab = await asked_here(scene, tabs)

    def go() -> None:
        scene.people.change("delete from passkeys")
        scene.people.change("delete from identities where provider = 'websuite'")

    during(monkeypatch, IdpVerifiedAccountRows, "added", go)
    await tab.send(form_of(tab, "/ui/verify-email/here"))
    assert tab.place.startswith("/ui/verify-email/done?what=address_confirmed"), tab.page
    ends = scene.people.rows("select action from audit_log where action in ('security.passkey.removed', 'user.identity.unlinked')")
    assert ends == []


async def test_the_form_of_a_session_proves_no_address_of_another_account(scene: UpstreamScene) -> None:
    tabs = await come(scene, await scene.own_provider())
    ada = await person(scene, tabs)
    plant(scene, ada)
    tab = await asked_here(scene, tabs)
    form = tab.page.forms[form_of(tab, "/ui/verify-email/here")]
    stranger = scene.signed_in(scene.people.session_of(scene.verified("stranger@example.org")))
    page = await stranger.tab().open("/ui/password")
    fields = {**form.fields, "form_token": page.page.forms[0].fields["form_token"]}
    assert (await stranger.request("POST", "/ui/verify-email/here", fields)).status == 400
    # Nobody knows whose the password of such an account is, so the form of a registration changes nothing.
    answer = await scene.browser().request("POST", "/ui/verify-email", {"token": form.fields["token"], "password": PASSWORD})
    assert (answer.status, b"new_password" in answer.body) == (400, True), answer.body
    assert account(scene)["email_verified_at"] is None
    assert left(scene) >= {"passkey", "consent"}


async def test_an_address_that_is_proved_meanwhile_ends_nothing(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    tabs = await come(scene, await scene.own_provider())
    ada = await person(scene, tabs)
    plant(scene, ada)
    tab = await asked_here(scene, tabs)
    proved = "update users set email_verified_at = now() where id = %s"
    during(monkeypatch, scene.postern.identity.address_proofs, "_find", lambda: scene.people.change(proved, ada.user))
    await tab.send(form_of(tab, "/ui/verify-email/here"))
    assert (tab.status, left(scene) >= {"passkey", "consent", "session"}) == (400, True), tab.page


async def test_elsewhere_the_link_asks_for_a_password_and_ends_everything(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    ada = await person(scene, await come(scene, provider))
    plant(scene, ada)
    (await scene.unlimited.post("/api/auth/resend-verification", {"email": ADA})).ok()
    path = (await Postbox(scene.postern).link()).removeprefix(BASE_URL)
    scene.log.remember(token_in(path), NEW)
    # Somebody else's browser, signed in as somebody else, is none of theirs.
    stranger = scene.signed_in(scene.people.session_of(scene.verified("stranger@example.org")))
    tab = await stranger.tab().open(path)
    assert "new_password" in tab.page.inputs
    await tab.send(new_password=NEW, repeated=NEW)
    assert tab.place.startswith("/ui/verify-email/done?what=first_proof"), tab.page
    assert left(scene) == set()
    assert account(scene)["name"] == "Ada"
    assert (await signs_in(scene)).status == 200


async def test_the_interface_s_own_link_ends_everything_too(scene: UpstreamScene) -> None:
    ada = await person(scene, await come(scene, await scene.own_provider()))
    plant(scene, ada)
    (await scene.unlimited.post("/api/auth/resend-verification", {"email": ADA})).ok()
    proof = await Postbox(scene.postern).proof()
    assert (await scene.unlimited.request("GET", proof)).status == 200
    assert left(scene) == set()
    assert account(scene)["email_verified_at"] is not None


@pytest.mark.parametrize("stage", ["vouched", "proved"])
async def test_what_a_vouched_address_counts_as(scene: UpstreamScene, stage: str) -> None:
    provider = await scene.own_provider()
    globex = scene.tenants.add("globex")
    tabs = await come(scene, provider)
    ada = await person(scene, tabs)
    scene.tenants.join(ada, globex, listed=True)
    scene.tenants.join(ada, scene.acme, listed=True)
    if stage == "proved":
        scene.people.change("update users set email_verified_at = now() where id = %s", ada.user)
        assert account(scene)["address_vouched_by"] is None
    proved = stage == "proved"
    # Towards services of the organization that vouched it is verified, towards others it is not.
    for tenant, told in ((scene.acme, True), (globex, proved)):
        service = scene.tenants.service(tenant, "crm")
        scene.tenants.uses(ada, service)
        inside = scene.tenants.session(ada, service)
        scene.people.change("update sessions set scopes = '{openid,email}' where id = %s", inside.session)
        token = await scene.tenants.token(inside, service, scope="openid email")
        answer = await scene.unlimited.request("GET", "/oauth/userinfo", token=token)
        assert answer.ok()["email_verified"] is told, (tenant, answer.body)
    # The membership of the organization whose provider has opened the session, and no other.
    for tenant, own in ((scene.acme, True), (globex, proved)):
        caller = await scene.postern.tenancy.callers.resolve_browser(Token(tabs.session or "none"))
        assert caller is not None
        with nullcontext() if own else pytest.raises(Forbidden, match="Verify your email address first"):
            await scene.postern.tenancy.members.confirm(caller, [OrganizationId(tenant.id)])
        confirmed = scene.people.rows(
            "select from memberships where user_id = %s and org_id = %s and own_since is not null", ada.user, tenant.id
        )
        assert bool(confirmed) is own, tenant


async def test_an_owner_names_a_successor_and_then_nothing_is_lost(scene: UpstreamScene) -> None:
    first = await scene.own_provider()
    ada = await person(scene, await come(scene, first))
    plant(scene, ada)
    second = await another(scene)
    path = f"/api/organizations/acme/upstream-providers/{second}/succeed"
    owner = scene.people.rows("select user_id from memberships where role = 'owner' and org_id = %s limit 1", scene.acme.id)[0]["user_id"]
    boss = scene.people.session_of(Person(owner, ada.session, "boss@example.org"))
    admin = scene.resident(scene.acme, "admin", "admin")
    # Neither an admin, nor a provider that never was, nor the provider itself.
    assert (await scene.request("POST", path, {"provider_id": first}, by=admin)).status == 403
    assert (await scene.request("POST", path, {"provider_id": second}, by=boss)).status == 400
    assert (await scene.request("POST", path, {"provider_id": str(ada.user)}, by=boss)).status == 404
    # The former one may be gone: the account knows it.
    scene.people.change("delete from upstream_providers where id = %s", first)
    for _ in range(2):
        told = (await scene.request("POST", path, {"provider_id": first}, by=boss)).ok()
        assert told["successor_of"] == [first]
    third = await another(scene, "third-keeper")
    inherited = await scene.request("POST", path.replace(second, third), {"provider_id": second}, by=boss)
    assert set(inherited.ok()["successor_of"]) == {first, second}
    for provider in (second, third):
        tabs = await come(scene, provider, sub=f"at-{provider}")
        assert await scene.who(tabs) == ada.user
        assert left(scene) >= {"passkey", "consent", "identity", "session"}
    changes = scene.people.rows("select details from audit_log where action = 'organization.upstream_provider.updated' order by id")
    assert [row["details"]["new_successor_of"] for row in changes] == [[first], [second, first]]


async def test_nobody_names_a_successor_of_another_organization_s_provider(scene: UpstreamScene) -> None:
    first = await scene.own_provider()
    await come(scene, first)
    globex = scene.tenants.add("globex")
    boss = scene.resident(globex, "owner", "boss")
    fake = scene.fakes["own"]
    body = {"name": "Globex", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret}
    mine = (await scene.request("POST", "/api/organizations/globex/upstream-providers", body, by=boss)).ok(201)["id"]
    path = f"/api/organizations/globex/upstream-providers/{mine}/succeed"
    assert (await scene.request("POST", path, {"provider_id": first}, by=boss)).status == 404


async def test_the_owner_proves_the_address_while_another_provider_is_asked(scene: UpstreamScene) -> None:
    ada = await person(scene, await come(scene, await scene.own_provider()))
    plant(scene, ada)
    second = await another(scene)
    meanwhile(scene, lambda: scene.people.change("update users set email_verified_at = now() where id = %s", ada.user))
    tabs = await come(scene, second, sub="second")
    assert await scene.who(tabs) == ada.user
    assert left(scene) >= {"passkey", "consent"}, "what its owner has is theirs"


async def test_the_owner_proves_the_address_while_the_vouching_provider_is_asked(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    ada = await person(scene, await come(scene, provider))

    def proves() -> None:
        scene.people.change("update users set email_verified_at = now() where id = %s", ada.user)
        scene.people.change("delete from identities where user_id = %s", ada.user)

    meanwhile(scene, proves)
    assert await scene.who(await come(scene, provider)) is None, "the identity that was met is gone"
    assert await scene.who(await come(scene, provider)) == ada.user


async def test_the_directory_switches_the_account_off_while_the_provider_is_asked(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    ada = scene.people.add(ADA)
    off = "update users set deactivated_at = now(), deactivated_by_org_id = %s where id = %s"
    meanwhile(scene, lambda: scene.people.change(off, scene.acme.id, ada.user))
    assert await scene.who(await come(scene, provider)) is None
    assert scene.people.rows("select from users where id = %s and deactivated_at is not null", ada.user)


async def test_invitations_in_the_own_list_need_a_proof_or_the_organization_s_own_provider(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    tabs = await come(scene, provider)
    ada = await person(scene, tabs)
    globex = scene.tenants.add("globex")
    for tenant in (scene.acme, globex):
        boss = scene.resident(tenant, "owner", "inviter")
        sent = await scene.request("POST", f"/api/organizations/{tenant.slug}/invitations", {"email": ADA, "role": "member"}, by=boss)
        sent.ok()
    caller = await scene.postern.tenancy.callers.resolve_browser(Token(tabs.session or "none"))
    assert caller is not None

    async def listed(by: Any) -> set[str]:
        return {one.organization_slug for one, _ in await scene.postern.tenancy.invitations.list_own(by)}

    assert await listed(caller) == {"acme"}
    # Another session of the same person was opened by no provider.
    other = scene.signed_in(scene.people.session_of(ada))
    elsewhere = await scene.postern.tenancy.callers.resolve_browser(Token(other.session or "none"))
    assert elsewhere is not None
    assert await listed(elsewhere) == set()
    scene.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    assert await listed(elsewhere) == {"acme", "globex"}


@pytest.mark.parametrize("mailed", [True, False], ids=["the mailed token", "the inviter's token"])
async def test_an_invitation_elsewhere_ends_what_nobody_has_proved_by_the_mailed_token_alone(scene: UpstreamScene, *, mailed: bool) -> None:
    ada = await person(scene, await come(scene, await scene.own_provider()))
    plant(scene, ada)
    globex = scene.tenants.add("globex")
    boss = scene.resident(globex, "owner", "inviter")
    sent = (await scene.request("POST", "/api/organizations/globex/invitations", {"email": ADA, "role": "member"}, by=boss)).ok()
    token = sent["token"]
    if mailed:
        (mail,) = [mail for mail in await Postbox(scene.postern).empty() if mail.to == ADA]
        token = token_in(link_in(mail))
    scene.log.remember(token)
    (await scene.unlimited.post("/api/invitations/accept", {"token": token})).ok()
    assert (left(scene) == set()) is mailed
    rows = scene.people.rows("select own_since is not null as own from memberships where user_id = %s and org_id = %s", ada.user, globex.id)
    assert rows == [{"own": mailed}]


async def test_in_their_own_session_the_person_confirms_the_address_before_an_invitation(scene: UpstreamScene) -> None:
    tabs = await come(scene, await scene.own_provider())
    plant(scene, await person(scene, tabs))
    globex = scene.tenants.add("globex")
    boss = scene.resident(globex, "owner", "inviter")
    (await scene.request("POST", "/api/organizations/globex/invitations", {"email": ADA, "role": "member"}, by=boss)).ok()
    (mail,) = [mail for mail in await Postbox(scene.postern).empty() if mail.to == ADA]
    link = link_in(mail)
    scene.log.remember(token_in(link))
    tab = await tabs.tab().open(f"/ui/invitations/accept?token={token_in(link)}")
    await tab.send(answer="accept")
    assert "/ui/confirm-address" in tab.page.links
    assert left(scene) >= {"passkey", "consent", "session"}
    assert not scene.people.rows("select from memberships where org_id = %s and user_id = %s", globex.id, account(scene)["id"])


async def test_a_vouched_person_founds_no_organization_before_the_proof(scene: UpstreamScene) -> None:
    ada = await person(scene, await come(scene, await scene.own_provider()))
    asked = {"slug": "hers", "name": "Hers"}
    assert (await scene.request("POST", "/api/organizations", asked, by=ada)).status == 400
    scene.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    (await scene.request("POST", "/api/organizations", asked, by=ada)).ok()


@pytest.mark.parametrize("wanted", ["mine@evil.example", "Ada@example.org"], ids=["another", "another spelling"])
async def test_a_vouched_person_moves_the_account_nowhere_before_the_proof(scene: UpstreamScene, wanted: str) -> None:
    """Otherwise the provider's people would take the account, with what others have listed there, to a mailbox of theirs."""
    ada = await person(scene, await come(scene, await scene.own_provider()))
    globex = scene.tenants.add("globex")
    scene.tenants.join(ada, globex, "admin", listed=True)
    refusal = await scene.request("PATCH", "/api/user", {"email": wanted}, by=ada)
    assert (refusal.status, b"Verify your email address first" in refusal.body) == (400, True), refusal.body
    assert await Postbox(scene.postern).empty() == []
    # A link from before somebody vouched, or from a process of the release before.
    scene.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    (await scene.request("PATCH", "/api/user", {"email": wanted}, by=ada)).ok()
    (mail,) = [mail for mail in await Postbox(scene.postern).empty() if "verify-email?token=" in mail.text]
    proof = f"/auth/verify-email?token={token_in(link_in(mail))}"
    scene.log.remember(token_in(link_in(mail)))
    vouched = f"{scene.acme.id}/{ada.user}"
    scene.people.change("update users set email_verified_at = null, address_vouched_by = %s where id = %s", vouched, ada.user)
    assert (await scene.unlimited.request("GET", proof)).status == 400
    assert account(scene)["email_verified_at"] is None
    # The own address takes the wish back.
    (await scene.request("PATCH", "/api/user", {"email": ADA}, by=ada)).ok()


async def test_a_vouched_person_is_led_to_the_proof_from_a_membership_elsewhere(scene: UpstreamScene) -> None:
    tabs = await come(scene, await scene.own_provider())
    ada = await person(scene, tabs)
    globex = scene.tenants.add("globex")
    scene.tenants.join(ada, globex, listed=True)
    tab = await tabs.tab().open("/ui/organizations/globex/membership")
    number = form_of(tab, "/ui/organizations/globex/membership")
    await tab.send(number, answer="accept")
    assert "/ui/confirm-address" in tab.page.links
    # Leaving needs no proof.
    tab = await tabs.tab().open("/ui/organizations/globex/membership")
    await tab.send(number, answer="leave")
    assert not scene.people.rows("select from memberships where org_id = %s and user_id = %s", globex.id, ada.user)


async def test_what_another_organization_lists_for_the_address_opens_nothing_before_the_proof(scene: UpstreamScene) -> None:
    """Globex has listed the reader of the mailbox as an administrator. Whoever comes by acme's word is that reader for acme alone."""
    provider = await scene.own_provider()
    ada = await person(scene, await come(scene, provider))
    globex = scene.tenants.add("globex")
    scene.tenants.join(ada, globex, "admin", listed=True)
    scene.tenants.join(ada, scene.acme, "admin", listed=True)

    async def statuses(slug: str) -> list[int]:
        path = f"/api/organizations/{slug}"
        asked = [("GET", f"{path}/members", None), ("PATCH", path, {"name": "Taken"}), ("POST", f"{path}/select", None)]
        return [(await scene.request(method, target, body, by=ada)).status for method, target, body in asked]

    assert await statuses("globex") == [403, 403, 403]
    inside = scene.tenants.session(ada, globex)
    token = await scene.tenants.token(inside, globex)
    assert (await scene.client.get("/api/organizations/globex/members", token=token)).status == 403
    scene.people.change("update all_organizations set owner_user_id = %s where id = %s", ada.user, globex.id)
    scene.people.change("update memberships set role = 'owner' where org_id = %s", globex.id)
    scene.people.change(
        "insert into ownerships (org_id, membership_id, former_role, since)"
        " select org_id, id, 'admin', now() from memberships where org_id = %s",
        globex.id,
    )
    await scene.request("POST", "/api/organizations/globex/ownership", {"answer": "confirm"}, by=ada)
    assert scene.people.rows("select from ownerships where confirmed_at is null")
    assert await statuses("acme") == [200, 200, 200]
    # Neither do applications that globex has for its members.
    app = scene.application(globex, "intranet", CALLBACK)
    scene.set(app, sign_in_policy="members")
    tabs = scene.signed_in(scene.people.session_of(ada))
    scene.allow(ada, app)
    assert answer_in((await tabs.request("GET", scene.asking(app, prompt="none"))).header("location"))["error"] == "access_denied"
    # The reader of the mailbox is whom globex has listed.
    scene.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    scene.people.change("update memberships set role = 'admin' where org_id = %s", globex.id)
    assert (await statuses("globex"))[0] == 200

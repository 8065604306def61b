"""A directory's second factor counts for the rule of its own organization, if an owner has chosen so, and for nothing else."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS
from core.domain.secrets import Token
from tests.http.browsing import Tabs
from tests.http.client import refused
from tests.http.connections.scene import PATH, ConnectionScene
from tests.http.federation.arriving import CALLBACK, VERIFIER, answer_in
from tests.http.federation.relying import claims_of
from tests.http.people import Person
from tests.http.tenants import Tenant

MULTIPLE: Final = "http://schemas.microsoft.com/claims/multipleauthn"
METHODS: Final = "http://schemas.microsoft.com/claims/authnmethodsreferences"
REFEDS: Final = "https://refeds.org/profile/mfa"
ACME: Final = "/api/organizations/acme"
OWES: Final = (403, "MFA_REQUIRED")


def require(scene: ConnectionScene, tenant: Tenant | None = None, **columns: str) -> None:
    """The organization's rule, whose grace days are over. Its owners have a second factor of ours."""
    for column, value in {"mfa_required_since": "now() - interval '1 hour'", "mfa_grace_days": "0", **columns}.items():
        scene.people.change(f"update all_organizations set {column} = {value} where id = %s", (tenant or scene.acme).id)
    scene.people.change("update memberships set created_at = now() - interval '1 day'")
    protect(scene, "owner")


def protect(scene: ConnectionScene, role: str) -> None:
    theirs = "select user_id from memberships where role = %s"
    scene.people.change(
        "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at)"
        f" select user_id, '', now(), now() - interval '1 day' from ({theirs}) as them on conflict do nothing",
        role,
    )
    scene.people.change(f"update sessions set second_factor_at = now() where user_id in ({theirs})", role)


def ada(scene: ConnectionScene, role: str = "member") -> Person:
    person = scene.verified(password=False)
    scene.tenants.join(person, scene.acme, role)
    scene.allow(person, scopes="openid email offline_access")
    return person


async def by_openid(scene: ConnectionScene, *values: str) -> str:
    """An active provider of OpenID Connect. Returns its id."""
    provider = await scene.own_provider()
    (await scene.request("PATCH", f"{PATH}/{provider}", {"second_factor_values": list(values)})).ok()
    return provider


async def sign_in(scene: ConnectionScene, provider: str, query: str = "?org=acme", *, tabs: Tabs | None = None, **stated: Any) -> Tabs:
    """A browser that has come from the provider of OpenID Connect, which states this."""
    scene.sits(word="own", **stated)
    tabs = tabs or scene.browser()
    await scene.go(tabs, query, word=provider)
    assert tabs.session is not None
    return tabs


def session_of(scene: ConnectionScene, tabs: Tabs) -> Person:
    """The person in the session of the browser."""
    assert tabs.session is not None
    (row,) = scene.people.rows(
        "select sessions.id, user_id, email from browser_sessions"
        " join sessions on sessions.id = session_id join users on users.id = user_id where digest = %s",
        Token(tabs.session).digest(),
    )
    return Person(row["user_id"], row["id"], row["email"])


async def enters(scene: ConnectionScene, tabs: Tabs) -> bool:
    """Whether the organization, its pages and its application let in who has signed in, all three alike."""
    answer = await scene.client.request("GET", ACME, token=await scene.people.token(session_of(scene, tabs)))
    assert answer.status == 200 or refused(answer) == OWES, answer.body
    page = await tabs.request("GET", "/ui/o/acme")
    went = (await tabs.request("GET", scene.asking())).header("location") or ""
    place = scene.people.rows("select factor_through from sessions where id = %s", session_of(scene, tabs).session)
    told = (answer.status == 200, page.status == 200, went.startswith(CALLBACK))
    assert len(set(told)) == 1, (told, page.status, went, place)
    return told[0]


async def test_it_counts_at_the_organization_and_its_applications(scene: ConnectionScene) -> None:
    person, provider = ada(scene, "admin"), await by_openid(scene, "mfa")
    require(scene)
    tabs = await sign_in(scene, provider, amr=["pwd", "mfa"])
    assert await enters(scene, tabs)
    # An own second factor was never asked for, and the session says nothing of one.
    (row,) = scene.people.rows("select * from sessions where id = %s", session_of(scene, tabs).session)
    assert (row["authenticated_by"], row["second_factor_at"], row["factor_stated"]) == (["fed"], None, "mfa")
    assert scene.people.rows("select from mfa_secrets where user_id = %s", person.user) == []


async def test_tokens_say_who_vouched_and_never_two_factors(scene: ConnectionScene) -> None:
    ada(scene)
    provider, client = await by_openid(scene, "mfa"), scene.client_id(scene.app)
    require(scene)
    tabs = await sign_in(scene, provider, amr=["mfa"], acr=TWO_FACTORS)
    basic = {"client_id": client, "client_secret": scene.secret(scene.app)}
    for scope in ("openid email", "openid email offline_access"):
        code = answer_in((await tabs.request("GET", scene.asking(scope=scope))).header("location"))["code"]
        redeemed = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER, **basic}
        tokens = (await scene.unlimited.post("/auth/token", redeemed)).ok()
        # The session that outlives the browser's has what it began with, too.
        again = (
            await scene.unlimited.post("/auth/token", {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **basic})
        ).ok()
        for given in (tokens, again):
            scene.log.remember(given["access_token"], given["refresh_token"])
            for token in (given["access_token"], given.get("id_token")):
                if token is not None:
                    assert (claims_of(token)["amr"], claims_of(token)["acr"]) == (["fed"], ONE_FACTOR)
        assert (await scene.unlimited.request("GET", "/oauth/userinfo", token=again["access_token"])).status == 200
        (await scene.request("PATCH", f"{PATH}/{provider}", {"second_factor_values": []})).ok()
        assert (await scene.unlimited.request("GET", "/oauth/userinfo", token=again["access_token"])).status in {401, 403}
        lost = await scene.unlimited.post("/auth/token", {"grant_type": "refresh_token", "refresh_token": again["refresh_token"], **basic})
        assert lost.status in {400, 403}, lost.body
        (await scene.request("PATCH", f"{PATH}/{provider}", {"second_factor_values": ["mfa"]})).ok()


STATED: Final[tuple[tuple[dict[str, Any], bool], ...]] = (
    ({"amr": ["pwd", "otp"]}, True),
    ({"acr": "https://refeds.org/profile/mfa"}, True),
    ({}, False),
    ({"amr": ["pwd"]}, False),
    ({"amr": "otp"}, False),
    ({"amr": [["otp"]]}, False),
    ({"amr": {"otp": True}}, False),
    ({"amr": ["OTP"]}, False),
    ({"amr": ["otp "]}, False),
    ({"acr": ["https://refeds.org/profile/mfa"]}, False),
    ({"groups": ["otp"], "factor": "otp"}, False),
)


@pytest.mark.parametrize(("stated", "counts"), STATED, ids=str)
async def test_only_the_chosen_values_count_as_they_are_written(stated: dict[str, Any], *, counts: bool, scene: ConnectionScene) -> None:
    ada(scene, "admin")
    provider = await by_openid(scene, "otp", REFEDS)
    require(scene)
    assert await enters(scene, await sign_in(scene, provider, **stated)) is counts


async def test_nothing_counts_by_itself(scene: ConnectionScene) -> None:
    ada(scene, "admin")
    provider = await by_openid(scene)
    require(scene)
    assert not await enters(scene, await sign_in(scene, provider, amr=["mfa", "otp", "hwk"], acr=REFEDS))


async def test_user_info_which_nobody_signs_states_nothing(scene: ConnectionScene) -> None:
    ada(scene, "admin")
    provider = await by_openid(scene, "mfa")
    # The organization's mapping makes us ask there for these claims.
    (await scene.request("PATCH", f"{PATH}/{provider}", {"profile_mapping": {"amr": "how", "acr": "class"}})).ok()
    require(scene)
    fake = scene.fakes["own"]
    fake.wrong = {"amr": None, "acr": None}
    fake.about = lambda path, person: person  # type: ignore[method-assign]  # noqa: ARG005 - it says all that it knows
    assert not await enters(scene, await sign_in(scene, provider, amr=["mfa"], acr="mfa"))


async def test_a_client_states_nothing(scene: ConnectionScene) -> None:
    ada(scene, "admin")
    provider = await by_openid(scene, "mfa")
    require(scene)
    for query in ("?org=acme&amr=mfa&acr=mfa", "?org=acme&acr_values=mfa&second_factor_values=mfa"):
        assert not await enters(scene, await sign_in(scene, provider, query, amr=["pwd"]))
    tabs = await sign_in(scene, provider, amr=["pwd"])
    for changed in ({"acr_values": "mfa"}, {"claims": '{"id_token": {"amr": {"value": ["mfa"]}, "acr": {"value": "mfa"}}}'}):
        went = (await tabs.request("GET", scene.asking(**changed))).header("location") or ""
        assert not went.startswith(f"{CALLBACK}?code"), went
    assert not await enters(scene, tabs)


@pytest.mark.parametrize("how", ["by the context", "by the attribute of Microsoft"])
async def test_a_directory_by_saml_states_it(how: str, scene: ConnectionScene) -> None:
    ada(scene, "admin")
    provider = await scene.active(second_factor_values=[REFEDS, MULTIPLE])
    require(scene)
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    assert not await enters(scene, tabs)
    if how == "by the context":
        scene.directory.context = REFEDS
    else:
        scene.directory.more = {METHODS: MULTIPLE}
    # The same browser, in which somebody is signed in already.
    await scene.arrive(tabs, provider)
    assert await enters(scene, tabs)
    fresh = scene.browser()
    await scene.arrive(fresh, provider)
    assert await enters(scene, fresh)
    result = await scene.test(provider)
    assert (REFEDS if how == "by the context" else MULTIPLE).encode() in result.body


async def test_another_attribute_of_an_assertion_states_nothing(scene: ConnectionScene) -> None:
    ada(scene, "admin")
    provider = await scene.active(second_factor_values=[MULTIPLE])
    require(scene)
    scene.directory.more = {"http://schemas.example/claims/authnmethodsreferences": MULTIPLE, "amr": MULTIPLE, "acr": MULTIPLE}
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    assert not await enters(scene, tabs)


async def _off(scene: ConnectionScene, provider: str) -> None:
    (await scene.request("PATCH", f"{PATH}/{provider}", {"second_factor_values": []})).ok()


async def _other_value(scene: ConnectionScene, provider: str) -> None:
    (await scene.request("PATCH", f"{PATH}/{provider}", {"second_factor_values": ["otp"]})).ok()


async def _disabled(scene: ConnectionScene, provider: str) -> None:
    (await scene.request("PATCH", f"{PATH}/{provider}", {"enabled": False})).ok()


async def _draft(scene: ConnectionScene, provider: str) -> None:
    """Another client by anybody but an owner."""
    admin = scene.resident(scene.acme, "admin", "second")
    scene.people.give_passkey(admin, second_factor=True)
    scene.people.change("update sessions set second_factor_at = now() where user_id = %s", admin.user)
    changed = (await scene.request("PATCH", f"{PATH}/{provider}", {"client_id": "another"}, by=admin)).ok()
    assert changed["state"] == "draft"


async def _deleted(scene: ConnectionScene, provider: str) -> None:
    assert (await scene.request("DELETE", f"{PATH}/{provider}")).status == 204


Ends = Callable[[ConnectionScene, str], Awaitable[None]]


@pytest.mark.parametrize("end", [_off, _other_value, _disabled, _draft, _deleted])
async def test_it_ends_at_the_next_request(end: Ends, scene: ConnectionScene) -> None:
    ada(scene, "admin")
    provider = await by_openid(scene, "mfa")
    tabs = await sign_in(scene, provider, amr=["mfa"])
    require(scene)
    assert await enters(scene, tabs)
    await end(scene, provider)
    assert not await enters(scene, tabs)


async def test_a_test_signs_nobody_in_and_states_nothing(scene: ConnectionScene) -> None:
    ada(scene, "admin")
    provider = await by_openid(scene, "mfa")
    require(scene)
    tabs = await sign_in(scene, provider, amr=["pwd"])
    scene.sits(word="own", amr=["mfa"])
    url = (await scene.request("POST", f"{PATH}/{provider}/test")).ok()["url"]
    page = await tabs.request("GET", url[url.index("/ui") :])
    location = await scene.begin_test(tabs, page)
    back = await tabs.request("GET", scene.fakes["own"].consent(location))
    result = await tabs.request("GET", (back.header("location") or "").partition("example.org")[2] or back.header("location") or "")
    assert b"All checks passed" in result.body
    # The test says what can be chosen.
    assert b"amr, acr" in result.body
    require(scene)
    assert not await enters(scene, tabs)


async def test_another_connection_and_another_organization_are_as_without(scene: ConnectionScene) -> None:
    person = ada(scene, "admin")
    counting = await by_openid(scene, "mfa")
    silent = await scene.active(domain="", email_sources=["urn:oid:0.9.2342.19200300.100.1.3"])
    globex = scene.tenants.add("globex")
    scene.tenants.join(person, globex, "admin")
    require(scene)
    require(scene, globex)
    await sign_in(scene, counting, amr=["mfa"])
    # The same person, by an identity at a connection for which nothing was chosen.
    scene.directory.context = "mfa"
    tabs = scene.browser()
    await scene.arrive(tabs, silent)
    assert tabs.session is not None
    assert not await enters(scene, tabs)
    # Acme's directory says nothing for Globex.
    tabs = await sign_in(scene, counting, amr=["mfa"])
    assert await enters(scene, tabs)
    token = await scene.people.token(session_of(scene, tabs))
    assert refused(await scene.client.request("GET", "/api/organizations/globex", token=token)) == OWES
    assert refused(await scene.client.post("/api/organizations/globex/select", {}, token=token)) == OWES


async def test_a_session_in_the_organization_has_it_from_the_one_it_was_opened_from(scene: ConnectionScene) -> None:
    ada(scene)
    provider = await by_openid(scene, "mfa")
    require(scene)
    tabs = await sign_in(scene, provider, amr=["mfa"])
    selected = (await scene.client.post(f"{ACME}/select", {}, token=await scene.people.token(session_of(scene, tabs)))).ok()
    scene.log.remember(selected["access_token"], selected["refresh_token"])
    assert (await scene.client.request("GET", ACME, token=selected["access_token"])).status == 200
    await _off(scene, provider)
    assert refused(await scene.client.request("GET", ACME, token=selected["access_token"])) == OWES
    assert refused(await scene.client.post("/api/auth/refresh", {"refresh_token": selected["refresh_token"]})) == OWES


async def test_who_acts_in_the_persons_name_has_it_not(scene: ConnectionScene) -> None:
    person = ada(scene, "admin")
    provider = await by_openid(scene, "mfa")
    require(scene)
    tabs = await sign_in(scene, provider, amr=["mfa"])
    # Even a session of a platform owner that has one, of this very connection.
    owner = scene.people.add("owner@example.org", platform_owner=True)
    scene.people.change("update sessions set factor_through = %s, factor_stated = 'mfa' where id = %s", provider, owner.session)
    assert await enters(scene, tabs)
    begun = (
        await scene.client.post(
            f"/api/platform/impersonate/{person.user}", {"reason": "Ticket 4711"}, token=await scene.people.token(owner)
        )
    ).ok()
    scene.log.remember(begun["access_token"], begun["refresh_token"])
    (row,) = scene.people.rows("select factor_through, factor_stated from sessions where impersonator_id is not null")
    assert row == {"factor_through": None, "factor_stated": None}
    assert refused(await scene.client.request("GET", ACME, token=begun["access_token"])) == OWES


async def test_the_account_page_asks_for_nothing_while_it_counts(scene: ConnectionScene) -> None:
    ada(scene)
    provider = await by_openid(scene, "mfa")
    require(scene, mfa_grace_days="30")
    asked = "Acme requires two-step sign-in"
    without = await sign_in(scene, provider, amr=["pwd"])
    tabs = await sign_in(scene, provider, amr=["mfa"])
    for place in ("/ui/organizations/acme", "/ui", "/ui/second-factor"):
        said = [" ".join((await those.tab().open(place)).page.text.split()) for those in (without, tabs)]
        assert [asked in one for one in said] == [True, False], (place, said)


async def test_a_rule_that_asks_all_for_a_passkey_is_as_without(scene: ConnectionScene) -> None:
    ada(scene)
    provider = await by_openid(scene, "mfa")
    require(scene, mfa_required_since="null", all_factor="'passkey'", all_required_since="now() - interval '1 hour'")
    tabs = await sign_in(scene, provider, amr=["mfa", "hwk", "fido"])
    token = await scene.people.token(session_of(scene, tabs))
    assert (await scene.client.request("GET", ACME, token=token)).status == 403


@pytest.mark.parametrize(("factor", "counts"), [("second_factor", True), ("passkey", False)])
async def test_the_rule_for_administrators_takes_it_and_never_for_a_passkey(factor: str, *, counts: bool, scene: ConnectionScene) -> None:
    ada(scene, "admin")
    provider = await by_openid(scene, "mfa")
    require(scene, mfa_required_since="null", admin_factor=f"'{factor}'", admin_required_since="now() - interval '1 hour'")
    assert await enters(scene, await sign_in(scene, provider, amr=["mfa", "hwk", "fido"])) is counts


async def test_an_application_that_asks_for_two_factors_is_as_without(scene: ConnectionScene) -> None:
    ada(scene)
    provider = await by_openid(scene, "mfa")
    require(scene)
    tabs = await sign_in(scene, provider, amr=["mfa"], acr=TWO_FACTORS)
    told = answer_in((await tabs.request("GET", scene.asking(acr_values=TWO_FACTORS, prompt="none"))).header("location"))
    assert "code" not in told
    # Nor is it a fresh proof for what asks for one.
    person = session_of(scene, tabs)
    scene.people.change("update sessions set proved_at = now() - interval '1 day', stated_at = null where id = %s", person.session)
    assert (await scene.client.request("DELETE", ACME, token=await scene.people.token(person))).status in {401, 403}


async def test_a_device_that_is_let_in_from_there_has_it_not(scene: ConnectionScene) -> None:
    """Nobody signs in at the directory in the session of a device."""
    ada(scene)
    provider = await by_openid(scene, "mfa")
    tabs = await sign_in(scene, provider, amr=["mfa"])
    asked = (
        await scene.unlimited.post("/auth/device/code", {"client_id": scene.client_id(scene.desktop), "org": "acme", "service": "desktop"})
    ).ok()
    scene.log.remember(asked["device_code"], asked["user_code"])
    tab = await tabs.tab().open("/ui/device")
    await tab.send(user_code=asked["user_code"])
    await tab.send(answer="approve")
    given = await scene.unlimited.post("/auth/token", {"client_id": scene.client_id(scene.desktop), "device_code": asked["device_code"]})
    scene.log.remember(given.ok()["access_token"], given.json()["refresh_token"])
    (row,) = scene.people.rows("select factor_through from sessions where service_id = %s", scene.desktop.id)
    assert row == {"factor_through": None}


async def test_what_counts_is_an_owners_word(scene: ConnectionScene) -> None:
    provider = await scene.own_provider()
    path, admin = f"{PATH}/{provider}", scene.resident(scene.acme, "admin", "second")
    before = await scene.record(provider)
    assert before["second_factor_values"] == []
    added = (await scene.request("PATCH", path, {"second_factor_values": ["mfa", "otp", "mfa"]})).ok()
    assert (added["state"], added["second_factor_values"]) == ("active", ["mfa", "otp"])
    assert added["digest"] != before["digest"]
    (entry,) = scene.audited("organization.upstream_provider.updated")
    assert (entry["details"]["old_second_factor_values"], entry["details"]["new_second_factor_values"]) == ([], ["mfa", "otp"])
    # Whoever takes a value away only makes less of it.
    less = (await scene.request("PATCH", path, {"second_factor_values": ["otp"]}, by=admin)).ok()
    assert (less["state"], less["second_factor_values"]) == ("active", ["otp"])
    more = (await scene.request("PATCH", path, {"second_factor_values": ["otp", "hwk"]}, by=admin)).ok()
    assert (more["state"], more["enabled"]) == ("draft", False)
    assert refused(await scene.activate(provider, digest=less["digest"])) == (409, "CONFLICT")
    assert (await scene.activate(provider)).ok()["second_factor_values"] == ["otp", "hwk"]


async def test_a_directory_by_saml_stays_tested_if_an_owner_chooses(scene: ConnectionScene) -> None:
    provider = await scene.active()
    path, admin = f"{PATH}/{provider}", scene.resident(scene.acme, "admin", "second")
    chosen = (await scene.request("PATCH", path, {"second_factor_values": [REFEDS]})).ok()
    assert (chosen["state"], chosen["enabled"]) == ("active", True)
    assert (await scene.request("PATCH", path, {"second_factor_values": []}, by=admin)).ok()["state"] == "active"
    assert (await scene.request("PATCH", path, {"second_factor_values": [REFEDS]}, by=admin)).ok()["state"] == "draft"
    # Other settings are tested anew, whatever counts beside them.
    assert b"All checks passed" in (await scene.test(provider)).body
    (await scene.activate(provider)).ok()
    both = {"second_factor_values": [], "wants_encrypted": True}
    assert (await scene.request("PATCH", path, both)).ok()["state"] == "draft"


@pytest.mark.parametrize(
    "wrong",
    [
        ["two words"],
        [""],
        ["x" * 301],
        ["ä"],
        [str(number) for number in range(21)],
        ["pwd"],
        ["mfa", "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"],
        [ONE_FACTOR],
        [TWO_FACTORS],
        ["http://schemas.microsoft.com/ws/2008/06/identity/authenticationmethod/password"],
    ],
    ids=str,
)
async def test_values_that_say_nothing_of_a_second_factor_are_refused(wrong: list[str], scene: ConnectionScene) -> None:
    provider = await scene.own_provider()
    assert refused(await scene.request("PATCH", f"{PATH}/{provider}", {"second_factor_values": wrong})) == (400, "BAD_REQUEST")
    body = {"name": "Another", "kind": "saml", "second_factor_values": wrong}
    assert refused(await scene.request("POST", PATH, body)) == (400, "BAD_REQUEST")
    assert (await scene.record(provider))["second_factor_values"] == []


async def test_a_directory_by_ldap_has_none(scene: ConnectionScene) -> None:
    body = {"name": "People", "kind": "ldap", "hosts": ["ldaps://dc1.acme.example"]}
    assert refused(await scene.request("POST", PATH, {**body, "second_factor_values": ["mfa"]})) == (400, "BAD_REQUEST")
    made = (await scene.request("POST", PATH, body)).ok(201)
    assert made["second_factor_values"] == []
    answer = await scene.request("PATCH", f"{PATH}/{made['id']}", {"second_factor_values": ["mfa"]})
    assert refused(answer) == (400, "BAD_REQUEST")
    page = await scene.signed_in(scene.speaker).request("GET", f"/ui/o/acme/directories/{made['id']}")
    assert b"second_factor_values" not in page.body


async def test_an_owner_chooses_on_the_page(scene: ConnectionScene) -> None:
    provider = await scene.own_provider()
    tabs = scene.signed_in(scene.speaker)
    tab = await tabs.tab().open(f"/ui/o/acme/directories/{provider}")
    form = next(number for number, one in enumerate(tab.page.forms) if one.action.endswith("/change"))
    await tab.send(form, second_factor_values="pwd")
    assert "pwd does not indicate MFA. Enter another value." in tab.page.text
    form = next(number for number, one in enumerate(tab.page.forms) if one.action.endswith("/change"))
    await tab.send(form, second_factor_values="mfa\notp")
    assert (await scene.record(provider))["second_factor_values"] == ["mfa", "otp"]

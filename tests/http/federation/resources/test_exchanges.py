"""Token exchange: an API calls another in a person's name (RFC 8693). Attacks and races are in `tests/security/apis/test_exchanges.py`."""

from typing import Any, Final

import pytest
import trio

from core.domain.identifiers import SessionId, UserId
from core.domain.requests import Page
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.relying import INTROSPECT, claims_of, oauth
from tests.http.federation.resources.asking import BILLS, ORDERS
from tests.http.federation.resources.exchanging import DEPOT, STOCK, Exchanging
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.meanwhile import meanwhile
from tests.patience import PATIENCE

INVALID: Final = (400, "invalid_request")
SCOPE: Final = (400, "invalid_scope")
TARGET: Final = (400, "invalid_target")
_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"


@pytest.fixture
def between(postern: Postern, people: People, log: CapturedLog) -> Exchanging:
    return Exchanging(postern, people, unlimited(postern), log)


async def test_an_api_calls_another_in_a_persons_name(between: Exchanging) -> None:
    subject = await between.subject()
    answer = between.kept((await between.exchange(between.desk, subject, scope="bills:read")).ok())
    token = answer.pop("access_token")
    claims, before = claims_of(token), claims_of(subject)
    assert answer == {"token_type": "Bearer", "expires_in": answer["expires_in"], "scope": "bills:read", "issued_token_type": _TYPE}
    assert claims == {
        **{name: before[name] for name in ("iss", "sub", "amr", "acr", "auth_time", "org", "org_id")},
        "aud": BILLS,
        "exp": claims["exp"],
        "iat": claims["iat"],
        "jti": claims["jti"],
        "sid": claims["sid"],
        "client_id": between.desk.client_id,
        "scope": "bills:read",
        "token_use": "exchanged",
        "resource_id": str(between.bills),
        "service": "desk",
        "service_id": str(between.desk.service.id),
        "act": {"sub": between.desk.client_id},
    }
    assert claims["exp"] <= before["exp"]
    assert claims["exp"] - claims["iat"] == answer["expires_in"]
    assert claims["sid"] != before["sid"]
    (session,) = between.people.rows("select * from sessions where exchanged_from is not null")
    assert (str(session["id"]), str(session["parent_id"]), session["exchanged_from"]) == (claims["sid"], before["sid"], between.orders)
    assert session["act"] == claims["act"]
    assert session["ends_at"].timestamp() == claims["exp"]
    assert between.people.rows("select 1 from refresh_tokens where session_id = %s", session["id"]) == []
    # The service of the called API and the one that calls hear who acts; the person's application and others hear nothing.
    for asker in (between.other, between.desk):
        told = await between.introspect(asker, token)
        assert {name: told[name] for name in ("active", "aud", "scope", "act", "sub", "username", "token_use")} == {
            "active": True,
            "aud": BILLS,
            "scope": "bills:read",
            "act": {"sub": between.desk.client_id},
            "sub": str(between.ada.user),
            "username": "ada@example.org",
            "token_use": "exchanged",
        }
    for asker in (between.shop, between.store, between.theirs):
        assert await between.introspect(asker, token) == {"active": False}


async def test_the_second_hop_names_both(between: Exchanging) -> None:
    subject = await between.subject()
    first = await between.exchanged(between.desk, subject)
    second = await between.exchanged(between.other, first, STOCK, scope="stock:read")
    act = {"sub": between.other.client_id, "act": {"sub": between.desk.client_id}}
    assert claims_of(second)["act"] == act
    assert (await between.introspect(between.store, second))["act"] == act
    third = await between.exchange(between.store, second, DEPOT)
    assert oauth(third) == INVALID
    assert "a third is not allowed" in third.json()["error_description"]


async def test_an_application_exchanges_its_own_tokens(between: Exchanging) -> None:
    """One for itself, and one for an API. The person has allowed it the other API: see `tests/security/apis/test_answers.py`."""
    between.exchangers(between.bills, between.shop)
    between.people.change("update resource_servers set admits = 'all' where id = %s", between.bills)
    await between.allowed(BILLS, scope="openid bills:pay")
    own = (await between.signed_in(between.shop))["access_token"]
    for subject in (own, await between.subject()):
        token = await between.exchanged(between.shop, subject, scope="bills:pay")
        assert (claims_of(token)["scope"], claims_of(token)["act"]) == ("bills:pay", {"sub": between.shop.client_id})
        assert await between.is_active(between.other, token)


async def test_scopes_only_narrow(between: Exchanging) -> None:
    subject = await between.subject(scope="openid orders:read")
    # At another API: what is asked for, and without that nothing.
    assert "scope" not in (await between.exchange(between.desk, subject)).ok()
    assert (await between.exchange(between.desk, subject, scope="bills:pay bills:read")).ok()["scope"] == "bills:pay bills:read"
    for wider in ("bills:burn", "bills:read orders:read", "openid", "offline_access", " "):
        assert oauth(await between.exchange(between.desk, subject, scope=wider)) == SCOPE, wider
    # At the same API: what the first token has.
    between.exchangers(between.orders, between.desk, between.other)
    assert (await between.exchange(between.desk, subject, ORDERS)).ok()["scope"] == "orders:read"
    assert oauth(await between.exchange(between.desk, subject, ORDERS, scope="orders:write")) == SCOPE
    # Back at the API that the person has spoken of: no more than they allowed there.
    first = await between.exchanged(between.desk, subject, scope="bills:read")
    assert (await between.exchange(between.other, first, ORDERS, scope="orders:read")).ok()["scope"] == "orders:read"
    assert oauth(await between.exchange(between.other, first, ORDERS, scope="orders:write")) == SCOPE
    assert "scope" not in (await between.exchange(between.other, first, ORDERS)).ok()


async def test_scopes_need_the_persons_rights(between: Exchanging) -> None:
    service = between.other.service.id
    between.people.change(
        "insert into permissions (id, service_id, key, description, created_at) values (gen_random_uuid(), %s, 'pay', '', now())", service
    )
    guarded = '[{"name": "bills:pay", "description": "Pay", "permission": "pay"}, {"name": "bills:read", "description": "Read"}]'
    between.people.change("update resource_servers set scopes = %s::jsonb where id = %s", guarded, between.bills)
    subject = await between.subject()
    assert oauth(await between.exchange(between.desk, subject, scope="bills:pay")) == SCOPE
    between.people.change(
        "insert into service_roles (id, org_id, service_id, slug, name, permissions, given_to_everybody, created_at, updated_at)"
        " values (gen_random_uuid(), %s, %s, 'payer', 'Payer', '{pay}', true, now(), now())",
        *(between.acme.id, service),
    )
    token = await between.exchanged(between.desk, subject, scope="bills:pay bills:read")
    assert (await between.introspect(between.other, token))["scope"] == "bills:pay bills:read"
    between.people.change("update service_roles set given_to_everybody = false where service_id = %s", service)
    assert (await between.introspect(between.other, token))["scope"] == "bills:read"


async def test_a_token_lasts_no_longer_than_the_first(between: Exchanging) -> None:
    subject = await between.subject()
    for lifetime, longest in ((60, 60), (86_400, claims_of(subject)["exp"] - claims_of(subject)["iat"])):
        between.people.change("update resource_servers set token_lifetime = %s where id = %s", lifetime, between.bills)
        answer = (await between.exchange(between.desk, subject)).ok()
        assert longest - 5 <= answer["expires_in"] <= longest
        assert claims_of(answer["access_token"])["exp"] <= claims_of(subject)["exp"]
    # The session has been shortened since: by an organization's rule, for instance.
    session = claims_of(subject)["sid"]
    between.people.change("update sessions set ends_at = now() + interval '30 seconds' where id = %s", session)
    assert (await between.exchange(between.desk, subject)).ok()["expires_in"] <= 30
    between.people.change("update sessions set ends_at = now() + interval '1 millisecond' where id = %s", session)
    assert oauth(await between.exchange(between.desk, subject)) == INVALID


@pytest.mark.parametrize(
    ("changed", "begins"),
    [
        ({"subject_token": None}, "subject_token:"),
        ({"subject_token": ""}, "subject_token:"),
        ({"subject_token_type": None}, "subject_token_type:"),
        ({"subject_token_type": "urn:ietf:params:oauth:token-type:jwt"}, "subject_token_type:"),
        ({"subject_token_type": "urn:ietf:params:oauth:token-type:id_token"}, "subject_token_type:"),
        ({"subject_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}, "subject_token_type:"),
        ({"actor_token": "x"}, "actor_token:"),
        ({"actor_token_type": _TYPE}, "actor_token:"),
        ({"requested_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}, "requested_token_type:"),
        ({"audience": BILLS}, "audience:"),
        ({"resource": None}, "resource:"),
    ],
)
async def test_a_request_that_lacks_something_hears_what(between: Exchanging, changed: dict[str, Any], begins: str) -> None:
    refusal = await between.exchange(between.desk, await between.subject(), **changed)
    assert oauth(refusal) == INVALID
    assert refusal.json()["error_description"].startswith(begins)


async def test_the_type_may_be_asked_for(between: Exchanging) -> None:
    (await between.exchange(between.desk, await between.subject(), requested_token_type=_TYPE)).ok()


async def test_an_api_names_its_exchangers(between: Exchanging) -> None:
    """Off at first; and what was exchanged ends with the name."""
    subject = await between.subject()
    owner, server = between.resident(between.acme, "owner"), f"/api/organizations/acme/resource-servers/{between.bills}"
    token = await between.exchanged(between.desk, subject)
    assert (await between.request("GET", server, by=owner)).ok()["exchanges"] == ["desk"]
    unknown = await between.request("PATCH", server, {"exchanges": ["desk", "nobody"]}, by=owner)
    assert (unknown.status, unknown.json()["error"]) == (400, "exchanges[1]: the organization has no such service")
    assert (await between.request("PATCH", server, {"exchanges": []}, by=owner)).ok()["exchanges"] == []
    assert oauth(await between.exchange(between.desk, subject)) == TARGET
    assert not await between.is_active(between.other, token)
    changed = await between.request("PATCH", server, {"exchanges": ["store", "desk", "desk"]}, by=owner)
    assert changed.ok()["exchanges"] == ["desk", "store"]
    assert await between.is_active(between.other, token)
    for other in (f"{BILLS}/", "https://api.acme.example/none", ORDERS, STOCK):
        assert oauth(await between.exchange(between.desk, subject, other)) == TARGET, other
    (told, *_) = [one for one in between.audited("resource_server.updated") if "new_exchanges" in one["details"]]
    assert (told["details"]["old_exchanges"], told["details"]["new_exchanges"]) == (["desk"], [])


async def test_a_service_is_told_once_that_it_acts(between: Exchanging) -> None:
    """Of the exchanges from one session for one API, the first is in the log and goes to webhooks; each has a line."""
    subject = await between.subject()
    for _ in range(3):
        await between.exchanged(between.desk, subject, scope="bills:read")
    first = await between.exchanged(between.desk, subject, scope="bills:read")
    await between.exchanged(between.other, first, STOCK)
    tales = [(one["target_id"], one["details"]) for one in between.audited("user.token.exchanged")]
    assert tales == [
        (
            str(between.ada.user),
            {
                "service_id": str(between.desk.service.id),
                "resource": BILLS,
                "scopes": ["bills:read"],
                "subject_client_id": between.shop.client_id,
                "subject_audience": ORDERS,
                "act": {"sub": between.desk.client_id},
            },
        ),
        (
            str(between.ada.user),
            {
                "service_id": str(between.other.service.id),
                "resource": STOCK,
                "scopes": [],
                "subject_client_id": between.desk.client_id,
                "subject_audience": BILLS,
                "act": {"sub": between.other.client_id, "act": {"sub": between.desk.client_id}},
            },
        ),
    ]
    assert [one["name"] for one in between.told() if one["name"] == "user.token.exchanged"] == ["user.token.exchanged"] * 2


async def test_each_exchange_has_a_line_in_the_log(between: Exchanging, log: CapturedLog) -> None:
    token = await between.exchanged(between.desk, await between.subject())
    (line,) = [one for one in log.entries if one["event"] == "token_exchanged"]
    assert {name: line[name] for name in ("person", "service", "resource", "session", "actors")} == {
        "person": str(between.ada.user),
        "service": str(between.desk.service.id),
        "resource": str(between.bills),
        "session": claims_of(token)["sid"],
        "actors": 1,
    }


async def test_a_client_gives_its_exchanged_token_back(between: Exchanging) -> None:
    subject = await between.subject()
    first = await between.exchanged(between.desk, subject)
    second = await between.exchanged(between.other, first, STOCK)
    for other in (between.shop, between.store, between.other):
        (await between.ask("/auth/revoke", {"token": first, **other.posted})).ok()
        assert await between.is_active(between.other, first)
    (await between.ask("/auth/revoke", {"token": first, **between.desk.posted})).ok()
    assert [await between.is_active(*one) for one in ((between.other, first), (between.store, second), (between.desk, subject))] == [
        False,
        False,
        True,
    ]


async def test_exchanges_are_no_sign_ins(between: Exchanging) -> None:
    """No page lists them among the person's sessions, and no service is told that somebody signed out."""
    between.people.change("update services set backchannel_logout_uri = 'https://desk.example/out' where id = %s", between.desk.service.id)
    subject = await between.subject()
    user, own = UserId(between.ada.user), between.postern.identity.own_sessions.lookup
    listed = await own.list(user, SessionId(between.ada.session), between.postern.foundation.clock.now(), Page(1, 50))
    logins = between.people.rows("select count(*) as n from login_events")
    token = await between.exchanged(between.desk, subject)
    assert between.people.rows("select count(*) as n from login_events") == logins
    assert between.people.rows("select 1 from service_users where service_id = %s", between.desk.service.id) == []
    assert await own.list(user, SessionId(between.ada.session), between.postern.foundation.clock.now(), Page(1, 50)) == listed
    (await between.ask("/auth/revoke", {"token": token, **between.desk.posted})).ok()
    assert between.people.rows("select 1 from logout_notices") == []


async def test_introspection_without_a_secret_hears_nothing(between: Exchanging) -> None:
    token = await between.exchanged(between.desk, await between.subject())
    assert oauth(await between.ask(INTROSPECT, {"token": token, "client_id": between.page.client_id})) == (401, "invalid_client")


async def test_discovery_names_the_grant(between: Exchanging) -> None:
    known = (await between.client.get("/.well-known/openid-configuration")).ok()
    assert "urn:ietf:params:oauth:grant-type:token-exchange" in known["grant_types_supported"]


async def test_refused_exchanges_are_recorded_in_words(between: Exchanging) -> None:
    subject = await between.subject()
    owner = between.resident(between.acme, "owner")
    found: list[dict[str, Any]] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: between.postern.federation.refusal_recorder.run(task_status=task_status))
        for refusal in (
            await between.exchange(between.desk, "nonsense"),
            await between.exchange(between.desk, subject, STOCK),
            await between.exchange(between.desk, subject, scope="bills:burn"),
            await between.exchange(between.desk, subject, subject_token_type="x"),
        ):
            assert refusal.status == 400
        with trio.fail_after(PATIENCE):
            while len(found) < 4:
                await trio.sleep(0.05)
                found = (await between.request("GET", "/api/organizations/acme/services/desk/refusals", by=owner)).ok()["refusals"]
        nursery.cancel_scope.cancel()
    assert sorted((one["reason"], one["received"]) for one in found) == [
        ("exchange_scope", "bills:burn"),
        ("exchange_target", STOCK),
        ("parameter", "subject_token_type"),
        ("subject_token", ""),
    ]
    assert all(one["because"] and one["advice"] for one in found)


async def test_an_api_that_an_agent_has_called_names_it(between: Exchanging) -> None:
    """The agent stands within whoever acts through its token, and what it caused ends with it."""
    between.people.change("update all_services set is_agent = true where id = %s", between.shop.service.id)
    subject = await between.subject()
    assert claims_of(subject)["act"] == {"sub": between.shop.client_id}
    token = await between.exchanged(between.desk, subject)
    assert claims_of(token)["act"] == {"sub": between.desk.client_id, "act": {"sub": between.shop.client_id}}
    assert claims_of(token)["exp"] <= claims_of(subject)["exp"]
    assert await between.is_active(between.other, token)
    between.people.change("update all_organizations set agents = 'forbidden'")
    assert not await between.is_active(between.other, token)
    assert oauth(await between.exchange(between.desk, subject)) == INVALID


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_session_that_ends_between_the_look_and_the_exchange_gives_nothing(
    between: Exchanging, postern: Postern, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    subject = await between.subject()
    if not is_first:
        await between.exchanged(between.desk, subject)
    before = len(between.people.rows("select from sessions"))
    ended = "update sessions set revoked_at = now() where id = %s"
    store = postern.federation.grants.exchanges.store
    meanwhile(monkeypatch, store, "find", lambda: between.people.change(ended, claims_of(subject)["sid"]))
    assert oauth(await between.exchange(between.desk, subject)) == INVALID
    assert len(between.people.rows("select from sessions")) == before


async def test_no_agent_acts_by_an_exchange(between: Exchanging) -> None:
    """Nobody has let it act at the other API, until any date. What it had exchanged before it became an agent ends."""
    subject = await between.subject()
    token = await between.exchanged(between.desk, subject)
    assert await between.is_active(between.other, token)
    between.people.change("update all_services set is_agent = true where id = %s", between.desk.service.id)
    assert not await between.is_active(between.other, token)
    assert oauth(await between.exchange(between.desk, subject)) == TARGET


async def test_a_token_whose_consent_is_about_another_document_is_not_exchanged(between: Exchanging) -> None:
    subject = await between.subject()
    token = await between.exchanged(between.desk, subject)
    between.people.change("update all_services set document_digest = 'another' where id = %s", between.shop.service.id)
    assert not await between.is_active(between.other, token)
    assert oauth(await between.exchange(between.desk, subject)) == INVALID


async def test_a_directorys_second_factor_is_not_handed_on(between: Exchanging) -> None:
    """It counts in sessions that the directory has opened: see `tests/http/connections/factors/test_directory_factors.py`."""
    subject = await between.subject()
    between.people.change("update sessions set factor_through = gen_random_uuid(), factor_stated = 'mfa'")
    await between.exchanged(between.desk, subject)
    rows = between.people.rows("select factor_through, factor_stated from sessions where exchanged_from is not null")
    assert rows == [{"factor_through": None, "factor_stated": None}]

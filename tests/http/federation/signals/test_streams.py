"""Who may make streams, of what, to where; and how an application keeps them."""

from typing import Any
from uuid import uuid4

import pytest

from core.domain.record.signals import OFFERED
from tests.http.client import refused
from tests.http.federation.signals.scene import CAEP, POLL, PUSH, RISC, SETTINGS, STATUS, STREAMS, VERIFY, Signalling, delivery
from tests.http.people import BASE_URL

ALL = [one.uri for one in OFFERED]
MADE: dict[str, Any] = {"delivery": delivery(8443)}


async def test_the_metadata_say_where(signalling: Signalling) -> None:
    found = (await signalling.client.get("/.well-known/ssf-configuration")).ok()
    assert found == {
        "spec_version": "1_0",
        "issuer": BASE_URL,
        "jwks_uri": f"{BASE_URL}/.well-known/jwks.json",
        "delivery_methods_supported": [PUSH, POLL],
        "configuration_endpoint": f"{BASE_URL}{STREAMS}",
        "status_endpoint": f"{BASE_URL}{STATUS}",
        "verification_endpoint": f"{BASE_URL}{VERIFY}",
        "authorization_schemes": [{"spec_urn": "urn:ietf:rfc:6749"}],
        "default_subjects": "ALL",
    }


async def test_an_owner_turns_signals_on(signalling: Signalling) -> None:
    path = SETTINGS.format("shop")
    off = {"is_active": False, "events": [], "hosts": [], "streams": []}
    assert (await signalling.request("GET", path, by=signalling.owner)).ok() == off
    changed = await signalling.turned_on(events=["account-enabled", "session-revoked"], hosts=["App.example"])
    assert changed == {"is_active": True, "events": ["session-revoked", "account-enabled"], "hosts": ["app.example"], "streams": []}
    (entry,) = signalling.audited("service.signals.updated")
    assert entry["details"] == {
        "service_slug": "shop",
        "old_is_active": False,
        "new_is_active": True,
        "old_events": [],
        "new_events": ["session-revoked", "account-enabled"],
        "old_hosts": [],
        "new_hosts": ["app.example"],
    }
    await signalling.turned_on(events=["account-enabled", "session-revoked"], hosts=["app.example"])
    assert len(signalling.audited("service.signals.updated")) == 1
    await signalling.turned_off()
    await signalling.turned_off()
    assert len(signalling.audited("service.signals.updated")) == 2
    assert (await signalling.request("GET", path, by=signalling.owner)).ok() == off


async def test_nobody_else_turns_them_on(signalling: Signalling) -> None:
    body = {"events": ["session-revoked"]}
    for person in (signalling.ada, signalling.resident(signalling.acme, "admin")):
        assert (await signalling.set(body, by=person)).status == 403
    assert (await signalling.set(body, by=signalling.resident(signalling.globex, "owner"))).status == 403
    signalling.people.change("update sessions set proved_at = now() - interval '1 day' where user_id = %s", signalling.owner.user)
    assert refused(await signalling.set(body))[0] in {401, 403}
    assert signalling.people.rows("select from signal_settings") == []


@pytest.mark.parametrize("body", [{"events": []}, {"events": ["verification"]}, {"events": ["session-revoked"], "hosts": ["https://x"]}])
async def test_what_is_no_event_or_host_is_refused(signalling: Signalling, body: dict[str, Any]) -> None:
    assert refused(await signalling.set(body))[0] == 400


async def test_an_api_keeps_a_scope_of_our_name_and_has_no_signals(signalling: Signalling) -> None:
    path = "/api/organizations/acme/resource-servers"
    scopes = [{"name": "read", "description": "Read orders"}]
    server = {"identifier": "https://api.acme.example/", "name": "Orders", "scopes": scopes}
    reserved = {**server, "scopes": [{"name": "ssf.read", "description": "x"}]}
    assert (await signalling.request("POST", path, reserved, by=signalling.owner)).status == 400
    made = (await signalling.request("POST", path, server, by=signalling.owner)).ok(201)
    kept = '[{"name": "ssf.read", "description": "Read feeds"}]'
    signalling.people.change("update resource_servers set scopes = %s::jsonb", kept)
    one = made.get("resource_server", made)["id"]
    (await signalling.request("PATCH", f"{path}/{one}", {"name": "Feeds"}, by=signalling.owner)).ok()
    answer = await signalling.set({"events": ["session-revoked"]})
    assert answer.status == 409
    assert "ssf.read" in str(answer.json())
    (await signalling.request("PATCH", f"{path}/{one}", {"scopes": scopes}, by=signalling.owner)).ok()
    await signalling.turned_on()


async def test_an_application_without_signals_has_no_streams(signalling: Signalling) -> None:
    await signalling.turned_on(hosts=[])
    for application, status in ((signalling.theirs, 403), (signalling.shop, 200)):
        assert (await signalling.call("GET", STREAMS, by=application)).status == status
    assert (await signalling.call("POST", STREAMS, MADE)).status == 403
    assert (await signalling.client.get(STREAMS)).status == 401


async def test_only_an_application_s_own_token_opens_the_endpoints(signalling: Signalling) -> None:
    await signalling.turned_on()
    of_session = await signalling.signed_in(signalling.shop)
    for token in (await signalling.tenants.token(signalling.owner), of_session["access_token"], of_session["id_token"], "x.y.z"):
        assert (await signalling.client.request("GET", STREAMS, token=token)).status == 401
    # And such a token opens nothing else.
    own = await signalling.own_token()
    for path in ("/api/user/profile", "/api/organizations/acme", SETTINGS.format("shop"), "/oauth/userinfo"):
        assert (await signalling.client.get(path, token=own)).status in {401, 403}


async def test_a_token_ends_with_its_application(signalling: Signalling) -> None:
    """The organization is suspended, or the application loses its last secret: from the next request on."""
    await signalling.turned_on()
    own = await signalling.own_token()
    for status, answered in (("suspended", 401), ("active", 200)):
        signalling.people.change("update all_organizations set status = %s where slug = 'acme'", status)
        assert (await signalling.client.get(STREAMS, token=own)).status == answered
    secrets = "/api/organizations/acme/services/shop/client-secrets"
    (secret,) = (await signalling.request("GET", secrets, by=signalling.owner)).json()
    assert (await signalling.request("DELETE", f"{secrets}/{secret['id']}", by=signalling.owner)).status in {200, 204}
    assert (await signalling.client.get(STREAMS, token=own)).status == 401


async def test_a_stream_is_made_read_changed_and_deleted(signalling: Signalling) -> None:
    await signalling.turned_on(events=["session-revoked", "account-disabled"])
    made = (await signalling.call("POST", STREAMS, {**MADE, "events_requested": [*ALL, "urn:x"], "description": "Sign-outs"})).ok(201)
    assert made == {
        "stream_id": made["stream_id"],
        "iss": BASE_URL,
        "aud": signalling.shop.client_id,
        "delivery": MADE["delivery"],
        "events_supported": [f"{CAEP}session-revoked", f"{RISC}account-disabled"],
        "events_requested": ALL,
        "events_delivered": [f"{CAEP}session-revoked", f"{RISC}account-disabled"],
        "min_verification_interval": 10,
        "description": "Sign-outs",
    }
    one = f"?stream_id={made['stream_id']}"
    assert (await signalling.call("GET", STREAMS + one)).ok() == made
    assert (await signalling.call("GET", STREAMS)).json() == [made]
    updated = {**made, "events_requested": [f"{CAEP}session-revoked"]}
    after = (await signalling.call("PATCH", STREAMS, updated)).ok()
    assert after == {**updated, "events_delivered": [f"{CAEP}session-revoked"]}
    replaced = (await signalling.call("PUT", STREAMS, {"stream_id": made["stream_id"], **MADE})).ok()
    assert replaced == {name: value for name, value in made.items() if name != "description"}
    assert (await signalling.call("GET", STATUS + one)).ok() == {"stream_id": made["stream_id"], "status": "enabled"}
    (shown,) = (await signalling.request("GET", SETTINGS.format("shop"), by=signalling.owner)).ok()["streams"]
    assert (shown["host"], shown["status"]) == ("127.0.0.1", "enabled")
    assert (await signalling.call("DELETE", STREAMS + one)).status == 204
    assert (await signalling.call("GET", STREAMS)).json() == []
    named = [entry["action"].rpartition(".")[2] for entry in signalling.audited("signal_stream.%")]
    assert named == ["created", "updated", "updated", "deleted"]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"delivery": {"method": "urn:ietf:rfc:8937"}}, 400),
        ({"delivery": {"method": POLL, "endpoint_url": "https://127.0.0.1/"}}, 400),
        ({"delivery": {"method": POLL, "authorization_header": "Bearer fig"}}, 400),
        ({"delivery": {"method": PUSH}}, 400),
        ({"delivery": {"method": PUSH, "endpoint_url": "http://app.example/"}}, 400),
        ({"delivery": {"method": PUSH, "endpoint_url": "https://app.example/"}}, 403),
        ({"delivery": {"method": PUSH, "endpoint_url": "http://10.0.0.1/"}}, 403),
        ({"delivery": delivery(8443, authorization_header="a\nb")}, 400),
        ({"description": "x" * 201}, 400),
    ],
)
async def test_a_stream_that_may_not_be_is_refused(signalling: Signalling, changed: dict[str, Any], status: int) -> None:
    await signalling.turned_on()
    answer = await signalling.call("POST", STREAMS, {**MADE, **changed})
    assert answer.status == status, answer.body
    assert signalling.people.rows("select from signal_streams") == []


async def test_an_address_inside_is_refused_even_if_an_owner_names_it(signalling: Signalling) -> None:
    await signalling.turned_on(hosts=["10.0.0.1"])
    answer = await signalling.call("POST", STREAMS, {"delivery": {"method": PUSH, "endpoint_url": "https://10.0.0.1/"}})
    assert (answer.status, b"not public" in answer.body) == (400, True)


async def test_what_only_we_say_must_be_what_we_say(signalling: Signalling) -> None:
    await signalling.turned_on()
    made = (await signalling.call("POST", STREAMS, MADE)).ok(201)
    wrongs: list[dict[str, Any]] = [{"iss": "https://other.example"}, {"aud": "x"}, {"events_delivered": []}, {"events_supported": ["x"]}]
    for wrong in wrongs:
        for method in ("PATCH", "PUT"):
            answer = await signalling.call(method, STREAMS, {"stream_id": made["stream_id"], **MADE, **wrong})
            assert answer.status == 400, wrong
    assert (await signalling.call("PUT", STREAMS, {"stream_id": made["stream_id"]})).status == 400


async def test_an_application_has_five_streams(signalling: Signalling) -> None:
    await signalling.turned_on()
    for _ in range(5):
        (await signalling.call("POST", STREAMS, MADE)).ok(201)
    assert (await signalling.call("POST", STREAMS, MADE)).status == 403
    assert len((await signalling.call("GET", STREAMS)).ok()) == 5


async def test_streams_of_others_do_not_exist(signalling: Signalling) -> None:
    await signalling.turned_on()
    made = (await signalling.call("POST", STREAMS, MADE)).ok(201)
    await signalling.turned_on(signalling.page)
    stranger = signalling.resident(signalling.globex, "owner")
    path = "/api/organizations/globex/services/shop/signals"
    (await signalling.request("PUT", path, {"events": ["session-revoked"]}, by=stranger)).ok()
    for stream in (made["stream_id"], str(uuid4())):
        named = {"stream_id": stream}
        for method, target, body in (
            ("GET", f"{STREAMS}?stream_id={stream}", None),
            ("DELETE", f"{STREAMS}?stream_id={stream}", None),
            ("PATCH", STREAMS, {**named, "description": "x"}),
            ("PUT", STREAMS, {**named, **MADE}),
            ("GET", f"{STATUS}?stream_id={stream}", None),
            ("POST", STATUS, {**named, "status": "disabled"}),
            ("POST", VERIFY, named),
        ):
            answer = await signalling.call(method, target, body, by=signalling.theirs)
            assert answer.status == 404, (method, target)
    assert (await signalling.call("GET", STREAMS, by=signalling.theirs)).json() == []
    assert (await signalling.call("GET", STREAMS)).json() == [made]


async def test_a_status_is_one_of_three(signalling: Signalling) -> None:
    await signalling.turned_on()
    made = (await signalling.call("POST", STREAMS, MADE)).ok(201)
    for wrong in ({"status": "asleep"}, {"status": "paused", "reason": "x" * 201}):
        assert (await signalling.call("POST", STATUS, {"stream_id": made["stream_id"], **wrong})).status == 400
    assert (await signalling.call("POST", VERIFY, {"stream_id": made["stream_id"], "state": "x" * 1001})).status == 400


async def test_a_status_that_stands_already_changes_nothing(signalling: Signalling) -> None:
    named = {"stream_id": await signalling.polled(), "status": "paused", "reason": "Moving house"}
    (await signalling.call("POST", STATUS, named)).ok()
    before = signalling.people.rows("select * from signal_streams")
    assert (await signalling.call("POST", STATUS, named)).ok() == named
    assert signalling.people.rows("select * from signal_streams") == before
    assert len(signalling.audited("signal_stream.updated")) == 1
    (await signalling.call("POST", STATUS, {**named, "reason": "Still moving"})).ok()
    assert len(signalling.audited("signal_stream.updated")) == 2


async def test_an_update_that_names_no_method_keeps_the_delivery(signalling: Signalling) -> None:
    await signalling.turned_on()
    made = (await signalling.call("POST", STREAMS, MADE)).ok(201)
    changed = (await signalling.call("PATCH", STREAMS, {"stream_id": made["stream_id"], "description": "Of the till"})).ok()
    assert changed == {**made, "description": "Of the till"}
    assert (await signalling.call("GET", STREAMS)).json() == [changed]

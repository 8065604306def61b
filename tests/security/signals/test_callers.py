"""Who calls the endpoints of streams with what is not, or is no longer, theirs."""

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import jwt
import trio

from tests.http.federation.relying import INTROSPECT, REVOKE, USERINFO, Application
from tests.http.federation.signals.scene import SETTINGS, STATUS, STREAMS, VERIFY, delivery
from tests.patience import PATIENCE
from tests.receiver import Receiver, answering, receiving
from tests.security.signals.world import ListeningApplication

SECRETS: Final = "/api/organizations/acme/services/shop/client-secrets"
OTHERS: Final = "urn:ietf:params:oauth:grant-type:token-exchange"


def calls(stream: str) -> Iterator[tuple[str, str, Any]]:
    """Everything that names a stream."""
    named = {"stream_id": stream}
    yield "GET", f"{STREAMS}?stream_id={stream}", None
    yield "PATCH", STREAMS, {**named, "description": "x"}
    yield "PUT", STREAMS, {**named, "delivery": delivery(8443)}
    yield "GET", f"{STATUS}?stream_id={stream}", None
    yield "POST", STATUS, {**named, "status": "paused"}
    yield "POST", VERIFY, named
    yield "DELETE", f"{STREAMS}?stream_id={stream}", None


async def all_refused(listening: ListeningApplication, stream: str, token: str, status: int) -> None:
    for method, target, body in calls(stream):
        answer = await listening.client.request(method, target, body=body, token=token)
        assert answer.status == status, (method, target, answer.body)


async def unchanged(listening: ListeningApplication, before: list[dict[str, Any]]) -> None:
    assert listening.people.rows("select * from signal_streams order by id") == before


def kept(listening: ListeningApplication) -> list[dict[str, Any]]:
    return listening.people.rows("select * from signal_streams order by id")


async def test_a_stream_of_another_application_does_not_exist(listening: ListeningApplication) -> None:
    """Of another organization, and of the same one."""
    till = listening.application(listening.acme, "till", secret=True)
    async with receiving(answering(202)) as receiver:
        stream = (await listening.listening(receiver))["stream_id"]
        await listening.turned_on(till)
        await listening.spied(receiver)
        before = kept(listening)
        for other in (till, listening.theirs):
            await all_refused(listening, stream, await listening.own_token(other), 404)
            await all_refused(listening, str(uuid4()), await listening.own_token(other), 404)
        await unchanged(listening, before)
        await listening.leaves()
        assert listening.queued() == ["session-revoked"]


async def test_a_secret_from_before_the_rotation_opens_nothing(listening: ListeningApplication) -> None:
    """Nor does the token that somebody got by it."""
    async with receiving(answering(202)) as receiver:
        stream = (await listening.listening(receiver))["stream_id"]
        stolen = await listening.own_token()
        (old,) = (await listening.request("GET", SECRETS, by=listening.owner)).json()
        new = (await listening.request("POST", SECRETS, by=listening.owner)).ok(201)["client_secret"]
        listening.log.remember(new)
        assert (await listening.request("DELETE", f"{SECRETS}/{old['id']}", by=listening.owner)).status == 204
        # A token names the second of its issue, and the rotation may end in the same one.
        listening.people.change("update all_services set credential_removed_at = credential_removed_at + interval '1 second'")
        before = kept(listening)
        asked = {"grant_type": "client_credentials", **listening.shop.posted}
        assert (await listening.ask(fields=asked)).status == 401
        await all_refused(listening, stream, stolen, 401)
        await unchanged(listening, before)
        listening.people.change("update all_services set credential_removed_at = credential_removed_at - interval '1 second'")
        rotated = Application(listening.shop.service, listening.shop.client_id, new)
        assert (await listening.call("GET", f"{STREAMS}?stream_id={stream}", by=rotated)).status == 200


async def test_after_an_owner_turned_signals_off_nothing_goes_out(listening: ListeningApplication) -> None:
    """Not even what a dispatcher has already in its hands, and not after signals are on again."""
    waits = trio.Event()

    async def answer(stream: trio.abc.Stream, _call: Any) -> bool:
        await waits.wait()
        await stream.send_all(b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n")
        return True

    async with receiving(answer) as receiver, listening.dispatching():
        stream = (await listening.listening(receiver))["stream_id"]
        token = await listening.own_token()
        await listening.leaves()
        await receiver.until(1)
        await listening.leaves()
        await listening.turned_off()
        waits.set()
        await all_refused(listening, stream, token, 403)
        await listening.leaves()
        await listening.turned_on()
        await all_refused(listening, stream, token, 404)
        receiver.answer = answering(202)
        begun = len(receiver.calls)
        listening.people.change("update logout_notices set tell_at = now() where tell_at is not null")
        other = await listening.stream(receiver)
        await listening.leaves()
        with trio.fail_after(PATIENCE):
            await receiver.until(begun + 1)
        claims = [await listening.verified(call) for call in receiver.calls[begun:]]
    assert len(claims) == 1
    assert other["stream_id"] != stream


async def test_a_suspended_organization_hears_nothing(listening: ListeningApplication) -> None:
    async with receiving(answering(202)) as receiver:
        stream = (await listening.listening(receiver))["stream_id"]
        token = await listening.own_token()
        await listening.leaves()
        before = kept(listening)
        listening.people.change("update all_organizations set status = 'suspended' where slug = 'acme'")
        async with listening.dispatching():
            await all_refused(listening, stream, token, 401)
            (await listening.client.post("/api/auth/logout", token=await listening.people.token(listening.ada))).ok()
            listening.people.change("update logout_notices set tell_at = now()")
            await trio.sleep(0.5)
            assert receiver.calls == []
        await unchanged(listening, before)
        assert listening.queued() == ["session-revoked"]


async def test_a_deleted_application_hears_nothing(listening: ListeningApplication) -> None:
    async with receiving(answering(202)) as receiver:
        stream = (await listening.listening(receiver))["stream_id"]
        token = await listening.own_token()
        await listening.leaves()
        await listening.signed_in(listening.shop)
        gone = await listening.request("DELETE", "/api/organizations/acme/services/shop", by=listening.owner)
        assert gone.status in {200, 204}, gone.body
        await all_refused(listening, stream, token, 401)
        async with listening.dispatching():
            (await listening.client.post("/api/auth/logout", token=await listening.people.token(listening.ada))).ok()
            await trio.sleep(0.5)
        assert receiver.calls == []


async def test_an_application_without_credentials_has_no_streams(listening: ListeningApplication) -> None:
    """It became a public client: anybody knows its client id."""
    async with receiving(answering(202)) as receiver:
        stream = (await listening.listening(receiver))["stream_id"]
        token = await listening.own_token()
        (secret,) = (await listening.request("GET", SECRETS, by=listening.owner)).json()
        assert (await listening.request("DELETE", f"{SECRETS}/{secret['id']}", by=listening.owner)).status == 204
        await all_refused(listening, stream, token, 401)
        public = {"grant_type": "client_credentials", "client_id": listening.shop.client_id}
        assert (await listening.ask(fields=public)).status in {400, 401}


async def test_a_signal_opens_nothing(listening: ListeningApplication) -> None:
    """It is signed with the keys of ID tokens, for the client id of the application, and is neither of its tokens."""
    async with receiving(answering(202)) as receiver, listening.dispatching():
        await listening.listening(receiver)
        await listening.leaves()
        await receiver.until(1)
        signal = receiver.calls[0].body.decode()
        await listening.verified(receiver.calls[0])
    assert jwt.get_unverified_header(signal)["typ"] == "secevent+jwt"
    for path in (STREAMS, USERINFO, "/api/user/profile", "/api/organizations/acme", SETTINGS.format("shop")):
        assert (await listening.client.get(path, token=signal)).status == 401, path
    shop = listening.shop
    assert (await listening.ask(INTROSPECT, {"token": signal}, shop.basic)).ok() == {"active": False}
    (await listening.ask(REVOKE, {"token": signal}, shop.basic)).ok()
    hinted = [await listening.client.get(f"/oauth/logout?id_token_hint={hint}") for hint in (signal, "x.y.z")]
    assert len({(one.status, one.body, (one.header("location") or "").partition("id_token_hint")[0]) for one in hinted}) == 1
    for fields in (
        {"grant_type": OTHERS, "subject_token": signal, "subject_token_type": "urn:ietf:params:oauth:token-type:id_token"},
        {"grant_type": OTHERS, "subject_token": signal, "subject_token_type": "urn:ietf:params:oauth:token-type:jwt"},
        {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": signal},
        {"grant_type": "refresh_token", "refresh_token": signal},
    ):
        assert (await listening.ask(fields={**fields, **shop.posted})).status in {400, 401}, fields["grant_type"]


async def test_only_an_owner_who_proved_it_changes_where_signals_go(listening: ListeningApplication) -> None:
    """An application's own token, a key of the organization with everything, an admin: none turns signals on or names a host."""
    await listening.turned_on(hosts=["app.example"])
    body = {"events": ["session-revoked"], "hosts": ["evil.example"]}
    path = SETTINGS.format("shop")
    key = listening.tenants.management_key(listening.acme, listening.owner, ["org.services.manage", "org.settings.manage"])
    listening.log.remember(key)
    for token in (await listening.own_token(), key, (await listening.signed_in(listening.shop, listening.owner))["access_token"]):
        for method in ("PUT", "DELETE"):
            assert (await listening.client.request(method, path, body=body if method == "PUT" else None, token=token)).status in {401, 403}
    admin = listening.resident(listening.acme, "admin")
    assert (await listening.set(body, by=admin)).status == 403
    (row,) = listening.people.rows("select hosts from signal_settings")
    assert row["hosts"] == ["app.example"]


async def test_a_hundred_new_streams_at_once_are_five(listening: ListeningApplication) -> None:
    async with receiving(answering(202)) as receiver:
        await listening.turned_on()
        token = await listening.own_token()
        statuses: list[int] = []

        async def makes(to: Receiver) -> None:
            made = await listening.client.request("POST", STREAMS, body={"delivery": delivery(to.port)}, token=token)
            statuses.append(made.status)

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(makes, receiver)
    assert (statuses.count(201), statuses.count(403)) == (5, 95)
    assert len(kept(listening)) == 5


async def test_a_token_for_reading_changes_nothing(listening: ListeningApplication) -> None:
    """An application asks for one with the scopes of the interoperability profile."""
    async with receiving(answering(202)) as receiver:
        stream = (await listening.listening(receiver))["stream_id"]
        before = kept(listening)
        asked = {"grant_type": "client_credentials", **listening.shop.posted}
        given = listening.kept((await listening.ask(fields={**asked, "scope": "ssf.read"})).ok())
        assert given["scope"] == "ssf.read"
        reads = {("GET", STREAMS), ("GET", STATUS)}
        for method, target, body in (*calls(stream), ("POST", STREAMS, {"delivery": delivery(receiver.port)})):
            answer = await listening.client.request(method, target, body=body, token=given["access_token"])
            assert answer.status == (200 if (method, target.partition("?")[0]) in reads else 403), (method, target)
        await unchanged(listening, before)
        both = listening.kept((await listening.ask(fields={**asked, "scope": "ssf.manage ssf.read"})).ok())
        assert (await listening.client.request("DELETE", f"{STREAMS}?stream_id={stream}", token=both["access_token"])).status == 204
        for scope in ("ssf.manage orders", "ssf.admin", "SSF.MANAGE", "openid"):
            assert (await listening.ask(fields={**asked, "scope": scope})).status == 400, scope
        # Nor does an API of this name give it.
        api = {**asked, "scope": "ssf.manage", "resource": "https://api.acme.example/"}
        assert (await listening.ask(fields=api)).status == 400


async def test_a_token_for_reading_neither_acknowledges_nor_refuses(listening: ListeningApplication) -> None:
    """It fetches what waits, as often as it likes, and what waits stays."""
    stream = await listening.polled()
    await listening.leaves()
    (jti,) = await listening.fetched(stream)
    asked = {"grant_type": "client_credentials", **listening.shop.posted}
    poll = f"/ssf/poll/{stream}"
    at_once = {"returnImmediately": True}
    reads = listening.kept((await listening.ask(fields={**asked, "scope": "ssf.read"})).ok())["access_token"]
    for words in ({"ack": [jti]}, {"setErrs": {jti: {"err": "invalid_key"}}}, {"ack": ["no id"]}, {"maxEvents": 0, "ack": [jti]}):
        answer = await listening.client.request("POST", poll, body={**at_once, **words}, token=reads)
        assert (answer.status, answer.json()["error"]) == (403, "insufficient_scope"), words
        assert 'scope="ssf.manage"' in (answer.header("www-authenticate") or ""), words
    # Words about nothing are no words.
    answer = await listening.client.request("POST", poll, body={**at_once, "ack": [], "setErrs": {}}, token=reads)
    assert set(answer.ok()["sets"]) == {jti}
    manages = listening.kept((await listening.ask(fields={**asked, "scope": "ssf.manage"})).ok())["access_token"]
    assert (await listening.client.request("POST", poll, body={**at_once, "ack": [jti]}, token=manages)).ok()["sets"] == {}

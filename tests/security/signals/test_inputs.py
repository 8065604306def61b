"""What an application sends of a stream, made to break something: too much, too odd, or meant for another place."""

from typing import Any, Final

import pytest

from tests.hostile_uris import ALWAYS
from tests.http.federation.signals.scene import CAEP, PUSH, STATUS, STREAMS, VERIFY, delivery
from tests.receiver import answering, receiving
from tests.security.signals.world import ListeningApplication

POLL: Final = "urn:ietf:rfc:8936"

# Each is refused, and nothing is made.
REFUSED: Final[dict[str, Any]] = {
    "a line break in the header": {"delivery": delivery(8443, authorization_header="Bearer a\r\nhost: evil.example")},
    "a bare line feed": {"delivery": delivery(8443, authorization_header="Bearer a\nx")},
    "a nul in the header": {"delivery": delivery(8443, authorization_header="Bearer a\0")},
    "a tab in the header": {"delivery": delivery(8443, authorization_header="Bearer\ta")},
    "a header of other letters": {"delivery": delivery(8443, authorization_header="Bearer \N{LATIN SMALL LETTER E WITH ACUTE}")},
    "a line separator in the header": {"delivery": delivery(8443, authorization_header="Bearer a\u2028b")},
    "a huge header": {"delivery": delivery(8443, authorization_header="x" * 4_001)},
    "an empty header": {"delivery": delivery(8443, authorization_header="")},
    "a header that is a list": {"delivery": delivery(8443, authorization_header=["Bearer a"])},
    "a huge address": {"delivery": delivery(8443, "/" + "x" * 2_000)},
    "credentials in the address": {"delivery": {"method": PUSH, "endpoint_url": "http://user:pass@127.0.0.1:8443/"}},
    "port 0": {"delivery": {"method": PUSH, "endpoint_url": "http://127.0.0.1:0/"}},
    "a port that is none": {"delivery": {"method": PUSH, "endpoint_url": "http://127.0.0.1:65536/"}},
    "a fragment": {"delivery": delivery(8443, "/a#b")},
    "a file": {"delivery": {"method": PUSH, "endpoint_url": "file:///etc/passwd"}},
    "another scheme": {"delivery": {"method": PUSH, "endpoint_url": "gopher://127.0.0.1:8443/"}},
    "an address that is a number": {"delivery": {"method": PUSH, "endpoint_url": 7}},
    "no delivery": {"delivery": None},
    "a method that is none": {"delivery": {"method": "urn:ietf:rfc:9999", "endpoint_url": "http://127.0.0.1:8443/"}},
    "a huge description": {"description": "x" * 5_001},
    "a long description": {"description": "\N{GRINNING FACE}" * 201},
    "a description of two lines": {"description": "a\nb"},
    "a nul in the description": {"description": "a\0b"},
    "a description that turns round": {"description": "a\u202eb"},
    "a hundred and one events": {"events_requested": [f"urn:{number}" for number in range(101)]},
    "events that are no texts": {"events_requested": [{"a": "b"}]},
    "events that are a text": {"events_requested": "session-revoked"},
    "an event of five thousand letters and more": {"events_requested": ["x" * 200_000]},
}


@pytest.mark.parametrize("which", REFUSED)
async def test_a_hostile_stream_is_refused(listening: ListeningApplication, which: str) -> None:
    await listening.turned_on()
    answer = await listening.call("POST", STREAMS, {"delivery": delivery(8443), **REFUSED[which]})
    assert answer.status in {400, 413}, answer.body
    assert listening.people.rows("select from signal_streams") == []


async def test_no_hostile_address_becomes_a_stream(listening: ListeningApplication) -> None:
    await listening.turned_on(hosts=["127.0.0.1", "good.example"])
    for url in ALWAYS:
        answer = await listening.call("POST", STREAMS, {"delivery": {"method": PUSH, "endpoint_url": url}})
        assert answer.status in {400, 403}, (url, answer.body)
    assert listening.people.rows("select from signal_streams") == []


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
async def test_a_hostile_change_changes_nothing(listening: ListeningApplication, method: str) -> None:
    async with receiving(answering(202)) as receiver:
        stream = await listening.listening(receiver)
        token = await listening.own_token()
        before = listening.people.rows("select * from signal_streams")
        for which, changed in REFUSED.items():
            body = {"stream_id": stream["stream_id"], "delivery": delivery(8443), **changed}
            answer = await listening.client.request(method, STREAMS, body=body, token=token)
            assert answer.status in {400, 413}, which
            assert listening.people.rows("select * from signal_streams") == before


async def test_the_header_cannot_be_taken_to_another_place(listening: ListeningApplication) -> None:
    """Whoever has the application's token does not get the header out: not by another port, another scheme or another spelling."""
    await listening.turned_on(hosts=["127.0.0.1", "app.example.com"])
    async with receiving(answering(202)) as receiver, receiving(answering(202)) as other:
        listening.log.remember("Bearer fig")
        made = (await listening.call("POST", STREAMS, {"delivery": delivery(receiver.port, authorization_header="Bearer fig")})).ok(201)
        stream = made["stream_id"]
        for url in (f"https://127.0.0.1:{receiver.port}/set", "https://app.example.com/", f"http://127.0.0.1:{other.port}/set"):
            body = {"stream_id": stream, "delivery": {"method": PUSH, "endpoint_url": url}}
            before = listening.people.rows("select sealed_header from signal_streams")
            answer = await listening.call("PATCH", STREAMS, body)
            (row,) = listening.people.rows("select endpoint, sealed_header from signal_streams")
            assert b"fig" not in answer.body
            if answer.status == 200:
                assert (row["endpoint"], row["sealed_header"]) == (url, None)
            else:
                assert [{"sealed_header": row["sealed_header"]}] == before
        # Nor back again.
        back = {"stream_id": stream, "delivery": delivery(receiver.port)}
        (await listening.call("PATCH", STREAMS, back)).ok()
        async with listening.dispatching():
            await listening.leaves()
            await receiver.until(1)
        assert "authorization" not in receiver.calls[0].headers


async def test_a_replacement_without_a_header_has_none(listening: ListeningApplication) -> None:
    """Also at the same address: what a replacement leaves out is as in a new stream. A change leaves the header as it is."""
    async with receiving(answering(202)) as receiver:
        await listening.turned_on()
        listening.log.remember("Bearer fig")
        made = (await listening.call("POST", STREAMS, {"delivery": delivery(receiver.port, authorization_header="Bearer fig")})).ok(201)
        same = {"stream_id": made["stream_id"], "delivery": delivery(receiver.port)}
        async with listening.dispatching():
            for method, sent in (("PATCH", "Bearer fig"), ("PUT", None), ("PATCH", None)):
                (await listening.call(method, STREAMS, same)).ok()
                before = len(receiver.calls)
                await listening.leaves()
                await receiver.until(before + 1)
                assert receiver.calls[before].headers.get("authorization") == sent, method
    assert listening.people.rows("select sealed_header from signal_streams") == [{"sealed_header": None}]


@pytest.mark.parametrize("text", ["\u202eecivres fo tuo", "a\nb", "a\0b", "\uffff", "x" * 201], ids=ascii)
async def test_a_reason_that_hides_something_is_refused(listening: ListeningApplication, text: str) -> None:
    stream = await listening.polled()
    answer = await listening.call("POST", STATUS, {"stream_id": stream, "status": "paused", "reason": text})
    assert (answer.status, "reason" in str(answer.json())) == (400, True)
    assert listening.people.rows("select status, status_reason from signal_streams") == [{"status": "enabled", "status_reason": None}]


async def test_only_the_events_that_are_on_can_be_asked_for(listening: ListeningApplication) -> None:
    """An application asks for what no owner has turned on, and for the events of other applications and of Postern itself."""
    await listening.turned_on(events=["session-revoked"])
    asked = [f"{CAEP}credential-change", "security.password.changed", "user.login.success", "*", "%", "", f"{CAEP}session-revoked' or 1=1"]
    async with receiving(answering(202)) as receiver:
        stream = await listening.stream(receiver, events_requested=asked)
        assert stream["events_delivered"] == []
        await listening.leaves()
    assert listening.queued() == []


@pytest.mark.parametrize("field", ["description", "state", "reason", "authorization_header", "status", "endpoint_url", "stream_id"])
async def test_half_a_pair_is_no_text(listening: ListeningApplication, field: str) -> None:
    """JSON can write it, and UTF-8 cannot."""
    async with receiving(answering(202)) as receiver:
        stream = (await listening.listening(receiver))["stream_id"]
        named = f'"stream_id": "{stream}"'
        pushed = f'"delivery": {{"method": "{PUSH}", "endpoint_url": "http://127.0.0.1:8443/", "authorization_header": "a"}}'
        texts = {
            "description": ("PATCH", STREAMS, f'{{{named}, "description": "\\ud800"}}'),
            "state": ("POST", VERIFY, f'{{{named}, "state": "\\udfff\\ud800"}}'),
            "reason": ("POST", STATUS, f'{{{named}, "status": "paused", "reason": "\\ud800"}}'),
            "authorization_header": ("POST", STREAMS, f"{{{pushed}}}".replace('"a"', '"\\ud800"')),
            "status": ("POST", STATUS, f'{{{named}, "status": "\\ud800"}}'),
            "endpoint_url": ("POST", STREAMS, f"{{{pushed}}}".replace("8443/", "8443/\\ud800")),
            "stream_id": ("POST", VERIFY, '{"stream_id": "\\ud800"}'),
        }
        method, path, body = texts[field]
        headers = [("content-type", "application/json")]
        answer = await listening.client.request(method, path, body=body.encode(), headers=headers, token=await listening.own_token())
    assert answer.status == 400, answer.body


ODD: Final = ["\0", "a\0b", "\u202e", "a\nb", "\N{GRINNING FACE}" * 300, '"}}', "\uffff", "'; drop table x --"]


@pytest.mark.parametrize("text", ODD, ids=ascii)
async def test_odd_texts_are_kept_or_refused(listening: ListeningApplication, text: str) -> None:
    """A reason and a state, which come back: no answer is an error of ours, and what is sent is a signal that a receiver can read."""
    async with receiving(answering(202)) as receiver, listening.dispatching():
        stream = (await listening.listening(receiver))["stream_id"]
        paused = await listening.call("POST", STATUS, {"stream_id": stream, "status": "enabled", "reason": text})
        assert paused.status in {200, 400}, paused.body
        assert (await listening.call("GET", f"{STATUS}?stream_id={stream}")).status == 200
        verified = await listening.call("POST", VERIFY, {"stream_id": stream, "state": text})
        assert verified.status in {204, 400}, verified.body
        if verified.status == 204:
            (claims,) = await listening.heard(receiver)
            (facts,) = claims["events"].values()
            assert facts["state"] == text

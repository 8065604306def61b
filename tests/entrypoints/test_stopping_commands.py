"""`postern hook list` and `postern signals pause`: what an operator does about a receiver that is slow, without SQL."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trio

from core.domain.federation.signals import HELD_REASON
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.e2e.postern import command
from tests.http.client import Client
from tests.http.conftest import client, database_url, people, postern
from tests.http.federation.signals.scene import SETTINGS, STATUS, STREAMS, Signalling, delivery
from tests.http.people import People
from tests.receiver import answering, receiving
from tests.security.hooks.hooked import GO_ON, Hooks

__all__ = ["client", "database_url", "people", "postern"]  # fixtures

KEY = "test:a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
Operator = Callable[..., Awaitable[str]]


@pytest.fixture
def operator(database_url: str, tmp_path: Path) -> Operator:
    async def run(*words: str, fails: int = 0) -> str:
        def done() -> tuple[int, str]:
            settings = {"POSTERN_DATABASE_URL": database_url, "POSTERN_ENCRYPTION_KEYS": KEY, "POSTERN_MAIL": "console"}
            ended = command(tmp_path, *words, **settings)
            return ended.returncode, ended.stderr if fails else ended.stdout

        status, told = await trio.to_thread.run_sync(done)
        assert status == fails, told
        return told

    return run


@pytest.fixture
def signalling(postern: Postern, people: People, client: Client, log: CapturedLog) -> Signalling:
    return Signalling(postern, people, client, log)


def answered(people: People, hook: Any, *milliseconds: int, outcome: str = "go_on", is_test: bool = False) -> None:
    for one in milliseconds:
        people.change(
            "insert into hook_exchanges (id, hook_id, at, milliseconds, outcome, why, counted, is_test, sent, answered)"
            " values (%s, %s, now(), %s, %s, '', true, %s, '', '')",
            uuid4(),
            hook,
            one,
            outcome,
            is_test,
        )


async def test_hooks_are_listed_with_the_slowest_first(signalling: Signalling, people: People, operator: Operator) -> None:
    assert await operator("hook", "list") == "No sign-in hooks.\n"
    hooks = Hooks(signalling.postern)
    async with (
        hooks.of(signalling.acme, GO_ON, counts=False) as acme,
        hooks.of(signalling.globex, GO_ON, silence="go_on") as globex,
        hooks.of(None, GO_ON),
    ):
        answered(people, acme.hook.id, 100, 200, 300)
        answered(people, acme.hook.id, 5_000, is_test=True)
        answered(people, globex.hook.id, *range(100, 1_100, 100))
        answered(people, globex.hook.id, 4_000, 4_000, outcome="silent")
        lines = (await operator("hook", "list")).splitlines()
        assert [line.partition("; last called")[0] for line in lines] == [
            "globex  sign_in, enforced: median 600 ms, p90 4000 ms of 1 s, 2 of 12 without a response (go_on)",
            "acme  sign_in, report-only: median 200 ms, p90 300 ms of 1 s, 0 of 3 without a response (refuse)",
            "(installation)  sign_in, enforced: not called within the last week",
        ]
        listed = json.loads(await operator("hook", "list", "--json"))["items"]
        assert [one["organization"] for one in listed] == ["globex", "acme", None]
        told = {name: listed[0][name] for name in ("enforced", "median", "p90", "questions", "silent")}
        assert told == {"enforced": True, "median": 600, "p90": 4000, "questions": 12, "silent": 2}


async def test_an_operator_pauses_the_signals_of_an_organization(signalling: Signalling, operator: Operator) -> None:
    async with receiving(answering(202)) as receiver:
        stream = await signalling.listening(receiver)
        rested = await signalling.stream(receiver)
        await signalling.call("POST", STATUS, {"stream_id": rested["stream_id"], "status": "paused", "reason": "Maintenance"})
        of_acme = ("--organization", "acme")
        assert await operator("signals", "pause", *of_acme) == (
            "1 stream is paused: events for them are kept for 7 days, and only `postern signals resume` ends the pause.\n"
        )
        assert json.loads(await operator("signals", "pause", *of_acme, "--service", "shop", "--json"))["streams"] == []
        # The owner sees it, and why.
        shown = (await signalling.request("GET", SETTINGS.format("shop"), by=signalling.owner)).ok()["streams"]
        assert {(one["status"], one["reason"]) for one in shown} == {("paused", HELD_REASON), ("paused", "Maintenance")}
        (entry,) = [one for one in signalling.audited("signal_stream.updated") if one["target_id"] == stream["stream_id"]]
        assert (entry["details"]["old_status"], entry["details"]["new_status"]) == ("enabled", "paused")
        assert entry["actor_id"] is None
        # Nothing is sent, and it waits.
        async with signalling.dispatching():
            await signalling.leaves()
            assert signalling.waiting() == 2
            assert receiver.calls == []
            # The application cannot go on: not by its status, nor by another stream in its place.
            for status in ("enabled", "disabled"):
                answer = await signalling.call("POST", STATUS, {"stream_id": stream["stream_id"], "status": status})
                assert answer.status == 403, status
            assert (await signalling.call("DELETE", f"{STREAMS}?stream_id={stream['stream_id']}")).status == 403
            assert (await signalling.call("POST", STREAMS, {"delivery": delivery(receiver.port)})).status == 403
            assert json.loads(await operator("signals", "resume", *of_acme, "--json"))["streams"] == [stream["stream_id"]]
            signalling.postern.foundation.doorbell.ring("signals")
            await receiver.until(1)
        standing = (await signalling.call("GET", f"{STATUS}?stream_id={rested['stream_id']}")).ok()
        assert (standing["status"], standing["reason"]) == ("paused", "Maintenance")


async def test_no_application_says_that_an_operator_has_paused_it(signalling: Signalling) -> None:
    stream = await signalling.polled()
    answer = await signalling.call("POST", STATUS, {"stream_id": stream, "status": "paused", "reason": HELD_REASON})
    assert answer.status == 400


async def test_a_pause_is_of_one_organization_and_of_one_application(signalling: Signalling, operator: Operator) -> None:
    stream = await signalling.polled()
    stranger = signalling.resident(signalling.globex, "owner")
    path = "/api/organizations/globex/services/shop/signals"
    (await signalling.request("PUT", path, {"events": ["session-revoked"]}, by=stranger)).ok()
    theirs = await signalling.polled(by=signalling.theirs)
    assert "no such service" in await operator("signals", "pause", "--organization", "globex", "--service", "none", fails=1)
    assert json.loads(await operator("signals", "pause", "--organization", "globex", "--json"))["streams"] == [theirs]
    assert json.loads(await operator("signals", "resume", "--organization", "acme", "--json"))["streams"] == []
    rows = signalling.people.rows("select id::text, status from signal_streams")
    assert {row["id"]: row["status"] for row in rows} == {stream: "enabled", theirs: "paused"}

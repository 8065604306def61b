"""Answers and refusals: their status, their body, their headers, and details that only the log gets."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from core.domain import errors as domain_errors
from core.domain.errors import Refusal
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.machinery import errors
from entrypoints.http.machinery.errors import STATUS
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.conftest import SETTINGS

Examples = Callable[..., Client]


async def test_nothing_is_an_empty_object_and_no_body_is_none(examples: Examples) -> None:
    empty = await examples().post("/nothing")
    assert (empty.status, empty.body, empty.header("content-length")) == (200, b"{}", "2")
    deleted = await examples().request("DELETE", "/nothing")
    assert (deleted.status, deleted.body) == (204, b"")
    assert deleted.header("content-length") is None
    assert deleted.header("content-type") is None


async def test_an_answer_says_how_it_may_be_kept(examples: Examples) -> None:
    kept = await examples().get("/kept")
    assert (kept.body, kept.header("content-type"), kept.header("cache-control")) == (b"kept", "text/plain", "public, max-age=60")
    assert (await examples().post("/nothing")).header("cache-control") == "no-store"


async def test_every_failure_has_the_one_body_with_a_time(examples: Examples) -> None:
    answer = await examples().get("/troubles/conflict")
    assert (answer.status, answer.error_code, answer.json()["error"]) == (409, "CONFLICT", "The slug is taken")
    told = datetime.fromisoformat(answer.json()["timestamp"])
    assert abs(datetime.now(UTC) - told) < timedelta(minutes=1)
    assert answer.header("cache-control") == "no-store"
    assert answer.header("x-content-type-options") == "nosniff"


@pytest.mark.parametrize(
    ("kind", "status", "code", "retry_after"),
    [
        ("inactive", 403, "ORGANIZATION_NOT_ACTIVE", None),
        ("limited", 429, "RATE_LIMIT_EXCEEDED", "60"),
        ("overloaded", 503, "SERVICE_UNAVAILABLE", "1"),
        ("unavailable", 503, "SERVICE_UNAVAILABLE", "3"),
        ("group", 404, "NOT_FOUND", None),
    ],
)
async def test_a_refusal_has_its_status_and_says_when_to_come_back(
    examples: Examples, kind: str, status: int, code: str, retry_after: str | None
) -> None:
    answer = await examples().get(f"/troubles/{kind}")
    assert (answer.status, answer.error_code, answer.header("retry-after")) == (status, code, retry_after)
    assert b"private" not in answer.body


@pytest.mark.parametrize(
    ("kind", "code"), [("bug", "INTERNAL_SERVER_ERROR"), ("mixed", "INTERNAL_SERVER_ERROR"), ("database", "DATABASE_ERROR")]
)
async def test_a_fault_is_logged_with_its_stack_and_never_shown(examples: Examples, log: CapturedLog, kind: str, code: str) -> None:
    log.allow("request_failed")
    answer = await examples().get(f"/troubles/{kind}")
    assert (answer.status, answer.error_code) == (500, code)
    assert b"private" not in answer.body
    (entry,) = log.events("request_failed")
    assert entry["exc_info"].__traceback__ is not None
    assert entry["request_id"] == answer.header("x-request-id")


async def test_an_outage_is_logged_for_each_request_but_its_stack_not_more_than_once_a_second(
    examples: Examples, log: CapturedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors._outage_stacks, "_next", 0.0)
    # A test clock, because a busy machine may take longer than a second.
    moments = iter([5000.0, 5000.1, 5000.5, 5000.9, 5001.1])
    monkeypatch.setattr(errors, "monotonic", lambda: next(moments))
    for _ in range(5):
        await examples().get("/troubles/unavailable")
    told = log.events("request_unavailable")
    assert {entry["detail"] for entry in told} == {"private: connection refused"}
    assert [entry["exc_info"] is not None for entry in told] == [True, False, False, False, True]


async def test_a_deadline_missed_inside_is_a_fault_of_ours(examples: Examples, log: CapturedLog, autojump_clock: MockClock) -> None:
    started = autojump_clock.current_time()
    log.allow("request_failed")
    assert (await examples().get("/slow/too-slow")).status == 500
    assert autojump_clock.current_time() - started == pytest.approx(1)


@pytest.mark.parametrize("kind", ["simple", "nested"])
async def test_a_request_that_takes_too_long_is_given_up_with_503(examples: Examples, autojump_clock: MockClock, kind: str) -> None:
    started = autojump_clock.current_time()
    answer = await examples(request_deadline=7).get(f"/slow/{kind}")
    assert (answer.status, answer.error_code, answer.header("retry-after")) == (503, "SERVICE_UNAVAILABLE", "1")
    assert autojump_clock.current_time() - started == pytest.approx(7)


async def test_a_body_that_does_not_come_is_408(examples: Examples, autojump_clock: MockClock) -> None:
    started = autojump_clock.current_time()
    answer = await examples(request_deadline=7).exchange("POST", "/orders", [("content-type", "application/json")], [b"{", None])
    assert (answer.status, answer.error_code) == (408, "REQUEST_TIMEOUT")
    assert autojump_clock.current_time() - started == pytest.approx(7)


async def test_the_end_of_the_process_is_not_swallowed_and_counts_as_an_answer(lonely_postern: Postern, examples: Examples) -> None:
    client = examples()
    with trio.move_on_after(0.05) as scope:
        await client.get("/slow/simple")
    assert scope.cancelled_caught
    page = lonely_postern.foundation.metrics.render().decode()
    assert "sso_http_requests_in_flight 0.0" in page
    assert 'sso_http_request_duration_seconds_count{method="GET",route="/slow/{kind}",status_class="4xx"} 1.0' in page


async def test_a_client_that_leaves_in_the_middle_of_its_body_gets_no_answer(examples: Examples, log: CapturedLog) -> None:
    client = examples()
    await client.leave("POST", "/orders", [("content-type", "application/json")], [b'{"email'])
    (entry,) = log.events("request")
    assert entry["status"] == 499


async def test_beyond_the_most_requests_at_once_the_answer_is_503(examples: Examples) -> None:
    client = examples(most_requests=2)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(client.get, "/slow/simple")
        await trio.testing.wait_all_tasks_blocked()
        answer = await client.post("/nothing")
        assert (answer.status, answer.header("retry-after")) == (503, "1")
        nursery.cancel_scope.cancel()
    assert (await client.post("/nothing")).status == 200


async def test_with_its_hands_full_the_process_still_answers_probes(lonely_postern: Postern) -> None:
    client = Client(build_application(lonely_postern, replace(SETTINGS, most_requests=0)))
    assert (await client.get("/metrics")).status == 200
    assert (await client.get("/.well-known/jwks.json")).status == 503


async def test_asking_for_a_caller_where_there_is_none_is_a_fault(examples: Examples, log: CapturedLog) -> None:
    log.allow("request_failed")
    assert (await examples().get("/caller")).status == 500


async def test_an_unknown_path_is_404(lonely_client: Client) -> None:
    for target in ("/nothing-here", "/api/user/", "//health", "/health//live", "/docs/keys/nothing", "/docs//", "/%00", "/\xff", "*"):
        answer = await lonely_client.get(target)
        assert (answer.status, answer.error_code) == (404, "NOT_FOUND"), target


@pytest.mark.parametrize("target", ["/health", "/api/user/mfa/status", "/docs", "/openapi.json"])
@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH", "TRACE", "BREW"])
async def test_a_wrong_method_is_405_and_says_which_are_right(lonely_client: Client, target: str, method: str) -> None:
    answer = await lonely_client.request(method, target)
    assert (answer.status, answer.error_code) == (405, "METHOD_NOT_ALLOWED")
    assert answer.header("allow") == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize("target", ["/health", "/docs", "/openapi.json", "/nothing-here", "/metrics"])
async def test_head_is_get_without_the_body(lonely_client: Client, target: str) -> None:
    get, head = await lonely_client.get(target), await lonely_client.request("HEAD", target)
    assert (head.status, head.body) == (get.status, b"")

    def told(headers: Any) -> dict[str, str]:
        changing = {"x-request-id", "content-security-policy", "content-length"}
        return {name: value for name, value in headers if name not in changing}

    assert told(head.headers) == told(get.headers)
    assert head.header("content-length") is not None


@pytest.mark.parametrize("target", ["/health", "/docs", "/api/user/mfa/status"])
async def test_options_says_what_a_path_takes(lonely_client: Client, target: str) -> None:
    answer = await lonely_client.request("OPTIONS", target)
    assert (answer.status, answer.body, answer.header("allow")) == (204, b"", "GET, HEAD, OPTIONS")
    assert answer.header("access-control-allow-origin") is None
    assert (await lonely_client.request("OPTIONS", "/nothing-here")).status == 404


async def test_the_absolute_form_of_a_target_is_its_path(lonely_client: Client) -> None:
    assert (await lonely_client.get("http://elsewhere.example/health")).status == 200
    front_door = await lonely_client.get("http://elsewhere.example")
    assert (front_door.status, front_door.header("location")) == (302, "/docs")
    assert (await lonely_client.get("/%68ealth")).status == 200


def test_every_refusal_has_a_status_and_no_code_is_for_two_statuses() -> None:
    refusals = [one for module in (domain_errors, errors) for one in vars(module).values() if isinstance(one, type)]
    coded = [one for one in refusals if issubclass(one, Refusal) and hasattr(one, "code")]
    assert coded
    for refusal in coded:
        assert refusal.code in STATUS, refusal
        assert re.fullmatch(r"[A-Z][A-Z_]+", refusal.code)
        assert refusal.text

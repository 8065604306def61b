"""Every answer has security headers and the request's id, and every request leaves a log line."""

import logging
from collections.abc import Callable

import pytest
import structlog

from core.domain.causes import given_tail
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.conftest import SETTINGS
from tests.http.people import People

Examples = Callable[..., Client]


@pytest.mark.parametrize("target", ["/health", "/health/live", "/api/user", "/nothing-here", "/docs", "/openapi.json", "/", "/metrics"])
async def test_every_answer_carries_the_security_headers(lonely_client: Client, target: str) -> None:
    answer = await lonely_client.get(target)
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("referrer-policy") == "no-referrer"
    assert answer.header("cross-origin-opener-policy") == "same-origin"
    assert "camera=()" in (answer.header("permissions-policy") or "")
    assert answer.header("strict-transport-security") == "max-age=31536000"
    assert answer.header("x-request-id")
    assert answer.header("cache-control")
    assert "frame-ancestors 'none'" in (answer.header("content-security-policy") or "")


async def test_strict_transport_is_asked_for_only_where_there_is_any(examples: Examples) -> None:
    assert (await examples(base_url="http://127.0.0.1:8000").get("/orders")).header("strict-transport-security") is None


@pytest.mark.parametrize("given", ["a", "A-b_c.9", "x" * 128])
async def test_a_request_id_is_taken_over(examples: Examples, given: str) -> None:
    assert (await examples().get("/orders", headers=[("x-request-id", given)])).header("x-request-id") == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a\nb", "a;b", "é", "a, b"])
async def test_an_odd_request_id_is_replaced(examples: Examples, given: str) -> None:
    made = (await examples().get("/orders", headers=[("x-request-id", given)])).header("x-request-id")
    assert made
    assert made != given
    assert len(made) == 36


async def test_a_request_id_sent_twice_is_replaced(examples: Examples) -> None:
    headers = [("x-request-id", "a"), ("x-request-id", "b")]
    assert len((await examples().get("/orders", headers=headers)).header("x-request-id") or "") == 36


async def test_each_request_leaves_one_line_with_its_route_and_caller(client: Client, people: People, log: CapturedLog) -> None:
    person = people.add()
    answer = await client.get("/api/user", token=await people.token(person), headers=[("x-request-id", "trace-7")])
    (entry,) = log.events("request")
    assert entry["level"] == "info"
    assert entry["given_request_id"] == "trace-7"
    assert entry["request_id"].endswith(given_tail("trace-7")), "the id that the rows have"
    assert {name: entry[name] for name in ("method", "route", "status", "bytes", "client", "user", "db_round_trips")} == {
        "method": "GET",
        "route": "/api/user",
        "status": 200,
        "bytes": len(answer.body),
        "client": "192.0.2.1",
        "user": str(person.user),
        "db_round_trips": 1,
    }
    assert entry["duration_ms"] > 0


async def test_what_is_logged_of_a_request_is_its_template_not_its_text(examples: Examples, log: CapturedLog) -> None:
    client = examples()
    await client.get("/troubles/conflict?token=verysecret")
    await client.get("/verysecret")
    await client.request("BREW", "/orders?verysecret")
    log.remember("verysecret")
    assert [entry["route"] for entry in log.events("request")] == ["/troubles/{kind}", "unmatched", "/orders"]


async def test_every_line_of_a_request_carries_its_id_and_the_next_ones_do_not(examples: Examples, log: CapturedLog) -> None:
    await examples().get("/troubles/conflict", headers=[("x-request-id", "trace-8")])
    structlog.get_logger().info("afterwards")
    (refused,) = log.events("request_refused")
    assert refused["detail"] == "private: slug of acme"
    assert refused["request_id"] == log.events("request")[0]["request_id"]
    assert refused["request_id"].endswith(given_tail("trace-8"))
    assert "request_id" not in log.events("afterwards")[0]


async def test_probes_and_scrapes_are_logged_at_debug(lonely_client: Client, log: CapturedLog) -> None:
    for target in ("/health", "/health/live", "/health/ready", "/metrics"):
        await lonely_client.get(target)
    assert {entry["level"] for entry in log.events("request")} == {"debug"}


async def test_pages_leave_their_line_too(lonely_client: Client, log: CapturedLog) -> None:
    answer = await lonely_client.get("/docs")
    (entry,) = log.events("request")
    assert (entry["route"], entry["status"], entry["bytes"]) == ("/docs", 200, len(answer.body))


async def test_a_line_that_would_be_filtered_out_is_not_written(lonely_postern: Postern, log: CapturedLog) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    await Client(build_application(lonely_postern, SETTINGS)).get("/openapi.json")
    assert not log.events("request")

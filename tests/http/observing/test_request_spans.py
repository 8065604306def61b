"""Requests as a collector sees them: a tree of spans, with nothing in it that belongs to a person."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest
import trio

from core.domain.causes import given_tail
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.observing.tracing import PROXY, STRANGER, Traced, tracing
from tests.http.signing_in import LOGIN, PASSWORD, Browser
from tests.patience import PATIENCE

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
BELIEVING = {"POSTERN_TRACES_FROM_PROXIES": "on"}


@pytest.fixture
async def traced(database_url: str, tmp_path: Path) -> AsyncIterator[Traced]:
    async with tracing(database_url, tmp_path) as scene:
        yield scene


async def test_a_sign_in_is_a_tree_of_spans(traced: Traced) -> None:
    person = await traced.people.with_password(PASSWORD)
    answer = await Browser(traced.client()).login(person)
    assert answer.status == 200
    collector = await traced.collector.until(f"POST {LOGIN}")
    request = collector.named(f"POST {LOGIN}")
    request_id = answer.header("x-request-id")
    assert (request.kind, request.parent, request.failed) == (2, "", False)
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": LOGIN,
        "http.response.status_code": 200,
        "postern.request_id": request_id,
    }
    # The request's id leads to its trace.
    assert request.trace == UUID(request_id).hex
    (use_case,) = collector.children(request)
    assert (use_case.name, use_case.kind) == ("SignIn.with_password", 1)
    below = {span.name: span for span in collector.children(use_case)}
    assert below["hash password"].attributes["postern.hash.wait_us"] >= 0  # type: ignore[operator]
    statements = [span for span in below.values() if span.attributes.get("db.system.name") == "postgresql"]
    assert {"COMMIT", "INSERT sessions"} <= {span.name for span in statements}
    assert all(span.kind == 3 and span.attributes["db.query.summary"] == span.name for span in statements)
    for span in below.values():
        assert request.began <= span.began <= span.ended <= request.ended


async def test_statements_that_leave_together_share_their_times(traced: Traced) -> None:
    person = await traced.people.with_password(PASSWORD)
    assert (await Browser(traced.client()).login(person)).status == 200
    collector = await traced.collector.until(f"POST {LOGIN}")
    commit = collector.named("COMMIT")
    together = [span.name for span in collector.spans if (span.began, span.parent) == (commit.began, commit.parent)]
    assert len(together) > 2


async def test_nothing_of_a_person_and_no_secret_is_exported(traced: Traced) -> None:
    """The walk says secrets and personal data wherever a request can hold them."""
    person = await traced.people.with_password(PASSWORD, "ada.lovelace@example.org")
    browser = Browser(traced.client(), agent="Lovelace's own browser")
    tokens = await browser.tokens(person)
    client = traced.client()
    secret = "s3cr3t-in-a-link"
    assert (await client.get("/api/user", token=tokens["access_token"])).status == 200
    assert (await client.get(f"/api/user?email=ada.lovelace@example.org&token={secret}", token=tokens["access_token"])).status in {200, 400}
    assert (await client.get(f"/ui/setup/{secret}")).status >= 400
    assert (await client.get(f"/no/such/{secret}/ada.lovelace")).status == 404
    assert (await client.request("LOVELACE", "/api/user")).status == 405
    assert (await browser.login(person, "a wrong password")).status == 401
    assert (await browser.refresh(tokens["refresh_token"])).status == 200
    await client.get("/api/user", token=tokens["access_token"], headers=[("x-request-id", "the-last")])
    await traced.collector.until(f"POST {LOGIN}", "GET /api/user", "GET /ui/setup/{token}", "GET", "POST /api/auth/refresh")
    with trio.fail_after(PATIENCE):
        while given_tail("the-last") not in traced.collector.text():
            await _a_moment()
    text = traced.collector.text().lower()
    hidden = [
        *("lovelace", "example.org", secret, PASSWORD, "a wrong password", STRANGER, str(person.user), str(person.session)),
        *(str(value) for name, value in tokens.items() if name.endswith("_token")),
        *browser.cookies.values(),
    ]
    assert [one for one in hidden if one.lower() in text] == []


async def _a_moment() -> None:
    await trio.sleep(0.02)


async def test_a_client_that_names_the_request_does_not_name_the_trace(traced: Traced) -> None:
    await traced.client().get("/api/user", headers=[("x-request-id", TRACE)])
    request = (await traced.collector.until("GET /api/user")).named("GET /api/user")
    named = str(request.attributes["postern.request_id"])
    assert named.endswith(given_tail(TRACE))
    assert request.trace not in {TRACE, UUID(named).hex}


async def test_a_server_error_is_a_failure_and_a_refusal_is_none(traced: Traced, log: CapturedLog) -> None:
    log.allow("request_failed", "internal_error")
    assert (await traced.client().get("/api/user")).status == 401
    request = (await traced.collector.until("GET /api/user")).named("GET /api/user")
    assert not request.failed
    token = await traced.people.token(traced.people.add())
    await traced.postern.foundation.pool.aclose()
    assert (await traced.client().get("/api/organizations", token=token)).status == 503
    failed = (await traced.collector.until("GET /api/organizations")).named("GET /api/organizations")
    assert (failed.failed, failed.attributes["error.type"], failed.attributes["http.response.status_code"]) == (True, "503", 503)


async def test_probes_are_not_exported(traced: Traced) -> None:
    assert (await traced.client().get("/health/live")).status == 200
    await traced.client().get("/api/user")
    collector = await traced.collector.until("GET /api/user")
    assert [span.name for span in collector.spans if span.kind == 2] == ["GET /api/user"]


async def said(client: Client, traceparent: str) -> None:
    assert (await client.get("/api/user", headers=[("traceparent", traceparent)])).status == 401


async def test_a_trusted_proxys_trace_goes_on_and_its_decision_counts(database_url: str, tmp_path: Path) -> None:
    async with tracing(database_url, tmp_path, {**BELIEVING, "POSTERN_TRACES_SAMPLE": "0"}) as scene:
        for ignored in (UNSAMPLED, "nonsense"):
            await said(scene.client(PROXY), ignored)
        await said(scene.client(STRANGER), SAMPLED)
        await said(scene.client(PROXY), SAMPLED)
        await scene.collector.until("GET /api/user")
        (request,) = [span for span in scene.collector.spans if span.kind == 2]
    assert (request.trace, request.parent) == (TRACE, SPAN)


@pytest.mark.parametrize(("address", "more"), [(STRANGER, BELIEVING), (PROXY, {}), (STRANGER, {})])
async def test_nobody_else_joins_a_trace_or_decides_about_one(
    address: str, more: dict[str, str], database_url: str, tmp_path: Path
) -> None:
    async with tracing(database_url, tmp_path, more) as scene:
        # The header neither puts the request into a trace, nor keeps it from being traced.
        await said(scene.client(address), UNSAMPLED)
        await scene.collector.until("GET /api/user")
        request = scene.collector.named("GET /api/user")
    assert (request.trace == TRACE, request.parent) == (False, "")


async def test_without_a_collector_there_is_nothing_to_trace(postern: Postern, client: Client) -> None:
    assert postern.foundation.tracing is None
    assert type(postern.identity.flows).__module__.startswith("core.usecases")
    assert client.application.dispatcher._spans is None
    assert "span_recorder" not in {actor.name for actor in postern.actors}
    assert (await client.get("/api/user", headers=[("traceparent", SAMPLED)])).status == 401

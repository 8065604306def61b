"""Asking the maker of a widget: what it is told, how long it has, and what is no verdict."""

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import parse_qs

import pytest

from adapters.widgets import VerifyingMaker, widget_presets
from core.domain.identity.guards.puzzles import WidgetVerdict
from core.domain.outbound import OutboundDestination
from core.domain.secrets import Secret
from ports.identity.sign_in import WidgetSilent
from ports.outbound import NO_HEADERS, Failure, OutboundAnswer, OutboundFailed, OutboundRequest
from tests.conftest import CapturedLog


class AskedMaker:
    """The guarded client, and the maker behind it."""

    def __init__(self, body: str = "", status: int = 200, failure: Failure | None = None) -> None:
        self._answer = OutboundAnswer(status, {}, body.encode())
        self._failure = failure
        self.asked: list[tuple[OutboundRequest, timedelta]] = []

    def may_call(self, destination: OutboundDestination) -> bool:
        raise NotImplementedError

    async def get(
        self, destination: OutboundDestination, timeout: timedelta, *, most: int, headers: Mapping[str, str] = NO_HEADERS
    ) -> OutboundAnswer:
        raise NotImplementedError

    async def send(self, method: str, request: OutboundRequest, timeout: timedelta, *, most: int) -> OutboundAnswer:
        raise NotImplementedError

    async def post(self, request: OutboundRequest, timeout: timedelta) -> OutboundAnswer:
        self.asked.append((request, timeout))
        if self._failure is not None:
            raise OutboundFailed(self._failure)
        return self._answer


def of(maker: AskedMaker, name: str = "turnstile") -> VerifyingMaker:
    return VerifyingMaker(maker, widget_presets()[name], "the key", Secret("the secret"))


async def test_the_maker_has_three_seconds_and_learns_the_secret_and_the_answer() -> None:
    maker = AskedMaker('{"success": true, "hostname": "id.example.org", "action": "link", "cdata": "b"}')
    assert await of(maker).verify("an answer") == WidgetVerdict(solved=True, site="id.example.org", action="link", bound="b")
    ((request, patience),) = maker.asked
    assert patience == timedelta(seconds=3)
    assert (request.destination.host, request.destination.target) == ("challenges.cloudflare.com", "/turnstile/v0/siteverify")
    assert parse_qs(request.body.decode()) == {"secret": ["the secret"], "response": ["an answer"]}


async def test_a_maker_that_names_no_action_says_none() -> None:
    maker = AskedMaker('{"success": true, "hostname": "id.example.org", "action": "link", "cdata": "b"}')
    assert await of(maker, "hcaptcha").verify("an answer") == WidgetVerdict(solved=True, site="id.example.org")
    assert parse_qs(maker.asked[0][0].body.decode())["sitekey"] == ["the key"]


async def test_a_refusal_is_a_verdict_whatever_its_status() -> None:
    for status in (200, 400, 403):
        body = '{"success": false, "error-codes": ["invalid-input-response"], "hostname": 7}'
        assert not (await of(AskedMaker(body, status)).verify("an answer")).solved


@pytest.mark.parametrize("failure", Failure)
async def test_a_maker_that_cannot_be_asked_is_silent(failure: Failure, log: CapturedLog) -> None:
    with pytest.raises(WidgetSilent, match=failure.value):
        await of(AskedMaker(failure=failure)).verify("an answer")
    assert log.events("widget_silent")[0]["reason"] == failure.value


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ('{"success": true}', 503, "status 503"),
        ('{"success": true}', 302, "status 302"),
        ("", 200, "status 200 and no verdict"),
        ("[]", 200, "no verdict"),
        ("{}", 404, "status 404 and no verdict"),
        ('{"success": 1}', 200, "no verdict"),
        ('{"success": true, "filling": "' + "x" * 9000 + '"}', 200, "no verdict"),
        ('{"success": false, "error-codes": ["invalid-input-secret"]}', 200, "invalid-input-secret"),
        ('{"success": false, "error-codes": ["internal-error"]}', 200, "internal-error"),
    ],
)
async def test_what_is_no_verdict_is_silence(body: str, status: int, reason: str) -> None:
    with pytest.raises(WidgetSilent, match=reason):
        await of(AskedMaker(body, status)).verify("an answer")


async def test_errors_that_are_no_list_say_nothing() -> None:
    assert not (await of(AskedMaker('{"success": false, "error-codes": "invalid-input-secret"}')).verify("an answer")).solved

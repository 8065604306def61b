"""The range service: it learns five digits, and its silence counts as "not known"."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from adapters.crypto.known_passwords.ranges import PasswordRanges
from core.domain.outbound import NotADestination, OutboundDestination
from core.domain.secrets import Password
from ports.outbound import NO_HEADERS, Failure, OutboundAnswer, OutboundFailed, OutboundRequest
from tests.conftest import CapturedLog

PASSWORD = Password("password")
# SHA-1 of "password".
FIRST, REST = "5BAA6", "1E4C9B93F3F0682250B6CF8331B7EE68FD8"


class Service:
    """The guarded client, and the service behind it."""

    def __init__(self, body: str = "", status: int = 200, failure: Failure | None = None) -> None:
        self._answer = OutboundAnswer(status, {}, body.encode())
        self._failure = failure
        self.asked: list[tuple[OutboundDestination, timedelta, Mapping[str, str]]] = []

    def may_call(self, destination: OutboundDestination) -> bool:
        raise NotImplementedError

    async def post(self, request: OutboundRequest, timeout: timedelta) -> OutboundAnswer:
        raise NotImplementedError

    async def send(self, method: str, request: OutboundRequest, timeout: timedelta, *, most: int) -> OutboundAnswer:
        raise NotImplementedError

    async def get(
        self,
        destination: OutboundDestination,
        timeout: timedelta,
        *,
        most: int,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> OutboundAnswer:
        assert most == 1 << 18
        self.asked.append((destination, timeout, headers))
        if self._failure is not None:
            raise OutboundFailed(self._failure)
        return self._answer


@pytest.mark.parametrize(
    ("body", "known"),
    [
        (f"0018A45C4D1DEF81644B54AB7F969B88D65:1\r\n{REST}:9545824\r\n", True),
        (f"{REST.lower()}:1", True),
        (REST, True),
        (f"{REST}:0\r\n", False),
        (f"0{REST[1:]}:3\r\n", False),
        ("", False),
        ("<html>", False),
    ],
)
async def test_the_answer_is_searched_and_padding_counts_nothing(body: str, known: bool) -> None:
    service = Service(body)
    assert await PasswordRanges(service, "https://ranges.example.org/range").contains(PASSWORD) is known
    ((destination, patience, headers),) = service.asked
    assert (destination.host, destination.target) == ("ranges.example.org", f"/range/{FIRST}")
    assert (patience, headers) == (timedelta(milliseconds=500), {"add-padding": "true"})


@pytest.mark.parametrize("failure", Failure)
async def test_silence_is_no_answer(failure: Failure, log: CapturedLog) -> None:
    assert not await PasswordRanges(Service(failure=failure), "https://ranges.example.org").contains(PASSWORD)
    assert log.events("password_ranges_silent")[0]["reason"] == failure.value


async def test_an_error_is_no_answer(log: CapturedLog) -> None:
    assert not await PasswordRanges(Service(f"{REST}:1", status=503), "https://ranges.example.org").contains(PASSWORD)
    assert log.events("password_ranges_silent")[0]["reason"] == "status 503"


async def test_what_is_no_text_is_asked_about_as_well() -> None:
    assert not await PasswordRanges(Service(), "https://ranges.example.org").contains(Password("\ud800"))


async def test_the_digits_are_the_last_part_of_the_path() -> None:
    """Otherwise the service answers with an error for ever, which counts as "not known"."""
    service = Service(f"{REST}:1")
    assert await PasswordRanges(service, "https://ranges.example.org/range/").contains(PASSWORD)
    assert service.asked[0][0].target == f"/range/{FIRST}"


@pytest.mark.parametrize("address", ["https://user@ranges.example.org", "https://ranges.example.org/range?mode=ntlm"])
def test_the_address_is_one(address: str) -> None:
    with pytest.raises(NotADestination):
        PasswordRanges(Service(), address)

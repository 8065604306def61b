"""URLs of destinations: one reading, or none."""

from ipaddress import ip_address

import pytest

from core.domain.outbound import LONGEST_URL, NotADestination, OutboundDestination, destination
from tests.hostile_addresses import HOSTILE_URLS


@pytest.mark.parametrize(
    ("text", "read", "authority"),
    [
        (
            "https://hooks.example.com/in?a=b%20c",
            OutboundDestination("https", "hooks.example.com", 443, "/in?a=b%20c"),
            "hooks.example.com",
        ),
        ("HTTP://Hooks.Example.com:8080", OutboundDestination("http", "hooks.example.com", 8080, "/"), "hooks.example.com:8080"),
        ("https://xn--bcher-kva.example:443/", OutboundDestination("https", "xn--bcher-kva.example", 443, "/"), "xn--bcher-kva.example"),
        ("http://[2606:4700::1]:81/x", OutboundDestination("http", "2606:4700::1", 81, "/x"), "[2606:4700::1]:81"),
        ("https://receiver/", OutboundDestination("https", "receiver", 443, "/"), "receiver"),
        ("http://1.1.1.1/", OutboundDestination("http", "1.1.1.1", 80, "/"), "1.1.1.1"),
    ],
)
def test_a_url_is_read(text: str, read: OutboundDestination, authority: str) -> None:
    assert destination(text) == read
    assert read.authority == authority


@pytest.mark.parametrize("text", HOSTILE_URLS)
def test_what_could_be_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(NotADestination):
        destination(text)


@pytest.mark.parametrize("host", ["", "-a.example", "a..example", "a" * 64, ".".join(["abcdefg"] * 32), "a b", "bücher.example"])
def test_what_is_no_name_is_refused(host: str) -> None:
    with pytest.raises(NotADestination):
        destination(f"http://{host}/")


def test_an_endless_url_is_refused() -> None:
    with pytest.raises(NotADestination):
        destination(f"https://a.example/{'a' * LONGEST_URL}")


def test_an_address_is_told_from_a_name() -> None:
    assert destination("http://127.0.0.1/").address == ip_address("127.0.0.1")
    assert destination("http://[::1]/").address == ip_address("::1")
    assert destination("http://one.example/").address is None

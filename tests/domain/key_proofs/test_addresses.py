"""The address of a proof, and that of a request."""

import pytest

from core.domain.key_proofs import names_address

ORIGIN = "https://id.example.org"


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("https://id.example.org/a", "/a"),
        ("HTTPS://ID.EXAMPLE.ORG:443/a?b=c#d", "/a"),
        ("https://id.example.org", "/"),
        ("https://id.example.org/", "/"),
        ("https://id.example.org/a%c3%a4", "/aä"),
        ("https://id.example.org/%7Ea", "/~a"),
        ("https://id.example.org/a%20b", "/a b"),
    ],
)
def test_the_same_address(address: str, path: str) -> None:
    assert names_address(address, ORIGIN, path)


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("https://id.example.org/A", "/a"),
        ("https://id.example.org/a/", "/a"),
        ("https://id.example.org//a", "/a"),
        ("https://id.example.org/b/../a", "/a"),
        ("https://id.example.org/a%2Fb", "/a/b"),
        ("https://id.example.org:80/a", "/a"),
        ("https://id.example.org:0443/a", "/a"),
        ("https://id.example.org./a", "/a"),
        ("https://a@id.example.org/a", "/a"),
        ("//id.example.org/a", "/a"),
        ("https:/id.example.org/a", "/a"),
        ("https://id.example.org/a%", "/a"),
        ("https://id.example.org/ä", "/ä"),
        ("https://id.example.org/a" + "b" * 2000, "/a" + "b" * 2000),
    ],
)
def test_another_address(address: str, path: str) -> None:
    assert not names_address(address, ORIGIN, path)


def test_an_address_of_a_number_counts_in_one_form() -> None:
    assert names_address("https://[::1]:8443/a", "https://[::1]:8443", "/a")
    assert not names_address("https://[0:0::1]:8443/a", "https://[::1]:8443", "/a")
    assert names_address("http://localhost:8000/a", "http://localhost:8000", "/a")
    assert names_address("http://127.0.0.1/a", "http://127.0.0.1:80", "/a")


def test_a_host_as_containers_have_it() -> None:
    assert names_address("http://postern_1:8080/a", "http://postern_1:8080", "/a")

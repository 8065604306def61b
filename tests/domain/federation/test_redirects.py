"""Answers go to registered addresses, byte for byte. For applications on a device, any port of the device's loopback address will do."""

from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.federation.oauth.authorizations import (
    Recipient,
    ResponseMode,
    after_logout,
    destination,
    is_registered,
    proves_nothing,
    with_query,
)
from tests.domain.services.test_redirect_uris import GOOD, GOOD_ON_A_PHONE
from tests.hostile_uris import ALWAYS, FOR_THE_WEB, LOOPBACK, NEAR_LOOPBACK, NEAR_REGISTERED, REGISTERED

ISSUER = "https://id.example.org"


@pytest.mark.parametrize("uri", [*GOOD, *GOOD_ON_A_PHONE])
def test_what_is_registered_is_found(uri: str) -> None:
    assert is_registered(uri, ["https://other.example/", uri], native=False)
    assert is_registered(uri, ["https://other.example/", uri], native=True)


@pytest.mark.parametrize("uri", [*ALWAYS, *FOR_THE_WEB, *NEAR_REGISTERED])
@pytest.mark.parametrize("native", [False, True])
def test_what_is_close_to_it_is_not(uri: str, *, native: bool) -> None:
    assert not is_registered(uri, [REGISTERED, "https://other.example/"], native=native)


@pytest.mark.parametrize("port", ["", ":1", ":80", ":51004", ":65535"])
def test_an_application_on_a_device_takes_any_port_of_it(port: str) -> None:
    for host in ("127.0.0.1", "[::1]", "localhost"):
        for rest in ("", "/", "/callback", "/callback?from=postern", "?a=b"):
            uri = f"http://{host}{port}{rest}"
            for registered in (f"http://{host}{rest}", f"http://{host}:3000{rest}"):
                assert is_registered(uri, [registered], native=True)
                # An application that has no other address is on the device, whatever it says.
                assert is_registered(uri, [registered], native=False)
                # A server application that is also tried out at a port of its own has other addresses.
                assert is_registered(uri, [registered, "https://app.example/"], native=False) == (uri == registered)


@pytest.mark.parametrize("uri", [*ALWAYS, *NEAR_LOOPBACK])
def test_and_nothing_but_the_port(uri: str) -> None:
    assert not is_registered(uri, [LOOPBACK], native=True)
    assert not is_registered(uri, [LOOPBACK], native=False)
    assert not is_registered(uri, [], native=True)


@given(st.text(alphabet="0123456789:/@?#.\\a \n", max_size=12))
def test_whatever_stands_there_leads_to_the_same_machine(tail: str) -> None:
    uri = f"http://127.0.0.1{tail}"
    if is_registered(uri, [LOOPBACK], native=True):
        read = urlsplit(uri)
        assert (read.hostname, read.path, read.query, read.fragment, read.username) == ("127.0.0.1", "/callback", "", "", None)
        assert read.port is None or 0 < read.port < 65_536


@pytest.mark.parametrize(
    ("uri", "whole"),
    [
        ("https://app.example.com/callback", "https://app.example.com/callback?code=a+b%26c"),
        ("https://app.example.com", "https://app.example.com?code=a+b%26c"),
        ("https://app.example.com/callback?", "https://app.example.com/callback?code=a+b%26c"),
        ("https://app.example.com/callback?x=1", "https://app.example.com/callback?x=1&code=a+b%26c"),
        ("https://app.example.com/callback?x=1&", "https://app.example.com/callback?x=1&code=a+b%26c"),
        ("com.example.app:/callback", "com.example.app:/callback?code=a+b%26c"),
    ],
)
def test_an_answer_goes_behind_the_query_that_was_registered(uri: str, whole: str) -> None:
    assert with_query(uri, {"code": "a b&c"}) == whole
    assert with_query(uri, {}) == uri


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_the_state_comes_back_as_it_was_sent(state: str) -> None:
    answered = Recipient("https://app.example.com/callback?x=1", state=state).answered(ISSUER, {"code": "secret"})
    expected = {"x": "1", "code": "secret", "state": state, "iss": ISSUER}
    assert dict(parse_qsl(urlsplit(answered.url).query, keep_blank_values=True)) == expected
    assert answered.response_mode is ResponseMode.QUERY


def test_every_answer_names_the_issuer() -> None:
    answered = Recipient("https://app.example.com/", ResponseMode.FORM_POST).answered(ISSUER, {"error": "access_denied"})
    assert answered.fields == {"error": "access_denied", "iss": ISSUER}
    assert answered.response_mode is ResponseMode.FORM_POST


@pytest.mark.parametrize(
    ("uri", "words", "nothing"),
    [
        ("https://app.example.com/callback", "app.example.com", False),
        ("https://app.example.com:8443?x=1", "app.example.com:8443", False),
        ("http://127.0.0.1:51004/callback", "127.0.0.1:51004", True),
        ("http://[::1]/", "[::1]", True),
        ("com.example.app:/callback", "com.example.app", True),
        ("com.example.app://host:8080/callback", "com.example.app://host:8080", True),
    ],
)
def test_people_read_where_they_go_and_only_https_proves_who_is_there(uri: str, words: str, *, nothing: bool) -> None:
    assert destination(uri) == words
    assert proves_nothing(uri) == nothing


def test_after_signing_out_one_goes_where_the_service_says_and_otherwise_to_its_redirect_uris() -> None:
    assert after_logout(["https://a.example/"], ["https://b.example/"]) == ["https://a.example/"]
    assert after_logout([], ["https://b.example/"]) == ["https://b.example/"]

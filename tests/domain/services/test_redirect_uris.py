"""Redirect URIs: an address is registered exactly as given, or refused."""

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import BadRequest
from core.domain.services.clients import LONGEST_URI, redirect_uri, web_page
from tests.hostile_uris import ALWAYS, FOR_THE_WEB

GOOD = (
    "https://app.example.com",
    "https://app.example.com/",
    "https://app.example.com/callback",
    "https://App.Example.com/Callback",
    "https://app.example.com:8443/callback",
    "https://app.example.com:65535/callback",
    "https://app.example.com?from=postern",
    "https://app.example.com/callback?next=/a/../b&mail=ada@example.org&odd=%20%2F",
    "https://app.example.com/~ada/(callback);v=1/a.b..c/...",
    "https://app.example.com//callback",
    "https://xn--mnchen-3ya.example/callback",
    "https://intranet/callback",
    "https://a-1.2b.example/callback",
    "https://192.0.2.7/callback",
    "https://[2001:db8::7]:8443/callback",
    "http://localhost/callback",
    "http://localhost:3000/callback",
    "http://127.0.0.1:51004/callback",
    "http://[::1]:51004/callback",
    "http://localhost",
)
GOOD_ON_A_PHONE = (
    *FOR_THE_WEB,
    "com.example.app:/",
    "com.example-1.app+x:/oauth2redirect/provider",
    "com.example.app://host:8080/callback",
    "cursor://anysphere.cursor-retrieval/oauth/callback",
    "vscode://vscode.github-authentication/did-authenticate",
    "vscode-insiders://host/callback",
    "myapp:/cb",
)


@pytest.mark.parametrize("text", GOOD)
def test_a_good_one_is_kept_as_it_is(text: str) -> None:
    assert redirect_uri(text, "field", private_use=False) == text
    assert redirect_uri(text, "field", private_use=True) == text
    assert web_page(text, "field") == text


@pytest.mark.parametrize("text", GOOD_ON_A_PHONE)
def test_a_scheme_of_its_own_is_for_applications_that_are_given_away(text: str) -> None:
    assert redirect_uri(text, "field", private_use=True) == text
    with pytest.raises(BadRequest, match=r"field: must begin with https://.* are of the type mobile or desktop"):
        redirect_uri(text, "field", private_use=False)
    with pytest.raises(BadRequest):
        web_page(text, "field")


@pytest.mark.parametrize("text", ALWAYS)
@pytest.mark.parametrize("private_use", [False, True])
def test_a_hostile_one_is_refused(text: str, *, private_use: bool) -> None:
    with pytest.raises(BadRequest, match=r"^redirect_uris\[0\]: ") as refused:
        redirect_uri(text, "redirect_uris[0]", private_use=private_use)
    # The refusal does not repeat the sent text.
    assert "evil" not in refused.value.message


def test_the_longest_is_still_one() -> None:
    longest = "https://app.example.com/".ljust(LONGEST_URI, "a")
    assert redirect_uri(longest, "field", private_use=False) == longest
    with pytest.raises(BadRequest, match=f"field: at most {LONGEST_URI} characters"):
        redirect_uri(f"{longest}a", "field", private_use=False)


@given(st.text(alphabet="@/:?#[]\\.%2eE0aA-*; \t\n\0ä", max_size=30) | st.text(max_size=30), st.booleans())
def test_what_is_kept_means_the_same_to_another_parser(tail: str, private_use: bool) -> None:
    for text in (f"https://app.example.com{tail}", f"http://localhost{tail}", f"com.example.app:{tail}", tail):
        try:
            kept = redirect_uri(text, "field", private_use=private_use)
        except BadRequest:
            continue
        assert kept == text
        assert kept.isascii()
        assert kept.isprintable()
        read = urlsplit(kept)
        assert kept in {read.geturl(), f"{read.geturl()}?"}  # which it leaves out when nothing comes behind it
        assert (read.username, read.password, read.fragment) == (None, None, "")
        assert read.scheme in {"https", "http"} or (private_use and "." in read.scheme)
        assert read.scheme != "http" or read.hostname in {"localhost", "127.0.0.1", "::1"}
        assert read.port is None or 0 < read.port < 65_536
        assert not {".", ".."} & set(unquote(read.path).split("/")) or "%2f" in read.path.lower()

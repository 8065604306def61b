"""The modules of RP-initiated logout. Where the suite wants a picture of a page, the person reads the page here."""

import base64
import time

import jwt

from tests.conformance.kit import metadata as conditions
from tests.conformance.kit.browser import Arrival, ShownPage
from tests.conformance.kit.installation import SIGNED_OUT
from tests.conformance.kit.metadata import WELL_KNOWN
from tests.conformance.kit.relying import Suite, random_text


def test_oidcc_rp_initiated_logout_discovery_endpoint_verification(suite: Suite) -> None:
    metadata = conditions.discovered(suite.client.get(WELL_KNOWN))
    conditions.all_endpoints_are_https(metadata)
    conditions.is_https(metadata, "end_session_endpoint")


def end_session_state() -> str:
    """As the suite makes it: visible characters of every kind, other than those that forms write otherwise."""
    return f"{random_text()}~!#$&'()*,/:=?@[]-._{random_text()}"


def signed_in(suite: Suite) -> dict[str, str | None]:
    """What a sign-out sends after this sign-in."""
    tokens = suite.tokens(suite.request(state=128))
    return {"id_token_hint": tokens.id_token, "post_logout_redirect_uri": SIGNED_OUT, "state": end_session_state()}


def test_oidcc_rp_initiated_logout(suite: Suite) -> None:
    asked = signed_in(suite)
    suite.signed_out_at(suite.at_logout(**asked), asked["state"])
    suite.is_signed_out()


def test_oidcc_rp_initiated_logout_no_state(suite: Suite) -> None:
    asked = {**signed_in(suite), "state": None}
    suite.signed_out_at(suite.at_logout(**asked), None)
    suite.is_signed_out()


def is_shown(came: Arrival | ShownPage, *words: str, status: int = 200) -> None:
    """A page says so, and the browser is never back at the application."""
    assert isinstance(came, ShownPage), came
    assert came.status == status
    assert all(word in came.text for word in words), came.text


def is_an_unknown_address(suite: Suite, address: str) -> None:
    asked = {**signed_in(suite), "post_logout_redirect_uri": address}
    is_shown(suite.at_logout(**asked), "redirect URI", status=400)


def test_oidcc_rp_initiated_logout_bad_post_logout_redirect_uri(suite: Suite) -> None:
    is_an_unknown_address(suite, "https://app.example/bad_post_logout_redirect_uri")


def test_oidcc_rp_initiated_logout_query_added_to_post_logout_redirect_uri(suite: Suite) -> None:
    is_an_unknown_address(suite, f"{SIGNED_OUT}?foo=bar")


def is_asked_first(suite: Suite, asked: dict[str, str | None]) -> None:
    """Postern shows a page that asks the person, who says yes; then a page that says what ended."""
    came = suite.at_logout(**asked)
    assert any("Do you want to sign out?" in text for text in suite.browser.texts)
    is_shown(came, "signed out")
    suite.is_signed_out()


def test_oidcc_rp_initiated_logout_modified_id_token_hint(suite: Suite) -> None:
    asked = signed_in(suite)
    head = base64.urlsafe_b64encode(b'{"alg": "none"}').rstrip(b"=").decode()
    is_asked_first(suite, {**asked, "id_token_hint": f"{head}.{str(asked['id_token_hint']).split('.')[1]}."})


def test_oidcc_rp_initiated_logout_bad_id_token_hint(suite: Suite) -> None:
    """A token that the application made by its own secret, in which issuer and audience have changed places."""
    first, now = suite.installation.first, int(time.time())
    said = {"iss": first.client_id, "sub": "SubjectID", "aud": suite.installation.issuer, "nonce": "flibble", "iat": now, "exp": now + 300}
    is_asked_first(suite, {**signed_in(suite), "id_token_hint": jwt.encode(said, first.secret, "HS256")})


def test_oidcc_rp_initiated_logout_no_id_token_hint(suite: Suite) -> None:
    is_asked_first(suite, {**signed_in(suite), "id_token_hint": None})


def test_oidcc_rp_initiated_logout_no_params(suite: Suite) -> None:
    signed_in(suite)
    is_asked_first(suite, {})


def test_oidcc_rp_initiated_logout_only_state(suite: Suite) -> None:
    is_asked_first(suite, {"state": signed_in(suite)["state"]})


def test_oidcc_rp_initiated_logout_no_post_logout_redirect_uri(suite: Suite) -> None:
    asked = {**signed_in(suite), "post_logout_redirect_uri": None}
    is_shown(suite.at_logout(**asked), "signed out")
    suite.is_signed_out()

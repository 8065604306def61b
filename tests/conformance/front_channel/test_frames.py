"""The modules of front-channel logout: the application hears of the sign-out in a frame of the person's browser."""

from collections.abc import Iterator

import pytest

from tests.conformance.kit import metadata as conditions
from tests.conformance.kit.browser import APPLICATION
from tests.conformance.kit.installation import SIGNED_OUT, AskedServer
from tests.conformance.kit.metadata import WELL_KNOWN
from tests.conformance.kit.relying import Suite
from tests.conformance.rp_logout.test_logouts import end_session_state

FRAME = f"{APPLICATION}frontchannel_logout"


def test_oidcc_frontchannel_logout_discovery_endpoint_verification(suite: Suite) -> None:
    metadata = conditions.discovered(suite.client.get(WELL_KNOWN))
    conditions.all_endpoints_are_https(metadata)
    assert metadata["frontchannel_logout_supported"] is True
    assert metadata["frontchannel_logout_session_supported"] is True
    conditions.is_https(metadata, "end_session_endpoint")


@pytest.fixture
def framed(conformance: AskedServer, suite: Suite) -> Iterator[Suite]:
    """The first application has a page for frames while this module runs."""
    service, bearer = "/api/organizations/acme/services/first", {"Authorization": f"Bearer {conformance.token}"}
    wanted = {"frontchannel_logout_uri": FRAME, "frontchannel_logout_session_required": True}
    assert suite.client.patch(service, json=wanted, headers=bearer).is_success
    yield suite
    assert suite.client.patch(service, json={"frontchannel_logout_uri": None}, headers=bearer).is_success


def test_oidcc_frontchannel_rp_initiated_logout(framed: Suite) -> None:
    tokens = framed.tokens(framed.request(state=128))
    state = end_session_state()
    came = framed.at_logout(id_token_hint=tokens.id_token, post_logout_redirect_uri=SIGNED_OUT, state=state)
    (frame,) = framed.browser.frames
    assert frame.address == FRAME
    framed.outcome.should(frame.query.keys() <= {"iss", "sid"}, "unexpected parameters in the frame")
    assert frame.query["iss"] == framed.installation.issuer
    assert frame.query["sid"] == tokens.claims["sid"]
    framed.signed_out_at(came, state)
    framed.is_signed_out()

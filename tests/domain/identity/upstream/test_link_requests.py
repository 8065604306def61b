"""The data in the address of a link request's page."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import FlowOver
from core.domain.identity.upstream.identities import LINK_REQUEST_LIFETIME, may_leave_at_once, request_of, session_in
from core.domain.mail import Email

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SESSION = SessionId(UUID(int=7))
KEY = b"k" * 32
REQUEST = request_of("websuite", SESSION, NOW, KEY)


def test_it_names_the_session_for_a_quarter_of_an_hour() -> None:
    assert session_in(REQUEST, "websuite", NOW, KEY) == SESSION
    assert session_in(REQUEST, "websuite", NOW + LINK_REQUEST_LIFETIME - timedelta(seconds=1), KEY) == SESSION
    with pytest.raises(FlowOver):
        session_in(REQUEST, "websuite", NOW + LINK_REQUEST_LIFETIME, KEY)


@pytest.mark.parametrize(
    ("request_", "provider", "key"),
    [
        (REQUEST, "codehost", KEY),
        (REQUEST, "websuite", b"x" * 32),
        (REQUEST.replace("7", "8", 1), "websuite", KEY),
        (f"{REQUEST}0", "websuite", KEY),
        (REQUEST.rpartition("~")[0], "websuite", KEY),
        (f"{SESSION}~99999999999999999999999~0", "websuite", KEY),
        (f"{SESSION}~\u0663~\udc80", "websuite", KEY),
        ("", "websuite", KEY),
    ],
)
def test_another_provider_another_key_and_what_was_changed(request_: str, provider: str, key: bytes) -> None:
    with pytest.raises(FlowOver):
        session_in(request_, provider, NOW, key)


def test_only_a_session_of_the_persons_own_leaves_at_once() -> None:
    def caller(**more: object) -> Caller:
        return Caller(UserId(UUID(int=1)), Email("ada@example.org"), SESSION, False, **more)  # type: ignore[arg-type]

    assert may_leave_at_once(caller())
    assert may_leave_at_once(caller(organization="acme"))
    for more in ({"organization": "acme", "service": "app"}, {"scopes": ()}):
        assert not may_leave_at_once(caller(**more))

"""Token exchange: the end of a new token, and its scopes. The requests are in `tests/http/federation/resources/test_exchanges.py`."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.exchanges import Exchangeable, ExchangeRequest, SubjectRefused, SubjectToken, TokenExchange, exchanged
from core.domain.federation.oauth.refusals import InvalidScope
from core.domain.federation.oauth.resources import OfferedResource, OfferedScope
from core.domain.identifiers import ClientId, OrganizationId, ResourceServerId, ServiceId, SessionId, UserId
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS, ActingClient, Context, acting
from core.domain.secrets import Token
from core.domain.services.services import ServiceType
from core.domain.tokens import TokenAlgorithm
from core.frozen import replace

NOW: Final = datetime(2026, 11, 20, 12, 0, 0, 300_000, tzinfo=UTC)
LIFETIME: Final = timedelta(minutes=15)
DESK: Final = ClientId("desk")
NAMED: Final = ("read", "write", "cancel")
TARGET: Final = OfferedResource(
    id=ResourceServerId(UUID(int=7)),
    identifier="https://api.example.org/stock",
    name="Stock",
    scopes=[OfferedScope("read", "Read", False, True), OfferedScope("write", "Write", True, False)],
)
CLIENT: Final = RegisteredClient(
    client=DESK,
    context=Context(OrganizationId(UUID(int=4)), "acme", ServiceId(UUID(int=5)), "desk"),
    service=ServiceId(UUID(int=5)),
    organization=OrganizationId(UUID(int=4)),
    organization_is_active=True,
    service_type=ServiceType.WEB,
    id_token_algorithm=TokenAlgorithm.ES256,
    access_token_algorithm=TokenAlgorithm.ES256,
    keys=None,
    has_secret=True,
    secret=None,
)


def _exchanged(
    asked: tuple[str, ...] | None = None, *, acr: str = "", subject_lasts: float = 600.0, session_lasts: float = 600.0, **found: Any
) -> TokenExchange:
    subject = SubjectToken(
        session=SessionId(UUID(int=1)),
        user=UserId(UUID(int=2)),
        audience=UUID(int=6),
        scopes=("read",),
        expires_at=NOW.replace(microsecond=0) + timedelta(seconds=subject_lasts),
        claims={"acr": acr},
    )
    standing = {"acting": None, "is_listed": False, "target": TARGET, "bounds": None, "left": NAMED, "is_first": False, **found}
    return exchanged(
        ExchangeRequest(Token("t"), TARGET.identifier, asked),
        subject,
        Exchangeable(ends_at=NOW + timedelta(seconds=session_lasts), **standing),
        CLIENT,
        session=SessionId(UUID(int=3)),
        now=NOW,
        lifetime=LIFETIME,
    )


def test_the_earliest_of_the_ends_counts_in_whole_seconds() -> None:
    start = NOW.replace(microsecond=0)
    for lasts, ends in (((600.0, 700.0), 600), ((900.0, 700.0), 700), ((5000.0, 5000.0), 900), ((600.0, 1.5), 1)):
        assert _exchanged(subject_lasts=lasts[0], session_lasts=lasts[1]).ends_at == start + timedelta(seconds=ends)


def test_a_session_that_ends_within_the_second_is_over() -> None:
    with pytest.raises(SubjectRefused, match="no longer valid"):
        _exchanged(session_lasts=0.5)


@pytest.mark.parametrize(("bounds", "granted"), [(None, ("read",)), (("read", "write"), ("read",))])
def test_a_scope_that_the_person_holds_is_granted(bounds: tuple[str, ...] | None, granted: tuple[str, ...]) -> None:
    assert _exchanged(("read",), bounds=bounds).audience.scopes == granted


@pytest.mark.parametrize(("bounds", "left"), [(None, ()), (("read",), ()), ((), ("read",)), ((), NAMED)])
def test_a_scope_that_somebody_has_not_left_to_the_service_is_refused(bounds: tuple[str, ...] | None, left: tuple[str, ...]) -> None:
    with pytest.raises(InvalidScope):
        _exchanged(("read",), bounds=bounds, left=left)


def test_an_exchange_shows_no_second_factor_that_the_sign_in_lacks() -> None:
    guarded = replace(TARGET, scopes=[OfferedScope("cancel", "Cancel", False, True, (TWO_FACTORS,))])
    assert _exchanged(("cancel",), acr=TWO_FACTORS, target=guarded).audience.scopes == ("cancel",)
    for acr in ("", ONE_FACTOR):
        with pytest.raises(InvalidScope):
            _exchanged(("cancel",), acr=acr, target=guarded)


def test_an_actor_is_read_as_it_was_written() -> None:
    both = ActingClient(DESK, ActingClient(ClientId("shop")))
    assert both.claim == {"sub": "desk", "act": {"sub": "shop"}}
    assert acting(both.claim) == both
    assert acting(None) is None
    assert (both.depth, both.has_room, ActingClient(DESK).has_room) == (2, False, True)

"""Several accounts in one browser: which session is whose, and which one has to go."""

from datetime import UTC, datetime
from uuid import UUID

from core.domain.identifiers import FlowId, SessionId, UserId
from core.domain.identity.browser_sessions import MOST_ACCOUNTS, Visit, beside
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import LIFETIME, Flow, FlowPurpose, SignInRequirements
from core.domain.mail import Email
from core.domain.secrets import Token
from core.frozen import replace

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
FLOW = Flow(FlowId(UUID(int=1)), FlowPurpose.ACCOUNT, {}, SignInRequirements(), NOW, NOW + LIFETIME)


def caller(number: int) -> Caller:
    return Caller(
        UserId(UUID(int=number)), Email(f"person{number}@example.org"), SessionId(UUID(int=100 + number)), is_platform_owner=False
    )


FIRST, *REST = (caller(number) for number in range(1, MOST_ACCOUNTS + 1))
NEWCOMER = caller(50)
VISIT = Visit(FLOW, Token("browser"), Client("192.0.2.1", "Firefox", None), FIRST, others=REST)


def test_the_account_in_use_stands_first() -> None:
    assert VISIT.signed_in == (FIRST, *REST)
    assert replace(VISIT, current=None).signed_in == REST
    assert VISIT.session_of(REST[1].user) == REST[1].session
    assert VISIT.session_of(NEWCOMER.user) is None
    assert beside(VISIT.signed_in, REST[0].user) == [FIRST, *REST[1:]]


def test_who_was_in_use_longest_ago_makes_room() -> None:
    assert VISIT.ended_by(NEWCOMER.user) == REST[-1:]
    # Somebody who is there already takes nobody's place.
    assert VISIT.ended_by(REST[0].user) == VISIT.ended_by(FIRST.user) == []
    assert replace(VISIT, others=REST[:-1]).ended_by(NEWCOMER.user) == []
    assert replace(VISIT, others=(), current=None).ended_by(NEWCOMER.user) == []


def test_a_flow_belongs_to_the_account_that_it_was_made_for_or_that_signed_in_by_it() -> None:
    ada, bob = FIRST.user, REST[0].user
    assert FLOW.belongs_to is None
    assert replace(FLOW, account=ada).belongs_to == ada
    assert replace(FLOW, account=ada, user=bob, signed_in_at=NOW, signed_in_by="password").belongs_to == bob
    # The session of a sign-in through the API is no browser's.
    assert replace(FLOW, user=bob, signed_in_at=NOW).belongs_to is None

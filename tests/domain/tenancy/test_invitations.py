"""Invitations: ended ones, the reasons against accepting one, and the tokens of people's own lists."""

import base64
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given, strategies

from core.domain.branding import POSTERN, Branding
from core.domain.errors import BadRequest, Forbidden, InvitationExpired, OrganizationNotActive, TeamLimitExceeded
from core.domain.identifiers import InvitationId, OrganizationId, RoleId, SessionId, UserId
from core.domain.identity.account_mails import Links
from core.domain.identity.accounts import Account
from core.domain.mail import Email
from core.domain.secrets import Token
from core.domain.tenancy.invitations import (
    Invitation,
    InvitationOffer,
    InvitationStatus,
    Inviter,
    ListedToken,
    Prospect,
    read_listed_token,
    require_may_offer,
    require_pending,
)
from core.domain.tenancy.roles import Assignable, Capability
from core.domain.tenancy.tiers import LimitSource, UserLimit
from core.frozen import replace

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
KEY = b"k" * 32
INVITATION = Invitation(
    id=InvitationId(uuid4()),
    organization=OrganizationId(uuid4()),
    email=Email("bob@example.org"),
    role="member",
    role_id=None,
    invited_by=UserId(uuid4()),
    token_digest=b"digest",
    status=InvitationStatus.PENDING,
    expires_at=NOW + timedelta(days=7),
    created_at=NOW,
)
BOB = Account(UserId(uuid4()), INVITATION.email, is_platform_owner=False, email_verified_at=NOW, deactivated_at=None, created_at=NOW)
OFFER = InvitationOffer(
    INVITATION,
    "acme",
    Branding("Acme"),
    organization_is_active=True,
    member_count=4,
    user_limit=UserLimit(5, LimitSource.DEFAULT),
    capabilities=frozenset(),
    account=BOB,
    is_member=False,
    backing=frozenset({Capability.MEMBERS_MANAGE}),
)


def test_it_is_pending_until_its_time_has_passed() -> None:
    just_before, then = INVITATION.expires_at - timedelta(microseconds=1), INVITATION.expires_at
    assert [INVITATION.status_at(at) for at in (just_before, then)] == [InvitationStatus.PENDING, InvitationStatus.EXPIRED]
    accepted = replace(INVITATION, status=InvitationStatus.ACCEPTED)
    assert (accepted.status_at(then), accepted.is_overdue(then)) == (InvitationStatus.ACCEPTED, False)


def test_what_is_over_says_how_it_ended() -> None:
    require_pending(INVITATION)
    said = {}
    for status in set(InvitationStatus) - {InvitationStatus.PENDING}:
        with pytest.raises(BadRequest) as refused:
            require_pending(replace(INVITATION, status=status))
        said[status] = refused.value.message
        assert isinstance(refused.value, InvitationExpired) == (status is InvitationStatus.EXPIRED)
    assert len(set(said.values())) == 4


def test_what_stands_against_accepting() -> None:
    OFFER.require_acceptable(by_themselves=True)
    replace(OFFER, account=None).require_acceptable(by_themselves=True)
    # Whoever lists somebody learns nothing of the account.
    replace(OFFER, account=replace(BOB, deactivated_at=NOW)).require_acceptable(by_themselves=False)
    for changes, refusal in (
        ({"organization_is_active": False}, OrganizationNotActive),
        ({"is_member": True}, BadRequest),
        ({"account": replace(BOB, deactivated_at=NOW)}, BadRequest),
        ({"member_count": 5}, TeamLimitExceeded),
        ({"member_count": 6}, TeamLimitExceeded),
        ({"user_limit": UserLimit(0, LimitSource.CUSTOM), "member_count": 0}, TeamLimitExceeded),
    ):
        with pytest.raises(refusal):
            replace(OFFER, **changes).require_acceptable(by_themselves=True)


def test_it_holds_as_long_as_somebody_stands_behind_it() -> None:
    OFFER.require_backed()
    for offer in (replace(OFFER, backing=frozenset()), replace(OFFER, capabilities=frozenset({Capability.AUDIT_LOGS_VIEW}))):
        with pytest.raises(BadRequest):
            offer.require_backed()


@pytest.mark.parametrize("role", ["member", "admin", "auditor"])
def test_who_may_offer_a_role(role: str) -> None:
    permits = frozenset({Capability.AUDIT_LOGS_VIEW})
    offered = Assignable(role, RoleId(uuid4()) if role == "auditor" else None, permits)
    manages = permits | {Capability.MEMBERS_MANAGE}
    for held in (
        frozenset(),
        permits,
        frozenset({Capability.MEMBERS_MANAGE, Capability.ROLES_MANAGE}),
        permits | {Capability.ROLES_MANAGE},
    ):
        with pytest.raises(Forbidden):
            require_may_offer(offered, held)
    require_may_offer(offered, manages | {Capability.ROLES_MANAGE})
    if role == "member":
        require_may_offer(offered, manages)
    else:
        with pytest.raises(Forbidden):
            require_may_offer(offered, manages)


def test_a_person_who_invited_too_often_within_an_hour_waits() -> None:
    inviter = Inviter(BOB.id, BOB.email, NOW)

    def wait(to_address: datetime | None, to_anybody: datetime | None) -> float:
        prospect = Prospect(
            POSTERN, inviter, frozenset(), is_member=False, language=None, lapsed=None, to_address=to_address, to_anybody=to_anybody
        )
        return prospect.seconds_to_wait(NOW)

    for earlier, seconds in ((None, 0), (NOW, 3600), (NOW - timedelta(minutes=59), 60), (NOW - timedelta(minutes=61), 0)):
        assert wait(earlier, None) == wait(None, earlier) == seconds
    assert wait(NOW - timedelta(minutes=59), NOW - timedelta(minutes=50)) == wait(NOW - timedelta(minutes=50), None) == 600


ids = strategies.uuids().filter(lambda one: one.int != 0)


@given(invitation=ids, user=ids, session=ids, impersonator=strategies.none() | ids, seconds=strategies.integers(0, 2**33))
def test_a_listed_token_says_what_was_put_into_it(
    invitation: UUID, user: UUID, session: UUID, impersonator: UUID | None, seconds: int
) -> None:
    at = datetime.fromtimestamp(seconds, UTC)
    acting = None if impersonator is None else UserId(impersonator)
    said = ListedToken(InvitationId(invitation), UserId(user), SessionId(session), acting, at)
    token = said.signed(KEY)
    assert read_listed_token(token, KEY) == said
    assert read_listed_token(token, b"another key that is as long.....") is None
    assert str(token) == "***"


@given(
    strategies.text(max_size=150)
    | strategies.text("AZaz09-_", min_size=139, max_size=139)
    | strategies.text("=+/ \n", min_size=139, max_size=139)
)
def test_other_text_is_no_listed_token(text: str) -> None:
    assert read_listed_token(Token(text), KEY) is None


@pytest.mark.parametrize("text", ["A" + " " * 138, "A" * 138 + "=", "=" * 139, "A" * 138 + "ü", "A" * 138, "A" * 140, ""])
def test_text_of_the_same_length_that_is_no_base64_is_no_listed_token(text: str) -> None:
    assert read_listed_token(Token(text), KEY) is None


def test_no_bit_of_a_listed_token_can_be_turned() -> None:
    token = ListedToken(INVITATION.id, BOB.id, SessionId(uuid4()), None, NOW).signed(KEY).reveal()
    whole = base64.urlsafe_b64decode(token + "==")
    for at in range(len(whole) * 8):
        turned = bytearray(whole)
        turned[at // 8] ^= 1 << at % 8
        forged = base64.urlsafe_b64encode(turned).rstrip(b"=").decode()
        assert read_listed_token(Token(forged), KEY) is None


def test_the_mailed_link_leads_to_this_installation() -> None:
    links = Links("https://id.example.org", "https://app.example.org")
    assert links.invitation(Token("x")) == "https://id.example.org/invitations/accept?token=x"

"""Decisions about organizations: every one from every state, and its record."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, TierId, UserId
from core.domain.platform import governance
from core.domain.platform.governance import Authority, GovernanceDecision, Override, Terms
from core.domain.record.events import SYSTEM, Actor
from core.domain.requests import UNCHANGED
from core.domain.tenancy.organizations import Organization, OrganizationStatus
from core.domain.tenancy.tiers import FREE, Tier
from core.frozen import replace

NOON: Final = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
EARLIER: Final = NOON - timedelta(days=30)
GRACE: Final = UserId(UUID(int=7))
FREE_TIER: Final = Tier(FREE, "free", "Free", 3, 100, 0)
PROFESSIONAL: Final = Tier(TierId(UUID(int=2)), "professional", "Professional", 10, 1000, 4900)

PENDING, ACTIVE, SUSPENDED, REJECTED = (
    OrganizationStatus.PENDING,
    OrganizationStatus.ACTIVE,
    OrganizationStatus.SUSPENDED,
    OrganizationStatus.REJECTED,
)


def organization(status: OrganizationStatus = PENDING) -> Organization:
    approved = EARLIER if status in {ACTIVE, SUSPENDED} else None
    return Organization(
        id=OrganizationId(UUID(int=1)),
        slug="acme",
        name="Acme",
        status=status,
        tier=FREE,
        owner=UserId(UUID(int=3)),
        approved_at=approved,
        approved_by=GRACE if approved else None,
        rejected_at=EARLIER if status is REJECTED else None,
        rejection_reason="Spam" if status is REJECTED else None,
        suspended_at=EARLIER if status is SUSPENDED else None,
        suspension_reason="Unpaid" if status is SUSPENDED else None,
        created_at=EARLIER,
        updated_at=EARLIER,
    )


Decide = Callable[[Organization], GovernanceDecision | None]
DECISIONS: Final[dict[str, tuple[OrganizationStatus, OrganizationStatus, Decide]]] = {
    "approved": (PENDING, ACTIVE, lambda one: governance.approve(one, FREE_TIER, GRACE, NOON)),
    "rejected": (PENDING, REJECTED, lambda one: governance.reject(one, "Spam", NOON)),
    "suspended": (ACTIVE, SUSPENDED, lambda one: governance.suspend(one, "Unpaid", NOON)),
    "activated": (SUSPENDED, ACTIVE, lambda one: governance.activate(one, NOON)),
}


@pytest.mark.parametrize("status", OrganizationStatus)
@pytest.mark.parametrize("done", DECISIONS)
def test_each_decision_has_one_state_that_it_is_taken_in(done: str, status: OrganizationStatus) -> None:
    before, after, decide = DECISIONS[done]
    article = "an" if before is ACTIVE else "a"
    if status is before:
        decision = decide(organization(status))
        assert decision is not None
        assert decision.organization.status is after
        assert decision.organization.updated_at == NOON
        assert decision.name == f"organization.{done}"
    else:
        with pytest.raises(BadRequest, match=f"^Only {article} {before} organization can be {done}; this one is {status}$"):
            decide(organization(status))


def test_an_approval_says_when_by_whom_and_with_which_tier() -> None:
    before = organization()
    decision = governance.approve(before, PROFESSIONAL, GRACE, NOON)
    assert decision.organization == replace(
        before, status=ACTIVE, tier=PROFESSIONAL.id, approved_at=NOON, approved_by=GRACE, updated_at=NOON
    )
    assert decision.details == {"tier": "professional"}


def test_an_operator_who_approves_is_no_user() -> None:
    assert governance.approve(organization(), FREE_TIER, None, NOON).organization.approved_by is None


def test_a_rejection_says_when_and_why() -> None:
    before = organization()
    decision = governance.reject(before, "  No such\r\ncompany ", NOON)
    assert decision.organization == replace(before, status=REJECTED, rejected_at=NOON, rejection_reason="No such company", updated_at=NOON)
    assert decision.details == {"reason": "No such company"}


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("", "must not be empty"),
        (" \t\n ", "must not be empty"),
        ("\u200b\u200b\u200b", "must not be empty"),
        ("\u200d \u3164", "must not be empty"),
        ("x" * 501, "at most 500"),
    ],
)
def test_a_rejection_needs_a_reason_that_can_be_read(reason: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        governance.reject(organization(), reason, NOON)


@pytest.mark.parametrize(
    ("reason", "kept", "details"),
    [
        ("Unpaid\nsince May", "Unpaid since May", {"reason": "Unpaid since May"}),
        (None, None, {}),
        ("  \n", None, {}),
        (" \u200b", None, {}),
    ],
)
def test_a_suspension_may_have_a_reason(reason: str | None, kept: str | None, details: dict[str, str]) -> None:
    before = organization(ACTIVE)
    decision = governance.suspend(before, reason, NOON)
    assert decision.organization == replace(before, status=SUSPENDED, suspended_at=NOON, suspension_reason=kept, updated_at=NOON)
    assert decision.details == details


def test_a_suspension_takes_no_novel_for_a_reason() -> None:
    with pytest.raises(BadRequest, match="at most 500"):
        governance.suspend(organization(ACTIVE), "x" * 501, NOON)


def test_nothing_of_a_suspension_stays_in_force_after_it() -> None:
    before = organization(SUSPENDED)
    after = governance.activate(before, NOON).organization
    assert after == replace(before, status=ACTIVE, suspended_at=None, suspension_reason=None, updated_at=NOON)
    assert after.approved_at == EARLIER


@pytest.mark.parametrize("status", OrganizationStatus)
def test_a_tier_is_changed_in_any_state(status: OrganizationStatus) -> None:
    before = organization(status)
    decision = governance.change_tier(before, FREE_TIER, Terms(PROFESSIONAL), NOON)
    assert decision is not None
    assert decision.organization == replace(before, tier=PROFESSIONAL.id, updated_at=NOON)
    assert decision.details == {"old_tier": "free", "tier": "professional", "max_services": None, "max_users": None}


@pytest.mark.parametrize(
    ("given", "expected"),
    [((UNCHANGED, UNCHANGED), (7, 70)), ((None, None), (None, None)), ((0, UNCHANGED), (0, 70)), ((UNCHANGED, 1), (7, 1))],
)
def test_numbers_of_its_own_stay_change_or_go(given: tuple[Override, Override], expected: tuple[int | None, int | None]) -> None:
    before = replace(organization(ACTIVE), max_services=7, max_users=70)
    decision = governance.change_tier(before, FREE_TIER, Terms(PROFESSIONAL, *given), NOON)
    assert decision is not None
    assert (decision.organization.max_services, decision.organization.max_users) == expected


@pytest.mark.parametrize("terms", [Terms(FREE_TIER), Terms(FREE_TIER, 7, 70), Terms(FREE_TIER, UNCHANGED, 70)])
def test_a_change_that_changes_nothing_makes_no_decision(terms: Terms) -> None:
    before = replace(organization(ACTIVE), max_services=7, max_users=70)
    assert governance.change_tier(before, FREE_TIER, terms, NOON) is None


def test_what_is_on_record_names_who_decided() -> None:
    decision = governance.reject(organization(), "Spam", NOON)
    actor = Actor(GRACE, address="192.0.2.1")
    event = decision.event(Authority(actor))
    assert (event.name, event.actor, event.organization) == ("organization.rejected", actor, OrganizationId(UUID(int=1)))
    assert (event.target.type, event.target.id) == ("organization", str(UUID(int=1)))
    assert (event.details, event.published, event.audited, event.success) == ({"reason": "Spam"}, False, True, True)
    told = decision.event(Authority(SYSTEM, "grace"))
    assert (told.actor, told.details, told.personal) == (SYSTEM, {"reason": "Spam"}, {"operator": "grace"})

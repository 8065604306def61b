"""The rules of terms: what a version may be, and whom terms that were not accepted stop."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.errors import BadRequest, SecondFactorRequired, TermsRequired
from core.domain.identifiers import OrganizationId, TermsId, UserId
from core.domain.identity.callers import require_admitted
from core.domain.identity.terms import (
    LONGEST_ADDRESS,
    MOST_VERSIONS,
    PendingTerms,
    TermsChange,
    TermsVersion,
    in_force,
    require_accepted,
    terms_accepted,
    terms_set,
    terms_withdrawn,
)
from core.domain.record.events import Actor
from core.frozen import replace

NOW = datetime(2026, 11, 27, tzinfo=UTC)
LATER = NOW + timedelta(days=7)
ACME, GLOBEX = OrganizationId(UUID(int=1)), OrganizationId(UUID(int=2))
HERE = "https://acme.example/terms"
FIRST = TermsVersion(
    id=TermsId(UUID(int=9)),
    organization=ACME,
    version="1",
    address=HERE,
    due_at=LATER,
    set_at=NOW,
    set_by=None,
    ended_at=NOW,
)
SECOND = replace(FIRST, id=TermsId(UUID(int=10)), version="2", ended_at=None)


def test_a_new_version_is_tidied() -> None:
    assert TermsChange(" 3 ", f" {HERE} ", LATER).checked([SECOND, FIRST], NOW) == TermsChange("3", HERE, LATER)


def test_of_the_version_in_force_only_the_date_moves_and_not_into_the_past() -> None:
    moved = TermsChange("2", HERE, LATER + timedelta(days=1))
    assert moved.checked([SECOND, FIRST], NOW) == moved
    with pytest.raises(BadRequest, match="due_at"):
        TermsChange("2", HERE, NOW).checked([SECOND, FIRST], NOW)
    # As it stands, also when its date is over: nothing changes.
    same = TermsChange("2", HERE, LATER)
    assert same.checked([SECOND, FIRST], LATER + timedelta(days=1)) == same
    with pytest.raises(BadRequest, match="version: "):
        TermsChange("2", f"{HERE}/other", LATER).checked([SECOND, FIRST], NOW)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (TermsChange("1", HERE, LATER), "terms_version_used"),
        (TermsChange("3", "http://acme.example", LATER), "https_only"),
        (TermsChange("3", "acme", LATER), "web_address"),
        (TermsChange("3", f"{HERE}/{'x' * LONGEST_ADDRESS}", LATER), "text_too_long"),
        (TermsChange("3", HERE, NOW), "terms_due_past"),
        (TermsChange("\u200b", HERE, LATER), "terms_version"),
        (TermsChange("x" * 41, HERE, LATER), "terms_version"),
    ],
)
def test_what_a_version_may_not_be(change: TermsChange, words: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        change.checked([SECOND, FIRST], NOW)
    assert refusal.value.words == words


def test_an_organization_keeps_so_many_versions() -> None:
    kept = [replace(FIRST, version=f"v{number}") for number in range(MOST_VERSIONS)]
    with pytest.raises(BadRequest, match="at most"):
        TermsChange("3", HERE, LATER).checked(kept, NOW)


def test_the_version_in_force() -> None:
    assert in_force([SECOND, FIRST]) == SECOND
    assert in_force([FIRST]) is None


def test_whom_pending_terms_stop_where() -> None:
    pending = PendingTerms(
        id=SECOND.id,
        organization=ACME,
        organization_slug="acme",
        organization_name="Acme",
        version="2",
        address=HERE,
        due_at=NOW,
        is_over=True,
    )
    assert pending.stops(ACME)
    assert not pending.stops(GLOBEX)
    assert not pending.stops(None)
    assert not replace(pending, is_over=False).stops(ACME)
    everybody = replace(pending, organization=None)
    assert everybody.stops(ACME)
    assert everybody.stops(None)


def test_the_date_stops() -> None:
    require_accepted(None, NOW)
    require_accepted(LATER, NOW)
    with pytest.raises(TermsRequired):
        require_accepted(NOW, NOW)
    require_admitted(is_admitted=True, owes_second_factor=False)
    with pytest.raises(TermsRequired):
        require_admitted(is_admitted=True, owes_second_factor=False, owes_terms=True)
    # The factor comes first, as at a sign-in.
    with pytest.raises(SecondFactorRequired):
        require_admitted(is_admitted=True, owes_second_factor=True, owes_terms=True)


def test_what_events_say() -> None:
    event = terms_set(FIRST, SECOND, Actor())
    assert (event.name, event.organization, event.target.id) == ("terms.set", ACME, str(ACME))
    assert event.details["old_version"] == "1"
    first = terms_set(None, replace(SECOND, organization=None), Actor())
    assert (first.organization, first.target.type, "old_version" in first.details) == (None, "terms", False)
    assert terms_withdrawn(SECOND, Actor()).details == {"version": "2", "address": HERE}


def test_the_log_of_the_organization_has_who_accepted_which_version() -> None:
    ada = UserId(UUID(int=3))
    event = terms_accepted(SECOND, ada, Actor(user=ada))
    assert (event.name, event.organization, event.target.id) == ("terms.accepted", ACME, str(ada))
    assert event.details == {"version": "2", "address": HERE}
    assert terms_accepted(replace(SECOND, organization=None), ada, Actor(user=ada)).organization is None

"""The callers who may export and forget a person: every combination of the person's ties to the caller's organizations and to others."""

from datetime import UTC, datetime, timedelta
from itertools import product
from uuid import UUID, uuid4

import pytest

from core.domain.errors import Forbidden
from core.domain.identifiers import OrganizationId, PrivacyRequestId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.privacy import (
    Belonging,
    PrivacyRequest,
    PrivacyRequester,
    Subject,
    export_scope,
    exported_belongings,
    placeholder,
    require_may_forget,
    shown_since,
)
from core.domain.mail import Email

NOON = datetime(2026, 3, 10, 12, 0, 0, 123456, UTC)
BOB = UserId(UUID(int=1))


def belonging(
    *, theirs: bool, own_act: bool = False, made: bool = False, knows: bool = False, unconfirmed_owner: bool = False
) -> Belonging:
    return Belonging(
        organization=OrganizationId(uuid4()),
        organization_slug="acme",
        role="member",
        joined_at=NOON,
        is_the_askers=theirs,
        is_own=own_act,
        made_the_account=made,
        knows_the_account=knows,
        is_unconfirmed_owner=unconfirmed_owner,
    )


def subject(*belongings: Belonging, governs: bool = False, owner: bool = False, elsewhere: bool = False) -> Subject:
    account = Account(BOB, Email("bob@example.org"), owner, None, None, NOON - timedelta(days=900))
    return Subject(account=account, belongings=belongings, asker_governs=governs, is_held_elsewhere=elsewhere, request=None)


def may_forget(one: Subject, *, by: UserId | None = None) -> bool:
    try:
        require_may_forget(one, PrivacyRequester(user=by or UserId(uuid4())))
    except Forbidden:
        return False
    return True


@pytest.mark.parametrize(("own", "elsewhere"), list(product((False, True), repeat=2)))
def test_what_others_made_somebody_the_owner_of_does_not_keep_them(own: bool, elsewhere: bool) -> None:
    given, founded = belonging(theirs=False, unconfirmed_owner=True), belonging(theirs=True, own_act=own)
    assert may_forget(subject(given, elsewhere=elsewhere), by=BOB) is not elsewhere
    assert may_forget(subject(given, founded, elsewhere=elsewhere), by=BOB) is (own and not elsewhere)
    # It still keeps them from others.
    assert not may_forget(subject(given, founded, elsewhere=elsewhere))


@pytest.mark.parametrize(("first", "second"), list(product(product((False, True), repeat=3), repeat=2)))
def test_an_owner_forgets_only_whom_nobody_else_has(first: tuple[bool, bool, bool], second: tuple[bool, bool, bool]) -> None:
    two = [belonging(theirs=theirs, own_act=own_act, made=made) for theirs, own_act, made in (first, second)]
    owns_all = first[0] and second[0]
    came_there = (first[1] and second[1]) or first[2] or second[2]
    assert may_forget(subject(*two)) is (owns_all and came_there)
    assert not may_forget(subject(*two, elsewhere=True))
    assert may_forget(subject(*two, governs=True))
    assert not may_forget(subject(*two, governs=True, owner=True))


def test_nobody_owns_all_of_none() -> None:
    assert not may_forget(subject())
    assert may_forget(subject(governs=True))


def test_an_export_is_whole_or_of_the_askers_organizations() -> None:
    theirs, others = belonging(theirs=True), belonging(theirs=False)
    one = subject(theirs, others)
    for whole in (
        export_scope(one, PrivacyRequester(user=BOB)),
        export_scope(subject(others, governs=True), PrivacyRequester(user=UserId(UUID(int=2)))),
    ):
        assert whole.is_whole
    scope = export_scope(one, PrivacyRequester(user=UserId(UUID(int=2))))
    assert scope.organizations == [theirs.organization]
    assert exported_belongings(one, scope) == [theirs]
    assert shown_since(one, scope) == NOON
    known = subject(belonging(theirs=True, knows=True))
    assert shown_since(known, export_scope(known, PrivacyRequester(user=UserId(UUID(int=2))))) == one.account.created_at
    with pytest.raises(Forbidden):
        export_scope(subject(others), PrivacyRequester(user=UserId(UUID(int=2))))


def test_placeholders_differ_by_the_attempt_and_have_microseconds() -> None:
    assert placeholder(NOON, 0).address == "anonymized-1773144000123456@deleted.local"
    assert placeholder(NOON, 1).address == "anonymized-1773144000123457@deleted.local"


def test_a_request_is_completed_or_not() -> None:
    request = PrivacyRequest(PrivacyRequestId(uuid4()), BOB, None, NOON, None)
    assert not request.is_completed
    assert PrivacyRequest(request.id, BOB, None, NOON, NOON).is_completed

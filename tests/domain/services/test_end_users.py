"""End users, and the texts that a search among them accepts."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.requests import MOST_ROWS_COUNTED, Page
from core.domain.services.service_users import (
    LONGEST_SEARCH,
    EndUserDetail,
    UsedService,
    is_dear,
    require_reachable,
    searched,
    sessions_in_services_ended,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def used(last_login_at: datetime | None) -> UsedService:
    return UsedService(ServiceId(uuid4()), "app", "App", None, last_login_at, {})


def detail(*services: UsedService) -> EndUserDetail:
    return EndUserDetail(
        id=UserId(uuid4()),
        email=Email("ada@example.org"),
        email_verified=True,
        created_at=NOON,
        updated_at=NOON,
        mfa_enabled=False,
        services=services,
        identities=(),
        active_sessions=0,
        last_session_at=None,
    )


def test_somebody_was_last_seen_when_they_last_came_to_any_of_the_services() -> None:
    assert detail(used(NOON - timedelta(days=1)), used(None), used(NOON)).last_login_at == NOON
    assert detail(used(None)).last_login_at is None
    assert detail().last_login_at is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("", ""), ("   ", ""), (" Ada@ ", "ada@"), ("STRASSE", "strasse"), ("\ufb01nn", "finn"), ("100%_\\", "100%_\\")],
)
def test_what_is_looked_for_is_folded_as_the_addresses_are(text: str, wanted: str) -> None:
    assert searched(text) == wanted


def test_what_no_address_can_contain_is_not_looked_for() -> None:
    assert searched("x" * LONGEST_SEARCH) == "x" * LONGEST_SEARCH
    # One letter that unfolds into eighteen.
    for text in ("x" * (LONGEST_SEARCH + 1), "\ufdfa" * 20):
        with pytest.raises(BadRequest, match="search"):
            searched(text)


def test_a_search_ends_and_the_whole_list_does_not() -> None:
    last, beyond = Page(MOST_ROWS_COUNTED // 100, 100), Page(MOST_ROWS_COUNTED // 100 + 1, 100)
    for page, search in ((last, "ada"), (last, ""), (beyond, "")):
        require_reachable(page, search)
    with pytest.raises(BadRequest, match="a search ends after 10000"):
        require_reachable(beyond, "ada")


@pytest.mark.parametrize(
    ("page", "search", "dear"),
    [(Page(), "", False), (Page(MOST_ROWS_COUNTED, 1), "", False), (Page(MOST_ROWS_COUNTED + 1, 1), "", True), (Page(), "a", True)],
)
def test_what_may_read_all_end_users_is_dear(page: Page, search: str, dear: bool) -> None:
    assert is_dear(page, search) is dear


def test_sessions_that_are_ended_are_on_the_organizations_record() -> None:
    organization, user, admin = OrganizationId(uuid4()), UserId(uuid4()), UserId(uuid4())
    event = sessions_in_services_ended(organization, user, 3, Actor(admin))
    assert (event.name, event.organization, event.target.type, event.target.id) == (
        "security.sessions.revoked",
        organization,
        "user",
        str(user),
    )
    assert event.details == {"sessions": 3}
    assert event.audited

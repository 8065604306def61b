"""An organization's name, and the events when it is founded, renamed and deleted."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, TierId, UserId
from core.domain.record.events import Actor
from core.domain.tenancy.organizations import (
    PURGE_JOB,
    RESERVED_SLUGS,
    Organization,
    OrganizationStatus,
    organization_created,
    organization_deleted,
    organization_name,
    organization_slug,
    organization_updated,
    purge_job,
)
from core.domain.tenancy.tiers import FREE, LimitSource, Tier, UserLimit, largest, user_limit
from core.frozen import replace

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ADA = Actor(UserId(UUID(int=1)), address="192.0.2.1")
ACME = Organization(
    id=OrganizationId(UUID(int=2)),
    slug="acme",
    name="Acme",
    status=OrganizationStatus.PENDING,
    tier=FREE,
    owner=ADA.user,
    created_at=NOW,
    updated_at=NOW,
)


@pytest.mark.parametrize("slug", ["abc", "0a0", "a-b", "a" * 50, "a--b", "api-x", "xn--acme"])
def test_a_slug(slug: str) -> None:
    assert organization_slug(slug) == slug


@pytest.mark.parametrize(
    "slug",
    [
        "",
        "ab",
        "a" * 51,
        "-ab",
        "ab-",
        "Abc",
        "a b",
        "a_b",
        "a.b",
        "ab\n",
        "äbc",
        "abc/",
        "\uff41\uff42\uff43",
        "\u0430-\u0431-\u0432",
        "\u0663\u0664\u0665",
    ],
)
def test_no_slug(slug: str) -> None:
    with pytest.raises(BadRequest, match="slug"):
        organization_slug(slug)


@pytest.mark.parametrize("slug", sorted(RESERVED_SLUGS))
def test_a_reserved_word_is_no_slug(slug: str) -> None:
    with pytest.raises(BadRequest, match="slug"):
        organization_slug(slug)


def test_the_words_of_the_interface_are_reserved() -> None:
    assert {"api", "auth", "admin", "saml", "scim", "health", "metrics", "static", "ui", "webhooks", "well-known"} <= RESERVED_SLUGS


@pytest.mark.parametrize(
    ("text", "name"), [("Acme", "Acme"), ("  Acme \t Co\n", "Acme Co"), ("ab", "ab"), ("x" * 100, "x" * 100), ("Zoë & Søn", "Zoë & Søn")]
)
def test_a_name(text: str, name: str) -> None:
    assert organization_name(text) == name


@pytest.mark.parametrize("text", ["", " ", "a", " a ", "x" * 101, "\u202e\u202e\u202e", "\x1b\x1b", "Acme" + " " * 2000])
def test_no_name(text: str) -> None:
    with pytest.raises(BadRequest, match="name"):
        organization_name(text)


def test_only_an_active_one_is_active() -> None:
    active = {status for status in OrganizationStatus if replace(ACME, status=status).is_active}
    assert active == {OrganizationStatus.ACTIVE}


@pytest.mark.parametrize(
    ("custom", "tier", "limit"),
    [
        (0, 100, UserLimit(0, LimitSource.CUSTOM)),
        (7, None, UserLimit(7, LimitSource.CUSTOM)),
        (None, 0, UserLimit(0, LimitSource.TIER)),
        (None, 100, UserLimit(100, LimitSource.TIER)),
        (None, None, UserLimit(5, LimitSource.DEFAULT)),
    ],
)
def test_how_many_members_there_may_be(custom: int | None, tier: int | None, limit: UserLimit) -> None:
    assert user_limit(custom, tier) == limit


def test_what_is_said_of_one_that_comes_or_is_renamed() -> None:
    created, renamed = organization_created(ACME, ADA), organization_updated(ACME, replace(ACME, name="Acme Two"), ADA)
    for event in (created, renamed):
        assert (event.organization, event.target.type, event.target.id, event.actor) == (ACME.id, "organization", str(ACME.id), ADA)
        assert event.audited
        assert event.published
    assert (created.name, created.details) == ("organization.created", {"slug": "acme", "name": "Acme", "status": "pending"})
    assert (renamed.name, renamed.details) == ("organization.updated", {"changed": ["name"], "old_name": "Acme", "name": "Acme Two"})


def test_that_one_goes_is_said_on_the_platform_too() -> None:
    events = organization_deleted(ACME, ADA)
    assert [event.organization for event in events] == [ACME.id, None]
    for event in events:
        assert (event.name, event.details, event.audited, event.published) == (
            "organization.deleted",
            {"slug": "acme", "name": "Acme"},
            True,
            False,
        )


def test_what_takes_its_rows_away() -> None:
    job = purge_job(ACME.id)
    assert (job.kind, job.payload, job.run_at, job.sealed) == (PURGE_JOB, {"organization": str(ACME.id)}, None, False)


def test_the_largest_tier_has_the_most_services_then_members_and_then_is_the_dearest() -> None:
    def tier(number: int, services: int, users: int, price: int) -> Tier:
        return Tier(TierId(UUID(int=number)), str(number), "", services, users, price)

    tiers = [tier(1, 3, 999, 999), tier(2, 10, 5, 900), tier(3, 10, 6, 0), tier(4, 10, 6, 1)]
    for order in (tiers, tiers[::-1]):
        assert largest(order).name == "4"
    assert largest(tiers[:3]).name == "3"
    assert largest(tiers[:2]).name == "2"

"""API keys: their names, permissions, lifetimes and events."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.errors import BadRequest, Forbidden
from core.domain.identifiers import ApiKeyId, OrganizationId, ServiceId, UserId
from core.domain.record.events import SYSTEM, Actor, Target
from core.domain.services.api_keys import (
    LONGEST_LIFE,
    MOST_KEYS,
    ApiKey,
    KeyHolder,
    Permission,
    PlacedKey,
    api_key_created,
    api_key_deleted,
    key_expiry,
    key_permissions,
    known_permissions,
    require_grantable,
    require_room_for_api_key,
)
from core.domain.services.services import ServiceProfile, ServiceType
from core.domain.tenancy.management_keys import KnownKey, key_name
from core.domain.tenancy.roles import BuiltInRole, Capability

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
KEY = ApiKey(
    id=ApiKeyId(UUID(int=1)),
    service=ServiceId(UUID(int=2)),
    name="Backend",
    prefix="sk_abc123",
    permissions=(Permission.WRITE_USERS, Permission.READ_USERS),
    expires_at=None,
    created_by=UserId(UUID(int=3)),
    created_at=NOON,
)
PLACED = PlacedKey(KEY, "shop", OrganizationId(UUID(int=4)), "acme")
HOLDER = KeyHolder(
    KEY.id,
    KEY.service,
    "shop",
    PLACED.organization,
    "acme",
    frozenset({Permission.READ_USERS}),
    KEY.name,
    KEY.prefix,
    ServiceProfile("Shop", ServiceType.WEB, NOON),
)


def test_a_name_is_one_line_of_some_length() -> None:
    assert key_name("  Back\nend\t1 ") == "Back end 1"
    assert key_name("x" * 100) == "x" * 100
    for wrong in ("", "\u200b", "x" * 101):
        with pytest.raises(BadRequest, match="name: 1 to 100 characters"):
            key_name(wrong)


def test_permissions_are_kept_once_each_in_the_order_given() -> None:
    wanted = (Permission.WRITE_USERS, Permission.READ_USERS, Permission.WRITE_USERS)
    assert key_permissions(wanted) == (Permission.WRITE_USERS, Permission.READ_USERS)
    with pytest.raises(BadRequest, match="permissions: at least one is required"):
        key_permissions(())


def test_a_word_that_is_no_permission_permits_nothing() -> None:
    assert known_permissions(["write:users", "*", "READ:USERS", "read:users", ""]) == (Permission.WRITE_USERS, Permission.READ_USERS)
    assert known_permissions([]) == ()


def test_an_expiry_is_so_many_days_ahead_or_none() -> None:
    assert key_expiry(None, NOON) is None
    assert [key_expiry(days, NOON) for days in (1, LONGEST_LIFE)] == [NOON + timedelta(days=1), NOON + timedelta(days=3650)]
    for wrong in (0, -1, LONGEST_LIFE + 1, 10**30):
        with pytest.raises(BadRequest, match="expires_in_days: 1 to 3650"):
            key_expiry(wrong, NOON)


@pytest.mark.parametrize(
    ("expires_at", "expired"),
    [(None, False), (NOON, True), (NOON - timedelta(microseconds=1), True), (NOON + timedelta(microseconds=1), False)],
)
def test_a_key_expires_at_its_moment(expires_at: datetime | None, *, expired: bool) -> None:
    assert KnownKey(HOLDER, b"digest", expires_at, organization_is_active=True).is_expired(NOON) is expired


def test_a_holder_may_what_the_key_permits() -> None:
    HOLDER.require(Permission.READ_USERS)
    with pytest.raises(Forbidden, match="does not have the permission write:users"):
        HOLDER.require(Permission.WRITE_USERS)


def test_nobody_gives_what_they_do_not_hold() -> None:
    require_grantable(tuple(Permission), BuiltInRole.ADMIN.capabilities)
    members = BuiltInRole.MEMBER.capabilities
    require_grantable([one for one in Permission if one.value.startswith(("read:", "verify:"))], members)
    for permission in Permission:
        if not permission.value.startswith(("read:", "verify:")):
            with pytest.raises(Forbidden, match=permission.value):
                require_grantable([Permission.READ_USERS, permission], members)
            require_grantable([permission], {permission.capability})
    with pytest.raises(Forbidden, match=r"write:users \(needs end_users.manage\), write:service \(needs services.manage\)"):
        require_grantable([Permission.WRITE_USERS, Permission.READ_USERS, Permission.WRITE_SERVICE], {Capability.END_USERS_VIEW})


def test_there_is_room_for_so_many() -> None:
    require_room_for_api_key(MOST_KEYS - 1)
    with pytest.raises(BadRequest, match="at most 1000 API keys"):
        require_room_for_api_key(MOST_KEYS)


def test_what_is_told_of_a_key_is_all_but_the_key() -> None:
    actor = Actor(KEY.created_by)
    details = {
        "api_key_id": str(KEY.id),
        "service_id": str(KEY.service),
        "service_slug": "shop",
        "name": "Backend",
        "prefix": "sk_abc123",
        "permissions": ["write:users", "read:users"],
        "expires_at": None,
    }
    created, deleted = api_key_created(PLACED, actor), api_key_deleted(PLACED, actor)
    assert (created.name, deleted.name) == ("api_key.created", "api_key.deleted")
    for event in (created, deleted):
        assert (event.actor, event.organization, event.target) == (actor, PLACED.organization, Target("api_key", str(KEY.id)))
        assert event.details == details
        assert event.audited
        assert event.published
    by_operator = api_key_deleted(PLACED, SYSTEM, "ada")
    assert (by_operator.details, by_operator.personal, deleted.personal) == (details, {"operator": "ada"}, {})

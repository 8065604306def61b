"""The changes that a service may make to a user's account, and their events."""

from datetime import UTC, datetime
from itertools import product
from uuid import UUID

import pytest

from core.domain.errors import Forbidden
from core.domain.identifiers import ApiKeyId, OrganizationId, ServiceId, UserId
from core.domain.identity.accounts import Account
from core.domain.mail import Email
from core.domain.record.events import SYSTEM, Event, Target
from core.domain.services.api_keys import KeyHolder, Permission
from core.domain.services.service_users import AccountFate, HeldServiceUser, email_changed, user_created, user_deleted, user_joined
from core.domain.services.services import ServiceProfile, ServiceType
from core.frozen import replace

NOW = datetime(2026, 1, 1, tzinfo=UTC)
USER = UserId(UUID(int=1))
HOLDER = KeyHolder(
    ApiKeyId(UUID(int=2)),
    ServiceId(UUID(int=3)),
    "shop",
    OrganizationId(UUID(int=4)),
    "acme",
    frozenset({Permission.WRITE_USERS}),
    "backend",
    "sk_abc123",
    ServiceProfile("Shop", ServiceType.WEB, NOW),
)
ACCOUNT = Account(USER, Email("ada@example.org"), is_platform_owner=False, email_verified_at=None, deactivated_at=None, created_at=NOW)
OWN = HeldServiceUser(ACCOUNT, is_made_here=True, owns_an_organization=False, is_used_here=False, is_used_elsewhere=False)


def test_an_account_belongs_to_the_service_that_has_made_it_when_nobody_else_holds_it() -> None:
    for made, owns, here, elsewhere, in_office, proved in product((True, False), repeat=6):
        account = replace(ACCOUNT, is_platform_owner=in_office, email_verified_at=NOW if proved else None)
        held = HeldServiceUser(account, is_made_here=made, owns_an_organization=owns, is_used_here=here, is_used_elsewhere=elsewhere)
        belongs = made and not (owns or here or in_office)
        assert held.belongs_to_service is belongs
        if belongs and not (proved or elsewhere):
            held.require_movable()
        else:
            with pytest.raises(Forbidden):
                held.require_movable()
        if owns or in_office:
            with pytest.raises(Forbidden):
                held.fate()
        else:
            assert held.fate() is (AccountFate.DELETED if belongs else AccountFate.KEPT)


def test_events_name_the_service_and_the_key_and_no_address() -> None:
    told = {"service_id": str(HOLDER.service), "service_slug": "shop", "api_key_id": str(HOLDER.key)}
    target = Target("user", str(USER))
    assert [
        user_created(USER, HOLDER, SYSTEM),
        user_joined(USER, HOLDER, SYSTEM),
        email_changed(USER, HOLDER, SYSTEM),
        user_deleted(USER, AccountFate.KEPT, HOLDER, SYSTEM),
    ] == [
        Event("user.signup.success", SYSTEM, target, HOLDER.organization, {"provider": "api_key", **told}),
        Event("user.joined", SYSTEM, target, HOLDER.organization, told),
        Event("user.email.changed", SYSTEM, target, HOLDER.organization, told),
        Event("user.removed", SYSTEM, target, HOLDER.organization, {"account": "kept", **told}),
    ]

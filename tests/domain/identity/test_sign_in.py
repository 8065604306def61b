"""The outcome of a password's check, and its answers."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from core.domain.errors import BadRequest, Forbidden, NotFound, OrganizationNotActive
from core.domain.identifiers import LoginEventId, OrganizationId, ServiceId, UserId
from core.domain.identity.accounts import Account, signed_up
from core.domain.identity.login_events import LoginEvent, LoginFailure, login_tried
from core.domain.identity.mfa import MfaMethod
from core.domain.identity.risk import NOTHING_KNOWN
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import (
    Destination,
    NamedAccount,
    ServiceName,
    account_key,
    context_in,
    failure_of,
    methods,
    open_context,
    service_named,
)
from core.domain.key_proofs import KeyThumbprint
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.frozen import replace

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ACCOUNT = Account(UserId(UUID(int=7)), Email("ada@example.org"), False, email_verified_at=NOW, deactivated_at=None, created_at=NOW)
ADA = NamedAccount(ACCOUNT, "hash", mfa_enabled=False, knowledge=NOTHING_KNOWN)
GONE = replace(ADA, account=replace(ACCOUNT, deactivated_at=NOW))
UNVERIFIED = replace(ADA, account=replace(ACCOUNT, email_verified_at=None))
SHOP = Context(OrganizationId(UUID(int=8)), "acme", ServiceId(UUID(int=9)), "shop")
OPEN = Destination(SHOP, is_open=True)


@pytest.mark.parametrize(
    ("named", "matches", "failure"),
    [
        (ADA, True, None),
        (ADA, False, LoginFailure.WRONG_PASSWORD),
        (None, False, LoginFailure.UNKNOWN_ACCOUNT),
        (replace(ADA, encoded=None), False, LoginFailure.NO_PASSWORD),
        (GONE, True, LoginFailure.DEACTIVATED),
        (GONE, False, LoginFailure.WRONG_PASSWORD),
        (UNVERIFIED, True, LoginFailure.EMAIL_NOT_VERIFIED),
        (UNVERIFIED, False, LoginFailure.WRONG_PASSWORD),
    ],
)
def test_why_somebody_is_turned_away(named: NamedAccount | None, matches: bool, failure: LoginFailure | None) -> None:
    assert failure_of(named, matches=matches) is failure


def test_the_bucket_of_an_account_is_the_same_however_its_address_is_written_and_does_not_show_it() -> None:
    assert account_key(Email("ADA@example.org")) == account_key(Email("ada@example.org"))
    assert account_key(Email("bob@example.org")) != account_key(Email("ada@example.org"))
    assert "ada" not in account_key(Email("ada@example.org"))


def test_how_somebody_proved_who_they_are_in_registered_words() -> None:
    assert methods(("pwd",), MfaMethod.TOTP) == ("pwd", "otp", "mfa")
    assert methods(("pwd",), MfaMethod.BACKUP_CODE) == ("pwd", "mfa")
    assert methods(("fed",), MfaMethod.BACKUP_CODE) == ("fed", "mfa")


def test_a_service_is_named_with_its_organization_and_an_organization_alone_is_no_place() -> None:
    assert service_named("acme", "shop") == ServiceName("acme", "shop")
    assert service_named("acme", "") is None
    assert service_named("", "") is None
    with pytest.raises(BadRequest, match="org_slug"):
        service_named("", "shop")


def test_where_a_session_will_be() -> None:
    assert context_in(None, None) == context_in(None, OPEN) == PLATFORM
    assert context_in(ServiceName("acme", "shop"), OPEN) == open_context(OPEN) == SHOP
    with pytest.raises(NotFound):
        context_in(ServiceName("acme", "shop"), None)
    with pytest.raises(OrganizationNotActive):
        open_context(replace(OPEN, is_open=False))


def test_a_service_that_binds_its_tokens_gives_none_that_is_bound_to_nothing() -> None:
    binding = replace(OPEN, binds_tokens=True)
    with pytest.raises(Forbidden, match="bound to a key"):
        open_context(binding)
    with pytest.raises(Forbidden, match="bound to a key"):
        context_in(ServiceName("acme", "shop"), binding)
    assert open_context(binding, key=KeyThumbprint("k")) == open_context(binding, gives_tokens=False) == SHOP


@pytest.mark.parametrize("failure", [None, LoginFailure.WRONG_PASSWORD])
def test_what_is_told_of_a_try_says_where_it_led(failure: LoginFailure | None) -> None:
    tried = LoginEvent(LoginEventId(UUID(int=1)), ACCOUNT.id, "password", failure, None, None, NOW)
    there = login_tried(replace(tried, organization=SHOP.organization, service=SHOP.service), Actor())
    assert (there.organization, there.details["service_id"]) == (SHOP.organization, str(SHOP.service))
    nowhere = login_tried(tried, Actor())
    assert (nowhere.organization, "service_id" in nowhere.details) == (None, False)


def test_what_is_told_of_a_new_account_says_through_which_service_it_came() -> None:
    through = signed_up(ACCOUNT.id, Actor(), "password", SHOP)
    assert (through.organization, through.details) == (SHOP.organization, {"provider": "password", "service_id": str(SHOP.service)})
    own = signed_up(ACCOUNT.id, Actor(), "password")
    assert (own.organization, own.details) == (None, {"provider": "password"})

"""Mailed tokens: the lifetime and the link of each kind, and the people to whom it may be mailed."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.account_mails import (
    CHOOSES_PASSWORD,
    PROVES_ADDRESS,
    SIGNS_IN,
    AccountMail,
    AskedMail,
    AskedOnPage,
    LinkRefused,
    Links,
    MailedTokenPurpose,
    Onward,
    asked_of,
    mailed_token,
    refusal_of,
)
from core.domain.identity.accounts import Account, Registration
from core.domain.jobs import CAN_WAIT
from core.domain.mail import Email, named_account
from core.domain.secrets import Token
from core.frozen import replace

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
USER = UserId(UUID(int=1))
ADA = Account(USER, Email("ada@example.org"), is_platform_owner=False, email_verified_at=None, deactivated_at=None, created_at=NOW)


@pytest.mark.parametrize("purpose", MailedTokenPurpose)
def test_a_reset_lasts_an_hour_a_sign_in_minutes_and_everything_else_a_day(purpose: MailedTokenPurpose) -> None:
    token = mailed_token(Token("t"), purpose, USER, ADA.email, NOW)
    short = {
        MailedTokenPurpose.RESET_PASSWORD: timedelta(hours=1),
        MailedTokenPurpose.SIGN_IN: timedelta(minutes=10),
        MailedTokenPurpose.MAGIC_LINK: timedelta(minutes=15),
        MailedTokenPurpose.PROVE: timedelta(minutes=15),
    }
    lifetime = short.get(purpose, timedelta(hours=24))
    assert token.is_usable(NOW + lifetime - timedelta(seconds=1))
    assert not token.is_usable(NOW + lifetime)
    assert not replace(token, used_at=NOW).is_usable(NOW)
    assert token.digest == Token("t").digest()


def test_every_link_is_good_for_one_thing() -> None:
    # The code of a proof has no link.
    assert set(MailedTokenPurpose) - {MailedTokenPurpose.PROVE} == PROVES_ADDRESS | CHOOSES_PASSWORD | SIGNS_IN
    assert len(MailedTokenPurpose) - 1 == len(PROVES_ADDRESS) + len(CHOOSES_PASSWORD) + len(SIGNS_IN)


def test_links_lead_to_where_they_are_redeemed() -> None:
    links = Links("https://id.example.org", "https://app.example.org")
    assert {purpose: links.redeeming(purpose, Token("t")) for purpose in set(MailedTokenPurpose) - {MailedTokenPurpose.PROVE}} == {
        MailedTokenPurpose.VERIFY_EMAIL: "https://id.example.org/ui/verify-email?token=t",
        MailedTokenPurpose.SIGN_IN: "https://id.example.org/ui/sign-in/link?token=t",
        MailedTokenPurpose.MAGIC_LINK: "https://id.example.org/ui/sign-in/link?token=t",
        MailedTokenPurpose.CHANGE_EMAIL: "https://id.example.org/ui/verify-email?token=t",
        MailedTokenPurpose.RESET_PASSWORD: "https://app.example.org/reset-password?token=t",
        MailedTokenPurpose.SET_PASSWORD: "https://app.example.org/set-password?token=t",
    }
    onward = {"client_id": "c", "redirect_uri": "https://app.example.org/?a=b&c"}
    assert links.redeeming(MailedTokenPurpose.MAGIC_LINK, Token("t"), onward) == (
        "https://id.example.org/ui/sign-in/link?token=t&client_id=c&redirect_uri=https%3A%2F%2Fapp.example.org%2F%3Fa%3Db%26c"
    )


def test_the_holder_of_a_link_learns_why_it_does_nothing() -> None:
    token = mailed_token(Token("t"), MailedTokenPurpose.VERIFY_EMAIL, USER, ADA.email, NOW)
    assert "not valid" in refusal_of(None).message
    assert "expired" in refusal_of(token).message
    assert "used" in refusal_of(replace(token, used_at=NOW)).message


@pytest.mark.parametrize("kind", AccountMail)
def test_what_is_mailed_to_whom(kind: AccountMail) -> None:
    verified = replace(ADA, email_verified_at=NOW)
    before, after = NOW - timedelta(seconds=1), NOW + timedelta(seconds=1)
    # An unproved address may have been registered by another person.
    assert kind.is_due(ADA, after) is (kind is not AccountMail.SIGN_IN_LINK)
    assert kind.is_due(verified, None) is (kind is not AccountMail.VERIFICATION)
    # Deactivated by the platform, and by a directory.
    assert not kind.is_due(replace(ADA, deactivated_at=NOW), after)
    assert not kind.is_due(replace(verified, deactivated_at=NOW), after)
    for account in (ADA, verified):
        by_directory = replace(account, deactivated_at=NOW, deactivated_by=OrganizationId(UUID(int=7)))
        opens = kind in {AccountMail.RESET, AccountMail.SET_PASSWORD} or (kind is AccountMail.SIGN_IN_LINK and account is verified)
        assert kind.is_due(by_directory, after) is opens
        for asked_at in (None, before, NOW):
            assert not kind.is_due(by_directory, asked_at)
    assert kind.purpose in MailedTokenPurpose


def test_the_job_keeps_its_address_to_itself() -> None:
    job = AskedMail(AccountMail.RESET, ADA.email, "acme").as_job()
    assert job.sealed
    assert job.payload == {"mail": "reset", "email": "ada@example.org", "organization": "acme", "language": ""}
    onward = Onward(service="shop", redirect_uri="https://shop.example/callback")
    asked = AskedMail(AccountMail.SIGN_IN_LINK, ADA.email, "acme", onward=onward)
    assert AskedMail.of_job(asked.as_job().payload) == asked


def test_a_mail_that_can_wait_says_so_to_the_queue() -> None:
    hurried, patient = (AskedMail(AccountMail.SET_PASSWORD, ADA.email, "acme", can_wait=wait) for wait in (False, True))
    assert [one.as_job().priority for one in (hurried, patient)] == [0, CAN_WAIT]
    assert AskedMail.of_job(patient.as_job().payload) == patient


def test_the_job_tells_when_somebody_asked() -> None:
    asked = AskedMail(AccountMail.RESET, ADA.email, asked_at=NOW)
    assert AskedMail.of_job(asked.as_job().payload) == asked


def test_the_job_names_the_account_that_it_was_asked_for_by() -> None:
    asked = AskedMail(AccountMail.SET_PASSWORD, ADA.email, account=ADA.id)
    assert named_account(asked.as_job().payload) == ADA.id
    assert AskedMail.of_job(asked.as_job().payload) == asked


VERIFIES, CHANGES = (mailed_token(Token("t"), purpose, USER, ADA.email, NOW) for purpose in sorted(PROVES_ADDRESS, reverse=True))
HERE, ELSEWHERE = Token("this browser"), Token("another browser")


@pytest.mark.parametrize(
    ("registration", "browser", "asked"),
    [
        (Registration("hash", HERE.digest()), HERE, AskedOnPage.NOTHING),
        (Registration("hash", HERE.digest()), ELSEWHERE, AskedOnPage.PASSWORD),
        (Registration("hash", HERE.digest()), None, AskedOnPage.PASSWORD),
        (Registration("hash"), HERE, AskedOnPage.PASSWORD),
        (Registration("hash"), None, AskedOnPage.PASSWORD),
        # Of what that browser did, nothing is left.
        (Registration(None, HERE.digest()), HERE, AskedOnPage.NEW_PASSWORD),
        (Registration(None), None, AskedOnPage.NEW_PASSWORD),
    ],
)
def test_the_link_of_a_registration_asks_for_its_password_but_where_it_was_made(
    registration: Registration, browser: Token | None, asked: AskedOnPage
) -> None:
    assert asked_of(VERIFIES, registration, browser) is asked
    assert asked_of(CHANGES, registration, browser) is AskedOnPage.NOTHING


@pytest.mark.parametrize("browser", [None, HERE])
def test_the_link_of_a_registration_does_nothing_to_an_account_that_is_proved(browser: Token | None) -> None:
    with pytest.raises(LinkRefused):
        asked_of(VERIFIES, None, browser)
    assert asked_of(CHANGES, None, browser) is AskedOnPage.NOTHING


def test_the_link_that_proves_an_address_says_where_to_go_on() -> None:
    link = Links("https://id.example.org", "https://app.example.org").redeeming(MailedTokenPurpose.VERIFY_EMAIL, Token("t"), {"flow": "f"})
    assert link == "https://id.example.org/ui/verify-email?token=t&flow=f"

"""Account mails: links that anyone may request by naming an address. The request only queues a job, and the job looks the account up. So a
request costs the same for known and unknown addresses.
"""

from enum import StrEnum
from typing import Final

from core.domain.email import Email
from core.domain.identity.accounts import Account
from core.domain.identity.mailed_tokens import MailedTokenPurpose
from core.domain.jobs import NewJob

ACCOUNT_MAIL_JOB: Final = "account.mail"


class AccountMail(StrEnum):
    """The values are the names of the templates."""

    VERIFICATION = "verification"
    RESET = "reset"
    SET_PASSWORD = "set_password"  # noqa: S105 - a kind of mail, not a password

    @property
    def purpose(self) -> MailedTokenPurpose:
        return _PURPOSES[self]

    def is_due(self, account: Account) -> bool:
        """A deactivated account gets no link. A verified one has nothing to verify."""
        if account.deactivated_at is not None:
            return False
        return self is not AccountMail.VERIFICATION or account.email_verified_at is None


_PURPOSES: Final = {
    AccountMail.VERIFICATION: MailedTokenPurpose.VERIFY_EMAIL,
    AccountMail.RESET: MailedTokenPurpose.RESET_PASSWORD,
    AccountMail.SET_PASSWORD: MailedTokenPurpose.SET_PASSWORD,
}


def account_mail_job(kind: AccountMail, email: Email, organization: str = "") -> NewJob:
    """Sealed, because the addresses that strangers ask about are private. The mail takes its looks from the organization with this slug."""
    return NewJob(ACCOUNT_MAIL_JOB, {"mail": kind.value, "email": email.address, "organization": organization}, sealed=True)

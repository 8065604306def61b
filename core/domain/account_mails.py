"""Account mails: links that anybody may ask for by naming an address. The request only leaves a job; whether there is such an account is
looked up when the job is done, so that known and unknown addresses cost whoever asks the same.
"""

from enum import StrEnum
from typing import Final

from core.domain.accounts import Account
from core.domain.email import Email
from core.domain.jobs import NewJob
from core.domain.mailed_tokens import MailedTokenPurpose

ACCOUNT_MAIL_JOB: Final = "account.mail"


class AccountMail(StrEnum):
    """Named as the templates are."""

    VERIFICATION = "verification"
    RESET = "reset"
    SET_PASSWORD = "set_password"  # noqa: S105 - a kind of mail, not a password

    @property
    def purpose(self) -> MailedTokenPurpose:
        return _PURPOSES[self]

    def is_due(self, account: Account) -> bool:
        """A deactivated account gets no way in; a verified one has nothing to verify."""
        if account.deactivated_at is not None:
            return False
        return self is not AccountMail.VERIFICATION or account.email_verified_at is None


_PURPOSES: Final = {
    AccountMail.VERIFICATION: MailedTokenPurpose.VERIFY_EMAIL,
    AccountMail.RESET: MailedTokenPurpose.RESET_PASSWORD,
    AccountMail.SET_PASSWORD: MailedTokenPurpose.SET_PASSWORD,
}


def account_mail_job(kind: AccountMail, email: Email, organization: str = "") -> NewJob:
    """Sealed: whose accounts strangers asked about is nobody's business. The organization, by its slug, lends the mail its looks."""
    return NewJob(ACCOUNT_MAIL_JOB, {"mail": kind.value, "email": email.address, "organization": organization}, sealed=True)

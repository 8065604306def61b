"""Account mails: links that anyone may request by naming an address. The request only queues a job, and the job looks the account up. So a
request costs the same for known and unknown addresses.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.identity.accounts import Account
from core.domain.identity.mailed_tokens import MailedTokenPurpose
from core.domain.jobs import CAN_WAIT, NewJob
from core.domain.json import Json
from core.domain.languages import Language
from core.domain.mail import named_account, naming
from core.frozen import Frozen

ACCOUNT_MAIL_JOB: Final = "account.mail"


class AccountMail(StrEnum):
    """The values are the names of the templates."""

    VERIFICATION = "verification"
    RESET = "reset"
    SET_PASSWORD = "set_password"  # noqa: S105 - a kind of mail, not a password
    SIGN_IN_LINK = "sign_in_link"

    @property
    def purpose(self) -> MailedTokenPurpose:
        return _PURPOSES[self]

    @property
    def opens_a_way_of_ours(self) -> bool:
        """By its link one can sign in, now or with the password that one chooses there."""
        return self is not AccountMail.VERIFICATION

    def is_due(self, account: Account) -> bool:
        """A deactivated account gets no link, unless it opens by the proof that following one is. A verified one has nothing to verify, and
        one that is not has still to prove its address: whoever registered it may be somebody else.
        """
        if account.is_shut:
            return False
        match self:
            case AccountMail.VERIFICATION:
                # By that alone nobody would come in.
                return account.email_verified_at is None and account.deactivated_at is None
            case AccountMail.SIGN_IN_LINK:
                return account.email_verified_at is not None
            case _:
                return True


_PURPOSES: Final = {
    AccountMail.VERIFICATION: MailedTokenPurpose.VERIFY_EMAIL,
    AccountMail.RESET: MailedTokenPurpose.RESET_PASSWORD,
    AccountMail.SET_PASSWORD: MailedTokenPurpose.SET_PASSWORD,
    AccountMail.SIGN_IN_LINK: MailedTokenPurpose.MAGIC_LINK,
}


class NoAccountMail(Exception):
    """The payload of this job asks for no account mail."""


class Onward(Frozen):
    """Where a link leads to in the end: on in the flow that it was asked for in, or to an application, or to the account pages."""

    flow: str = ""
    service: str = ""
    """The slug of a service of the organization whose looks the mail has."""
    redirect_uri: str = ""
    state: str = ""


NOWHERE: Final = Onward()


class AskedMail(Frozen):
    """An account mail that somebody asks for. It takes its looks from the organization with this slug, and is in this language unless the
    account has another. One that `can_wait` goes after those that somebody waits for: a directory may cause a hundred thousand. The
    `account` is named by those who know it; strangers name only an address.
    """

    kind: AccountMail
    email: Email
    organization: str = ""
    language: Language | None = None
    onward: Onward = NOWHERE
    can_wait: bool = False
    account: UserId | None = None

    def as_job(self) -> NewJob:
        """Sealed, because the addresses that strangers ask about are private."""
        asked = {"mail": self.kind.value, "email": self.email.address, "organization": self.organization, "language": self.language or ""}
        onward = {name: value for name in _ONWARD if (value := getattr(self.onward, name))}
        wait = {"can_wait": True} if self.can_wait else {}
        return NewJob(ACCOUNT_MAIL_JOB, {**asked, **onward, **wait, **naming(self.account)}, sealed=True, priority=self.priority)

    @property
    def priority(self) -> int:
        return CAN_WAIT if self.can_wait else 0

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> "AskedMail":
        """What `as_job` made into this payload, or an older process, which did not name a language. Raises `NoAccountMail`."""
        kind, email, organization = (payload.get(part) for part in ("mail", "email", "organization"))
        if not (kind in set(AccountMail) and isinstance(email, str) and isinstance(organization, str)):
            raise NoAccountMail
        onward = Onward(**{name: str(payload.get(name, "")) for name in _ONWARD})
        language, can_wait = Language.of(str(payload.get("language"))), payload.get("can_wait") is True
        return cls(AccountMail(str(kind)), Email(email), organization, language, onward, can_wait, named_account(payload))


_ONWARD: Final = ("flow", "service", "redirect_uri", "state")

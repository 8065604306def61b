"""Account mails: links that anyone may request by naming an address. The request only queues a job, and the job looks the account up. So a
request costs the same for known and unknown addresses.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.email import Email
from core.domain.identifiers import FlowId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.mailed_tokens import MailedTokenPurpose
from core.domain.jobs import CAN_WAIT, NewJob
from core.domain.json import Json, timestamp
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
        """The link of such a mail signs a person in, now or with the password that the person chooses there."""
        return self is not AccountMail.VERIFICATION

    def is_due(self, account: Account, asked_at: datetime | None) -> bool:
        """A deactivated account gets no link, unless the link opens the account: somebody has to ask for the link after the deactivation. A
        verified account has nothing to verify. An unverified account gets no sign-in link, because a stranger may have registered its
        address. A locked account gets a link for a new password alone.
        """
        if account.awaits_new_password and self is not AccountMail.RESET:
            return False
        if account.is_shut or (account.deactivated_at is not None and (asked_at is None or asked_at <= account.deactivated_at)):
            return False
        match self:
            case AccountMail.VERIFICATION:
                # Verifying the address alone would not open a deactivated account.
                return not account.address_is_proved and account.deactivated_at is None
            case AccountMail.SIGN_IN_LINK:
                return account.address_is_proved
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
    """The place that a link leads to after its work is done: the flow in which the person asked for the link, an application, or the
    account pages.
    """

    flow: str = ""
    service: str = ""
    """The slug of a service of the organization whose looks the mail has."""
    redirect_uri: str = ""
    state: str = ""

    @property
    def asking(self) -> FlowId | None:
        """The flow in whose browser a code counts. None when no browser asked, and the mail has a link alone."""
        return FlowId(UUID(self.flow)) if self.flow else None


NOWHERE: Final = Onward()


class Waiting(Frozen):
    """A budget of mails has held the mail back until a moment. `network` is where the request came from."""

    until: datetime
    network: str

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> "Waiting | None":
        until, network = payload.get("waits_until"), payload.get("network")
        return cls(datetime.fromisoformat(until), network) if isinstance(until, str) and isinstance(network, str) else None


class MailWaits(Exception):
    """A budget of mails holds the mail back until a moment."""

    def __init__(self, until: datetime) -> None:
        self.until = until
        super().__init__("a budget of mails holds it back")


class AskedMail(Frozen):
    """An account mail that somebody asks for. `organization` is a slug; the mail takes its looks from that organization. `language` applies
    unless the account has another. A mail with `can_wait` goes after the mails that people wait for: a directory may cause a hundred
    thousand of them. `account` is None when a stranger asks, because strangers name only an address. `asked_at` is None when nobody has
    asked for the mail: an organization sends it. A mail that `waits` is one that a budget of mails has held back.
    """

    kind: AccountMail
    email: Email
    organization: str = ""
    language: Language | None = None
    onward: Onward = NOWHERE
    can_wait: bool = False
    account: UserId | None = None
    asked_at: datetime | None = None
    waits: Waiting | None = None

    def as_job(self) -> NewJob:
        """The job is sealed, because the addresses that strangers ask about are private."""
        asked = {"mail": self.kind.value, "email": self.email.address, "organization": self.organization, "language": self.language or ""}
        onward = {name: value for name in _ONWARD if (value := getattr(self.onward, name))}
        wait = {"can_wait": True} if self.can_wait else {}
        when = {} if self.asked_at is None else {"asked_at": timestamp(self.asked_at)}
        held = {} if self.waits is None else {"waits_until": timestamp(self.waits.until), "network": self.waits.network}
        payload = {**asked, **onward, **wait, **when, **held, **naming(self.account)}
        return NewJob(ACCOUNT_MAIL_JOB, payload, sealed=True, priority=self.priority)

    @property
    def priority(self) -> int:
        return CAN_WAIT if self.can_wait else 0

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> "AskedMail":
        """Reads a payload that `as_job` made. Processes of older releases made payloads without a language or a time. Raises
        `NoAccountMail`.
        """
        kind, email, organization = (payload.get(part) for part in ("mail", "email", "organization"))
        if not (kind in set(AccountMail) and isinstance(email, str) and isinstance(organization, str)):
            raise NoAccountMail
        onward = Onward(**{name: str(payload.get(name, "")) for name in _ONWARD})
        language, can_wait = Language.of(str(payload.get("language"))), payload.get("can_wait") is True
        when = payload.get("asked_at")
        asked_at = datetime.fromisoformat(when) if isinstance(when, str) else None
        return cls(
            AccountMail(str(kind)),
            Email(email),
            organization,
            language,
            onward,
            can_wait,
            named_account(payload),
            asked_at,
            Waiting.of_job(payload),
        )


_ONWARD: Final = ("flow", "service", "redirect_uri", "state")

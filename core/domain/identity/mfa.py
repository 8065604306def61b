"""MFA by authenticator app and backup codes, and the log of its use."""

import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.identifiers import DeviceId, IdentityId, OrganizationId, PreauthenticationId, ServiceId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.upstream.directory_visits import DirectoryVisit
from core.domain.mail import mail_domain
from core.domain.rate_limits import RateLimit
from core.domain.secrets import Secret
from core.frozen import Frozen

STEP = timedelta(seconds=30)
TOLERANCE = 1  # steps each way
BACKUP_CODES = 10
PREAUTHENTICATION_LIFETIME = timedelta(seconds=600)
MOST_WRONG_CODES = 5

# Per person, over all addresses, pre-auth tokens and sessions. At any moment three of a million codes are right, so an attacker who tries
# for a whole day at this pace gets in with a chance of 1 in 450. A trusted device has a bucket of its own, and only a right code makes a
# device trusted: an attacker who knows the password must not lock the owner out. A session has limits of its own, at the set-up and where
# it has to prove itself again, so the thief of a session cannot use up the tries that the owner needs to sign in. A thief who also knows
# the password has twice the tries.
CODES_AT_SIGN_IN = RateLimit("mfa_codes_at_sign_in", burst=10, seconds_per_request=120)
CODES_IN_SESSION = RateLimit("mfa_codes_in_session", burst=10, seconds_per_request=120)
CODES_AT_SET_UP = RateLimit("mfa_codes_at_set_up", burst=10, seconds_per_request=120)

# Without I, O, 0 and 1, which look alike on paper. Eight of these 32 characters are 40 bits: nobody guesses a code at the pace above. Only
# a keyed digest of a code is stored.
BACKUP_CODE_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
BACKUP_CODE_LENGTH: Final = 8
# ASCII digits only: other scripts have digits too, but no authenticator shows them.
_TIME_BASED_CODE: Final = re.compile(r"[0-9]{6}")
_BACKUP_CODE: Final = re.compile(rf"[{BACKUP_CODE_ALPHABET}]{{{BACKUP_CODE_LENGTH}}}", re.ASCII | re.IGNORECASE)
_SEPARATORS: Final = re.compile(r"[ -]")
# How long a page may show a secret that is not confirmed yet, and backup codes that were just made.
SHOWN_FOR: Final = timedelta(minutes=10)
# Long enough for the separators that people type.
LONGEST_CODE: Final = 20


class MfaMethod(StrEnum):
    TOTP = "totp"
    BACKUP_CODE = "backup_code"
    PASSKEY = "passkey"
    """A passkey that stays on its device."""
    SYNCED_PASSKEY = "synced_passkey"
    """A passkey that may be copied to other devices of the person."""


class MfaEvent(StrEnum):
    SETUP_INITIATED = "mfa_setup_initiated"
    SETUP_COMPLETED = "mfa_setup_completed"
    SETUP_FAILED = "mfa_setup_failed"
    ENABLED = "mfa_enabled"
    DISABLED = "mfa_disabled"
    FORCE_DISABLED = "mfa_force_disabled_by_admin"
    VERIFY_ATTEMPT = "mfa_verify_attempt"
    VERIFY_SUCCESS = "mfa_verify_success"
    VERIFY_FAILED = "mfa_verify_failed"
    BACKUP_CODES_GENERATED = "backup_codes_generated"
    BACKUP_CODES_SHOWN = "backup_codes_shown"
    BACKUP_CODE_USED = "backup_code_used"
    PASSKEY_ADDED = "passkey_added"
    PASSKEY_REMOVED = "passkey_removed"
    PASSKEY_COPIED = "passkey_copied"


class CodesShown(Exception):
    """The backup codes were shown before, and are not shown again."""


class Refused(StrEnum):
    """The reason why a code or a change was refused, for the log."""

    NOT_SET_UP = "not_set_up"
    NOT_ENABLED = "not_enabled"
    ALREADY_ENABLED = "already_enabled"
    WRONG_CODE = "wrong_code"
    USED_CODE = "used_code"
    NO_PASSKEY = "no_passkey"


class MfaSecret(Frozen):
    user: UserId
    sealed_secret: bytes
    created_at: datetime
    enabled_at: datetime | None
    last_step: int
    session: SessionId | None = None
    """The session that began a set-up which is not confirmed yet. None when a process of the release before began it; that release did not
    record the session.
    """

    def awaits_code_in(self, session: SessionId) -> bool:
        """Whether this session may show and confirm the secret. Another session may be an attacker's, and must not learn the secret."""
        return self.enabled_at is None and self.session in {None, session}


class Guess(Frozen):
    """A code is about to be checked. A positive `wait`, in seconds, means that there were too many codes already: this code must not be
    checked.
    """

    wait: float
    secret: MfaSecret | None
    enabled: bool
    """Whether the person has a second factor at all, also one of passkeys alone. Backup codes count only then."""


class SecondFactorStatus(Frozen):
    enabled: bool
    has_backup_codes: bool


class SetUp(Frozen):
    """The data that an authenticator needs, in three forms. The QR code is an SVG of the URI."""

    secret: Secret
    uri: Secret
    qr_code: Secret


class Preauthentication(Frozen):
    """The first proof was good, and the second factor is still missing."""

    id: PreauthenticationId
    user: UserId
    device: DeviceId | None
    organization: OrganizationId | None
    created_at: datetime
    expires_at: datetime
    service: ServiceId | None = None
    """The service that the sign-in leads to. None when it leads to the platform."""
    provider: str = "password"
    amr: tuple[str, ...] = ("pwd",)
    """The methods of the first proof."""
    identity: IdentityId | None = None
    """The connected account at a provider that gave the first proof. If this connection is removed, the sign-in ends."""
    upstream: str = ""
    """The provider's key: the word of a shared provider, or the id of an organization's own. Filled when the store reads a
    pre-authentication.
    """
    visit: DirectoryVisit | None = None
    """The visit to an organization's own provider that gave the first proof."""
    stated_at: datetime | None = None
    """When the person gave the first proof at a provider; see `Proved.stated_at`."""
    refuses_applications: bool = False
    vouched_domains: frozenset[str] | None = None
    """The domains that the organization's own provider may vouch for at this moment. None when the first proof did not come from such a
    provider.
    """

    def counts_for(self, account: Account) -> bool:
        """Whether the first proof would still let this account in."""
        domains = self.vouched_domains
        return domains is None or (not account.is_platform_owner and mail_domain(account.email) in domains)


def may_be_shown(made_at: datetime, now: datetime) -> bool:
    """Whether a secret that was made at `made_at` may still be shown."""
    return now - made_at <= SHOWN_FOR


def is_recent(form: UUID, now: datetime) -> bool:
    """Whether the page of this form is new enough. Ids begin with the time at which they were made, in milliseconds. A client may make up
    an id with a false time: the id works in that client's own session alone.
    """
    age = now.timestamp() - int.from_bytes(form.bytes[:6]) / 1000
    return -STEP.total_seconds() <= age <= SHOWN_FOR.total_seconds()


def step_at(moment: datetime) -> int:
    """RFC 6238 section 4.2: T = floor(Unix time / 30)."""
    return int(moment.timestamp()) // int(STEP.total_seconds())


def time_based_code(text: str) -> str | None:
    """The code as an authenticator shows it, `123 456` included. None when the text cannot be a code."""
    code = _bare(text)
    return code if _TIME_BASED_CODE.fullmatch(code) else None


def backup_code(text: str) -> str | None:
    """The form that is digested: hyphen, spaces and case do not count. None when the text cannot be a code."""
    code = _bare(text)
    return code.upper() if _BACKUP_CODE.fullmatch(code) else None


def as_shown(code: str) -> str:
    """With a hyphen: `XXXX-XXXX`."""
    half = BACKUP_CODE_LENGTH // 2
    return f"{code[:half]}-{code[half:]}"


def sealing_context(user: UserId) -> str:
    """Names the place of a person's secret. The encryption of the secret is bound to this place."""
    return f"mfa_secrets.sealed_secret:{user}"


def _bare(text: str) -> str:
    return _SEPARATORS.sub("", text) if len(text) <= LONGEST_CODE else ""

"""The second factor: time-based codes, backup codes, and the log of what people did with them."""

import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.email import mail_domain
from core.domain.identifiers import DeviceId, IdentityId, OrganizationId, PreauthenticationId, ServiceId, SessionId, UserId
from core.domain.identity.accounts import Account
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
# device trusted: an attacker who knows the password must not lock the owner out. A stolen session has limits of its own, at the set-up and
# where it has to prove itself again, so it cannot use up the tries that the owner needs to sign in. Whoever has such a session and the
# password too has twice the tries.
CODES_AT_SIGN_IN = RateLimit("mfa_codes_at_sign_in", burst=10, seconds_per_request=120)
CODES_IN_SESSION = RateLimit("mfa_codes_in_session", burst=10, seconds_per_request=120)
CODES_AT_SET_UP = RateLimit("mfa_codes_at_set_up", burst=10, seconds_per_request=120)

# Without I, O, 0 and 1, which look alike on paper. Eight of these 32 characters are 40 bits: far beyond guessing at that pace. Only a keyed
# digest of a code is stored.
BACKUP_CODE_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
BACKUP_CODE_LENGTH: Final = 8
# ASCII digits only: other scripts have digits too, but no authenticator shows them.
_TIME_BASED_CODE: Final = re.compile(r"[0-9]{6}")
_BACKUP_CODE: Final = re.compile(rf"[{BACKUP_CODE_ALPHABET}]{{{BACKUP_CODE_LENGTH}}}", re.ASCII | re.IGNORECASE)
_SEPARATORS: Final = re.compile(r"[ -]")
# How long a page may show a secret that is not confirmed yet, and backup codes that were just made.
SHOWN_FOR: Final = timedelta(minutes=10)
# With the separators that people type.
LONGEST_CODE: Final = 20


class MfaMethod(StrEnum):
    TOTP = "totp"
    BACKUP_CODE = "backup_code"
    PASSKEY = "passkey"
    """One that stays on its device."""
    SYNCED_PASSKEY = "synced_passkey"
    """One that may be copied to others of the person's devices."""


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
    BACKUP_CODE_USED = "backup_code_used"
    PASSKEY_ADDED = "passkey_added"
    PASSKEY_REMOVED = "passkey_removed"
    PASSKEY_COPIED = "passkey_copied"


class Refused(StrEnum):
    """Why a code or a change was refused; the log keeps it."""

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
    """That began a set-up which is not confirmed yet. None: a process of the release before began it, which knew of no session."""

    def awaits_code_in(self, session: SessionId) -> bool:
        """Whether it is shown and confirmed there: to another session, which may be somebody else's, it is no secret to know of."""
        return self.enabled_at is None and self.session in {None, session}


class Guess(Frozen):
    """A code is about to be checked. A `wait`, in seconds, means that there were too many codes already and that this one must not be
    checked.
    """

    wait: float
    secret: MfaSecret | None
    enabled: bool
    """Whether the person has a second factor at all, be it by passkeys alone: only then do backup codes count."""


class SecondFactorStatus(Frozen):
    enabled: bool
    has_backup_codes: bool


class SetUp(Frozen):
    """What an authenticator needs, in three forms; the QR code is an SVG of the URI."""

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
    """Where the sign-in should lead, if not to the platform."""
    provider: str = "password"
    amr: tuple[str, ...] = ("pwd",)
    """The first proof's."""
    identity: IdentityId | None = None
    """By which the first proof was given at a provider. The sign-in ends with it."""
    upstream: str = ""
    """The provider: its word, or the id of an organization's own. Known to whoever finds this again."""
    vouched_domains: frozenset[str] | None = None
    """Whose addresses the word of an organization's own provider counts for, at this moment. None: the proof was another."""

    def counts_for(self, account: Account) -> bool:
        """Whether the first proof would still let this account in."""
        domains = self.vouched_domains
        return domains is None or (not account.is_platform_owner and mail_domain(account.email) in domains)


def may_be_shown(made_at: datetime, now: datetime) -> bool:
    """Whether what was made then may still be looked at again."""
    return now - made_at <= SHOWN_FOR


def is_recent(form: UUID, now: datetime) -> bool:
    """Whether the page of this form is that new. Ids begin with the time at which they were made, in milliseconds. An id that somebody
    thought up may lie: it is good in their own session alone.
    """
    age = now.timestamp() - int.from_bytes(form.bytes[:6]) / 1000
    return -STEP.total_seconds() <= age <= SHOWN_FOR.total_seconds()


def step_at(moment: datetime) -> int:
    """RFC 6238 section 4.2: T = floor(Unix time / 30)."""
    return int(moment.timestamp()) // int(STEP.total_seconds())


def time_based_code(text: str) -> str | None:
    """As an authenticator shows it, `123 456` included. None when the text cannot be a code."""
    code = _bare(text)
    return code if _TIME_BASED_CODE.fullmatch(code) else None


def backup_code(text: str) -> str | None:
    """The form that is digested: hyphen, spaces and case do not count. None when the text cannot be a code."""
    code = _bare(text)
    return code.upper() if _BACKUP_CODE.fullmatch(code) else None


def as_shown(code: str) -> str:
    """`XXXX-XXXX`."""
    half = BACKUP_CODE_LENGTH // 2
    return f"{code[:half]}-{code[half:]}"


def sealing_context(user: UserId) -> str:
    """The place of a person's secret. The encryption of the secret is bound to it."""
    return f"mfa_secrets.sealed_secret:{user}"


def _bare(text: str) -> str:
    return _SEPARATORS.sub("", text) if len(text) <= LONGEST_CODE else ""

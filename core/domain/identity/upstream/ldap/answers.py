"""Results of an LDAP directory: the user, or why it could not be asked."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.identity.upstream.ldap.settings import LdapIdentity, LdapSettings, opened_password
from core.domain.normal_forms import has_long_run
from core.domain.secrets import Secret
from core.frozen import Frozen

LONGEST_SIGN_IN_NAME: Final = 256
LONGEST_TYPED_PASSWORD: Final = 1024
_GUID_BYTES: Final = 16
_LONGEST_IDENTITY: Final = 100
_INVALID_CREDENTIALS: Final = 49
# The directory itself cannot answer now: RFC 4511, appendix A.2, and the time limit.
_BUSY: Final = frozenset({51, 52})
_NOT_NOW: Final = frozenset({3, *_BUSY})
# Active Directory names its reason in the words of the answer, as a number of Windows in hexadecimal.
_DATA: Final = re.compile(r"\bdata ([0-9a-fA-F]{1,8})\b")


class BindOutcome(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    LOCKED = "locked"
    REFUSED = "refused"
    """For another reason, which the administrator reads."""
    OUTSIDE_HOURS = "outside_hours"
    OTHER_WORKSTATION = "other_workstation"
    PASSWORD_EXPIRED = "password_expired"  # noqa: S105 - a reason
    DISABLED = "disabled"
    ACCOUNT_EXPIRED = "account_expired"
    MUST_CHANGE = "must_change"

    @property
    def is_shown(self) -> bool:
        """Whether the person reads it. The directory names these reasons only after a right password."""
        return self in _SHOWN


_SHOWN: Final = frozenset(
    {
        BindOutcome.OUTSIDE_HOURS,
        BindOutcome.OTHER_WORKSTATION,
        BindOutcome.PASSWORD_EXPIRED,
        BindOutcome.DISABLED,
        BindOutcome.ACCOUNT_EXPIRED,
        BindOutcome.MUST_CHANGE,
    }
)
_OF_WINDOWS: Final = {
    "525": BindOutcome.UNKNOWN,
    "52e": BindOutcome.WRONG,
    "530": BindOutcome.OUTSIDE_HOURS,
    "531": BindOutcome.OTHER_WORKSTATION,
    "532": BindOutcome.PASSWORD_EXPIRED,
    "533": BindOutcome.DISABLED,
    "701": BindOutcome.ACCOUNT_EXPIRED,
    "773": BindOutcome.MUST_CHANGE,
    "775": BindOutcome.LOCKED,
}
# draft-behera-ldap-password-policy-10, section 6.2.
_OF_POLICY: Final = {0: BindOutcome.PASSWORD_EXPIRED, 1: BindOutcome.LOCKED, 2: BindOutcome.MUST_CHANGE}


class LdapAnswer(Frozen, kw_only=True):
    """The directory's answer to a bind."""

    code: int
    said: str = ""
    """The directory's words."""
    policy: int | None = None
    """The error that its password policy names."""
    must_change: bool = False

    @property
    def outcome(self) -> BindOutcome:
        """A password that has to be changed signs nobody in: here nobody can change it."""
        by_policy = None if self.policy is None else _OF_POLICY.get(self.policy)
        if self.code == 0:
            if self.must_change or by_policy is BindOutcome.MUST_CHANGE:
                return BindOutcome.MUST_CHANGE
            return BindOutcome.RIGHT
        if by_policy is not None:
            return by_policy
        if self.code != _INVALID_CREDENTIALS:
            return BindOutcome.REFUSED
        found = _DATA.search(self.said)
        return BindOutcome.WRONG if found is None else _OF_WINDOWS.get(found[1].lower(), BindOutcome.WRONG)

    @property
    def is_away(self) -> bool:
        return self.code in _NOT_NOW

    @property
    def is_busy(self) -> bool:
        return self.code in _BUSY


class LdapEntry(Frozen):
    dn: str
    attributes: Mapping[str, Sequence[bytes]]
    """By their names in lower case."""

    def texts(self, attribute: str) -> Sequence[str]:
        """The values that are text."""
        found = []
        for one in self.attributes.get(attribute.lower(), ()):
            try:
                found.append(one.decode())
            except UnicodeDecodeError:
                continue
        return found


class LdapSite(Frozen):
    """A directory, and the password of the account that looks people up there."""

    settings: LdapSettings
    password: Secret


def ldap_site(settings: LdapSettings, opened: Secret) -> LdapSite:
    """`opened` is the bind password with what it belongs to."""
    return LdapSite(settings, Secret(opened_password(settings, opened.reveal().encode())))


class NotRecognised(Exception):
    """The entry has no value, several, or a malformed one in the attribute of identity."""


def identity_of(entry: LdapEntry, attribute: LdapIdentity) -> bytes:
    """What a person, or a group, is known by at the directory for good. Raises `NotRecognised`."""
    values = entry.attributes.get(attribute.value.lower(), ())
    if len(values) != 1:
        raise NotRecognised("no value" if not values else "several values")
    value = bytes(values[0])
    if attribute is LdapIdentity.OBJECT_GUID:
        if len(value) != _GUID_BYTES:
            raise NotRecognised("no GUID")
        return value
    if not 0 < len(value) <= _LONGEST_IDENTITY or not value.isascii() or not value.decode().isprintable():
        raise NotRecognised("no identifier")
    return value.lower()


def subject_from(identity: bytes, attribute: LdapIdentity) -> str:
    """The text by which the person is known here."""
    return str(UUID(bytes_le=identity)) if attribute is LdapIdentity.OBJECT_GUID else identity.decode()


def subject_of(entry: LdapEntry, attribute: LdapIdentity) -> str:
    """The text by which the person is known here for good. Raises `NotRecognised`."""
    return subject_from(identity_of(entry, attribute), attribute)


def shown(text: str, longest: int) -> str:
    """A text that others have written, as an administrator reads it."""
    return "".join(one if one.isprintable() else "·" for one in text[:longest])


def usable_name(typed: str) -> str | None:
    """The name as it goes to the directory. None for a text that is no name anywhere, which no directory gets."""
    name = typed.strip()
    return name if 0 < len(name) <= LONGEST_SIGN_IN_NAME and name.isprintable() and not has_long_run(name) else None


def usable_password(typed: str) -> bool:
    """A bind with an empty password is one of nobody, which directories answer with success (RFC 4513, section 5.1.2). Some read a password
    up to its first zero byte.
    """
    return 0 < len(typed) <= LONGEST_TYPED_PASSWORD and "\0" not in typed


class LdapStep(StrEnum):
    """The steps of a test, in order. Each is a line of the page."""

    NAME = "ldap_name"
    CONNECTION = "ldap_connection"
    START_TLS = "ldap_start_tls"
    CERTIFICATE = "ldap_certificate"
    BIND = "ldap_bind"
    BASE = "ldap_base"
    FILTER = "ldap_filter"
    IDENTITY = "ldap_identity"
    ADDRESSES = "ldap_addresses"
    GROUPS = "ldap_groups"
    LOCKOUT = "ldap_lockout"
    SIGN_IN = "ldap_sign_in"


class LdapFault(StrEnum):
    """Why an LDAP directory could not be asked, step by step as a connection proceeds."""

    NO_NAME = "no_name"
    NOT_ALLOWED = "not_allowed"
    """The operator of this installation does not allow calls to this address."""
    NO_ANSWER = "no_answer"
    TOO_SLOW = "too_slow"
    CUT_OFF = "cut_off"
    NO_TLS = "no_tls"
    START_TLS_REFUSED = "start_tls_refused"
    BYTES_BEHIND = "bytes_behind"
    """Something came in clear behind the answer that begins TLS: somebody on the way may have put it there."""
    OTHER_HOST = "other_host"
    EXPIRED = "expired"
    OTHER_AUTHORITY = "other_authority"
    UNTRUSTED = "untrusted"
    NO_AUTHORITY = "no_authority"
    BIND_REFUSED = "bind_refused"
    NO_PASSWORD = "no_password"  # noqa: S105 - a fault
    """Nobody has typed the bind password for these hosts."""
    NO_BASE = "no_base"
    REFERRED = "referred"
    SEARCH_REFUSED = "search_refused"
    MALFORMED = "malformed"
    TOO_LONG = "too_long"
    SURVEYED = "surveyed"
    """Another test of the same connection is under way."""
    CUT_SHORT = "cut_short"
    """The directory gives the bind account only a part of what there is. A part is never taken for the whole."""
    NO_IDENTITY = "no_identity"
    """Nobody has a single value in the attribute of identity."""
    BUSY = "busy"
    """The directory says that it is, or that it is unavailable."""


class LdapFailed(Exception):
    """`host` is the one that was asked last, and `came` the directory's own words, for an administrator."""

    def __init__(self, step: LdapStep, fault: LdapFault, came: str = "", host: str = "") -> None:
        super().__init__(f"{step.value}: {fault.value}")
        self.step = step
        self.fault = fault
        self.came = came[:300]
        self.host = host
        self.has_answered = False
        """The directory had found people for us before. It is there, and what came then may be a stranger's doing."""

    @property
    def is_outage(self) -> bool:
        """Whether the directory is away. An outage may open other ways in, so nothing that a stranger brings about by a name or a password
        is one, nor is a fault of the settings.
        """
        return self.fault in _AWAY or (self.fault in _BROKEN_OFF and not self.has_answered)


_AWAY: Final = frozenset({LdapFault.NO_NAME, LdapFault.NO_ANSWER, LdapFault.BUSY})
_BROKEN_OFF: Final = frozenset({LdapFault.TOO_SLOW, LdapFault.CUT_OFF})

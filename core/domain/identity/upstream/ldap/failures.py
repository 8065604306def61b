"""Why a directory by LDAP could not be asked, step by step as a connection goes."""

from enum import StrEnum
from typing import Final


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

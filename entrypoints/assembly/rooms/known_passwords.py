"""Passwords that guessers know: the shipped list, and the filter or the service that the operator names."""

from adapters.crypto.common_passwords import ShippedCommonPasswords
from adapters.crypto.known_passwords.filters import FilterUnusable, NoBreachedPasswords, WatchedFilter, filter_head
from adapters.crypto.known_passwords.ranges import PasswordRanges
from core.domain.outbound import NotADestination
from core.frozen import Frozen
from core.usecases.identity.sign_in.proofs.password import KnownPasswords
from entrypoints.assembly.foundation import Foundation
from entrypoints.settings import Settings, SettingsError
from ports.crypto import BreachedPasswords


class KnownPasswordsRoom(Frozen):
    passwords: KnownPasswords
    filter: WatchedFilter | None
    """An actor opens it, so that no start waits until it is read."""


def assemble_known_passwords(settings: Settings, foundation: Foundation) -> KnownPasswordsRoom:
    """Raises `SettingsError`."""
    watched = None
    breached: BreachedPasswords = NoBreachedPasswords()
    if settings.password_filter is not None and settings.password_ranges is not None:
        raise SettingsError("POSTERN_PASSWORD_FILTER and POSTERN_PASSWORD_RANGES exclude each other: name the file or the service")
    if settings.password_filter is not None:
        try:
            filter_head(settings.password_filter)
        except FilterUnusable as error:
            raise SettingsError(f"POSTERN_PASSWORD_FILTER: the file {settings.password_filter} {error}") from None
        breached = watched = WatchedFilter(settings.password_filter)
    if settings.password_ranges is not None:
        try:
            breached = PasswordRanges(foundation.outbound, settings.password_ranges)
        except NotADestination as error:
            raise SettingsError(f"POSTERN_PASSWORD_RANGES {error}") from None
    return KnownPasswordsRoom(KnownPasswords(ShippedCommonPasswords(), breached), watched)

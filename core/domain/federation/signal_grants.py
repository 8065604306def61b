"""The scopes `ssf.manage` and `ssf.read`, which a user grants an application for its Shared Signals streams."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256

from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused, AuthorizationRequest
from core.domain.federation.oauth.given_sessions import session_named
from core.domain.federation.oauth.resources import words
from core.domain.federation.signals import SignalGrant, SignalSettings
from core.domain.formats import Json
from core.domain.identity.sessions import TokenUse
from core.domain.services.resource_servers import SIGNAL_SCOPES
from core.frozen import Frozen, replace


class OfferedSignals(Frozen):
    """What the person of a request may grant, as an owner has turned it on.

    Only a user who may manage the integrations of the application's organization grants them, and nothing skips the page: not the
    organization's trust, and no earlier consent. The events and the receiver may be others today.
    """

    settings: SignalSettings

    @property
    def digest(self) -> bytes:
        """What the page shows. A form with another digest allows nothing: its page has shown other events or hosts."""
        shown = [[one.value for one in self.settings.events], list(self.settings.hosts)]
        return sha256(json.dumps(shown).encode()).digest()


def signals_asked(words: Sequence[str]) -> tuple[str, ...]:
    """The scopes of signals among the words of a scope, each once."""
    return tuple(sorted(SIGNAL_SCOPES.intersection(words)))


def granted_of(request: AuthorizationRequest, offered: OfferedSignals | None) -> AuthorizationRequest:
    """What the person of the request may grant. To anybody else, the application gets its answer as if it had not asked for signals."""
    return replace(request, signal_scopes=()) if offered is None and request.signal_scopes else request


def grant_of(claims: Mapping[str, Json]) -> SignalGrant | None:
    """The session of a token that we signed, with its scopes of signals. None for a token of any other use: for an API, for an exchange, in
    somebody else's name.
    """
    scopes = signals_asked(words(str(claims.get("scope", ""))))
    # A token that names no scope of signals is not read any further.
    if not scopes or claims.get("token_use") != TokenUse.ACCESS.value or not claims.keys().isdisjoint(("resource_id", "act")):
        return None
    named = session_named(claims)
    return None if named is None else SignalGrant(*named, scopes)


def with_signals(request: AuthorizationRequest, *, are_on: bool) -> AuthorizationRequest:
    """The request, for an application whose signals are on or off. Where they are off, the two scopes are as any that nobody knows, or
    those of an API. Where they are on, no API has them. Raises `AuthorizationRefused` when nothing is left of the scopes.
    """
    if not request.signal_scopes:
        return request
    if are_on:
        return replace(request, foreign_scopes=tuple(one for one in request.foreign_scopes if one not in SIGNAL_SCOPES))
    if not request.scopes and not request.resources:
        raise AuthorizationRefused(AuthorizationErrorCode.INVALID_SCOPE, "scope: none of these scopes exists")
    return replace(request, signal_scopes=())

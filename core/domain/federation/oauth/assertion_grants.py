"""The grant of identity assertions, in the words of OAuth: what an assertion allows, and how it is refused."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.audiences import TokenAudience
from core.domain.errors import BadRequest
from core.domain.federation.oauth.oauth_errors import InvalidGrant, InvalidScope, InvalidTarget
from core.domain.federation.oauth.resources import MOST_RESOURCES, OfferedResource
from core.domain.federation.oauth.scopes import LONGEST_SCOPES, words
from core.domain.federation.refusal_reasons import RefusalReason
from core.domain.identifiers import IdentityId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.sessions import Context
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.identities import Encounter, Linking, linking
from core.domain.identity.upstream.identity_assertions import (
    IdentityAssertionFault,
    IdentityAssertionRefusal,
    IssuingConnection,
    in_words,
)
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen


class IdentityAssertionRefused(InvalidGrant):
    """The fault is also kept for those who look after the application."""

    recorded_as = RefusalReason.IDENTITY_ASSERTION

    def __init__(self, fault: IdentityAssertionFault, message: str) -> None:
        super().__init__(message, detail=fault.value)
        self.fault = fault


class AssertionVerdict(Frozen):
    """What would come of an assertion. `fault` is None if the application would get a token."""

    fault: IdentityAssertionFault | None
    came: str = ""

    @property
    def said(self) -> tuple[str, str]:
        """The verdict in words, and the change that helps."""
        if self.fault is None:
            return "The application would get a token. Nothing was issued, and the assertion is as good as before.", ""
        words_, mend = in_words(self.fault)
        return f"{words_}: {self.came}." if self.came else f"{words_}.", f"{mend}."


# What an application is told about a person whom its directory names. The recorder of the connection says more.
_OF_PERSON: Final = frozenset(
    (
        *(IdentityAssertionFault.PERSON_UNKNOWN, IdentityAssertionFault.PERSON_DEACTIVATED, IdentityAssertionFault.DOMAIN),
        *(IdentityAssertionFault.NOT_MEMBER, IdentityAssertionFault.NOT_ADMITTED),
    )
)


def oauth_refusal(refusal: IdentityAssertionRefusal) -> BadRequest:
    """The answer to the application. The connection's recorder has every reason."""
    told, _ = in_words(refusal.fault)
    if refusal.fault in {IdentityAssertionFault.RESOURCE, IdentityAssertionFault.RESOURCE_CLOSED}:
        return InvalidTarget(f"resource: {told}")
    if refusal.fault is IdentityAssertionFault.SCOPE:
        return InvalidScope(f"scope: {told}")
    if refusal.fault in _OF_PERSON:
        told = "The connection does not let this person in: its recorder says why"
    return IdentityAssertionRefused(refusal.fault, told)


def named_api(claims: Mapping[str, Any], asked: str | None) -> str:
    """The API of the token: one that the assertion names. The request may choose one of several. Raises `IdentityAssertionRefusal`."""
    given = claims.get("resource")
    named = given if isinstance(given, list | tuple) else (given,)
    if not 0 < len(named) <= MOST_RESOURCES or not all(isinstance(one, str) and one for one in named):
        raise IdentityAssertionRefusal(IdentityAssertionFault.RESOURCE)
    if asked is None and len(set(named)) == 1:
        return str(named[0])
    if asked is None or asked not in named:
        raise IdentityAssertionRefusal(IdentityAssertionFault.RESOURCE)
    return asked


def named_scopes(claims: Mapping[str, Any], asked: str | None) -> Sequence[str]:
    """The scopes of the token: those of the assertion, or fewer. Without any in the assertion, the token has none. Raises
    `IdentityAssertionRefusal`.
    """
    given = claims.get("scope", "")
    if not isinstance(given, str) or max(len(given), len(asked or "")) > LONGEST_SCOPES:
        raise IdentityAssertionRefusal(IdentityAssertionFault.SCOPE)
    allowed = words(given)
    if asked is None:
        return allowed
    wanted = words(asked)
    if not set(wanted) <= set(allowed):
        raise IdentityAssertionRefusal(IdentityAssertionFault.SCOPE)
    return wanted


def audience_of(offered: Sequence[OfferedResource], scopes: Sequence[str]) -> TokenAudience:
    """The API as the token has it, with the scopes that the person may have. Nobody signs in here, so scopes that ask for a proof are left
    out. Raises `IdentityAssertionRefusal`.
    """
    if not offered:
        raise IdentityAssertionRefusal(IdentityAssertionFault.RESOURCE_CLOSED)
    (resource,) = offered
    if scopes and not any(scope.name in scopes for scope in resource.scopes):
        raise IdentityAssertionRefusal(IdentityAssertionFault.SCOPE)
    unasked = [scope.name for scope in resource.scopes if scope.name in scopes and not scope.demand.asks]
    return resource.granted(unasked, by_trust=True)


def known_person(asserted: Asserted, met: Encounter, connection: IssuingConnection) -> tuple[Account, IdentityId]:
    """The account that the connection's sign-ins open, by the one decision about all of them. An assertion makes and connects nothing.
    Raises `IdentityAssertionRefusal`.
    """
    decided = linking(asserted, met, str(connection.id), of_organization=True)
    if decided is Linking.SIGN_IN and met.connected is not None and met.identity is not None:
        return met.connected.account, met.identity
    raise IdentityAssertionRefusal(_PERSON_FAULTS.get(decided, IdentityAssertionFault.PERSON_UNKNOWN))


_PERSON_FAULTS: Final = {
    Linking.DEACTIVATED: IdentityAssertionFault.PERSON_DEACTIVATED,
    Linking.NOT_FOR_ACCOUNT: IdentityAssertionFault.DOMAIN,
}


def assertion_accepted(user: UserId, context: Context, session: SessionId, connection: IssuingConnection, audience: TokenAudience) -> Event:
    """The directory has decided, and the application acts: the request comes from its servers and says nothing about the person's place."""
    details = {
        "provider_id": str(connection.id),
        "provider": connection.name,
        "service_id": str(context.service),
        "service_slug": context.service_slug,
        "resource": audience.identifier,
        "scope": " ".join(audience.scopes),
        "session_id": str(session),
    }
    return Event("user.assertion.accepted", Actor(user), Target("user", str(user)), connection.organization, details)

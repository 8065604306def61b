"""What an application requests tokens for: APIs and scopes, and what scopes require of the sign-in."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused, AuthorizationRequest
from core.domain.federation.oauth.refusals import InvalidScope, InvalidTarget
from core.domain.identifiers import ResourceServerId
from core.domain.identity.flows import Wanted
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import TWO_FACTORS, context_class
from core.domain.tokens import TokenAlgorithm, TokenAudience
from core.frozen import Frozen, replace

OPENID: Final = "openid"
PROFILE: Final = "profile"
EMAIL: Final = "email"
OFFLINE_ACCESS: Final = "offline_access"
"""The session lives on when the person signs out in the browser."""
ORGANIZATION: Final = "organization"
"""The organization of the service, and the person's role in it."""
ROLES: Final = "roles"
"""The roles that the person holds in the service, and what these roles permit there."""
GROUPS: Final = "groups"
"""The role in the organization in the form of a group, which more applications understand, and the person's teams there."""
PROVIDER_TOKEN: Final = "provider_token"  # noqa: S105 - a scope
"""The person's access token at the provider through which they signed in. Other sessions than those of an authorization need no scope."""
SCOPES: Final = (OPENID, PROFILE, EMAIL, OFFLINE_ACCESS, ORGANIZATION, ROLES, GROUPS, PROVIDER_TOKEN)

LONGEST_SCOPES: Final = 1000


def words(text: str) -> tuple[str, ...]:
    """The scopes that a request names, each once, in the order of the request."""
    return tuple(dict.fromkeys(text.split(" "))) if text.strip(" ") else ()


def known(named: Sequence[str]) -> tuple[str, ...]:
    """Scopes are the data and actions that a user allows an application (RFC 6749 section 3.3, OpenID Connect Core sections 5.4 and 11).

    The scopes that exist, in our order; others are ignored (OpenID Connect Core section 3.1.2.1).
    """
    return tuple(scope for scope in SCOPES if scope in named)


class SignInDemand(Frozen):
    """What scopes of APIs require of the sign-in (RFC 9470): a second factor, or a sign-in that is not too long ago. An application that
    requests such a scope leads the user to that authentication, as if it had sent `acr_values` and `max_age` itself.
    """

    second_factor: bool = False
    max_age: int | None = None
    """In seconds: the sign-in may be at most this old."""

    @property
    def asks(self) -> bool:
        return self.second_factor or self.max_age is not None

    def is_met(self, methods: tuple[str, ...], proved: Proved, now: datetime) -> bool:
        """Whether a session with these proofs needs no further sign-in."""
        if self.second_factor and context_class(methods) != TWO_FACTORS:
            return False
        shown = proved.shown_at
        return self.max_age is None or (shown is not None and now - shown <= timedelta(seconds=self.max_age))

    def is_asked_in(self, wanted: Wanted) -> bool:
        """Whether a flow leads to a sign-in that meets this. Such a flow begins once for a demand, so nobody goes in a circle."""
        factors = wanted.second_factor or not self.second_factor
        return factors and (self.max_age is None or (wanted.max_age is not None and wanted.max_age <= self.max_age))


NO_DEMAND: Final = SignInDemand()


def scope_demand(acr_values: Sequence[str], max_age: int | None) -> SignInDemand:
    """What one scope asks of the sign-in."""
    return SignInDemand(TWO_FACTORS in acr_values, max_age)


def strongest(demands: Iterable[SignInDemand]) -> SignInDemand:
    """A demand that meets each of these."""
    every = list(demands)
    ages = [one.max_age for one in every if one.max_age is not None]
    return SignInDemand(any(one.second_factor for one in every), min(ages, default=None))


def demanding(request: AuthorizationRequest, demand: SignInDemand) -> AuthorizationRequest:
    """The request, as if the application had asked for the demand itself. What it asks for beyond stays."""
    ages = [age for age in (request.max_age, demand.max_age) if age is not None]
    acr_values = (TWO_FACTORS,) if demand.second_factor else request.acr_values
    return replace(request, acr_values=acr_values, max_age=min(ages, default=None))


MOST_RESOURCES: Final = 5
"""The greatest number of APIs that one request may name."""
LONGEST_RESOURCE: Final = 500
UNKNOWN_RESOURCE: Final = "resource: this application cannot request tokens for an API with this identifier"
TOO_MANY: Final = f"resource: name at most {MOST_RESOURCES} APIs"

Ticked = Collection[tuple[ResourceServerId, str]]
"""The scopes that a person has left ticked, each with its API."""


class OfferedScope(NamedTuple):
    """A scope of an API, as one request finds it."""

    name: str
    description: str
    of_permission: bool
    """Whoever gets the scope has to hold a permission of the API's service. So no application gets it for itself."""
    is_held: bool
    """The person of the request holds that permission, or the scope asks for none."""
    acr_values: Sequence[str] = ()
    max_age: int | None = None

    @property
    def demand(self) -> SignInDemand:
        """What the scope asks of the sign-in."""
        return scope_demand(self.acr_values, self.max_age)

    @property
    def is_of_person(self) -> bool:
        """Whether the scope asks for what only a person can show."""
        return self.of_permission or self.demand.asks


class OfferedResource(Frozen, kw_only=True):
    """An API that is active and admits the application, as a request finds it. An application requests tokens for it by its identifier (RFC
    8707). `core/domain/tokens.py` has what a session stores of it.
    """

    id: ResourceServerId
    identifier: str
    name: str
    scopes: Sequence[OfferedScope]
    allowed: Sequence[str] | None = None
    """The scopes that the person has allowed the application here. None when the person never allowed the application this API."""
    withheld: Sequence[str] = ()
    """The scopes that the person has refused when they allowed the others."""
    lifetime: timedelta | None = None
    algorithm: TokenAlgorithm = TokenAlgorithm.ES256
    document: bytes | None = None
    """What the document of a metadata client says now, as a digest. None for other applications."""

    def held(self, asked: Collection[str]) -> Sequence[OfferedScope]:
        """The asked scopes that the person of the request may have."""
        return [scope for scope in self.scopes if scope.name in asked and scope.is_held]

    def shown_for_agent(self, asked: Collection[str]) -> Sequence[OfferedScope]:
        """What the page asks about an agent: the asked scopes, and those that it may use already, because the answer is about all."""
        return self.held({*asked, *(self.allowed or ())})

    def asks_again(self, asked: Collection[str]) -> bool:
        """Whether the person has said neither yes nor no to something that is asked."""
        answered = {*(self.allowed or ()), *self.withheld}
        return self.allowed is None or any(scope.name not in answered for scope in self.held(asked))

    def granted(self, asked: Collection[str], ticked: Ticked | None = None, *, by_trust: bool = False) -> TokenAudience:
        """The grant of a request. Without `ticked`, the person's earlier consent counts, or the organization's trust."""
        held = [scope.name for scope in self.held(asked)]
        if ticked is not None:
            held = [scope for scope in held if (self.id, scope) in ticked]
        elif not by_trust:
            held = [scope for scope in held if scope in (self.allowed or ())]
        return TokenAudience(self.id, self.identifier, tuple(held), self.lifetime, self.algorithm)

    def demand(self, granted: TokenAudience) -> SignInDemand:
        """What the granted scopes ask of the sign-in."""
        return strongest(scope.demand for scope in self.scopes if scope.name in granted.scopes)


def named_resources(identifiers: Sequence[str], asked: Sequence[str], offered: Sequence[OfferedResource]) -> Sequence[OfferedResource]:
    """The APIs that an authorization request names, in its order. `asked` has the words of its scope that are none of ours. Raises
    `AuthorizationRefused`.
    """
    found = {resource.identifier: resource for resource in offered}
    if any(name not in found for name in identifiers):
        raise AuthorizationRefused(AuthorizationErrorCode.INVALID_TARGET, UNKNOWN_RESOURCE)
    named = [found[name] for name in identifiers]
    if asked and not any(scope.name in asked for resource in named for scope in resource.scopes):
        raise AuthorizationRefused(AuthorizationErrorCode.INVALID_SCOPE, "scope: the API has none of these scopes")
    return named


def foreign_scopes(named: Sequence[str]) -> tuple[str, ...]:
    """The words of a scope that are none of ours: scopes of APIs."""
    return tuple(dict.fromkeys(word for word in named if word not in SCOPES))


def of_application(offered: Sequence[OfferedResource], asked: Sequence[str]) -> TokenAudience:
    """The API of an application's own token. Raises `InvalidTarget`, and `InvalidScope` for a scope that the API does not give to an
    application itself.
    """
    if not offered:
        raise InvalidTarget(UNKNOWN_RESOURCE)
    (resource,) = offered
    if not set(asked) <= {scope.name for scope in resource.scopes if not scope.is_of_person}:
        raise InvalidScope("scope: the API does not grant this scope to applications themselves")
    return TokenAudience(resource.id, resource.identifier, tuple(asked), resource.lifetime, resource.algorithm)

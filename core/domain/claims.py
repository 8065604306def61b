"""Claims: everything that tokens, userinfo and assertions disclose about a user to an application, and the source of each."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, UserId
from core.domain.mail import Email
from core.frozen import Frozen

MOST_GROUPS: Final = 200
"""The groups in a token. Userinfo has all of them."""
LONGEST_ACCESS_TOKEN: Final = 4096
LONGEST_ID_TOKEN: Final = 8192
"""Postern refuses a longer `id_token_hint`, and many proxies a longer address."""
LONG_ID_TOKEN: Final = 3072
"""Applications that keep the ID token in a cookie lose it when it is longer."""
# The header, the signature and the dots. A signature of ES256 takes 86 characters, and one of RS256 takes 342.
_AROUND_ACCESS_CLAIMS: Final = 240
_AROUND_ID_CLAIMS: Final = 480

# The sources of claims that need no configuration.
OF_TOKEN: Final = "token"  # noqa: S105 - a source
"""The claim describes the token or the sign-in itself."""
OF_ACCOUNT: Final = "account"
OF_PROFILE: Final = "profile"
OF_MEMBERSHIP: Final = "membership"


class ClaimPlace(StrEnum):
    """Where a claim is issued."""

    ID_TOKEN = "id_token"  # noqa: S105 - a place
    USERINFO = "userinfo"
    ACCESS_TOKEN = "access_token"  # noqa: S105 - a place
    SAML = "saml"


class ClaimSource(StrEnum):
    """The source of a claim."""

    PERSON_FIELD = "person_field"
    """A field of the installation. The person's own value."""
    ORGANIZATION_FIELD = "organization_field"
    """A field of the service's organization. The organization's own value, and never the person's."""
    ROLES = "roles"
    PERMISSIONS = "permissions"
    TEAMS = "teams"
    ORGANIZATION = "organization"
    PLAN = "plan"
    FEATURES = "features"
    CONSTANT = "constant"

    @property
    def is_field(self) -> bool:
        return self in {ClaimSource.PERSON_FIELD, ClaimSource.ORGANIZATION_FIELD}


class OrganizationPart(StrEnum):
    """The argument of a claim of the source `organization`."""

    ID = "id"
    SLUG = "slug"
    NAME = "name"
    ROLE = "role"


class ServiceClaim(Frozen):
    """A claim that a service gets besides the standard ones."""

    name: str
    source: ClaimSource
    argument: Json
    """The key of the field, the part of the organization, or the constant. None for the other sources."""
    into: tuple[ClaimPlace, ...]


class StandardProfile(Frozen, kw_only=True):
    """The person's own profile, as the standard claims of OpenID Connect tell it. Everything in it is optional."""

    name: str | None = None
    given_name: str | None = None
    family_name: str | None = None
    username: str | None = None
    picture: str | None = None
    """The id of the picture."""
    zoneinfo: str | None = None
    language: str | None = None
    updated_at: int | None = None
    """In seconds since 1970."""


NO_PROFILE: Final = StandardProfile()


class KnownField(Frozen):
    """A field, and the person's value in it."""

    value: Json = None
    """None when nobody has written a value."""
    scope: str | None = None
    """The scope that tells a field of the installation to applications. None when no application gets it."""
    by_person: bool = False
    """The person may write the value."""


class ServiceFacts(Frozen, kw_only=True):
    """Everything that a service may learn of a person besides the account, and the claims that the service makes of it. Only people and
    services that have any of this cost the further look-up.
    """

    claims: Sequence[ServiceClaim] = ()
    roles: Sequence[str] = ()
    """The slugs of the service's roles that the person holds."""
    permissions: Sequence[str] = ()
    """The permissions of these roles in the service."""
    teams: Sequence[str] = ()
    """The slugs of the person's teams in the organization of the service."""
    person_fields: Mapping[str, KnownField] = {}
    """The installation's fields that the claims name, by their keys."""
    organization_fields: Mapping[str, KnownField] = {}
    """The organization's fields that the claims name, by their keys."""
    organization_name: str = ""
    role: str = ""
    """The person's role in the organization of the service. Empty for a person who is no member."""
    plan: str = "free"
    features: Sequence[str] = ()


NO_FACTS: Final = ServiceFacts()


class DescribedPerson(Frozen, kw_only=True):
    """A person in a service: the account, and the organization of the service."""

    user: UserId
    email: Email
    email_is_verified: bool
    organization: OrganizationId | None
    organization_slug: str
    role: str
    """The person's role in the organization. Empty for a person who is no member."""
    profile: StandardProfile = NO_PROFILE
    facts: ServiceFacts = NO_FACTS


class ToldClaim(Frozen):
    """One function makes each claim. Tokens take the values. The preview of a token shows the sources, too, and the reasons for claims that
    are missing. So a preview cannot differ from the token.
    """

    name: str
    value: Json
    source: str
    about: str | None = None
    """The field of which the claim is made."""
    scope: str | None = None
    """The person's own value, which an application gets only with this scope."""


class WithheldClaim(Frozen):
    """A claim that is missing."""

    name: str
    source: str
    reason: str
    scope: str | None = None
    """As in `ToldClaim`. Nobody without this scope learns from the reason whether there is a value."""


Said = ToldClaim | WithheldClaim


def values(said: Iterable[Said]) -> dict[str, Json]:
    """The claims, as a token has them."""
    return {one.name: one.value for one in said if type(one) is ToldClaim}


# Names that the tokens of Postern use, or that a receiver would take for a statement of the protocol. A service's own claim must not have
# such a name, because the receiver could not tell one from the other.
RESERVED: Final = frozenset(
    (
        # RFC 7519, and OpenID Connect Core section 2
        *("iss", "sub", "aud", "exp", "nbf", "iat", "jti", "azp", "nonce", "auth_time", "acr", "amr", "at_hash", "c_hash", "s_hash"),
        *("_claim_names", "_claim_sources", "sub_jwk"),
        # members of the header, which some receivers also look for among the claims
        *("typ", "cty"),
        # the notices of logout, RFC 7662, RFC 7800, RFC 8417, RFC 8693, RFC 9068, RFC 9396, RFC 9493
        *("sub_id", "toe", "txn"),
        *("sid", "events", "active", "token_type", "username", "scope", "client_id", "cnf", "act", "may_act", "authorization_details"),
        *("roles", "groups", "entitlements"),
        # OpenID Connect Enterprise Extensions (draft), which the SL1 profile of IPSIE asks for
        "session_expiry",
        # Postern's own
        *("token_use", "resource_id", "is_platform_owner", "impersonator", "impersonation_session", "state", "permissions"),
        *("plan", "features", "subscription_status"),
        *("roles_truncated", "groups_truncated", "permissions_truncated", "claims_truncated"),
        # the standard claims that Postern fills
        *("name", "given_name", "family_name", "preferred_username", "picture", "zoneinfo", "locale", "updated_at"),
        *("email", "email_verified"),
    )
)
_RESERVED_BEGINNINGS: Final = ("org", "service")


def is_reserved(name: str) -> bool:
    """Letter case does not count, because some receivers ignore it."""
    folded = name.casefold()
    return folded in RESERVED or folded.startswith(_RESERVED_BEGINNINGS)


def groups(organization_slug: str, role: str, teams: Sequence[str] = ()) -> Sequence[str]:
    """The role as a group, which names the organization, because an application may serve several. The slugs of the teams follow."""
    return [f"{organization_slug}/{role}", *teams] if role else [*teams]


def groups_told(person: DescribedPerson, place: ClaimPlace) -> Sequence[Said]:
    """The claim `groups`, in a token at most `MOST_GROUPS` of them."""
    all_groups = groups(person.organization_slug, person.role, person.facts.teams)
    told = ToldClaim("groups", all_groups, ClaimSource.TEAMS)
    if place is ClaimPlace.USERINFO or len(all_groups) <= MOST_GROUPS:
        return [told]
    return [ToldClaim("groups", all_groups[:MOST_GROUPS], ClaimSource.TEAMS), ToldClaim("groups_truncated", True, ClaimSource.TEAMS)]


def rights_told(person: DescribedPerson) -> Sequence[Said]:
    """The rights in an access token (RFC 9068 section 2.2.3.1). A person without roles of the service and without teams has none of these
    claims, so that a service without them gets the same token as ever.
    """
    facts = person.facts
    said: list[Said] = []
    if facts.roles:
        said.append(ToldClaim("roles", list(facts.roles), ClaimSource.ROLES))
    if facts.roles or facts.teams:
        said += groups_told(person, ClaimPlace.ACCESS_TOKEN)
    if facts.permissions:
        said.append(ToldClaim("entitlements", list(facts.permissions), ClaimSource.PERMISSIONS))
    return said


def access_told(person: DescribedPerson, scopes: Collection[str]) -> Sequence[Said]:
    """What an access token tells a service of its person besides the account."""
    return [*rights_told(person), *service_told(ClaimPlace.ACCESS_TOKEN, person, scopes)]


def service_told(place: ClaimPlace, person: DescribedPerson, scopes: Collection[str]) -> Sequence[Said]:
    """The claims that the service has configured for this place. `scopes` are those that the person has allowed."""
    return [_told(claim, place, person, scopes) for claim in person.facts.claims if place in claim.into]


def _told(claim: ServiceClaim, place: ClaimPlace, person: DescribedPerson, scopes: Collection[str]) -> Said:
    facts, source = person.facts, claim.source
    if place is not ClaimPlace.SAML and is_reserved(claim.name):
        return WithheldClaim(claim.name, source, "Postern's own tokens use this name")
    match source:
        case ClaimSource.PERSON_FIELD:
            return _of_person(claim, facts.person_fields.get(str(claim.argument)), scopes)
        case ClaimSource.ORGANIZATION_FIELD:
            return _of_field(claim, facts.organization_fields.get(str(claim.argument)))
        case ClaimSource.ORGANIZATION:
            return _of_organization(claim, person)
        case ClaimSource.CONSTANT:
            return ToldClaim(claim.name, claim.argument, source)
        case _:
            return ToldClaim(claim.name, _FACT_OF[source](facts), source)


_FACT_OF: Final[Mapping[ClaimSource, Callable[[ServiceFacts], Json]]] = {
    ClaimSource.ROLES: lambda facts: list(facts.roles),
    ClaimSource.PERMISSIONS: lambda facts: list(facts.permissions),
    ClaimSource.TEAMS: lambda facts: list(facts.teams),
    ClaimSource.PLAN: lambda facts: facts.plan,
    ClaimSource.FEATURES: lambda facts: list(facts.features),
}


def _of_person(claim: ServiceClaim, field: KnownField | None, scopes: Collection[str]) -> Said:
    said = _of_field(claim, field)
    if field is None:
        return said
    if field.scope is None:
        return WithheldClaim(claim.name, claim.source, f"No scope includes the field {claim.argument} for applications")
    # Before anything that depends on the value: whether there is one is the person's own, too.
    if field.scope not in scopes:
        return WithheldClaim(claim.name, claim.source, needs_scope(field.scope))
    if isinstance(said, WithheldClaim):
        return WithheldClaim(said.name, said.source, said.reason, field.scope)
    return ToldClaim(claim.name, said.value, claim.source, said.about, field.scope)


def _of_field(claim: ServiceClaim, field: KnownField | None) -> Said:
    if field is None:
        return WithheldClaim(claim.name, claim.source, f"The field {claim.argument} no longer exists")
    if field.value is None:
        return WithheldClaim(claim.name, claim.source, f"The field {claim.argument} has no value for this person")
    return ToldClaim(claim.name, field.value, claim.source, str(claim.argument))


def _of_organization(claim: ServiceClaim, person: DescribedPerson) -> Said:
    parts = {
        OrganizationPart.ID: str(person.organization),
        OrganizationPart.SLUG: person.organization_slug,
        OrganizationPart.NAME: person.facts.organization_name,
        OrganizationPart.ROLE: person.role,
    }
    value = parts[OrganizationPart(str(claim.argument))]
    if not value:
        return WithheldClaim(claim.name, claim.source, "The person is not a member of the organization")
    return ToldClaim(claim.name, value, claim.source)


def needs_scope(scope: str) -> str:
    return f"The scope {scope} is not granted"


# The claims that a token leaves out when it is too long, in this order, and the claim that says so.
_LEFT_OUT: Final = (
    (frozenset((ClaimSource.PERMISSIONS.value,)), "permissions_truncated"),
    (frozenset((ClaimSource.TEAMS.value,)), "groups_truncated"),
    (
        frozenset((*(s.value for s in (ClaimSource.PERSON_FIELD, ClaimSource.ORGANIZATION_FIELD, ClaimSource.CONSTANT)),)),
        "claims_truncated",
    ),
    (frozenset((ClaimSource.ROLES.value,)), "roles_truncated"),
)
TOO_LONG: Final = "The token would become too long"


def fitting_access_token(said: Sequence[Said]) -> Sequence[Said]:
    """Leaves out claims until the token is short enough for the headers of a request: permissions first."""
    return _fitting(said, LONGEST_ACCESS_TOKEN - _AROUND_ACCESS_CLAIMS)


def fitting_id_token(said: Sequence[Said]) -> Sequence[Said]:
    return _fitting(said, LONGEST_ID_TOKEN - _AROUND_ID_CLAIMS)


def largest(claims: Mapping[str, Json]) -> Sequence[str]:
    """The names of the five claims that take the most room, the largest first."""
    return sorted(claims, key=lambda name: _length({name: claims[name]}), reverse=True)[:5]


def _fitting(said: Sequence[Said], longest: int) -> Sequence[Said]:
    for sources, marker in _LEFT_OUT:
        if _length(values(said)) <= longest:
            return said
        large = {one.name: one.source for one in said if isinstance(one, ToldClaim) and one.source in sources and one.name != marker}
        if large:
            kept = [one for one in said if one.name not in large and one.name != marker]
            left_out = [WithheldClaim(name, source, TOO_LONG) for name, source in large.items()]
            said = [*kept, ToldClaim(marker, True, OF_TOKEN), *left_out]
    return said


def _length(claims: Mapping[str, Json]) -> int:
    """The length of the claims in a token, in base64."""
    return (len(json.dumps(claims, separators=(",", ":"), ensure_ascii=False).encode()) * 4 + 2) // 3

"""OpenID Connect: the claims of ID tokens and userinfo, the `claims` parameter, and the provider metadata."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from core.domain.claims import (
    NO_FACTS,
    OF_ACCOUNT,
    OF_MEMBERSHIP,
    OF_PROFILE,
    OF_TOKEN,
    ClaimPlace,
    ClaimSource,
    DescribedPerson,
    Said,
    StandardProfile,
    ToldClaim,
    WithheldClaim,
    fitting_id_token,
    groups_told,
    needs_scope,
    service_told,
    values,
)
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused
from core.domain.federation.oauth.clients import AuthenticationMethod
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, CLIENT_CREDENTIALS, REFRESH_TOKEN, Granted
from core.domain.federation.oauth.resources import EMAIL, GROUPS, OPENID, ORGANIZATION, PROFILE, ROLES, SCOPES
from core.domain.formats import Json
from core.domain.identifiers import ClientId, UserId
from core.domain.identity.profiles import OwnProfile
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS
from core.domain.identity.upstream.identity_assertions import GRANT_PROFILE
from core.domain.key_proofs import ALGORITHMS
from core.domain.languages import Language
from core.domain.outbound import ASSERTION_ALGORITHMS
from core.domain.secrets import Token
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen

# The scope that releases each standard claim.
SCOPE_OF: Final[Mapping[str, str]] = {
    "name": PROFILE,
    "given_name": PROFILE,
    "family_name": PROFILE,
    "preferred_username": PROFILE,
    "picture": PROFILE,
    "zoneinfo": PROFILE,
    "locale": PROFILE,
    "updated_at": PROFILE,
    "email": EMAIL,
    "email_verified": EMAIL,
    "organization": ORGANIZATION,
    "roles": ROLES,
    "permissions": ROLES,
    "groups": GROUPS,
}
PERSON_CLAIMS: Final = ("sub", *SCOPE_OF)


def picture_url(issuer: str, picture: str) -> str:
    return f"{issuer}/pictures/{picture}"


def person_said(scopes: Collection[str], person: DescribedPerson, place: ClaimPlace, *, issuer: str) -> Sequence[Said]:
    """The claims that these scopes release (OpenID Connect Core sections 5.1 and 5.4), and the claims that the service has configured."""
    said: list[Said] = [ToldClaim("sub", str(person.user), OF_ACCOUNT)]
    if PROFILE in scopes:
        said += _profile_said(scopes, person, issuer)
    if EMAIL in scopes:
        said.append(ToldClaim("email", person.email.address, OF_ACCOUNT, scope=EMAIL))
        said.append(ToldClaim("email_verified", person.email_is_verified, OF_ACCOUNT, scope=EMAIL))
    if ORGANIZATION in scopes:
        organization = {"id": str(person.organization), "slug": person.organization_slug, "role": person.role or None}
        said.append(ToldClaim("organization", organization, OF_MEMBERSHIP))
    if ROLES in scopes:
        said.append(ToldClaim("roles", list(person.facts.roles), ClaimSource.ROLES))
        said.append(ToldClaim("permissions", list(person.facts.permissions), ClaimSource.PERMISSIONS))
    if GROUPS in scopes:
        said += groups_told(person, place)
    if person.facts.claims:
        said += service_told(place, person, scopes)
    return said


def told_by(scopes: Collection[str]) -> Callable[[DescribedPerson, str], Mapping[str, Json]]:
    """All that userinfo and the ID token tell an application of the person by these scopes: neither is there without `openid`."""

    def told(person: DescribedPerson, issuer: str) -> Mapping[str, Json]:
        if OPENID not in scopes:
            return {}
        by_id_token = service_told(ClaimPlace.ID_TOKEN, person, scopes)
        return values([*by_id_token, *person_said(scopes, person, ClaimPlace.USERINFO, issuer=issuer)])

    return told


def standard_profile(profile: OwnProfile, language: Language | None) -> StandardProfile:
    """The profile and the language of an account, as the standard claims tell them."""
    return StandardProfile(
        name=profile.name,
        given_name=profile.given_name,
        family_name=profile.family_name,
        username=profile.username,
        picture=None if profile.picture is None else str(profile.picture),
        zoneinfo=profile.zoneinfo,
        language=None if language is None else language.value,
        updated_at=None if profile.updated_at is None else int(profile.updated_at.timestamp()),
    )


def _profile_said(scopes: Collection[str], person: DescribedPerson, issuer: str) -> Sequence[Said]:
    profile = person.profile
    given: dict[str, Json] = {
        "name": profile.name,
        "given_name": profile.given_name,
        "family_name": profile.family_name,
        # A receiver of the scope `profile` alone must not learn the address.
        "preferred_username": profile.username or (person.email.address if EMAIL in scopes else None),
        "picture": None if profile.picture is None else picture_url(issuer, profile.picture),
        "zoneinfo": profile.zoneinfo,
        "locale": profile.language,
        "updated_at": profile.updated_at,
    }
    return [
        WithheldClaim(name, OF_PROFILE, _UNSET.get(name, "The person has not set it"))
        if value is None
        else ToldClaim(name, value, OF_PROFILE, scope=PROFILE)
        for name, value in given.items()
    ]


_UNSET: Final[Mapping[str, str]] = {
    "preferred_username": "The person has no user name, and the scope email, which would tell the address instead, is not granted",
    "updated_at": "The person has never changed the profile",
}


def missing(said: Sequence[Said], scopes: Collection[str]) -> Sequence[WithheldClaim]:
    """The standard claims that are missing because their scopes are not granted."""
    named = {one.name for one in said}
    return [
        WithheldClaim(name, OF_PROFILE if scope == PROFILE else OF_ACCOUNT, needs_scope(scope))
        for name, scope in SCOPE_OF.items()
        if name not in named and scope not in scopes
    ]


def granted_person(granted: Granted) -> DescribedPerson:
    opened = granted.opened
    context = opened.session.context
    return DescribedPerson(
        user=opened.session.user,
        email=opened.email,
        email_is_verified=granted.email_is_verified,
        organization=context.organization,
        organization_slug=context.organization_slug,
        role=granted.role,
        profile=granted.profile,
        facts=opened.facts,
    )


def id_claims(
    granted: Granted,
    *,
    client: ClientId,
    access_token: Token,
    issuer: str,
    now: datetime,
    expires_at: datetime,
    session_lifetime: timedelta | None = None,
) -> Mapping[str, Json]:
    """`session_lifetime` is what the application's organization says, or the service."""
    claims = _id_claims(granted, client=client, access_token=access_token, issuer=issuer, now=now, expires_at=expires_at)
    if session_lifetime is not None:
        claims["session_expiry"] = _session_expiry(granted, session_lifetime)
    if granted.opened.facts is NO_FACTS:
        # As in `access_claims`.
        return claims | values(_person_said(granted, issuer))
    return values(_id_said(granted, claims, issuer))


def id_said(
    granted: Granted,
    *,
    client: ClientId,
    access_token: Token,
    issuer: str,
    now: datetime,
    expires_at: datetime,
    session_lifetime: timedelta | None = None,
) -> Sequence[Said]:
    """The claims of an ID token, each with its source."""
    claims = _id_claims(granted, client=client, access_token=access_token, issuer=issuer, now=now, expires_at=expires_at)
    if session_lifetime is not None:
        claims["session_expiry"] = _session_expiry(granted, session_lifetime)
    return _id_said(granted, claims, issuer)


def _id_claims(
    granted: Granted, *, client: ClientId, access_token: Token, issuer: str, now: datetime, expires_at: datetime
) -> dict[str, Json]:
    """The claims of an ID token (OpenID Connect Core sections 2 and 3.1.3.6), without those of the person. There is no `azp`: the client is
    its one audience.
    """
    session = granted.opened.session
    claims: dict[str, Json] = {
        "iss": issuer,
        "aud": client,
        "exp": int(expires_at.timestamp()),
        "iat": int(now.timestamp()),
        "sid": str(session.id),
        "amr": list(session.authenticated_by),
        "acr": session.context_class,
        "at_hash": half_hash(access_token),
    }
    shown_at = session.proved.shown_at
    if shown_at is not None and not session.proved.is_silent:
        claims["auth_time"] = int(shown_at.timestamp())
    if granted.nonce is not None:
        claims["nonce"] = granted.nonce
    return claims


def _session_expiry(granted: Granted, lifetime: timedelta) -> int:
    """When a session that the application makes of the ID token must end (OpenID Connect Enterprise Extensions, draft of June 2026, section
    "session_expiry"): the end of ours however much it is used, or, if that is sooner, when the organization wants another sign-in.
    """
    session = granted.opened.session
    return int(min(session.ends_at, (session.proved.at or session.created_at) + lifetime).timestamp())


def _person_said(granted: Granted, issuer: str) -> Sequence[Said]:
    scopes = () if granted.opened.application is None else granted.opened.application.scopes
    return person_said(scopes, granted_person(granted), ClaimPlace.ID_TOKEN, issuer=issuer)


def _id_said(granted: Granted, claims: Mapping[str, Json], issuer: str) -> Sequence[Said]:
    said = [*(ToldClaim(name, value, OF_TOKEN) for name, value in claims.items()), *_person_said(granted, issuer)]
    return said if granted.opened.facts is NO_FACTS else fitting_id_token(said)


def half_hash(token: Token) -> str:
    """The left half of the SHA-256 of the token's text: both of our algorithms use SHA-256."""
    return urlsafe_b64encode(sha256(token.reveal().encode()).digest()[:16]).rstrip(b"=").decode()


LONGEST_CLAIMS: Final = 2000
_PLACES: Final = ("userinfo", "id_token")
_Member = Mapping[str, Any]


class RequestedClaims(Frozen):
    """The meaning of the parameter `claims`, in terms of the other parameters: single claims that an application requests (OpenID Connect
    Core section 5.5).
    """

    scopes: frozenset[str] = frozenset()
    acr_values: tuple[str, ...] = ()
    """The sign-in must reach one of these. Empty when any will do."""
    subject: UserId | None = None
    """The only person who is accepted. None when anybody is."""


NO_CLAIMS: Final = RequestedClaims()


def requested_claims(text: str | None) -> RequestedClaims:
    """Raises `AuthorizationRefused` for malformed `claims`, and for an essential `acr` that nobody can reach here.

    Scopes decide which claims are released, and the user allows scopes one by one. So a requested claim counts as a request for the scope
    that releases it: the consent page shows this scope, and the token response names it. Claims that are always released need no scope.
    Claims that Postern does not have are ignored (section 5.5.1).
    """
    if text is None:
        return NO_CLAIMS
    asked = list(_asked(_parsed(text)))
    return RequestedClaims(
        scopes=frozenset(SCOPE_OF[name] for _, name, _ in asked if name in SCOPE_OF),
        acr_values=_acr_values([member for place, name, member in asked if (place, name) == ("id_token", "acr")]),
        subject=_subject([member for _, name, member in asked if name == "sub"]),
    )


def _parsed(text: str) -> Mapping[str, Any]:
    if len(text) > LONGEST_CLAIMS:
        raise _malformed(f"at most {LONGEST_CLAIMS} characters")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _malformed("must be JSON") from None
    if not isinstance(found, dict):
        raise _malformed("must be an object")
    return found


def _asked(found: Mapping[str, Any]) -> Iterator[tuple[str, str, _Member]]:
    """The place, the name of the claim, and the demands on it. Other members than the two places are ignored (section 5.5)."""
    for place in _PLACES:
        claims = found.get(place, {})
        if not isinstance(claims, dict):
            raise _malformed(f"{place} must be an object")
        for name, member in claims.items():
            said = {} if member is None else member
            if not isinstance(said, dict) or type(said.get("essential", False)) is not bool or not isinstance(said.get("values", []), list):
                raise _malformed("of each claim, null or an object with essential, value and values")
            yield place, name, said


def _acr_values(members: list[_Member]) -> tuple[str, ...]:
    """The values of an essential `acr`. A voluntary `acr` needs nothing, because the ID token has the reached value in any case."""
    values: tuple[str, ...] = ()
    for member in members:
        wanted = _values(member)
        if member.get("essential") and wanted:
            values = tuple(one for one in (ONE_FACTOR, TWO_FACTORS) if one in wanted)
            if not values:
                raise AuthorizationRefused(AuthorizationErrorCode.UNMET_REQUIREMENTS, "claims: this acr value cannot be reached")
    return values


def _subject(members: list[_Member]) -> UserId | None:
    """The person whom `sub` names (section 5.5.1). Both places must name the same person."""
    named = {one for member in members for one in map(_person, _values(member))}
    if len(named) > 1:
        raise _malformed("sub must name one person")
    return next(iter(named), None)


def _values(member: _Member) -> list[Any]:
    return [*([member["value"]] if "value" in member else []), *member.get("values", [])]


def _person(value: Any) -> UserId:
    try:
        return UserId(UUID(value))
    except (TypeError, ValueError, AttributeError):
        raise _malformed("sub is nobody's here") from None


def _malformed(reason: str) -> AuthorizationRefused:
    return AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, f"claims: {reason}")


TOKEN_ENDPOINT: Final = "/auth/token"  # noqa: S105 - a path
TOKEN_ALIAS: Final = "/oauth/token"  # noqa: S105
REVOCATION_ENDPOINT: Final = "/auth/revoke"
REVOCATION_ALIAS: Final = "/oauth/revoke"
INTROSPECTION_ENDPOINT: Final = "/oauth/introspect"
USERINFO_ENDPOINT: Final = "/oauth/userinfo"
AUTHORIZATION_ENDPOINT: Final = "/oauth/authorize"
PUSHED_AUTHORIZATION_ENDPOINT: Final = "/oauth/par"
REGISTRATION_ENDPOINT: Final = "/oauth/register"
END_SESSION_ENDPOINT: Final = "/oauth/logout"
DEVICE_AUTHORIZATION_ENDPOINT: Final = "/auth/device/code"
BACKCHANNEL_ENDPOINT: Final = "/oauth/bc-authorize"
JWKS: Final = "/.well-known/jwks.json"

_OF_ID_TOKENS: Final = ("iss", "aud", "exp", "iat", "auth_time", "nonce", "acr", "amr", "at_hash", "sid", "session_expiry")


def metadata(issuer: str, grants: Iterable[str], locales: Sequence[str], *, registers: bool) -> Mapping[str, Json]:
    """Returns the metadata for applications: the URLs of all endpoints, and everything that is supported (OpenID Connect Discovery, RFC
    8414). Both documents have the same content, because clients ignore members that they do not know. `registers`: clients may register
    themselves.
    """
    authenticated = [method.value for method in AuthenticationMethod if method is not AuthenticationMethod.NONE]
    every = [*authenticated, AuthenticationMethod.NONE.value]
    algorithms = list(ASSERTION_ALGORITHMS)
    return {
        "issuer": issuer,
        "authorization_endpoint": issuer + AUTHORIZATION_ENDPOINT,
        "token_endpoint": issuer + TOKEN_ENDPOINT,
        "userinfo_endpoint": issuer + USERINFO_ENDPOINT,
        "jwks_uri": issuer + JWKS,
        "revocation_endpoint": issuer + REVOCATION_ENDPOINT,
        "introspection_endpoint": issuer + INTROSPECTION_ENDPOINT,
        "end_session_endpoint": issuer + END_SESSION_ENDPOINT,
        "pushed_authorization_request_endpoint": issuer + PUSHED_AUTHORIZATION_ENDPOINT,
        **({"registration_endpoint": issuer + REGISTRATION_ENDPOINT} if registers else {}),
        "device_authorization_endpoint": issuer + DEVICE_AUTHORIZATION_ENDPOINT,
        "backchannel_authentication_endpoint": issuer + BACKCHANNEL_ENDPOINT,
        "backchannel_token_delivery_modes_supported": ["poll"],
        "backchannel_user_code_parameter_supported": False,
        "scopes_supported": list(SCOPES),
        "claims_supported": [*dict.fromkeys((*PERSON_CLAIMS, *_OF_ID_TOKENS))],
        "claim_types_supported": ["normal"],
        "claims_parameter_supported": True,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query", "fragment", "form_post"],
        "grant_types_supported": list(dict.fromkeys((AUTHORIZATION_CODE, REFRESH_TOKEN, CLIENT_CREDENTIALS, *grants))),
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [algorithm.value for algorithm in TokenAlgorithm],
        "acr_values_supported": [ONE_FACTOR, TWO_FACTORS],
        "prompt_values_supported": ["none", "login", "consent", "select_account", "create"],
        "code_challenge_methods_supported": ["S256"],
        "dpop_signing_alg_values_supported": list(ALGORITHMS),
        "token_endpoint_auth_methods_supported": every,
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint_auth_methods_supported": every,
        "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
        "introspection_endpoint_auth_methods_supported": authenticated,
        "introspection_endpoint_auth_signing_alg_values_supported": algorithms,
        "backchannel_logout_supported": True,
        "backchannel_logout_session_supported": True,
        "frontchannel_logout_supported": True,
        "frontchannel_logout_session_supported": True,
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
        "request_parameter_supported": False,
        "request_uri_parameter_supported": False,
        "require_pushed_authorization_requests": False,
        "require_request_uri_registration": False,
        "authorization_grant_profiles_supported": [GRANT_PROFILE],
        "ui_locales_supported": list(locales),
        "service_documentation": issuer + "/docs",
    }


def assertion_endpoints(issuer: str) -> frozenset[str]:
    """The addresses of the endpoints that receive assertions (RFC 7523 section 3, RFC 9126 section 2). Libraries differ in which they name,
    and newer ones name the issuer alone.
    """
    endpoints = (
        *(TOKEN_ENDPOINT, TOKEN_ALIAS, REVOCATION_ENDPOINT, REVOCATION_ALIAS),
        *(INTROSPECTION_ENDPOINT, PUSHED_AUTHORIZATION_ENDPOINT, DEVICE_AUTHORIZATION_ENDPOINT, BACKCHANNEL_ENDPOINT),
    )
    return frozenset(issuer + endpoint for endpoint in endpoints)

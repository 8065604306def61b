"""OpenID Connect: the claims about a person, in an ID token and at the userinfo endpoint."""

from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

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
from core.domain.federation.oauth.grants import Granted
from core.domain.federation.oauth.scopes import EMAIL, GROUPS, ORGANIZATION, PROFILE, ROLES
from core.domain.identifiers import ClientId
from core.domain.identity.profile.profiles import OwnProfile
from core.domain.json import Json
from core.domain.languages import Language
from core.domain.secrets import Token

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
    granted: Granted, *, client: ClientId, access_token: Token, issuer: str, now: datetime, expires_at: datetime
) -> Mapping[str, Json]:
    return values(id_said(granted, client=client, access_token=access_token, issuer=issuer, now=now, expires_at=expires_at))


def id_said(granted: Granted, *, client: ClientId, access_token: Token, issuer: str, now: datetime, expires_at: datetime) -> Sequence[Said]:
    """The claims of an ID token (OpenID Connect Core sections 2 and 3.1.3.6). There is no `azp`: the client is its one audience."""
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
    said: list[Said] = [ToldClaim(name, value, OF_TOKEN) for name, value in claims.items()]
    scopes = () if granted.opened.application is None else granted.opened.application.scopes
    said += person_said(scopes, granted_person(granted), ClaimPlace.ID_TOKEN, issuer=issuer)
    return said if granted.opened.facts is NO_FACTS else fitting_id_token(said)


def half_hash(token: Token) -> str:
    """The left half of the SHA-256 of the token's text: both of our algorithms use SHA-256."""
    return urlsafe_b64encode(sha256(token.reveal().encode()).digest()[:16]).rstrip(b"=").decode()

"""Previews of tokens: what a service would learn of a person, and why."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, cast
from uuid import UUID

import msgspec

from core.domain.claims import ClaimPlace, Said, ToldClaim, WithheldClaim
from core.domain.errors import BadRequest
from core.domain.federation.oauth.resources import LONGEST_SCOPES, SCOPES, known, words
from core.domain.federation.token_preview import (
    PEOPLE_ON_A_PAGE,
    ConsentState,
    ServiceAccess,
    SignInRule,
    SignInVerdict,
    TokenPreview,
    missing_in,
    told_in,
)
from core.domain.identifiers import UserId
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    EmailAddress,
    EmailText,
    Id,
    OrganizationPath,
    ServicePath,
    ServiceUuid,
    SlugOfService,
    UserUuid,
    example,
)


class PreviewQuery(msgspec.Struct, frozen=True, kw_only=True):
    user_id: UUID | None = None
    """A member of the organization, or a user of the service."""
    email: EmailText | None = None
    """The person's email address, in place of `user_id`."""
    scope: Annotated[str, msgspec.Meta(max_length=LONGEST_SCOPES), example("openid profile email")] | None = None
    """The requested scopes, separated by spaces. If omitted, all scopes."""


class PreviewedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that the service would receive."""

    name: Annotated[str, example("department")]
    """The name of the claim or SAML attribute."""
    value: Annotated[Any, example("sales")]
    """The current value."""
    source: Annotated[str, example("organization_field")]
    """`token` for claims about the token itself, `account`, `profile`, `membership`, or the source of a custom claim."""
    about: Annotated[str, example("department")] | None
    """The field or the attribute mapping source of the value."""


class MissingClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that the service would not receive."""

    name: Annotated[str, example("cost_center")]
    """The name of the claim or SAML attribute."""
    source: Annotated[str, example("organization_field")]
    """The source of the claim."""
    reason: Annotated[str, example("The field cost_center has no value for this person")]
    """Why the claim is missing."""


class ClaimsPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The claims of a token or another response."""

    claims: Sequence[PreviewedClaim]
    """The included claims."""
    missing: Sequence[MissingClaim]
    """The missing claims."""


class PreviewedSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the person can sign in to the service."""

    may_sign_in: Annotated[bool, example(True)]
    """Whether the next sign-in is allowed."""
    rule: Annotated[SignInRule, example("policy_members")]
    """The rule that decides."""
    because: Annotated[str, example("The service lets in members, and the person is one")]
    """A description of the rule."""
    outside_unknown: Annotated[bool, example(False)]
    """Whether the person is an unconfirmed member. If so, other rules can still block the sign-in: a lock of the account, MFA, or terms and
    rules of the installation. Your organization cannot see these.
    """


class TokenPreviewRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The claims that the service would receive about a person."""

    user_id: Id
    sign_in: PreviewedSignIn
    """Whether the person can sign in, and the rule that decides."""
    consent: Annotated[ConsentState, example("given")]
    """Whether the person consented to sharing their own values with the application: `given`, `spared` (not needed) or `missing`."""
    scopes: Annotated[Sequence[str], example(["openid", "email"])]
    """The scopes that the tokens would have. The person's own values are included only for scopes that the person allowed."""
    id_token: ClaimsPreview
    """The ID token."""
    userinfo: ClaimsPreview
    """The userinfo response."""
    access_token: ClaimsPreview
    """The access token."""
    saml: ClaimsPreview | None
    """The attributes of a SAML assertion; null if the service does not use SAML."""


@endpoint.get(
    "/api/organizations/{org_slug}/services/{service_slug}/token-preview",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    refuses=(BadRequest,),
    tags=("claims",),
    verb="service preview-tokens",
)
async def preview_tokens(call: Call[None, PreviewQuery, ServicePath, Member], postern: Postern) -> TokenPreviewRecord:
    """Preview the tokens of a person

    Returns the claims that a service would receive about a person. Each claim has its value and source, and each missing claim has the
    reason. The preview uses the same code as token issuance. No one is signed in, and no token is issued. For unconfirmed members, the
    preview does not show whether the account is deactivated or lacks MFA.

    You also need the capability `end_users.view`. For people who are neither members of your organization nor users of the service, the
    response is 404.
    """
    scopes: Sequence[str] = SCOPES
    if call.query.scope is not None:
        scopes = known(words(call.query.scope))
        if not scopes:
            raise BadRequest(f"scope: some of {' '.join(SCOPES)}, separated by spaces")
    query, path, previews = call.query, call.path, postern.federation.token_previews
    if (query.user_id is None) is (query.email is None):
        raise BadRequest("user_id: name the person by exactly one of user_id and email")
    if query.email is not None:
        email = postern.foundation.email_syntax.parse(query.email)
        return _answer(await previews.preview_of(call.caller, path.org_slug, path.service_slug, email, scopes))
    return _answer(await previews.preview(call.caller, path.service_slug, UserId(cast("UUID", query.user_id)), scopes))


class VerdictsPath(OrganizationPath, frozen=True):
    user_id: UserUuid


class HeldInService(msgspec.Struct, frozen=True, kw_only=True):
    """The person's roles, teams and plan in the service."""

    roles: Annotated[Sequence[str], example(["editor"])]
    """The slugs of the service's roles, assigned to the person or to one of the person's teams."""
    teams: Annotated[Sequence[str], example(["sales"])]
    """The slugs of the person's teams in your organization."""
    plan: Annotated[str, example("pro")]
    """The slug of the plan; `free` without a subscription."""


class ServiceVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the person can sign in to one of the organization's services."""

    service_id: ServiceUuid
    slug: SlugOfService
    name: Annotated[str, example("Billing")]
    """The service's name."""
    sign_in: PreviewedSignIn
    """Whether the person can sign in, and the rule that decides."""
    held: HeldInService
    """The person's roles, teams and plan in the service."""


class ServiceVerdicts(msgspec.Struct, frozen=True):
    """The person's access to services of the organization."""

    services: Sequence[ServiceVerdict]
    """The first 100 services, sorted by name."""
    hook_refused_at: datetime | None
    """When the sign-in hook of the organization last denied a sign-in of this person that is still open. Null if there is none, or if you
    do not have the capability `webhooks.manage`. The next sign-in calls the hook again, so the verdicts do not include it.
    """


@endpoint.get(
    "/api/organizations/{org_slug}/users/{user_id}/sign-in-verdicts",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    tags=("end-users",),
)
async def list_sign_in_verdicts(call: Call[None, None, VerdictsPath, Member], postern: Postern) -> ServiceVerdicts:
    """List the services that a person can sign in to

    Returns whether the person can sign in to each service, and why. For a member: every service. For anyone else: the services that the
    person uses. No one is signed in. For unconfirmed members, the response does not show whether the account is deactivated or lacks MFA.
    You also need the capability `end_users.view`.
    """
    previews, user = postern.federation.token_previews, UserId(call.path.user_id)
    found = await previews.verdicts(call.caller, user)
    return ServiceVerdicts([_verdict(one) for one in found], await previews.hook_refused_at(call.caller, user))


class AdmittedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of the list."""

    after: UUID | None = None
    """The `next` value of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = PEOPLE_ON_A_PAGE
    """The maximum number of people to return. Values above the maximum are rejected."""


class AdmittedPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A person whom the sign-in policy of the service admits."""

    user_id: Id
    email: EmailAddress
    sign_in: PreviewedSignIn
    """Whether the next sign-in is allowed, and the rule that decides."""
    held: HeldInService
    """The person's roles, teams and plan in the service."""


class AdmittedPeople(msgspec.Struct, frozen=True, kw_only=True):
    """One page of people whom the sign-in policy of the service admits."""

    people: Sequence[AdmittedPerson]
    """Members of the organization and users of the service whom its sign-in policy admits, sorted by ID."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


@endpoint.get(
    "/api/organizations/{org_slug}/services/{service_slug}/access",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    tags=("end-users",),
    verb="service list-access",
)
async def list_service_access(call: Call[None, AdmittedQuery, ServicePath, Member], postern: Postern) -> AdmittedPeople:
    """List the people who can sign in to a service

    Returns the members of the organization and the users of the service whom its sign-in policy admits. `sign_in` says whether something
    else blocks the person, such as missing MFA. If the policy is `anyone`, the service also admits people who have never signed in to it.
    These people are not listed. The response has no total. Postern processes such requests of one organization one after the other. If too
    many are waiting, the response is 503. You also need the capability `end_users.view`.
    """
    after = None if call.query.after is None else UserId(call.query.after)
    found, is_more = await postern.federation.token_previews.admitted(call.caller, call.path.service_slug, after, call.query.limit)
    people = [
        AdmittedPerson(user_id=one.person.user, email=one.person.email.address, sign_in=_sign_in(one.verdict), held=_held(one))
        for one in found
    ]
    return AdmittedPeople(people=people, next=people[-1].user_id if is_more else None)


def _verdict(one: ServiceAccess) -> ServiceVerdict:
    application = one.person.application
    return ServiceVerdict(
        service_id=application.service, slug=application.slug, name=application.name, sign_in=_sign_in(one.verdict), held=_held(one)
    )


def _held(one: ServiceAccess) -> HeldInService:
    return HeldInService(roles=one.roles, teams=one.teams, plan=one.plan)


def _answer(preview: TokenPreview) -> TokenPreviewRecord:
    places: Mapping[ClaimPlace, ClaimsPreview] = {place: _place(said) for place, said in preview.places.items()}
    return TokenPreviewRecord(
        user_id=preview.user,
        sign_in=_sign_in(preview.verdict),
        consent=preview.consent,
        scopes=preview.scopes,
        id_token=places[ClaimPlace.ID_TOKEN],
        userinfo=places[ClaimPlace.USERINFO],
        access_token=places[ClaimPlace.ACCESS_TOKEN],
        saml=places.get(ClaimPlace.SAML),
    )


def _place(said: Sequence[Said]) -> ClaimsPreview:
    return ClaimsPreview(
        claims=[_claim(one) for one in told_in(said)],
        missing=[_missing(one) for one in missing_in(said)],
    )


_sign_in = shown(SignInVerdict, PreviewedSignIn)
_claim = shown(ToldClaim, PreviewedClaim)
_missing = shown(WithheldClaim, MissingClaim)

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
    """The email address of the person, in place of `user_id`."""
    scope: Annotated[str, msgspec.Meta(max_length=LONGEST_SCOPES), example("openid profile email")] | None = None
    """The scopes that the application asks for, separated by spaces. All of them, if omitted."""


class PreviewedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that the service would get."""

    name: Annotated[str, example("department")]
    """The claim, or the attribute of an assertion."""
    value: Annotated[Any, example("sales")]
    """The value now."""
    source: Annotated[str, example("organization_field")]
    """`token` for what describes the token itself, `account`, `profile`, `membership`, or the source of a claim that the service has
    configured.
    """
    about: Annotated[str, example("department")] | None
    """The field, or the source of the attribute mapping, that the value comes from."""


class MissingClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that the service would not get."""

    name: Annotated[str, example("cost_center")]
    """The claim, or the attribute of an assertion."""
    source: Annotated[str, example("organization_field")]
    """What the claim would be made of."""
    reason: Annotated[str, example("The field cost_center has no value for this person")]
    """Why it is missing."""


class ClaimsPreview(msgspec.Struct, frozen=True, kw_only=True):
    """One token, or another answer with claims."""

    claims: Sequence[PreviewedClaim]
    """The claims in it."""
    missing: Sequence[MissingClaim]
    """The claims that are not in it."""


class PreviewedSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the person may sign in to the service."""

    may_sign_in: Annotated[bool, example(True)]
    """Whether the next sign-in is let in."""
    rule: Annotated[SignInRule, example("policy_members")]
    """The rule that decides."""
    because: Annotated[str, example("Members can sign in to the service, and the person is a member")]
    """The same in words."""
    outside_unknown: Annotated[bool, example(False)]
    """Whether the person is an unconfirmed member. Then other rules can still block the sign-in, such as a lock of the account, MFA, or
    terms and rules of the installation. Your organization does not see whether they do.
    """


class TokenPreviewRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the service would learn of the person."""

    user_id: Id
    sign_in: PreviewedSignIn
    """Whether the person may sign in, and by which rule."""
    consent: Annotated[ConsentState, example("given")]
    """Whether the person has allowed the application to learn the person's own values: `given`, `spared` or `missing`."""
    scopes: Annotated[Sequence[str], example(["openid", "email"])]
    """The scopes that the tokens would have. The person's own values are told only for scopes that the person has allowed."""
    id_token: ClaimsPreview
    """The ID token."""
    userinfo: ClaimsPreview
    """The answer of userinfo."""
    access_token: ClaimsPreview
    """The access token."""
    saml: ClaimsPreview | None
    """The attributes of an assertion; null if the service does not use SAML."""


@endpoint.get(
    "/api/organizations/{org_slug}/services/{service_slug}/token-preview",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    refuses=(BadRequest,),
    tags=("claims",),
    verb="service preview-tokens",
)
async def preview_tokens(call: Call[None, PreviewQuery, ServicePath, Member], postern: Postern) -> TokenPreviewRecord:
    """Preview what a service would learn about a person, and why

    The preview uses the code that issues tokens: each claim with its value and source, each missing claim with the reason. No one is signed
    in and nothing is issued. For unconfirmed members, the preview does not say whether the account is deactivated or lacks MFA.

    You also need the capability `end_users.view`. The response is 404 for people who are neither members of your organization nor users of
    the service.
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
    """What the person holds that bears on the service."""

    roles: Annotated[Sequence[str], example(["editor"])]
    """The slugs of the roles of the service, assigned to the person or to one of the person's teams."""
    teams: Annotated[Sequence[str], example(["sales"])]
    """The slugs of the person's teams in your organization."""
    plan: Annotated[str, example("pro")]
    """The slug of the plan; `free` without a subscription."""


class ServiceVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the person may sign in to one of the organization's services."""

    service_id: ServiceUuid
    slug: SlugOfService
    name: Annotated[str, example("Billing")]
    """The service's name."""
    sign_in: PreviewedSignIn
    """Whether the person may sign in, and by which rule."""
    held: HeldInService
    """The rights that the person has there."""


class ServiceVerdicts(msgspec.Struct, frozen=True):
    """The services of the organization that the person may have to do with."""

    services: Sequence[ServiceVerdict]
    """The first hundred, by name."""
    hook_refused_at: datetime | None
    """When the organization's hook has last refused a sign-in of this person that is still open; null if it has not, and for callers
    without the capability `webhooks.manage`. The hook is asked again at the next sign-in, so it is no part of the verdicts.
    """


@endpoint.get(
    "/api/organizations/{org_slug}/users/{user_id}/sign-in-verdicts",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    tags=("end-users",),
)
async def list_sign_in_verdicts(call: Call[None, None, VerdictsPath, Member], postern: Postern) -> ServiceVerdicts:
    """Check which services a person can sign in to, and why

    No one is signed in. For unconfirmed members, the response does not say whether the account is deactivated or lacks MFA. The list has
    every service for a member, and the services that they use for anyone else. You also need the capability `end_users.view`.
    """
    previews, user = postern.federation.token_previews, UserId(call.path.user_id)
    found = await previews.verdicts(call.caller, user)
    return ServiceVerdicts([_verdict(one) for one in found], await previews.hook_refused_at(call.caller, user))


class AdmittedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of the list."""

    after: UUID | None = None
    """The `next` of the page before."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = PEOPLE_ON_A_PAGE
    """The maximum number of people to return. Values above the maximum are rejected."""


class AdmittedPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A person whom the service admits."""

    user_id: Id
    email: EmailAddress
    sign_in: PreviewedSignIn
    """Whether the next sign-in is let in, and by which rule."""
    held: HeldInService
    """The rights that the person has there."""


class AdmittedPeople(msgspec.Struct, frozen=True, kw_only=True):
    """People whom the service admits."""

    people: Sequence[AdmittedPerson]
    """Members of the organization and users of the service whom its sign-in policy admits, by their IDs."""
    next: UUID | None
    """The value of `after` for the next page; null on the last one."""


@endpoint.get(
    "/api/organizations/{org_slug}/services/{service_slug}/access",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    tags=("end-users",),
    verb="service list-access",
)
async def list_service_access(call: Call[None, AdmittedQuery, ServicePath, Member], postern: Postern) -> AdmittedPeople:
    """List who can sign in to a service, and why

    Returns the members of the organization and the users of the service whom its sign-in policy admits. `sign_in` says whether something
    else keeps a person out, such as MFA that is missing. A service for anyone admits also people who have never come, and these are not in
    the list. There are no totals. Such questions of one organization are answered one after the other; if too many are waiting, the
    response is 503. You also need the capability `end_users.view`.
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

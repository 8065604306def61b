"""Domain routes of an organization: how users of an email domain sign in."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import DomainId
from core.domain.identity.proofs import StepUp
from core.domain.identity.realms import LoginPolicy
from core.domain.tenancy.domains import DomainRoute, DomainRouteChange, JoinPolicy
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, OrganizationPath, UpdatedAt, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.routes.tenancy.domains import PROOF, DomainVerification, VerificationToken

_TAGS = ("sign-in-domains",)
_ROUTES = "/api/organizations/{org_slug}/domain-routes"
_ROUTE = f"{_ROUTES}/{{domain_id}}"
_MANAGE = able(Capability.SETTINGS_MANAGE, impersonated=True)
# A domain route decides how people sign in, and outlasts an impersonation.
_IN_PERSON = able(Capability.SETTINGS_MANAGE, impersonated=False)

_Domain = Annotated[str, bounded({"maxLength": 253}, examples=["acme.example"])]
_ProviderText = Annotated[str, msgspec.Meta(max_length=64, examples=["websuite"])]
_Login = Annotated[LoginPolicy, example("upstream_only")]
_Join = Annotated[JoinPolicy, example("ask")]


class DomainRoutePath(OrganizationPath, frozen=True):
    domain_id: UUID
    """The ID of the domain route."""


class NewDomainRoute(msgspec.Struct, frozen=True, kw_only=True):
    """An email domain, and how its people sign in."""

    domain: _Domain
    """The part of the email addresses after the @, in ASCII (`xn--…` for other letters). Subdomains are not included."""
    upstream_provider_id: _ProviderText | None = None
    """The identity provider of these people: `codehost`, `websuite` or `officesuite`, or the ID of one of the organization's own."""
    login_policy: _Login = LoginPolicy.PASSWORD_ALLOWED
    """The allowed sign-in methods."""
    join_policy: _Join = JoinPolicy.OFF
    """What happens to people who sign in and are not members yet. `off`: nothing. `ask`: they can request membership. `on`: they become
    members in the role `member`.
    """


class DomainRoutePatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a domain route. Omitted fields keep their values; send at least one."""

    upstream_provider_id: _ProviderText | msgspec.UnsetType | None = msgspec.UNSET
    """The identity provider of these people; null for none."""
    login_policy: _Login | msgspec.UnsetType = msgspec.UNSET
    """The allowed sign-in methods."""
    join_policy: _Join | msgspec.UnsetType = msgspec.UNSET
    """What happens to people who sign in and are not members yet."""


class DomainRouteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An email domain, how its people sign in, and the record and the file that verify the domain. Publishing one of the two is enough."""

    id: Id
    domain: Annotated[str, example("acme.example")]
    """The domain, in lowercase."""
    verified: Annotated[bool, example(False)]
    """Whether the organization has verified the domain. Until then the route has no effect."""
    verified_at: datetime | None
    """When the domain was verified; null if it was not."""
    checked_at: datetime | None
    """When Postern last looked for the record and the file."""
    upstream_provider_id: Annotated[str, example("websuite")] | None
    """The identity provider of these people; null for none."""
    login_policy: _Login
    """The allowed sign-in methods."""
    join_policy: _Join
    """What happens to people who sign in and are not members yet."""
    verification_token: VerificationToken
    """The verification token, for the value of the record or the content of the file."""
    txt_name: Annotated[str, example("_postern-verification.acme.example")]
    """The name of the TXT record."""
    txt_value: VerificationToken
    """The value of the TXT record."""
    file_url: Annotated[str, example("https://acme.example/.well-known/postern-verification.txt")]
    """The URL of the file. `http` is also accepted. Postern does not follow redirects."""
    file_content: VerificationToken
    """The content of the file."""
    created_at: CreatedAt
    updated_at: UpdatedAt


@endpoint.get(_ROUTES, caller=_MANAGE, keys=True, tags=_TAGS)
async def list_domain_routes(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[DomainRouteRecord]:
    """List the domain routes of an organization

    Return the routes, the oldest first, each with the record to publish and the state of the verification.
    """
    return [_record(route) for route in await postern.tenancy.domain_routes.list(call.caller)]


@endpoint.post(
    _ROUTES,
    caller=_IN_PERSON,
    keys=Capability.CONNECTIONS_MANAGE,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    status=201,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def create_domain_route(call: Call[NewDomainRoute, None, OrganizationPath, Member], postern: Postern) -> DomainRouteRecord:
    """Create a domain route

    Set how the people of an email domain sign in. Publish the record or the file in the response, then verify the domain. Until then the
    route has no effect. Only one organization can verify a domain. If the domain is also the organization's custom domain, the record or
    file published for it is enough.

    With `password_allowed`, people can choose between the provider and Postern's sign-in methods. With `upstream_only`, people can use only
    the provider: no password, no magic link, no password reset. `password_fallback_if_provider_unavailable` does the same, except while the
    provider is disabled or does not respond. With these two policies, an account at `codehost`, `websuite` or `officesuite` needs an email
    address of this domain, verified by the provider.

    An organization can have at most 100 routes. If `join_policy` is `ask` or `on`, you also need the permission to manage members and the
    permissions of the role `member`. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    body = call.body
    route = await postern.tenancy.domain_routes.create(
        call.caller,
        call.actor,
        body.domain,
        provider=body.upstream_provider_id,
        login_policy=body.login_policy,
        join_policy=body.join_policy,
    )
    return _record(route)


@endpoint.patch(
    _ROUTE,
    caller=_IN_PERSON,
    keys=Capability.CONNECTIONS_MANAGE,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def change_domain_route(call: Call[DomainRoutePatch, None, DomainRoutePath, Member], postern: Postern) -> DomainRouteRecord:
    """Change a domain route

    The change applies from the next sign-in on; existing sessions continue. If you set `join_policy` to `ask` or `on`, you also need the
    permission to manage members and the permissions of the role `member`. Requires a recent sign-in or reauthentication, with MFA if you
    have it enabled.
    """
    return _record(await postern.tenancy.domain_routes.change(call.caller, DomainId(call.path.domain_id), call.actor, _change(call.body)))


@endpoint.post(f"{_ROUTE}/verify", caller=_IN_PERSON, keys=True, limit=CREDENTIALS, tags=_TAGS)
async def verify_domain_route(call: Call[None, None, DomainRoutePath, Member], postern: Postern) -> DomainVerification:
    """Verify the domain of a domain route

    Once Postern finds the record or the file, the route takes effect. Keep it published: Postern checks it every week. If both are missing,
    the owners get an email. If both are still missing after 2 more days, the route loses its effect, and the owners get another email.
    """
    outcome = await postern.tenancy.domain_routes.verify(call.caller, DomainId(call.path.domain_id), call.actor)
    return DomainVerification(outcome.verified, outcome.message)


@endpoint.delete(
    _ROUTE, caller=_IN_PERSON, keys=Capability.CONNECTIONS_MANAGE, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, status=204, tags=_TAGS
)
async def delete_domain_route(call: Call[None, None, DomainRoutePath, Member], postern: Postern) -> NoBody:
    """Delete a domain route

    From the next sign-in on, the people of the domain sign in without the route, like everyone else. Requires a recent sign-in or
    reauthentication, with MFA if you have it enabled.
    """
    await postern.tenancy.domain_routes.remove(call.caller, DomainId(call.path.domain_id), call.actor)
    return NO_BODY


_change = taken(DomainRoutePatch, DomainRouteChange, named={"provider": "upstream_provider_id"})
_record = shown(DomainRoute, DomainRouteRecord, named={**PROOF, "upstream_provider_id": "provider"})

"""The sign-in rules of an organization: its demands on members' sign-ins, and the domains that it invites."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest
from core.domain.identity.accounts import SHORTEST_PASSWORD
from core.domain.identity.devices import LONGEST_TRUST_DAYS
from core.domain.identity.passwords import LONGEST_LEAST, BreachRule
from core.domain.identity.proofs import StepUp
from core.domain.identity.registering import RegistrationPolicy
from core.domain.identity.session_limits import LONGEST_IDLE_MINUTES, LONGEST_SESSION_HOURS, MOST_SESSIONS, SHORTEST_IDLE_MINUTES
from core.domain.outbound import MetadataClients, RegisteredClients
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.sign_in_rules import (
    LONGEST_GRACE_DAYS,
    MOST_DOMAINS,
    AdminFactor,
    AfarRule,
    AgentRule,
    AllFactor,
    MfaPolicy,
    SignInRules,
    SignInRulesChange,
)
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import MetadataHosts, OrganizationPath, example
from entrypoints.http.machinery.limits import UNLIMITED

_TAGS = ("organizations",)
_RULES = "/api/organizations/{org_slug}/sign-in-rules"

_GraceDays = Annotated[int, msgspec.Meta(ge=0, le=LONGEST_GRACE_DAYS, examples=[14])]
_TrustDays = Annotated[int, msgspec.Meta(ge=0, le=LONGEST_TRUST_DAYS, examples=[30])]
_SessionHours = Annotated[int, msgspec.Meta(ge=1, le=LONGEST_SESSION_HOURS, examples=[12])]
_IdleMinutes = Annotated[int, msgspec.Meta(ge=SHORTEST_IDLE_MINUTES, le=LONGEST_IDLE_MINUTES, examples=[60])]
_MostSessions = Annotated[int, msgspec.Meta(ge=1, le=MOST_SESSIONS, examples=[3])]
_PasswordLength = Annotated[int, msgspec.Meta(ge=SHORTEST_PASSWORD, le=LONGEST_LEAST, examples=[12])]
_ServiceRole = Annotated[str, msgspec.Meta(min_length=3, max_length=101, examples=["billing/approver"])]
_Domain = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
_Domains = Annotated[Sequence[_Domain], msgspec.Meta(max_length=MOST_DOMAINS, examples=[["acme.example"]])]


class SignInRulesPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the rules. Omitted fields keep their values; send at least one."""

    mfa_policy: Annotated[MfaPolicy, example("required")] | msgspec.UnsetType = msgspec.UNSET
    """Whether members need MFA."""
    mfa_grace_days: _GraceDays | msgspec.UnsetType = msgspec.UNSET
    """The number of days during which members without MFA still have access. They count from the requirement, or from joining if that is
    later.
    """
    device_trust_days: _TrustDays | msgspec.UnsetType = msgspec.UNSET
    """The number of days during which a member's device can skip MFA; 0 for none. The strictest of a person's organizations applies."""
    session_lifetime_hours: _SessionHours | msgspec.UnsetType | None = msgspec.UNSET
    """The session lifetime in hours, in the organization and its services; null for the lifetime of the installation."""
    session_idle_minutes: _IdleMinutes | msgspec.UnsetType | None = msgspec.UNSET
    """The idle timeout in minutes, in the organization and its services, and for all sessions of its confirmed members; null for the idle
    timeout of the installation.
    """
    most_sessions: _MostSessions | msgspec.UnsetType | None = msgspec.UNSET
    """The maximum number of concurrent sessions of one person; null for no limit. It applies to the organization and its services together,
    and for confirmed members to all sessions. The next sign-in revokes the oldest session.
    """
    invitation_domains: _Domains | msgspec.UnsetType = msgspec.UNSET
    """The domains of the email addresses that can be invited, without their subdomains. The list replaces the previous one; empty for any
    email address.
    """
    sign_in_links: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether members can sign in by magic link."""
    admin_factor: Annotated[AdminFactor, example("passkey")] | msgspec.UnsetType = msgspec.UNSET
    """What owners and administrators need in addition to the requirement for all members: MFA, or MFA and a passkey. If you make the
    requirement stricter, the grace period starts again.
    """
    all_factor: Annotated[AllFactor, example("passkey")] | msgspec.UnsetType = msgspec.UNSET
    """Whether members need MFA and a passkey: `passkey` for all members, `role_passkey` for members with the role of `all_factor_role`. If
    you extend the requirement to other members, the grace period starts again.
    """
    all_factor_role: _ServiceRole | msgspec.UnsetType | None = msgspec.UNSET
    """The role of an application, by the slugs of both. `role_passkey` requires it, and other values do not allow it. If the role is
    deleted, the requirement applies to no one.
    """
    passkey_offers: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether Postern offers a passkey to members after a sign-in with a password, once in 30 days. False applies to confirmed members."""
    metadata_clients: MetadataClients | msgspec.UnsetType = msgspec.UNSET
    """Which clients with a client ID metadata document can sign people in: `off` for none, `named` for those with documents on the hosts in
    `metadata_hosts`, `any` for all. Both the organization and the API must allow the client.
    """
    metadata_hosts: MetadataHosts | msgspec.UnsetType = msgspec.UNSET
    """The hosts of the documents, such as `claude.ai`, without their subdomains. For documents, the hosts apply only to `named`. The list
    replaces the previous one.
    """
    registered_clients: RegisteredClients | msgspec.UnsetType = msgspec.UNSET
    """Whether dynamically registered clients on people's own devices can sign people in. `on` takes effect if the API, or the organization,
    allows them, too, and the operator has enabled open registration. They can redirect to the device, or to `metadata_hosts`.
    """
    agents: Annotated[AgentRule, example("forbidden")] | msgspec.UnsetType = msgspec.UNSET
    """Whether agents can act for people at the organization's APIs, both members and others. If you forbid it, what people have allowed is
    revoked. If you allow it again, people are asked again.
    """
    afar_requests: Annotated[AfarRule, example("on")] | msgspec.UnsetType = msgspec.UNSET
    """Whether the organization's agents and confidential applications can request approval from confirmed members on another device (OpenID
    CIBA, `POST /oauth/bc-authorize`). If you turn it off, pending requests are canceled.
    """
    shortest_password: _PasswordLength | msgspec.UnsetType | None = msgspec.UNSET
    """The minimum length of a member's next password; null for the minimum of the installation. The strictest of the organizations in which
    the person is a confirmed member applies.
    """
    breached_at_sign_in: Annotated[BreachRule, example("change")] | msgspec.UnsetType | None = msgspec.UNSET
    """What happens at a sign-in with a correct but breached password; null for the setting of the installation. `tell` allows it and
    notifies the person by email. `change` denies it and emails a link to choose another password. The strictest setting of the installation
    and of all organizations in which the person is a confirmed member applies.
    """
    registration_policy: Annotated[RegistrationPolicy, example("except_domains")] | msgspec.UnsetType = msgspec.UNSET
    """Who can register on the organization's pages, within the limits of the installation. `anybody`: everyone. `except_domains`: all but
    disposable email domains and `registration_domains`, with their subdomains. `domains`: email addresses of `registration_domains`,
    without their subdomains. `invitation`: invited people. `closed`: only people who open the link of an invitation. The `sign_in_policy`
    of each service decides who can sign in.
    """
    registration_domains: _Domains | msgspec.UnsetType = msgspec.UNSET
    """The domains of `registration_policy`. The list replaces the previous one."""


class SignInRulesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The organization's requirements for its members' sign-ins, and the email domains that can be invited."""

    mfa_policy: Annotated[MfaPolicy, example("required")]
    """Whether members need MFA."""
    mfa_required_since: datetime | None
    """When MFA became required; null if it is not."""
    mfa_grace_days: Annotated[int, example(14)]
    """The number of days during which members without MFA still have access. They count from `mfa_required_since`, or from joining if that
    is later.
    """
    device_trust_days: Annotated[int, example(30)]
    """The number of days during which a member's device can skip MFA; 0 for none."""
    session_lifetime_hours: Annotated[int, example(12)] | None
    """The session lifetime in hours, in the organization and its services; null for the lifetime of the installation."""
    session_idle_minutes: Annotated[int, example(60)] | None
    """The idle timeout in minutes, in the organization and its services, and for all sessions of its confirmed members; null for the idle
    timeout of the installation.
    """
    most_sessions: Annotated[int, example(3)] | None
    """The maximum number of concurrent sessions of one person; null for no limit. It applies to the organization and its services together,
    and for confirmed members to all sessions. The next sign-in revokes the oldest session.
    """
    invitation_domains: Annotated[Sequence[str], example(["acme.example"])]
    """The domains of the email addresses that can be invited; empty for any email address."""
    sign_in_links: bool
    """Whether members can sign in by magic link."""
    admin_factor: Annotated[AdminFactor, example("passkey")]
    """What owners and administrators need in addition to the requirement for all members."""
    admin_required_since: datetime | None
    """When this requirement was last made stricter; null if there is none."""
    all_factor: Annotated[AllFactor, example("passkey")]
    """Whether members need MFA and a passkey."""
    all_factor_role: Annotated[str, example("billing/approver")] | None
    """The role of the members who need them; null if all or no members do, and if the role was deleted."""
    all_required_since: datetime | None
    """When the requirement was last extended to other members; null if there is none."""
    passkey_offers: bool
    """Whether Postern offers a passkey to members after a sign-in with a password."""
    metadata_clients: MetadataClients
    """Which clients with a client ID metadata document can sign people in."""
    metadata_hosts: MetadataHosts
    """The hosts of these documents, sorted. Dynamically registered clients can redirect to these hosts, too."""
    registered_clients: RegisteredClients
    """Whether dynamically registered clients can sign people in."""
    agents: Annotated[AgentRule, example("allowed")]
    """Whether agents can act for people at the organization's APIs."""
    afar_requests: Annotated[AfarRule, example("off")]
    """Whether agents and confidential applications can request approval from confirmed members on another device (CIBA)."""
    shortest_password: Annotated[int, example(12)] | None
    """The minimum length of a member's next password; null for the minimum of the installation."""
    breached_at_sign_in: Annotated[BreachRule, example("tell")] | None
    """What at least happens at a member's sign-in with a breached password; null for the setting of the installation."""
    registration_policy: Annotated[RegistrationPolicy, example("except_domains")]
    """Who can register on the organization's pages, within the limits of the installation."""
    registration_domains: Annotated[Sequence[str], example(["acme.example"])]
    """The domains of `registration_policy`."""


@endpoint.get(_RULES, caller=able(Capability.SETTINGS_MANAGE, impersonated=True), keys=True, tags=_TAGS)
async def get_sign_in_rules(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> SignInRulesRecord:
    """Get the sign-in rules of an organization

    Return the organization's requirements for its members' sign-ins, and the email domains that can be invited.
    """
    return _record(await postern.tenancy.sign_in_rules.get(call.caller))


@endpoint.patch(
    _RULES,
    caller=able(Capability.SETTINGS_MANAGE, impersonated=False),
    keys=Capability.CONNECTIONS_MANAGE,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def change_sign_in_rules(call: Call[SignInRulesPatch, None, OrganizationPath, Member], postern: Postern) -> SignInRulesRecord:
    """Change the sign-in rules of an organization

    The rules apply from the next request and the next sign-in on. After the grace period, members without MFA get `MFA_REQUIRED` from the
    organization and its services; they can still sign in and set up MFA. The same applies to administrators who do not meet `admin_factor`,
    and to members who do not meet `all_factor`. You must meet the requirements that you set. Requires a recent sign-in or reauthentication,
    with MFA if you have it enabled.
    """
    return _record(await postern.tenancy.sign_in_rules.change(call.caller, change_of(call.body), call.actor))


change_of = taken(SignInRulesPatch, SignInRulesChange, named={"session_hours": "session_lifetime_hours"})
_record = shown(SignInRules, SignInRulesRecord, named={"session_lifetime_hours": "session_hours"})

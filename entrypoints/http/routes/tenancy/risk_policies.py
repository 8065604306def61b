"""Risk policies of an organization, and the sign-ins that they would affect and have affected."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import LoginEventId, OrganizationId
from core.domain.identity.proofs import StepUp
from core.domain.identity.risk_policies.policies import (
    LONGEST_NAME,
    MOST_EXCEPTIONS,
    MOST_NETWORKS,
    MOST_POLICIES,
    ExceptionKind,
    RiskAction,
    RiskConditions,
    RiskException,
    RiskPolicies,
    RiskPolicy,
    SignInWay,
)
from core.domain.identity.risk_policies.shadow import MetInShadow, PolicyReport
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.usecases.tenancy.risk import RiskReport
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import Endpoints, endpoint
from entrypoints.http.machinery.fields import Id, OrganizationPath, WayIn, example
from entrypoints.http.machinery.limits import UNLIMITED
from ports.tenancy.organizations import MetSignIn

_TAGS = ("risk",)
_TAGS_OF_INSTALLATION = ("installation",)
_POLICIES = "/api/organizations/{org_slug}/risk-policies"
_POLICIES_OF_INSTALLATION = "/api/platform/risk-policies"
_ROLES = 50
MOST_SERVICES: Final = 100

_Country = Annotated[str, msgspec.Meta(min_length=1, max_length=20)]
_Network = Annotated[str, msgspec.Meta(min_length=1, max_length=60)]
_Countries = Annotated[tuple[_Country, ...], msgspec.Meta(max_length=MOST_NETWORKS * 2, examples=[["DE", "AT"]])]
_Networks = Annotated[tuple[_Network, ...], msgspec.Meta(max_length=MOST_NETWORKS, examples=[["192.0.2.0/24"]])]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME, examples=["Second factor outside Germany"])]


class RiskConditionsBody(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions. All conditions that are set must match. An empty list or null matches everything."""

    least_score: Annotated[float, msgspec.Meta(ge=0.01, le=1, examples=[0.7])] | None = None
    """The minimum risk score of the sign-in."""
    ways: Annotated[tuple[SignInWay, ...], msgspec.Meta(max_length=len(SignInWay)), example(["password"])] = ()
    """The person signed in by one of these methods."""
    countries: _Countries = ()
    """The IP address is in one of these countries, as two letters of ISO 3166."""
    except_countries: _Countries = ()
    """The IP address is in none of these countries, or its location is unknown."""
    networks: _Networks = ()
    """The IP address is in one of these networks."""
    except_networks: _Networks = ()
    """The IP address is in none of these networks."""
    new_device: bool | None = None
    """Whether the device is new for the person; for an unconfirmed member, whether it is new to the organization."""
    impossible_travel: bool | None = None
    """Whether the travel since the previous sign-in is impossible. Postern compares distances or, if the location database has no
    coordinates, countries within 2 hours.
    """
    from_hour: Annotated[int, msgspec.Meta(ge=0, le=23, examples=[22])] | None = None
    """The first hour of the day, in UTC, at which the policy matches. Requires `until_hour`."""
    until_hour: Annotated[int, msgspec.Meta(ge=1, le=24, examples=[6])] | None = None
    """The hour of the day, in UTC, at which the policy stops matching. If it is less than `from_hour`, the period includes midnight."""
    services: Annotated[tuple[UUID, ...], msgspec.Meta(max_length=MOST_SERVICES), example(["01928c3e-5f1a-7cc1-9d4e-6b0c2a7f1e55"])] = ()
    """The sign-in is to one of these services."""
    roles: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=50)], ...], msgspec.Meta(max_length=_ROLES), example(["admin"])
    ] = ()
    """The person has one of these roles in the organization, such as `owner`; `none` matches people who are not members."""


class RiskPolicyBody(msgspec.Struct, frozen=True, kw_only=True):
    """A risk policy."""

    id: Id
    """A UUID of your choice, which identifies the policy."""
    name: _Name
    """The display name of the policy."""
    when: RiskConditionsBody
    """The conditions of the policy."""
    action: Annotated[RiskAction, example("second_factor")]
    """The action. `nothing` allows the sign-in, and no later policy is evaluated."""
    counts: bool = False
    """Whether the policy is enforced. To enforce a policy, save it first as report-only with the same settings."""


class RiskExceptionBody(msgspec.Struct, frozen=True, kw_only=True):
    """An exception from the policies, until a date."""

    kind: ExceptionKind
    """The type of `value`."""
    value: Annotated[str, msgspec.Meta(min_length=1, max_length=60, examples=["192.0.2.0/24"])]
    """The ID of a person or of a team, or a network."""
    ends_at: Annotated[datetime, msgspec.Meta(tz=True)]
    """When the exception ends. Include the UTC offset."""


class RiskPoliciesBody(msgspec.Struct, frozen=True, kw_only=True):
    """All policies, in order, and all exceptions. They replace the current ones."""

    policies: Annotated[Sequence[RiskPolicyBody], msgspec.Meta(max_length=MOST_POLICIES)]
    """The policies. The first match decides."""
    exceptions: Annotated[
        Sequence[RiskExceptionBody],
        msgspec.Meta(max_length=MOST_EXCEPTIONS),
        example([{"kind": "network", "value": "192.0.2.0/24", "ends_at": "2027-01-01T00:00:00Z"}]),
    ] = ()
    """The exceptions."""


class RiskPoliciesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The risk policies of an organization."""

    policies: Sequence[RiskPolicyBody]
    """The policies. The first match decides."""
    exceptions: Sequence[RiskExceptionBody]
    """The exceptions."""
    count_since: datetime | None
    """When the first enforced policy took effect; null if none is enforced."""


class MetPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A person whom a policy would have matched, with their latest such sign-in."""

    user_id: UUID
    """The person."""
    email: Annotated[str, example("ada@example.org")] | None
    """The person's current email address; null if the account was deleted."""
    at: datetime
    """When the person signed in."""
    country: Annotated[str, example("DE")] | None
    """The country of the IP address; null if unknown."""
    ip_address: Annotated[str, example("203.0.113.7")] | None
    """The IP address; null if it has been deleted."""


class MetOnDay(msgspec.Struct, frozen=True, kw_only=True):
    """The number of sign-ins on one day that a policy would have matched."""

    day: Annotated[date, example("2026-11-27")]
    """The day, in UTC."""
    count: Annotated[int, example(3)]
    """The number of sign-ins."""


class RiskPolicyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The sign-ins that a policy would have matched."""

    policy_id: UUID
    """The policy."""
    met: Annotated[int, example(12)]
    """The number of sign-ins."""
    people: Annotated[int, example(4)]
    """The number of people."""
    days: Sequence[MetOnDay]
    """The number of sign-ins by day, without days that had none."""
    latest: Sequence[MetPerson]
    """The latest matches, at most 20."""
    by_session: Annotated[int, example(7)]
    """The number of sign-ins that continued an existing session. Policies are evaluated when a session begins, so these sign-ins are not
    evaluated and not included in `met`.
    """


class RiskReportRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The sign-ins of the last 30 days that the policies would have matched, whether enforced or report-only."""

    judged: Annotated[int, example(1000)]
    """The number of evaluated sign-ins to the organization, without those that continued a session."""
    policies: Sequence[RiskPolicyReport]
    """The report of each policy, in order."""
    your_policy: UUID | None
    """The policy that would match if you signed in now, from here; null for none."""
    your_action: RiskAction | None
    """The action of this policy; null for none."""


class RiskEventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which page of the list you want."""

    after: UUID | None = None
    """The `next` of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The maximum number of entries to return. Values above the maximum are rejected."""


class RiskEventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in to the organization that one of its risk policies matched and decided."""

    id: Id
    user_id: UUID | None
    """The person; null if the person was erased."""
    email: Annotated[str, example("ada@example.org")] | None
    """The person's current email address; null if the account was deleted."""
    policy_id: UUID
    """The policy."""
    policy_name: Annotated[str, example("Second factor outside Germany")]
    """The policy's name at the time of the sign-in."""
    action: RiskAction
    """The action of the policy."""
    success: bool
    """Whether the sign-in succeeded."""
    provider: WayIn
    ip_address: Annotated[str, example("203.0.113.7")] | None
    """The IP address of the attempt; null if it was deleted."""
    country: Annotated[str, example("DE")] | None
    """The country of the IP address; null if unknown."""
    created_at: datetime
    """The time of the attempt."""


class RiskEventList(msgspec.Struct, frozen=True):
    """One page of the list."""

    risk_events: Sequence[RiskEventRecord]
    """The sign-ins on this page, the newest first."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


@endpoint.get(_POLICIES, caller=able(Capability.RISK_POLICIES_MANAGE, impersonated=True), keys=True, tags=_TAGS)
async def get_risk_policies(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> RiskPoliciesRecord:
    """Get the risk policies of an organization

    Return the policies and exceptions that are evaluated at each sign-in to the organization or to one of its services.
    """
    return _record(await postern.tenancy.risk_policies.get(call.caller.organization))


@endpoint.put(
    _POLICIES,
    caller=able(Capability.RISK_POLICIES_MANAGE, impersonated=False),
    keys=Capability.CONNECTIONS_MANAGE,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest,),
    tags=_TAGS,
    verb="risk-policy set",
)
async def set_risk_policies(call: Call[RiskPoliciesBody, None, OrganizationPath, Member], postern: Postern) -> RiskPoliciesRecord:
    """Set the risk policies of an organization

    The request replaces all policies and exceptions. A new policy, or one whose conditions or action you change, must be report-only first:
    save it without `counts`, review the report, and save it with `counts`. Policies apply from the next sign-in on. Requires a recent
    sign-in or reauthentication.
    """
    policies, exceptions = _rules_of(call.body)
    return _record(await postern.tenancy.risk_policies.change(call.caller, policies, exceptions, call.actor))


@endpoint.get(
    f"{_POLICIES}/report", caller=able(Capability.RISK_EVENTS_VIEW, impersonated=True), keys=True, tags=_TAGS, verb="risk-policy report"
)
async def get_risk_report(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> RiskReportRecord:
    """Preview the effect of an organization's risk policies

    Evaluate the sign-ins of the last 30 days to the organization and its services with the current policies, whether enforced or
    report-only. Denied sign-ins are included. For unconfirmed members, only data from the organization itself is used. Sign-ins that
    continue a session are counted separately, because policies are evaluated when a session begins.
    """
    return _report(await postern.tenancy.risk_policies.report(call.caller, call.actor.address))


@endpoint.get(
    "/api/organizations/{org_slug}/risk-events", caller=able(Capability.RISK_EVENTS_VIEW, impersonated=True), keys=True, tags=_TAGS
)
async def list_risk_events(call: Call[None, RiskEventsQuery, OrganizationPath, Member], postern: Postern) -> RiskEventList:
    """List the risk events of an organization

    Return the sign-ins to the organization and its services that its risk policies decided, the newest first. Sign-ins in other places are
    not included.
    """
    return await _events(call.query, call.caller.organization, postern)


@endpoint.get(_POLICIES_OF_INSTALLATION, caller=PLATFORM_OWNER, tags=_TAGS_OF_INSTALLATION)
async def get_installation_risk_policies(_call: Call, postern: Postern) -> RiskPoliciesRecord:
    """Get the risk policies of the installation

    Return the policies and exceptions that are evaluated at every sign-in, before those of organizations.
    """
    return _record(await postern.tenancy.risk_policies.get(None))


@endpoint.put(
    _POLICIES_OF_INSTALLATION,
    caller=PLATFORM_OWNER,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest,),
    tags=_TAGS_OF_INSTALLATION,
)
async def set_installation_risk_policies(call: Call[RiskPoliciesBody], postern: Postern) -> RiskPoliciesRecord:
    """Set the risk policies of the installation

    The request replaces all policies and exceptions. A new or changed policy must be report-only first, as in an organization. Policies
    cannot name services, exceptions cannot name teams, and the only roles are `platform_owner` and `none`. A denied person cannot sign in
    anywhere. A denied platform owner gets an email with a link that switches the denying policies to report-only; `postern risk-rules
    shadow` does the same. Requires a recent sign-in or reauthentication.
    """
    policies, exceptions = _rules_of(call.body)
    return _record(await postern.tenancy.risk_policies.change_for_installation(policies, exceptions, call.actor))


@endpoint.get(f"{_POLICIES_OF_INSTALLATION}/report", caller=PLATFORM_OWNER, tags=_TAGS_OF_INSTALLATION)
async def get_installation_risk_report(call: Call, postern: Postern) -> RiskReportRecord:
    """Preview the effect of the installation's risk policies

    Evaluate all sign-ins of the last 30 days with the current policies, whether enforced or report-only. Denied sign-ins are included. If
    there are more than 200 000 sign-ins, only the newest 200 000 are evaluated. Sign-ins that continue a session are counted separately,
    because policies are evaluated when a session begins.
    """
    return _report(await postern.tenancy.risk_policies.report_for_installation(call.caller, call.actor.address))


@endpoint.get("/api/platform/risk-events", caller=PLATFORM_OWNER, tags=_TAGS_OF_INSTALLATION)
async def list_installation_risk_events(call: Call[None, RiskEventsQuery], postern: Postern) -> RiskEventList:
    """List the risk events of the installation

    Return the sign-ins that the installation's risk policies decided, the newest first. Report-only policies decide nothing: the report
    shows their matches. Each organization lists the decisions of its own policies.
    """
    return await _events(call.query, None, postern)


# The OpenAPI document has them among the endpoints of the installation.
OF_INSTALLATION: Final = Endpoints(
    [get_installation_risk_policies, set_installation_risk_policies, get_installation_risk_report, list_installation_risk_events]
)


def _rules_of(body: RiskPoliciesBody) -> tuple[Sequence[RiskPolicy], Sequence[RiskException]]:
    return [_policy(one) for one in body.policies], [_exception(one) for one in body.exceptions]


def _report(report: RiskReport) -> RiskReportRecord:
    met = [[_met_person(person, email=report.addresses.get(person.user)) for person in one.latest] for one in report.policies]
    return RiskReportRecord(
        judged=report.judged,
        policies=[_reported(one, latest=latest) for one, latest in zip(report.policies, met, strict=True)],
        your_policy=None if report.you is None else report.you.policy.id,
        your_action=None if report.you is None else report.you.action,
    )


async def _events(query: RiskEventsQuery, organization: OrganizationId | None, postern: Postern) -> RiskEventList:
    """None: of the installation."""
    before = None if query.after is None else LoginEventId(query.after)
    found = await postern.tenancy.risk_policies.met(organization, before, query.limit + 1)
    listed = found[: query.limit]
    return RiskEventList([_event(one) for one in listed], listed[-1].event.id if len(found) > query.limit else None)


_conditions = taken(RiskConditionsBody, RiskConditions)
_policy = taken(RiskPolicyBody, RiskPolicy, given=("counts_since",), when=lambda body: _conditions(body.when))
_exception = taken(RiskExceptionBody, RiskException)

_shown_conditions = shown(RiskConditions, RiskConditionsBody)
_shown_policy = shown(RiskPolicy, RiskPolicyBody, when=lambda policy: _shown_conditions(policy.when))
_shown_exception = shown(RiskException, RiskExceptionBody)
_record = shown(
    RiskPolicies,
    RiskPoliciesRecord,
    policies=lambda rules: [_shown_policy(one) for one in rules.policies],
    exceptions=lambda rules: [_shown_exception(one) for one in rules.exceptions],
)

_met_person = shown(MetInShadow, MetPerson, named={"user_id": "user", "ip_address": "address"}, given=("email",))
_reported = shown(
    PolicyReport,
    RiskPolicyReport,
    named={"policy_id": "policy.id"},
    given=("latest",),
    days=lambda report: [MetOnDay(day=day, count=count) for day, count in report.days],
)

_event = shown(
    MetSignIn,
    RiskEventRecord,
    within=("event", "decided"),
    named={
        "id": "event.id",
        "user_id": "event.user",
        "policy_id": "decided.policy",
        "policy_name": "decided.name",
        "ip_address": "event.address",
    },
    success=lambda one: one.event.failure is None,
)

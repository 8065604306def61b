"""The risk policies of an organization and of the installation as objects of configuration files: one object each, with all policies and
exceptions.
"""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Annotated, Any, Final, Literal

import msgspec

from core.domain.errors import BadRequest
from core.domain.identity.risk_policies.checking import checked_conditions
from core.domain.identity.risk_policies.policies import (
    MOST_EXCEPTIONS,
    MOST_POLICIES,
    ExceptionKind,
    RiskPolicies,
    restored_policy,
    stored_exception,
    stored_policy,
)
from core.domain.lines import one_line
from core.domain.platform.configuration.objects import PLATFORM_RISK, RISK_POLICIES, SERVICE, ObjectPlace
from core.frozen import replace
from entrypoints.http.machinery.fields import example
from entrypoints.http.routes.configuration.kinds import Fields, ObjectKind, References, Within, entry
from entrypoints.http.routes.tenancy import risk_policies
from entrypoints.http.routes.tenancy.risk_policies import MOST_SERVICES, RiskConditionsBody, RiskPoliciesBody, RiskPolicyBody

# What is gone keeps its id, which is no longer than a slug may be.
_Slug = Annotated[str, msgspec.Meta(min_length=1, max_length=50)]


class RiskConditionsEntry(RiskConditionsBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions of a policy in a document. Services are named by slug."""

    services: Annotated[Sequence[_Slug], msgspec.Meta(max_length=MOST_SERVICES), example(["billing"])] = ()  # type: ignore[assignment]
    """The sign-in is to one of these services, by slug."""


class RiskPolicyEntry(RiskPolicyBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A risk policy in a document."""

    when: RiskConditionsEntry
    """The conditions of the policy."""


class RiskExceptionEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An exception for a team or a network, until a date. Exceptions for people are not in documents."""

    kind: Literal["team", "network"]
    """The type of `value`."""
    value: Annotated[str, msgspec.Meta(min_length=1, max_length=60, examples=["192.0.2.0/24"])]
    """The slug of a team, or a network."""
    ends_at: Annotated[datetime, msgspec.Meta(tz=True)]
    """When the exception ends. Include the UTC offset."""


_FIELDS: Final[Mapping[str, Any]] = {
    "policies": Annotated[Sequence[RiskPolicyEntry], msgspec.Meta(max_length=MOST_POLICIES)],
    "exceptions": Annotated[
        Sequence[RiskExceptionEntry],
        msgspec.Meta(max_length=MOST_EXCEPTIONS),
        example([{"kind": "network", "value": "192.0.2.0/24", "ends_at": "2027-01-01T00:00:00Z"}]),
    ],
}


def _stored_policy(value: Fields) -> Fields:
    """The rule as it is kept, without what it does not ask; its applications by their names. Conditions that the check refuses stay as they
    are: the endpoint refuses them, and says why.
    """
    asked = {name: one for name, one in value["when"].items() if one is not None and one != []}
    services = sorted({*asked.pop("services", ())})
    policy = restored_policy({**value, "name": one_line(value["name"]), "when": asked})
    with contextlib.suppress(BadRequest):
        policy = replace(policy, when=checked_conditions(policy.when, "when", policy.name))
    kept: Fields = stored_policy(policy)
    return {**kept, "when": {**kept["when"], "services": services}} if services else kept


def _stored_exception(value: Fields) -> Fields:
    named = value["value"].strip()
    try:
        named = str(ip_network(named)) if value["kind"] == ExceptionKind.NETWORK else named
        ends_at = datetime.fromisoformat(value["ends_at"]).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return value
    return {"kind": value["kind"], "value": named, "ends_at": ends_at.replace("+00:00", "Z")}


def _stored_policies(value: Sequence[Fields]) -> Sequence[Fields]:
    return [_stored_policy(one) for one in value]


def _stored_exceptions(value: Sequence[Fields]) -> Sequence[Fields]:
    return [_stored_exception(one) for one in value]


async def _with_ids(fields: Fields, place: ObjectPlace, references: References) -> Fields:
    """What the document leaves out is what stands at this moment, and so are the exceptions of people. Raises `BadRequest`."""
    standing = await references.risk_policies(place.organization)
    policies: Sequence[Fields] = [stored_policy(one) for one in standing.policies]
    exceptions: Sequence[Fields] = [stored_exception(one) for one in standing.exceptions]
    if "policies" in fields:
        policies = await _with_services(fields["policies"], place, references, standing)
    if "exceptions" in fields:
        people = [one for one in exceptions if one["kind"] == ExceptionKind.PERSON]
        # People last: a refusal names the others by their place in the document.
        exceptions = [*await _with_teams(fields["exceptions"], place, references, standing), *people]
    return {"policies": policies, "exceptions": exceptions}


async def _with_services(
    policies: Sequence[Fields], place: ObjectPlace, references: References, standing: RiskPolicies
) -> Sequence[Fields]:
    slugs = {slug for one in policies for slug in one["when"].get("services", ())}
    known = await references.ids(SERVICE, place.organization, slugs)
    gone = {str(one) for policy in standing.policies for one in policy.when.services}
    made = []
    for number, one in enumerate(policies):
        when = dict(one["when"])
        if "services" in when:
            field = f"policies[{number}].when.services"
            when["services"] = [_id(slug, known, gone, f"{field}: there is no application «{slug}»") for slug in when["services"]]
        made.append({**one, "when": when})
    return made


async def _with_teams(exceptions: Sequence[Fields], place: ObjectPlace, references: References, standing: RiskPolicies) -> Sequence[Fields]:
    slugs = {one["value"] for one in exceptions if one["kind"] == ExceptionKind.TEAM}
    known = await references.ids("teams", place.organization, slugs)
    gone = {one.value for one in standing.exceptions if one.kind is ExceptionKind.TEAM}
    return [
        {**one, "value": _id(one["value"], known, gone, f"exceptions[{number}].value: there is no team «{one['value']}»")}
        if one["kind"] == ExceptionKind.TEAM
        else one
        for number, one in enumerate(exceptions)
    ]


def _id(slug: str, known: Mapping[str, Any], gone: Collection[str], otherwise: str) -> str:
    """The id of what a slug names. What is gone is named by its id, where the rules name it so already."""
    if slug in known:
        return str(known[slug])
    if slug in gone:
        return slug
    raise BadRequest(otherwise)


_STANDING: Final[Fields] = {"policies": [], "exceptions": []}
_STORED: Final[Any] = {"policies": _stored_policies, "exceptions": _stored_exceptions}

# After the services and teams that rules and exceptions name.
# A configuration file names applications and teams by slug. It names no users, so their exceptions stay as they are, whatever it states
# about others. Its policies go through the endpoint, so a new one starts in report-only mode.
RISK_KIND: Final = ObjectKind(
    name=RISK_POLICIES,
    within=Within.ORGANIZATION,
    entry=entry("RiskPoliciesEntry", RiskPoliciesBody, more=_FIELDS),
    shown_by=risk_policies.get_risk_policies,
    change=risk_policies.set_risk_policies,
    is_single=True,
    standing=_STANDING,
    stored=_STORED,
    translate=_with_ids,
)

PLATFORM_RISK_KIND: Final = ObjectKind(
    name=RISK_POLICIES,
    stored_as=PLATFORM_RISK,
    within=Within.PLATFORM,
    entry=entry("PlatformRiskPoliciesEntry", RiskPoliciesBody, more=_FIELDS),
    shown_by=risk_policies.get_installation_risk_policies,
    change=risk_policies.set_installation_risk_policies,
    is_single=True,
    standing=_STANDING,
    stored=_STORED,
    translate=_with_ids,
)

"""Risk policies: what an organization requires when a user signs in under certain circumstances, and whom the policies exempt."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from core.domain.formats import Json
from core.domain.identifiers import OrganizationId
from core.domain.record.events import Actor, Event, Target, differences
from core.frozen import Frozen, json_of, names_of, replace

MOST_POLICIES: Final = 20
MOST_EXCEPTIONS: Final = 100
MOST_NETWORKS: Final = 200
MOST_NETWORKS_IN_ALL: Final = 1000
"""Of all rules of one organization. Whoever lists a person lets each of their sign-ins read them."""
MOST_SERVICES_IN_ALL: Final = 50
"""Of all rules of one organization, too. Each sign-in is judged for each of them, and its session keeps them."""
LONGEST_NAME: Final = 80


class RiskAction(StrEnum):
    """The action of a risk policy, from the mildest to the strictest."""

    NOTHING = "nothing"
    """The sign-in is let in, and no later rule is asked."""
    TELL_PERSON = "tell_person"
    """The person gets a mail about the sign-in."""
    TELL_OWNERS = "tell_owners"
    """The owners get a mail about the sign-in."""
    SECOND_FACTOR = "second_factor"
    """The person gives a second factor at this sign-in, on a trusted device, too."""
    PASSKEY = "passkey"
    """The person shows a passkey at this sign-in."""
    REFUSE = "refuse"

    @property
    def asks_for_factor(self) -> bool:
        return self in {RiskAction.SECOND_FACTOR, RiskAction.PASSKEY}

    def is_stricter_than(self, other: "RiskAction") -> bool:
        return _STRICTNESS[self] > _STRICTNESS[other]


_STRICTNESS: Final = {action: place for place, action in enumerate(RiskAction)}


class SignInWay(StrEnum):
    """The first authentication method of a sign-in."""

    PASSWORD = "password"  # noqa: S105 - a way in, not a password
    LINK = "link"
    PASSKEY = "passkey"
    PROVIDER = "provider"


class ExceptionKind(StrEnum):
    """Who or what an exception exempts."""

    PERSON = "person"
    TEAM = "team"
    NETWORK = "network"


class RiskConditions(Frozen, kw_only=True):
    """All that are set must hold. An empty list and None ask nothing."""

    least_score: float | None = None
    """The score of the sign-in is at least this."""
    ways: tuple[SignInWay, ...] = ()
    countries: tuple[str, ...] = ()
    """The address is in one of these countries, for certain."""
    except_countries: tuple[str, ...] = ()
    """The address is in none of these countries. An address whose country nobody knows is in none."""
    networks: tuple[str, ...] = ()
    except_networks: tuple[str, ...] = ()
    new_device: bool | None = None
    impossible_travel: bool | None = None
    """The person cannot have travelled here from the sign-in before."""
    from_hour: int | None = None
    """The first hour of the day, in UTC, and the hour before which the rule ends. It may go over midnight."""
    until_hour: int | None = None
    services: tuple[UUID, ...] = ()
    roles: tuple[str, ...] = ()
    """The role of the person in the organization. `none` for people who are no members."""


ANYBODY: Final = RiskConditions()
NO_ROLE: Final = "none"
PLATFORM_OWNER_ROLE: Final = "platform_owner"
"""The only role that rules of the installation know."""
COUNTS_SINCE: Final = "counts_since"


class RiskPolicy(Frozen, kw_only=True):
    id: UUID
    name: str
    when: RiskConditions
    action: RiskAction
    counts: bool = False
    """False: the rule is in shadow, and changes nothing."""
    counts_since: datetime | None = None
    """Since when the rule counts, just as it is. `RiskPolicies.applied` says it, and nobody who sends rules. None in shadow."""


class RiskException(Frozen, kw_only=True):
    """Whom the rules leave out, until an end."""

    kind: ExceptionKind
    value: str
    """The id of the person or team, or the network."""
    ends_at: datetime


class RiskPolicies(Frozen, kw_only=True):
    """The policies of one organization, in order, and their exceptions. The first policy that fits decides. A new policy is report-only: it
    changes nothing, and its owners see whom it would affect. The sign-in rules (`core/domain/tenancy/sign_in_rules.py`) state what users
    must have; these state what a sign-in must show.
    """

    policies: tuple[RiskPolicy, ...] = ()
    exceptions: tuple[RiskException, ...] = ()
    count_since: datetime | None = None
    """When the first of the rules that count began to. None while none counts."""

    @property
    def counting(self) -> tuple[RiskPolicy, ...]:
        return tuple(one for one in self.policies if one.counts)

    def applied(self, policies: Sequence[RiskPolicy], exceptions: Sequence[RiskException], now: datetime) -> "RiskPolicies":
        """The rules after a change. Sessions from before the first rule that counts stay as they are. A rule that counted before, and is
        the same in all that it says, keeps its moment, wherever it stands.
        """
        stood = {one.id: one for one in self.counting}
        kept = tuple(_counting(one, stood.get(one.id), now) for one in policies)
        since = self.count_since or now if any(one.counts for one in kept) else None
        return RiskPolicies(policies=kept, exceptions=tuple(exceptions), count_since=since)


def _counting(policy: RiskPolicy, before: RiskPolicy | None, now: datetime) -> RiskPolicy:
    if not policy.counts:
        return replace(policy, counts_since=None)
    if before is not None and replace(policy, counts_since=before.counts_since) == before:
        return before
    return replace(policy, counts_since=now)


NO_POLICIES: Final = RiskPolicies()


def lifted(rules: RiskPolicies, chosen: Collection[RiskPolicy], now: datetime) -> RiskPolicies:
    """Puts these rules back in shadow."""
    policies = [replace(one, counts=False) if one in chosen else one for one in rules.policies]
    return rules.applied(policies, rules.exceptions, now)


def stored_policy(policy: RiskPolicy) -> Mapping[str, Json]:
    """The rule as a value, as documents say it. What asks nothing is left out."""
    when = {name: value for name, value in json_of(policy.when).items() if value not in (None, [])}
    kept = json_of(policy) | {"when": when}
    del kept[COUNTS_SINCE]
    return kept


def kept_policy(policy: RiskPolicy) -> Mapping[str, Json]:
    """The rule as a value that is kept, with the moment since when it counts."""
    since = policy.counts_since
    return stored_policy(policy) if since is None else {**stored_policy(policy), COUNTS_SINCE: since.isoformat()}


def restored_policy(kept: Mapping[str, Any]) -> RiskPolicy:
    since = kept.get(COUNTS_SINCE)
    when: Mapping[str, Any] = {
        name: tuple(map(_LISTED.get(name, str), value)) if isinstance(value, list | tuple) else value
        for name, value in kept["when"].items()
        if name in _CONDITIONS
    }
    return RiskPolicy(
        id=UUID(kept["id"]),
        name=kept["name"],
        when=RiskConditions(**when),
        action=RiskAction(kept["action"]),
        counts=kept["counts"],
        counts_since=None if since is None else datetime.fromisoformat(since),
    )


_CONDITIONS: Final = frozenset(names_of(RiskConditions))
_LISTED: Final[Mapping[str, Callable[[str], object]]] = {"ways": SignInWay, "services": UUID}
"""What the texts of a list stand for. Those of all other lists are texts."""


def stored_exception(exception: RiskException) -> Mapping[str, Json]:
    return {"kind": exception.kind.value, "value": exception.value, "ends_at": exception.ends_at.isoformat()}


def restored_exception(kept: Mapping[str, Any]) -> RiskException:
    return RiskException(kind=ExceptionKind(kept["kind"]), value=kept["value"], ends_at=datetime.fromisoformat(kept["ends_at"]))


def risk_policies_updated(organization: OrganizationId | None, before: RiskPolicies, after: RiskPolicies, actor: Actor) -> Event:
    """Says which rules there were and are, in order, and how many people, teams and networks they leave out. It names none of these.
    `organization`: None for the rules of the installation.
    """
    details = differences(_facts(before), _facts(after))
    if organization is None:
        return Event("platform.risk_policies.updated", actor, Target("risk_policies", "installation"), details=details)
    return Event("organization.risk_policies.updated", actor, Target("organization", str(organization)), organization, details)


def _facts(rules: RiskPolicies) -> Mapping[str, Json]:
    return {"risk_policies": [_in_short(one) for one in rules.policies], "risk_exceptions": len(rules.exceptions)}


def _in_short(policy: RiskPolicy) -> str:
    return f"{policy.name}: {policy.action.value}{'' if policy.counts else ' (shadow)'}"


class Decided(Frozen):
    """The rule that decided about a sign-in, as the log of sign-ins keeps it."""

    organization: OrganizationId | None
    """None for a rule of the installation."""
    policy: UUID
    name: str
    action: RiskAction

    def stored(self) -> Mapping[str, Json]:
        organization = None if self.organization is None else str(self.organization)
        return {"organization": organization, "policy": str(self.policy), "name": self.name, "action": self.action.value}


def restored_decision(kept: Mapping[str, Any]) -> Decided:
    organization = None if kept["organization"] is None else OrganizationId(UUID(kept["organization"]))
    return Decided(organization, UUID(kept["policy"]), kept["name"], RiskAction(kept["action"]))

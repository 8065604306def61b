"""Plans the changes that a configuration file leads to, and the proposals of such plans."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest, Conflict
from core.domain.formats import Json, timestamp
from core.domain.identifiers import ManagementKeyId, OrganizationId, ProposalId, UserId
from core.domain.platform.configuration.objects import LIMITS, ORGANIZATION, SERVICE, ObjectPlace
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.tiers import FREE, Tier
from core.frozen import Frozen, field

NOT_THERE: Final = "there is no such {}, and the document does not create one"
NEVER_CHANGES: Final = "it cannot be changed: delete this object, and create another"
NEVER_ENDS: Final = "it cannot be removed by a document"
NEEDED_AGAIN: Final = "is missing: to change the rest, the document must contain it, because the stored value cannot be read"
LACKS: Final = "an object of the sort {} has no such field"
NEEDED: Final = "is missing, and nothing is there yet that has it"


class PlannedAction(StrEnum):
    """What happens to an object: it is created, changed or deleted."""

    MAKE = "make"
    CHANGE = "change"
    END = "end"


class SortRules(Frozen, kw_only=True):
    """What the plan must know besides about the objects of one sort. A field tells the sorts of a kind apart, and never changes."""

    needed: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()
    """The fields of the kind that objects of this sort do not have."""


class KindRules(Frozen, kw_only=True):
    """What the plan must know about one kind of object."""

    name: str
    needed: frozenset[str] = frozenset()
    """The fields without which an object cannot be made."""
    made_with: Mapping[str, Json] = field(default_factory=dict)
    """What a new object has where the document is silent, of which the plan has to tell."""
    fixed: frozenset[str] = frozenset()
    """The fields that never change."""
    together: tuple[frozenset[str], ...] = ()
    """Sets of fields that a change sends together, because one of them means nothing without the others."""
    sent_along: frozenset[str] = frozenset()
    """The secrets that every change needs, because the endpoint sets the object anew and nobody can read the stored ones."""
    can_make: bool = True
    can_end: bool = True
    standing: Mapping[str, Json] | None = None
    """The fields of an object that exists as long as its organization or service. None for objects that are made and ended."""
    brings: Mapping[tuple[str, str], Mapping[str, Json]] = field(default_factory=dict)
    """The objects that a new object of this kind begins with, by kind and name."""
    sort_field: str = ""
    """The field that names the sort of an object. Empty for a kind of one sort."""
    sorts: Mapping[str, SortRules] = field(default_factory=dict)
    """By the value of that field. An object that does not name its sort is of the first."""

    def sort(self, fields: Mapping[str, Json]) -> tuple[str, SortRules]:
        if not self.sorts:
            return "", NO_SORT
        named = str(fields.get(self.sort_field, next(iter(self.sorts))))
        return named, self.sorts[named]


NO_SORT: Final = SortRules()


class Present(Frozen, kw_only=True):
    """An object as it is."""

    fields: Mapping[str, Json]
    id: str = ""
    """The value by which endpoints name the object."""
    people: int = 0
    """How many people use or hold the object."""
    is_directorys: bool = False
    """Whether a directory has made the object. No document carries it, and no collection that is whole ends it."""


class WantedObject(Frozen, kw_only=True):
    """An object as a document wants it. Fields that the document leaves out stay as they are."""

    fields: Mapping[str, Json] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    """The names of the secrets that the document gives. Each is a change, since a plan that compared it would tell who guesses right."""


class WantedConfiguration(Frozen, kw_only=True):
    objects: Mapping[ObjectPlace, WantedObject] = field(default_factory=dict)
    whole: frozenset[ObjectPlace] = frozenset()
    """The collections that must have exactly these entries, by their place without a name."""
    absent: frozenset[ObjectPlace] = frozenset()
    """The objects that must not be there."""


class FieldChange(Frozen):
    """Both values are None for a secret."""

    name: str
    before: Json
    after: Json
    is_secret: bool = False


class Change(Frozen, kw_only=True):
    """One step of a plan. It changes one object, wholly or not at all."""

    act: PlannedAction
    place: ObjectPlace
    fields: tuple[FieldChange, ...] = ()
    """By name. Empty for an end."""
    id: str = ""
    """As in `Present`. Empty for an object that does not exist yet."""
    people: int = 0
    """For an end: how many people use or hold the object."""
    present: Mapping[str, Json] = field(default_factory=dict)
    """The fields of the object before the change."""

    @property
    def only_sets_secrets(self) -> bool:
        """Nothing else changes, and perhaps not even the secrets."""
        return self.act is PlannedAction.CHANGE and all(one.is_secret for one in self.fields)


class Problem(Frozen):
    """A reason why the document cannot be applied. `steps` leads to the place in the document."""

    steps: tuple[str, ...]
    message: str


class DocumentPlan(Frozen):
    """The changes that lead from the present state to the wanted one, in an order that works."""

    changes: tuple[Change, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def ends(self) -> tuple[Change, ...]:
        return tuple(one for one in self.changes if one.act is PlannedAction.END)


class ReachedLimit(Frozen):
    """The limit of services that a plan would pass in an organization. The tier is that of the organization once the plan is applied."""

    organization: str
    services: int
    """How many there would be."""
    most: int
    tier: str


def reached_limits(changes: Sequence[Change], present: Mapping[ObjectPlace, Present], tiers: Sequence[Tier]) -> Sequence[ReachedLimit]:
    """A plan makes services after it has set limits, and before it ends others. `present` has the services and the limits of organizations
    in which services are made.
    """
    by_name = {tier.name: tier for tier in tiers}
    services = Counter(place.organization for place in present if place.kind == SERVICE)
    made = Counter(one.place.organization for one in changes if one.act is PlannedAction.MAKE and one.place.kind == SERVICE)
    limits = {place.organization: dict(one.fields) for place, one in present.items() if place.kind == LIMITS}
    for change in changes:
        if change.place.kind == LIMITS:
            limits.setdefault(change.place.organization, {}).update({one.name: one.after for one in change.fields})
    reached = []
    for organization, count in sorted(made.items()):
        own = limits.get(organization, {})
        tier = by_name.get(str(own.get("tier"))) or next(one for one in tiers if one.id == FREE)
        most = own.get("max_services")
        most = most if isinstance(most, int) else tier.default_max_services
        if services[organization] + count > most:
            reached.append(ReachedLimit(organization, services[organization] + count, most, tier.display_name))
    return reached


def plan(rules: Sequence[KindRules], present: Mapping[ObjectPlace, Present], wanted: WantedConfiguration) -> DocumentPlan:
    """`rules` are in the order in which objects are made. Objects are ended in the reverse order, after everything else in their
    organization: by then nothing names them any more.

    A plan is a pure function. The order of a file's entries makes no difference. A plan for what is already there is empty, except that it
    sets each secret again that the file gives.
    """
    by_name = {one.name: one for one in rules}
    rank = {one.name: at for at, one in enumerate(rules)}
    known = {**present, **_brought(by_name, present, wanted)}
    changes: list[Change] = []
    problems: list[Problem] = []
    for place, one in wanted.objects.items():
        kind = by_name[place.kind]
        holder = place.holder
        if holder is not None and holder not in known and holder not in wanted.objects:
            problems.append(Problem(holder.steps, NOT_THERE.format(_NOUNS[holder.kind])))
            continue
        there = known.get(place)
        problems += _faults(kind, place, there, one)
        change = _made(kind, place, one) if there is None else _changed(kind, place, there, one)
        if change is not None:
            changes.append(change)
            problems += [Problem((*place.steps, name), NEEDED_AGAIN) for name in kind.sent_along - one.secrets if there is not None]
    ending = _ending(known, wanted)
    problems += [Problem(place.steps, NEVER_ENDS) for place in ending if not by_name[place.kind].can_end]
    changes += [
        Change(act=PlannedAction.END, place=place, id=known[place].id, people=known[place].people, present=known[place].fields)
        for place in ending
    ]
    return DocumentPlan(
        tuple(sorted(changes, key=lambda one: _turn(one, rank))),
        tuple(sorted(set(problems), key=lambda one: (one.steps, one.message))),
    )


_NOUNS: Final = {ORGANIZATION: "organization", SERVICE: "service"}


def _turn(change: Change, rank: Mapping[str, int]) -> tuple[object, ...]:
    place = change.place
    if change.act is PlannedAction.END:
        return (place.organization, 1, -rank[place.kind], place.service, place.name)
    return (place.organization, 0, rank[place.kind], place.service, place.name)


def _brought(
    by_name: Mapping[str, KindRules], present: Mapping[ObjectPlace, Present], wanted: WantedConfiguration
) -> dict[ObjectPlace, Present]:
    """What will be there once the wanted organizations and services are made, and what always stands."""
    brought: dict[ObjectPlace, Present] = {}
    for place in wanted.objects:
        standing = by_name[place.kind].standing
        if place not in present and standing is not None:
            brought[place] = Present(fields=standing)
        if place not in present:
            for (kind, name), fields in by_name[place.kind].brings.items():
                child = ObjectPlace(place.organization, place.name, kind, name)
                brought[child] = Present(fields=fields)
    return brought


def _faults(kind: KindRules, place: ObjectPlace, there: Present | None, wanted: WantedObject) -> list[Problem]:
    named, sort = kind.sort(wanted.fields if there is None else there.fields)
    given = wanted.fields.keys() | wanted.secrets
    if there is not None:
        fixed = sorted((kind.fixed | sort.fixed) & wanted.fields.keys())
        changed = [name for name in fixed if not same(there.fields.get(name), wanted.fields[name])]
        if changed:
            return [Problem((*place.steps, name), NEVER_CHANGES) for name in changed]
    elif not kind.can_make:
        return [Problem(place.steps, NOT_THERE.format(_NOUNS.get(place.kind, "object")))]
    problems = [Problem((*place.steps, name), LACKS.format(named)) for name in sorted(sort.lacks & given)]
    if there is None:
        problems += [Problem((*place.steps, name), NEEDED) for name in sorted((kind.needed | sort.needed) - given)]
    return problems


def _made(kind: KindRules, place: ObjectPlace, wanted: WantedObject) -> Change:
    fields = [FieldChange(name, None, value) for name, value in {**kind.made_with, **wanted.fields}.items()]
    fields += [FieldChange(name, None, None, is_secret=True) for name in wanted.secrets]
    return Change(act=PlannedAction.MAKE, place=place, fields=tuple(sorted(fields, key=lambda one: one.name)))


def _changed(kind: KindRules, place: ObjectPlace, there: Present, wanted: WantedObject) -> Change | None:
    differing = {name for name, value in wanted.fields.items() if not same(there.fields.get(name), value)} - kind.fixed
    differing -= kind.sort(there.fields)[1].fixed
    for together in kind.together:
        if differing & together:
            differing |= together & wanted.fields.keys()
    fields = [FieldChange(name, there.fields.get(name), wanted.fields[name]) for name in differing]
    fields += [FieldChange(name, None, None, is_secret=True) for name in wanted.secrets]
    if not fields:
        return None
    ordered = tuple(sorted(fields, key=lambda one: one.name))
    return Change(act=PlannedAction.CHANGE, place=place, fields=ordered, id=there.id, people=there.people, present=there.fields)


def _ending(known: Mapping[ObjectPlace, Present], wanted: WantedConfiguration) -> list[ObjectPlace]:
    """What has to go. What belongs to a service that goes is not named: it goes with the service."""
    ending = {
        place
        for place, one in known.items()
        if place.name and place.collection in wanted.whole and place not in wanted.objects and not one.is_directorys
    }
    ending |= {place for place in wanted.absent if place in known}
    return [place for place in ending if place.holder not in ending]


def document_planned(organization: OrganizationId, secrets: Sequence[str], actor: Actor) -> Event:
    """`secrets` are places in the document."""
    details: dict[str, Json] = {"secrets": list(secrets)}
    return Event("organization.configuration.planned", actor, Target("organization", str(organization)), organization, details)


def same(one: Json, other: Json) -> bool:
    """Whether two values are the same in JSON, where true is no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if _is_list(one) and _is_list(other):
        return len(one) == len(other) and all(map(same, one, other))  # type: ignore[arg-type]  # both are lists
    return one == other


def _is_list(value: Json) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


PROPOSES: Final = Capability.SETTINGS_MANAGE
"""Who proposes needs it, as long as the proposal counts."""
PROPOSAL_LIFETIME: Final = timedelta(days=1)
MOST_PROPOSALS: Final = 20
"""The limit of an organization, of those that wait."""
MOST_CHANGES: Final = 200
"""Of a proposal. The page of one shows all that the press would do, and nobody reads more than this."""


class ProposalState(StrEnum):
    """Whether the proposal is pending or an owner has applied it."""

    WAITING = "waiting"
    APPLIED = "applied"


class Proposal(Frozen, kw_only=True):
    """The stored data of a proposal, without the configuration file: a script plans the file, and an owner applies exactly that plan by one
    press on a page of the console. A proposal grants no right. Whoever made it could plan the file, and the owner who applies it could have
    set everything by hand.
    """

    id: ProposalId
    organization: OrganizationId
    document: str
    """The digest of the document."""
    plan: str
    """The digest of the plan: of each change with the values before and after."""
    created_by: UserId
    """The person who proposes. For a management key, the person who answers for it."""
    key: ManagementKeyId | None = None
    proposed_by: str = ""
    """The address of the person, or the name of the management key."""
    created_at: datetime
    expires_at: datetime
    enacted_at: datetime | None = None

    @property
    def state(self) -> ProposalState:
        return ProposalState.WAITING if self.enacted_at is None else ProposalState.APPLIED


class ProposalOvertaken(Conflict):
    """The plan is not the proposed one any more."""

    def __init__(self) -> None:
        super().__init__(
            "The document would now change something other than what was proposed: request a new plan", words="proposal_overtaken"
        )


def proposal_context(proposal: ProposalId) -> str:
    return f"proposals.sealed_document:{proposal}"


def require_proposals_room(waiting: int) -> None:
    if waiting >= MOST_PROPOSALS:
        raise Conflict(
            f"An organization can have at most {MOST_PROPOSALS} pending proposals: apply or withdraw one first",
            words="limit_reached",
            values={"most": MOST_PROPOSALS},
        )


def require_readable(changes: int) -> None:
    """Raises `BadRequest` for a plan that no page would show whole."""
    if changes > MOST_CHANGES:
        raise BadRequest(
            f"document: it makes {changes} changes, and a page shows at most {MOST_CHANGES}: propose it in parts",
            words="proposal_large",
            values={"most": MOST_CHANGES},
        )


def proposal_created(proposal: Proposal, actor: Actor) -> Event:
    return _event("proposal.created", proposal, actor)


def proposal_applied(proposal: Proposal, actor: Actor) -> Event:
    return _event("proposal.applied", proposal, actor)


def proposal_deleted(proposal: Proposal, actor: Actor) -> Event:
    return _event("proposal.deleted", proposal, actor)


def _event(name: str, proposal: Proposal, actor: Actor) -> Event:
    details: dict[str, Json] = {
        "document_digest": proposal.document,
        "plan_digest": proposal.plan,
        "expires_at": timestamp(proposal.expires_at),
    }
    return Event(name, actor, Target("proposal", str(proposal.id)), proposal.organization, details)

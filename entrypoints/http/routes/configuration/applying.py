"""Plans configuration files and applies them."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
import structlog
import trio

from core.domain.errors import BadRequest, NotFound, Refusal, Unavailable
from core.domain.identity.risk_policies.policies import RiskPolicies
from core.domain.platform.configuration.objects import LIMITS, ORGANIZATION, SERVICE, ObjectPlace, organization_place
from core.domain.platform.configuration.planning import (
    Change,
    DocumentPlan,
    PlannedAction,
    Present,
    Problem,
    ReachedLimit,
    plan,
    reached_limits,
)
from core.domain.secrets import Secret
from core.domain.tenancy.hooks import Hook
from core.frozen import Frozen, replace
from core.usecases.platform.configurations import Loss
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.decoding import convert, decode_own_type, explained
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.routes.configuration.acting import DocumentCaller
from entrypoints.http.routes.configuration.kinds import Fields, ObjectKind, Within
from entrypoints.http.routes.configuration.reading import MOST_PROBLEMS, Document, Resolve, read
from entrypoints.http.routes.configuration.registry import BY_ID, KINDS, RULES
from entrypoints.http.routes.tenancy.hooks import get_sign_in_hook
from entrypoints.http.routes.tenancy.risk_policies import get_risk_policies

log = structlog.get_logger()
Result = TypeVar("Result")
Item = TypeVar("Item")

_LIMITER: Final = trio.CapacityLimiter(1)
"""Reading and planning keep a processor busy. One at a time leaves the others to sign-ins."""


class Planned(Frozen, kw_only=True):
    document: Document
    plan: DocumentPlan
    losses: Sequence[Loss]
    present: Mapping[ObjectPlace, Present]

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*self.document.problems, *self.plan.problems)[:MOST_PROBLEMS]

    def with_problems(self, more: Sequence[Problem]) -> "Planned":
        return replace(self, plan=DocumentPlan((), (*self.plan.problems, *more)), losses=())

    @property
    def is_empty(self) -> bool:
        """There is nothing to do, except that secrets are set anew."""
        return not self.problems and all(one.only_sets_secrets for one in self.plan.changes)


class ChangeRefused(Frozen):
    """A change that its endpoint refused. The object is as it was."""

    change: Change
    refusal: Refusal


class Applied(Frozen, kw_only=True):
    done: Sequence[Change]
    refused: Sequence[ChangeRefused]


class Configuring:
    """Plans and applies one document, for one caller.

    Each change of a plan is one call of an endpoint's handler, which changes its object wholly or not at all. An application that was cut
    off is finished by applying the file again.
    """

    def __init__(self, acting: DocumentCaller) -> None:
        self._acting = acting
        self._postern = acting.postern

    async def plan(self, tree: Any, resolve: Resolve) -> Planned:
        """Changes nothing. A plan with problems has no changes."""
        document = await beside(partial(read, tree, resolve))
        problems = document.problems or tuple(await self._forbidden(document))
        if problems:
            return Planned(document=document, plan=DocumentPlan((), () if document.problems else problems), losses=(), present={})
        present = await self._present(document)
        made = await beside(partial(plan, RULES, present, document.wanted))
        problems = made.problems or tuple(await self._not_allowed(made.changes))
        if problems:
            return Planned(document=document, plan=DocumentPlan((), problems), losses=(), present=present)
        losses = await self._postern.platform.configurations.losses(made.changes)
        return Planned(document=document, plan=made, losses=losses, present=present)

    async def reached_limits(self, planned: Planned) -> Sequence[ReachedLimit]:
        """The limits that would refuse a part of the plan."""
        changes = planned.plan.changes
        organizations = {one.place.organization for one in changes if one.act is PlannedAction.MAKE and one.place.kind == SERVICE}
        if not organizations:
            return ()
        configurations = self._postern.platform.configurations
        present = configurations.present(await configurations.stored([LIMITS, SERVICE], sorted(organizations)))
        return reached_limits(changes, present, await self._postern.platform.governance.tiers())

    async def apply(self, planned: Planned, tell: Callable[[Change, Refusal | None], None] = lambda _change, _refusal: None) -> Applied:
        """Carries the plan out: first the installation's part, then organizations, each by itself, one object after the other. A refused
        change leaves its object as it was, and those that follow are tried all the same. Raises `Unavailable` when the database is away:
        the document has to be applied again.
        """
        document = planned.document
        self._acting.request.document = document.digest
        steps = _Steps(self._acting, planned)
        done: list[Change] = []
        refused: list[ChangeRefused] = []

        async def take(changes: Sequence[Change]) -> None:
            for change in changes:
                try:
                    await steps.take(change)
                except Unavailable:
                    raise
                except Refusal as refusal:
                    refused.append(ChangeRefused(change, refusal))
                    tell(change, refusal)
                else:
                    done.append(change)
                    tell(change, None)

        parts = [list(part) for _, part in groupby(planned.plan.changes, key=lambda one: one.place.organization)]
        if parts and not parts[0][0].place.organization:
            await take(parts.pop(0))
        await _at_once(self._acting.at_once, take, parts)
        order = {change.place: at for at, change in enumerate(planned.plan.changes)}
        done.sort(key=lambda one: order[one.place])
        refused.sort(key=lambda one: order[one.change.place])
        await self._mark(document, {one.change.place for one in refused})
        log.info("configuration_applied", document=document.digest, changes=len(done), refused=len(refused))
        return Applied(done=done, refused=refused)

    async def _present(self, document: Document) -> Mapping[ObjectPlace, Present]:
        configurations = self._postern.platform.configurations
        asked = {place.kind for place in (*document.wanted.objects, *document.wanted.whole, *document.wanted.absent)}
        # What belongs to services is looked for below them, and a domain route may name a provider that stands in no document.
        asked |= {SERVICE} if any(BY_ID[kind].within is Within.SERVICE for kind in asked) else set()
        asked |= {"upstream_providers"} if "domain_routes" in asked else set()
        stored = await configurations.stored([kind.id for kind in KINDS if kind.id in asked], document.organizations)
        return await beside(lambda: normal(configurations.present(stored)))

    async def _forbidden(self, document: Document) -> Sequence[Problem]:
        """One line for each kind of object in each organization that the caller may not even see."""
        problems = []
        strange = set()
        for organization in document.organizations:
            # Before anything is looked up: an answer must not tell which organizations there are.
            if (refusal := await self._acting.may_name(organization)) is not None:
                problems.append(Problem(organization_place(organization).steps, refusal.message))
                strange.add(organization)
        asked = {(place.organization, place.kind) for place in (*document.wanted.objects, *document.wanted.whole, *document.wanted.absent)}
        for organization, kind in sorted(asked):
            if organization in strange:
                continue
            if kind == ORGANIZATION and not document.wanted.objects[organization_place(organization)].fields:
                continue
            shown_by = BY_ID[kind].shown_by if kind != ORGANIZATION else BY_ID[kind].change
            refusal = None if shown_by is None else await self._acting.may(shown_by, organization)
            if refusal is not None:
                problems.append(Problem(ObjectPlace(organization, "", kind, "").steps, refusal.message))
        return problems[:MOST_PROBLEMS]

    async def _not_allowed(self, changes: Sequence[Change]) -> Sequence[Problem]:
        """The changes that the rules of their endpoints refuse, so that nothing is begun that cannot be finished."""
        problems = []
        # Nobody is a member of an organization that the plan makes. Whoever may make it may set it up.
        founded = {one.place.organization for one in changes if one.act is PlannedAction.MAKE and one.place.kind == ORGANIZATION}
        for change in changes:
            endpoint = endpoint_of(change)
            if endpoint is None:
                refusal = self._acting.may_found(change.place.organization)
            elif change.place.organization in founded:
                continue
            else:
                refusal = await self._acting.may(endpoint, change.place.organization)
            if refusal is not None:
                problems.append(Problem(change.place.steps, refusal.message))
        return problems[:MOST_PROBLEMS]

    async def _mark(self, document: Document, refused: set[ObjectPlace]) -> None:
        """From now on, the document manages what it names, in each organization that it names, and nothing else there of the kinds that the
        caller may see: a platform owner's document takes no mark from that of the organization's own people.
        """
        present = await self._present(document)
        named: dict[str, dict[ObjectPlace, Sequence[str]]] = {organization: {} for organization in document.organizations}
        if document.names_platform:
            named[""] = {}
        for place, wanted in document.wanted.objects.items():
            if place not in refused and (wanted.fields or wanted.secrets or place.kind != ORGANIZATION):
                named[place.organization][place] = sorted(wanted.fields)

        async def mark(organization: str) -> None:
            kinds = [kind.id for kind in KINDS if await self._acting.may(kind.shown_by, organization) is None]
            await self._postern.platform.configurations.mark(
                organization, kinds, named[organization], present, document.digest, person=self._acting.person, key=self._acting.key
            )

        await _at_once(self._acting.at_once, mark, list(named))


class _Steps:
    """Takes the steps of one plan, and knows the ids of what they make."""

    def __init__(self, acting: DocumentCaller, planned: Planned) -> None:
        self._acting = acting
        self._document = planned.document
        self._ids = {place: one.id for place, one in planned.present.items() if one.id}
        self._tiers: dict[str, str] = {}

    async def take(self, change: Change) -> None:
        kind, place = BY_ID[change.place.kind], change.place
        if change.act is PlannedAction.MAKE and kind.is_founded:
            await self._found(change)
            return
        endpoint = endpoint_of(change)
        assert endpoint is not None  # noqa: S101 - for the type checker: the plan has no other changes
        caller = await self._acting.caller_in(endpoint, place.organization)
        await self._acting.prove(endpoint)
        await self._acting.count(endpoint)
        body = None
        if endpoint.body_type is not None:
            values = await self._values(kind, change)
            body = _body(endpoint, values) if kind.written is None else kind.written(values)
        call: Any = Call(self._acting.request, caller, body, _query(endpoint), self._path(kind, endpoint, change))
        answer = endpoint.handler(call, self._acting.postern)
        if inspect.isawaitable(answer):
            answer = await answer
        if change.act is PlannedAction.MAKE and not kind.is_single:
            self._learn(kind, place, answer.value if isinstance(answer, Answer) else answer)

    async def _found(self, change: Change) -> None:
        values = {one.name: one.after for one in change.fields}
        slug = change.place.organization
        self._ids[change.place] = await self._acting.found(slug, str(values.pop("name")))
        if values:
            rest = tuple(one for one in change.fields if one.name in values)
            await self.take(Change(act=PlannedAction.CHANGE, place=change.place, fields=rest, id=self._ids[change.place]))

    async def _values(self, kind: ObjectKind, change: Change) -> Fields:
        wanted = self._document.wanted.objects[change.place]
        values: dict[str, Any] = {one.name: one.after for one in change.fields if not one.is_secret}
        if kind.sends_all or change.act is PlannedAction.MAKE:
            kept = {name: value for name, value in change.present.items() if name in kind.entry.__struct_fields__}
            values = {**kept, **wanted.fields}
        for name in kind.always - values.keys():
            values[name] = wanted.fields.get(name, change.present.get(name))
        sent = (
            wanted.secrets if kind.sends_all or change.act is PlannedAction.MAKE else [one.name for one in change.fields if one.is_secret]
        )
        values |= {name: _revealed(self._document.secrets[change.place, name]) for name in sent}
        if kind.key and change.act is PlannedAction.MAKE:
            values[kind.key] = change.place.name
        return values if kind.translate is None else await kind.translate(values, change.place, self)

    def _path(self, kind: ObjectKind, endpoint: Endpoint, change: Change) -> Any:
        place = change.place
        values = {"org_slug": place.organization, "service_slug": place.service}
        if kind.parameter == "org_id":
            values[kind.parameter] = self.id_of(organization_place(place.organization))
        elif kind.parameter in parameters(endpoint.path):
            values[kind.parameter] = place.name if change.act is PlannedAction.MAKE else self.id_of(place)
        if endpoint.path_type is None:
            return None
        try:
            return convert({name: values[name] for name in parameters(endpoint.path)}, endpoint.path_type)
        except Refusal:
            raise NotFound from None

    def _learn(self, kind: ObjectKind, place: ObjectPlace, answer: Any) -> None:
        self._ids[place] = str(attrgetter(kind.new_id)(answer)) if kind.new_id else place.name
        for (other, name), where in kind.brought_id.items():
            self._ids[ObjectPlace(place.organization, place.name, other, name)] = str(attrgetter(where)(answer))

    def id_of(self, place: ObjectPlace) -> str:
        try:
            return self._ids[place]
        except KeyError:
            raise BadRequest(f"there is no {place}") from None

    async def tier(self, name: str) -> str:
        if name not in self._tiers:
            self._tiers[name] = str((await self._acting.postern.platform.governance.tier(name)).id)
        return self._tiers[name]

    async def ids(self, kind: str, organization: str, slugs: Collection[str]) -> Mapping[str, UUID]:
        return await self._acting.postern.platform.configurations.ids(kind, organization, slugs)

    async def hook(self, organization: str) -> Hook | None:
        keeper = None
        if organization:
            keeper = (await self._acting.caller_in(get_sign_in_hook, organization)).organization
        shown = await self._acting.postern.tenancy.hooks.get(keeper)
        return None if shown is None else shown.hook

    async def risk_policies(self, organization: str) -> RiskPolicies:
        if not organization:
            return await self._acting.postern.tenancy.risk_policies.get(None)
        member = await self._acting.caller_in(get_risk_policies, organization)
        return await self._acting.postern.tenancy.risk_policies.get(member.organization)


def endpoint_of(change: Change) -> Endpoint | None:
    """The endpoint that makes the change. None for a new organization: only an operator's `postern config apply` founds one."""
    kind = BY_ID[change.place.kind]
    if change.act is PlannedAction.END:
        return kind.end
    if change.act is PlannedAction.CHANGE:
        return kind.change
    return None if kind.is_founded else kind.make or kind.change


def _body(endpoint: Endpoint, values: Fields) -> Any:
    try:
        return msgspec.convert(values, endpoint.body_type, dec_hook=decode_own_type)
    except msgspec.ValidationError as error:
        raise BadRequest(explained(error, endpoint.body_type)) from None


def _query(endpoint: Endpoint) -> Any:
    return None if endpoint.query_type is None else convert({}, endpoint.query_type)


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()


def normal(stored: Mapping[ObjectPlace, Present]) -> Mapping[ObjectPlace, Present]:
    return {place: replace(one, fields=BY_ID[place.kind].as_stored(one.fields)) for place, one in stored.items()}


async def beside(work: Callable[[], Result]) -> Result:
    """Runs heavy work in a thread, so that other requests go on."""
    return await trio.to_thread.run_sync(work, limiter=_LIMITER)


async def _at_once(most: int, take: Callable[[Item], Awaitable[None]], items: Sequence[Item]) -> None:
    """Takes all items, so many at once. The first error ends the others, and is raised alone."""
    if most == 1:
        for item in items:
            await take(item)
        return
    waiting = iter(items)
    failures: list[Exception] = []

    async def work() -> None:
        for item in waiting:
            if failures:
                return
            try:
                await take(item)
            except Refusal as failure:
                failures.append(failure)

    async with trio.open_nursery() as nursery:
        for _ in range(most):
            nursery.start_soon(work)
    if failures:
        raise failures[0]

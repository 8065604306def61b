"""People there: the system to which an application's people are sent, its runs, the people in it, and what the two have said."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from core.domain.errors import NotFound
from core.domain.federation.provisioning.connections import ProvisioningPreset, ProvisioningState
from core.domain.federation.provisioning.people import PlaceThere, WhyGone, WhyNotThere
from core.domain.federation.provisioning.runs import ProvisioningRunKind, ProvisioningRunState
from entrypoints.http.console.kit.cells import (
    Tone,
    code,
    copied,
    linked,
    listed,
    number,
    plain,
    rows_of,
    sentence,
    state,
    value_key,
    when,
    yes_or_no,
)
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Asked, Choice, InputKind, shape
from entrypoints.http.console.kit.lists import latest_of
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Filter, Resource, Section
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications.people_there.mapping_rows import MAPPING
from entrypoints.http.console.organization.applications.people_there.previews import PREVIEW, show_preview
from entrypoints.http.routes.federation.provisioning import (
    activate_provisioning,
    disable_provisioning,
    end_provisioning,
    get_provisioning,
    preview_provisioning,
    remove_provisioning,
    set_provisioning,
)
from entrypoints.http.routes.federation.provisioning.runs import (
    approve_provisioning_run,
    create_provisioning_run,
    decline_provisioning_run,
    get_provisioning_run,
    list_far_exchanges,
    list_people_there,
    list_provisioning_run_people,
    list_provisioning_runs,
    list_systems_of_person,
    retry_person_there,
)
from entrypoints.http.routes.tenancy.teams import list_teams
from ports.federation.provisioning_runs import INTERRUPTED, FarFault
from ports.outbound import Failure
from ports.texts import Text

_RUNS: Final = f"{applications.PEOPLE_THERE}/runs"
_PEOPLE: Final = f"{applications.PEOPLE_THERE}/people"
_EXCHANGES: Final = f"{applications.PEOPLE_THERE}/requests"
PROVISIONING_STATES: Final[Mapping[str, tuple[str, Tone]]] = {
    ProvisioningState.DRAFT: ("console.people_there.draft", Tone.WARN),
    ProvisioningState.ACTIVE: ("console.state.active", Tone.GOOD),
    ProvisioningState.STOPPED: ("console.people_there.stopped", Tone.BAD),
    ProvisioningState.ENDING: ("console.people_there.ending", Tone.WARN),
}
_RUN_TONES: Final = {
    ProvisioningRunState.RUNNING: Tone.PLAIN,
    ProvisioningRunState.DONE: Tone.GOOD,
    ProvisioningRunState.FAILED: Tone.BAD,
    ProvisioningRunState.WAITING: Tone.WARN,
    ProvisioningRunState.AGREED: Tone.GOOD,
    ProvisioningRunState.LEFT: Tone.PLAIN,
    ProvisioningRunState.OVER: Tone.PLAIN,
}
_RUN_STATES: Final = {one: (f"console.runs_there.{one.value}", tone) for one, tone in _RUN_TONES.items()}
_PLACES: Final = {
    PlaceThere.SENT: ("console.persons_there.sent", Tone.GOOD),
    PlaceThere.LEFT_OUT: ("console.persons_there.left_out", Tone.WARN),
    PlaceThere.REFUSED: ("console.persons_there.refused", Tone.BAD),
    PlaceThere.TO_END: ("console.persons_there.to_end", Tone.WARN),
    PlaceThere.TO_DELETE: ("console.persons_there.to_delete", Tone.WARN),
}
_OUTCOMES: Final = {True: ("console.requests_there.failed", Tone.BAD), False: ("console.requests_there.done", Tone.GOOD)}
# Words of ours. What the other system calls by words of SCIM stands as it is, and is no key of a text.
_WHY_WORDS: Final = frozenset((*WhyNotThere, *WhyGone))


def _why(one: Any, text: Text) -> str:
    return "" if one.why is None else text(f"console.persons_there.why.{one.why}") if one.why in _WHY_WORDS else str(one.why)


# Of a run. A status is that of the list, and where nothing is at the address, the address is what is wrong.
FAULTS: Final = frozenset((*FarFault, *Failure, INTERRUPTED))
_NOTHING_THERE: Final = frozenset({"400", "404", "405", "410"})


def fault_words(run: Any, text: Text) -> str:
    if run.why is None:
        return ""
    if run.why in FAULTS:
        return text(f"console.runs_there.why.{run.why}")
    status = run.why.removeprefix("status_")
    return text("console.runs_there.why.status" if status in _NOTHING_THERE else "console.runs_there.why.status_other", status=status)


async def _presets(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, visit.text(value_key("provisioning_preset", one))) for one in ProvisioningPreset]


async def _teams(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(str(one.id), one.name) for one in await visit.ask(list_teams)] if visit.may(list_teams) else []


async def _attributes(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.attribute, one.attribute) for one in (await visit.ask(get_provisioning)).mapping]


def _mapping(found: Any, text: Text) -> str:
    left_out = set(found.attributes_left_out)
    rows = [one for one in found.mapping if one.attribute not in left_out]
    return "; ".join(f"{one.attribute}: {text(value_key('provisioning_source', one.source))} {one.argument or ''}".strip() for one in rows)


async def _latest(visit: PageVisit, found: Any) -> Mapping[str, Any]:
    """The newest runs: a plan that waits stands where an owner looks after they have made the connection active."""
    return {
        "latest": await latest_of(RUNS, visit, _LATEST_RUN) if visit.may(list_provisioning_runs) else None,
        "standing": found.active_there,
    }


_SETTINGS: Final = (
    sentence(lambda found, text: text(value_key("provisioning_preset", found.preset)), "console.people_there.preset"),
    code("base_url", "console.people_there.base_url"),
    sentence(_mapping, "console.people_there.mapping"),
    listed(lambda found: [str(one) for one in found.team_ids or ()], "console.people_there.teams"),
)
PEOPLE_THERE: Final = Resource(
    name="people_there",
    position=applications.ACCESS_POSITION,
    at=applications.PEOPLE_THERE,
    is_single=True,
    listed=get_provisioning,
    of_record=lambda answer: answer if answer.state else None,
    columns=(
        *_SETTINGS,
        sentence(lambda found, text: "" if found.has_token else text("console.no"), "console.people_there.has_token"),
        when("failing_since", "console.people_there.failing_since"),
        code("stopped_why", "console.people_there.stopped_why"),
        when("changed_at", "console.people_there.changed_at"),
        code("digest", "console.people_there.digest"),
    ),
    state=(lambda found: found.state, PROVISIONING_STATES.__getitem__),
    sections=(
        Section(
            "change",
            shape(
                set_provisioning,
                Asked("preset", choices=_presets, label="console.people_there.preset", hint="console.people_there.preset_hint"),
                Asked("base_url", label="console.people_there.base_url", hint="console.people_there.base_url_hint"),
                Asked(
                    "token", kind=InputKind.SECRET, label="console.people_there.token", hint="console.people_there.token_hint", at_once=True
                ),
                MAPPING,
                Asked(
                    "attributes_left_out",
                    choices=_attributes,
                    label="console.people_there.left_out",
                    hint="console.people_there.left_out_hint",
                ),
                Asked(
                    "team_ids",
                    choices=_teams,
                    label="console.people_there.teams",
                    hint="console.people_there.teams_hint",
                    shown=lambda found: [str(one) for one in found.team_ids or ()],
                    # No tick means everybody, as the hint says.
                    stands_for=lambda ticked: {"team_ids": list(ticked) or None},
                ),
            ),
            whole=True,
            undone=False,
        ),
    ),
    acts=(
        Act(
            "activate",
            activate_provisioning,
            asks=True,
            kind="",
            shows=lambda found: found.has_token and found.state in {ProvisioningState.DRAFT, ProvisioningState.STOPPED},
            facts=_SETTINGS,
            seen=lambda found: str(found.digest),
        ),
        Act("run", create_provisioning_run, shows=lambda found: found.state is ProvisioningState.ACTIVE),
        Act("stop", disable_provisioning, shows=lambda found: found.state is ProvisioningState.ACTIVE),
        Act(
            "end-everybody",
            end_provisioning,
            asks=True,
            kind="danger",
            shows=lambda found: found.has_token and found.active_there > 0 and found.state is not ProvisioningState.ENDING,
            facts=_SETTINGS,
        ),
    ),
    ending=Ending(remove_provisioning),
    below=(
        ("console.preview_there.title", PREVIEW, preview_provisioning),
        ("console.runs_there.title", _RUNS, list_provisioning_runs),
        ("console.persons_there.title", _PEOPLE, list_people_there),
        ("console.requests_there.title", _EXCHANGES, list_far_exchanges),
    ),
    crumbs=applications.above,
    template="organization/applications/people_there/people_there.html",
    more=_latest,
    also=(list_provisioning_runs,),
)


def _above(visit: PageVisit) -> Sequence[tuple[str, str]]:
    return (*applications.above(visit), (PEOPLE_THERE.text(visit, "title"), visit.here(applications.PEOPLE_THERE)))


_KIND: Final = sentence(lambda run, text: text(f"console.runs_there.kind.{run.kind.value}"), "console.field.kind")
_COUNTS: Final = tuple(
    number(one, f"console.runs_there.{one}")
    for one in ("made", "matched", "changed", "overwritten", "ended", "held_back", "left_out", "adoptable", "unchanged")
)
# More do not fit beside each other. A run's own page has all.
_COUNTS_IN_LISTS: Final = (_COUNTS[0], _COUNTS[2], _COUNTS[4])


def _waits(run: Any) -> bool:
    return bool(run.state is ProvisioningRunState.WAITING)


def _begun(run: Any) -> str:
    return f"{run.begun_at:%Y-%m-%d %H:%M}"


_MOST_SHOWN: Final = 100


async def _named(visit: PageVisit, run: Any) -> Mapping[str, Any]:
    """The first of those whom the run names, with what is done with them."""
    found = await visit.ask(list_provisioning_run_people, query={"limit": _MOST_SHOWN})
    people = [
        (
            str(one.named or visit.text("console.persons_there.nobody")),
            " · ".join(
                filter(
                    None,
                    (visit.text(f"console.runs_there.what.{one.what.value}"), _why(one, visit.text), *one.attributes, _former(visit, one)),
                )
            ),
        )
        for one in found.people
    ]
    return {
        "people": people,
        "more": found.next is not None,
        "waits": _waits(run),
        "is_plan": run.kind is ProvisioningRunKind.PLAN,
    }


def _former(visit: PageVisit, one: Any) -> str:
    former = one.former_external_id
    return "" if former is None else visit.text("console.runs_there.former", former=former)


async def _adoptable(visit: PageVisit) -> Sequence[Choice]:
    count = (await visit.ask(get_provisioning_run)).adoptable
    return [Choice("yes", visit.text("console.runs_there.adopt", count=count))]


# Beside the settings there is room for no more.
_LATEST_RUN: Final = (
    linked(
        when("begun_at", "console.runs_there.begun"),
        lambda run, path: address(f"{_RUNS}/{{run_id}}", {**path, "run_id": str(run.id)}),
        get_provisioning_run,
    ),
    _KIND,
    state("state", _RUN_STATES),
)

RUNS: Final = Resource(
    name="runs_there",
    position=applications.ACCESS_POSITION,
    at=_RUNS,
    listed=list_provisioning_runs,
    is_log=True,
    columns=(when("begun_at", "console.runs_there.begun"), _KIND, state("state", _RUN_STATES), *_COUNTS_IN_LISTS),
    parameter="run_id",
    called=_begun,
    titled=lambda visit, run: visit.text("console.runs_there.named", called=_begun(run)),
    record=get_provisioning_run,
    state=(lambda run: run.state, _RUN_STATES.__getitem__),
    facts=(
        _KIND,
        when("begun_at", "console.runs_there.begun"),
        when("ended_at", "console.runs_there.over_at"),
        *_COUNTS,
        yes_or_no("adopts", "console.runs_there.adopts"),
        sentence(fault_words, "console.runs_there.fault"),
        code("digest", "console.people_there.digest"),
    ),
    acts=(
        Act(
            "go-on",
            approve_provisioning_run,
            asks=True,
            shape=shape(
                approve_provisioning_run,
                Asked(
                    "adopt",
                    kind=InputKind.TICKS,
                    choices=_adoptable,
                    label="console.runs_there.adoptable",
                    hint="console.runs_there.adopt_hint",
                    stands_for=lambda ticked: {"adopt": bool(ticked)},
                    at_once=True,
                ),
            ),
            asks_for=lambda run: run.adoptable > 0,
            kind="",
            shows=_waits,
            facts=(*_COUNTS, code("digest", "console.people_there.digest")),
            seen=lambda run: str(run.digest),
            template="organization/applications/people_there/run_question.html",
            more=_named,
        ),
        Act("leave", decline_provisioning_run, asks=True, shows=_waits, facts=_COUNTS),
    ),
    crumbs=_above,
    template="organization/applications/people_there/run.html",
    more=_named,
    also=(list_provisioning_run_people,),
)


async def _choices(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, visit.text(_PLACES[one][0])) for one in PlaceThere]


PERSONS: Final = Resource(
    name="persons_there",
    position=applications.ACCESS_POSITION,
    at=_PEOPLE,
    listed=list_people_there,
    rows="people",
    columns=(
        plain(lambda one: one.named, "console.persons_there.named"),
        state("place", _PLACES, "console.field.state"),
        yes_or_no("is_active", "console.persons_there.is_active"),
        sentence(_why, "console.persons_there.reason"),
        copied("far_id", "console.persons_there.far_id"),
        when("changed_at", "console.persons_there.changed_at"),
    ),
    filters=(Filter("place", "console.field.state", _choices),),
    parameter="user_id",
    key=lambda one: one.user,
    called=lambda one: str(one.named or one.user),
    state=(lambda one: one.place, _PLACES.__getitem__),
    acts=(Act("again", retry_person_there, shows=lambda one: one.place is not PlaceThere.SENT, on_row=True),),
    crumbs=_above,
)

REQUESTS: Final = Resource(
    name="requests_there",
    position=applications.ACCESS_POSITION,
    at=_EXCHANGES,
    listed=list_far_exchanges,
    is_log=True,
    columns=(
        when("at", "console.field.happened_at"),
        code(lambda one: f"{one.method} {one.path}", "console.requests_there.request"),
        state("has_failed", _OUTCOMES, "console.field.state"),
        number("status", "console.requests_there.status"),
        code("scim_type", "console.requests_there.scim_type"),
        plain("said", "console.requests_there.said"),
    ),
    crumbs=_above,
)


_OF_PERSON: Final = (
    linked(
        plain("service_name", "console.field.application"),
        lambda one, path: address(applications.PEOPLE_THERE, {**path, "service_slug": one.service_slug}),
        get_provisioning,
    ),
    state("place", _PLACES, "console.field.state"),
    yes_or_no("is_active", "console.persons_there.is_active"),
    sentence(_why, "console.persons_there.reason"),
    when("changed_at", "console.persons_there.changed_at"),
)


async def of_person(visit: PageVisit, user: UUID) -> Sequence[Any] | None:
    """The systems to which a person is sent, if those who look may see them and there are any."""
    if not visit.may(list_systems_of_person):
        return None
    try:
        found = await visit.ask(list_systems_of_person, user_id=user)
    except NotFound:
        return None
    return _OF_PERSON, rows_of(visit.reachable(_OF_PERSON), found, visit.text, visit.path)


async def _name(visit: PageVisit) -> str:
    return RUNS.call(visit, await RUNS.find(visit))


async def _person_name(visit: PageVisit) -> str:
    return PERSONS.call(visit, await PERSONS.find(visit))


console.name(RUNS.one, _name)
console.name(PERSONS.one, _person_name)

PAGES: Final = (*pages(PEOPLE_THERE), show_preview, *pages(RUNS), *pages(PERSONS), *pages(REQUESTS))

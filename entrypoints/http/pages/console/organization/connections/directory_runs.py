"""The runs that keep the organization in step with a directory by LDAP: what each has done, and an owner's word about those that wait."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.federation.directory_runs.runs import NamedAs, RunState
from entrypoints.http.pages.console.cells import Tone, code, number, plain, sentence, state, when
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.connections.connection_pages import ONE, above, connection_name
from entrypoints.http.pages.console.organization.organization_tabs import DIRECTORIES_ENTRY, DIRECTORIES_TAB, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Resource
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.federation.directory_runs import (
    approve_directory_run,
    decline_directory_run,
    end_privileged_people,
    get_directory_run,
    keep_privileged_people,
    list_directory_run_people,
    list_directory_runs,
    take_over_from_scim,
)

DIRECTORY_RUNS: Final = f"{ONE}/runs"
console.name(ONE, connection_name, beneath=DIRECTORY_RUNS)
_TONES: Final = {
    RunState.RUNNING: Tone.PLAIN,
    RunState.DONE: Tone.GOOD,
    RunState.FAILED: Tone.BAD,
    RunState.WAITING: Tone.WARN,
    RunState.AGREED: Tone.GOOD,
    RunState.LEFT: Tone.PLAIN,
    RunState.OVER: Tone.PLAIN,
}
_STATES: Final = {one: (f"console.directory_runs.{one.value}", tone) for one, tone in _TONES.items()}
_KIND: Final = sentence(lambda run, text: text(f"console.directory_runs.kind.{run.kind.value}"), "console.field.kind")
_COUNTS: Final = (
    number("read", "console.directory_runs.read"),
    number("came", "console.directory_runs.came"),
    number("changed", "console.directory_runs.changed"),
    number("ended", "console.directory_runs.ended"),
    number("held_back", "console.directory_runs.held_back"),
    number("left_out", "console.directory_runs.left_out"),
)
_NOBODY: Final[Mapping[str, Any]] = {"ending": (), "coming": (), "more_ends": "", "more_coming": ""}
_WORD: Final = (*_COUNTS, code("digest", "console.directory_runs.digest"))


def _waits(run: Any) -> bool:
    return bool(run.state is RunState.WAITING)


def _started(run: Any) -> str:
    return f"{run.started_at:%Y-%m-%d %H:%M}"


def _why(visit: PageVisit, reason: str) -> str:
    return visit.text(f"console.directory_runs.why.{reason}")


def _more(visit: PageVisit, many: int, shown: Sequence[object]) -> str:
    """An owner's word is about all, so the page says when it does not name all."""
    return visit.text("console.directory_runs.and_more", count=many - len(shown)) if 0 < len(shown) < many else ""


def _people(visit: PageVisit, people: Sequence[Any]) -> Sequence[tuple[str, str]]:
    return [(one.named, _why(visit, one.reason)) for one in people]


async def _decided(visit: PageVisit, run: Any) -> Mapping[str, Any]:
    """Those about whom an owner may decide."""
    taken_over, privileged = _people(visit, run.taken_over), _people(visit, run.privileged)
    return {
        "taken_over": taken_over,
        "privileged": privileged,
        "more_taken_over": _more(visit, run.reasons.get("listed_by_scim", 0), taken_over),
        "more_privileged": _more(visit, run.reasons.get("may_more", 0), privileged),
    }


async def _named(visit: PageVisit, run: Any) -> Mapping[str, Any]:
    ending, left_out, coming = (_people(visit, [one for one in run.people if one.what is what]) for what in NamedAs)
    reasons: Sequence[tuple[str, int]] = [(_why(visit, reason), count) for reason, count in run.reasons.items()]
    listed = await visit.ask(list_directory_runs)
    return {
        **await _decided(visit, run),
        "ending": ending,
        "coming": coming,
        "more_coming": _more(visit, run.came, coming),
        "left_out": left_out,
        "more_ends": _more(visit, run.held_back, ending),
        "more_left_out": _more(visit, run.left_out, left_out),
        "reasons": reasons,
        "waits": _waits(run),
        "is_plan": run.kind.value == "plan",
        "next_at": listed.next_at,
    }


async def _taking_over(visit: PageVisit, run: Any) -> Mapping[str, Any]:
    return {**_NOBODY, **await _decided(visit, run), "privileged": ()}


async def _about_privileged(visit: PageVisit, run: Any) -> Mapping[str, Any]:
    return {**_NOBODY, **await _decided(visit, run), "taken_over": ()}


async def _going_on(visit: PageVisit, run: Any) -> Mapping[str, Any]:
    return {**await _named(visit, run), "taken_over": (), "privileged": ()}


PEOPLE: Final = Resource(
    name="directory_run_people",
    position=position(DIRECTORIES_ENTRY, DIRECTORIES_TAB),
    at=f"{DIRECTORY_RUNS}/{{run_id}}/people",
    listed=list_directory_run_people,
    is_log=True,
    columns=(
        plain("named", "console.directory_runs.people_named"),
        sentence(lambda one, text: text(f"console.directory_runs.what.{one.what.value}"), "console.directory_runs.people_what"),
        sentence(lambda one, text: text(f"console.directory_runs.why.{one.reason}"), "console.directory_runs.people_reason"),
    ),
    crumbs=above,
)


RUNS: Final = Resource(
    name="directory_runs",
    position=position(DIRECTORIES_ENTRY, DIRECTORIES_TAB),
    at=DIRECTORY_RUNS,
    listed=list_directory_runs,
    rows="runs",
    is_log=True,
    columns=(when("started_at", "console.directory_runs.started"), _KIND, state("state", _STATES), *_COUNTS[1:]),
    parameter="run_id",
    called=_started,
    titled=lambda visit, run: visit.text("console.directory_runs.named", called=_started(run)),
    record=get_directory_run,
    state=(lambda run: run.state, _STATES.__getitem__),
    facts=(
        _KIND,
        when("started_at", "console.directory_runs.started"),
        when("ended_at", "console.directory_runs.finished"),
        *_COUNTS,
        number("teams", "console.directory_runs.teams"),
        plain("fault", "console.directory_runs.fault"),
        code("digest", "console.directory_runs.digest"),
    ),
    acts=(
        Act(
            "go-on",
            approve_directory_run,
            asks=True,
            kind="",
            shows=_waits,
            facts=_WORD,
            seen=lambda run: str(run.digest),
            template="organization/connections/directory_run_question.html",
            more=_going_on,
        ),
        Act("leave", decline_directory_run, asks=True, shows=_waits, facts=_COUNTS),
        Act(
            "take-over",
            take_over_from_scim,
            asks=True,
            shows=lambda run: run.take_over_digest is not None,
            facts=(code("take_over_digest", "console.directory_runs.digest"),),
            seen=lambda run: str(run.take_over_digest),
            template="organization/connections/directory_run_question.html",
            more=_taking_over,
        ),
        *(
            Act(
                name,
                endpoint,
                asks=True,
                kind=kind,
                shows=lambda run: run.privileged_digest is not None,
                facts=(code("privileged_digest", "console.directory_runs.digest"),),
                seen=lambda run: str(run.privileged_digest),
                template="organization/connections/directory_run_question.html",
                more=_about_privileged,
            )
            for name, endpoint, kind in (("keep", keep_privileged_people, "quiet"), ("end", end_privileged_people, "danger"))
        ),
    ),
    crumbs=above,
    template="organization/connections/directory_run.html",
    more=_named,
    below=(("console.directory_run_people.title", PEOPLE.at, list_directory_run_people),),
    also=(list_directory_runs,),
)

PAGES: Final = (*pages(RUNS), *pages(PEOPLE))

"""The audit log of the installation: what platform owners, operators and the system did that concerns no single organization.

The settings in force, with secrets masked: those that somebody has set first, the others by their groups, each with its sentence.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Final, NamedTuple

import msgspec

from core.domain.errors import BadRequest
from core.domain.record.event_types import EVENT_TYPES, Audience
from core.domain.record.events import TargetType
from core.domain.requests import MOST_ROWS_COUNTED
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.actors import actor_of_installation, program_in_words
from entrypoints.http.console.kit.cells import code, lasting, linked, plain, rows_of, sentence, state, when
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import Choice
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.resource_pages import facts_of
from entrypoints.http.console.kit.resources import ON_A_PAGE_OF_LOG, Filter
from entrypoints.http.console.kit.visit import AnyCall, Head, Page, PageVisit
from entrypoints.http.console.organization.events import event_in_words
from entrypoints.http.console.organization.settings.audit_log import IDS, OUTCOMES, details_of, kinds_in_words
from entrypoints.http.console.organization.settings.audit_sentences import called, changes_in, sentence_of, thing_of
from entrypoints.http.console.platform.people import ONE as PERSON
from entrypoints.http.console.platform.platform_tabs import (
    AUDIT_LOG,
    AUDIT_LOG_ENTRY,
    AUDIT_LOG_TAB,
    CONFIGURATION_ENTRY,
    SETTINGS,
    SETTINGS_TAB,
    position,
)
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.fields import Line
from entrypoints.http.routes.platform.installation import (
    PlatformAuditEntryRecord,
    get_platform_audit_entry,
    list_platform_audit_log,
    list_settings,
)
from entrypoints.settings import in_force_by_group, is_default
from ports.texts import Text

_ONE: Final = f"{AUDIT_LOG}/{{entry_id}}"
_LAST_PAGE: Final = MOST_ROWS_COUNTED // ON_A_PAGE_OF_LOG
_POSITION: Final = position(AUDIT_LOG_ENTRY, AUDIT_LOG_TAB)
# The platform's log has the entries of everything that happens in no organization.
_ACTIONS: Final = tuple(one for one in EVENT_TYPES if one.audited and one.audience is not Audience.ORGANIZATION)


class AuditQuery(msgspec.Struct, frozen=True):
    action: Line = ""
    target_type: Line = ""
    target_id: Line = ""
    actor: Line = ""
    since: Line = ""
    until: Line = ""
    page: Line = "1"


def _by(row: PlatformAuditEntryRecord) -> str:
    """A person's name or address, or the name of a key. An operator at the command line is named in the details."""
    return called(row.actor) or str(row.details.get("operator", ""))


def _to_target(row: PlatformAuditEntryRecord, _path: object) -> str:
    return address(PERSON, {"user_id": row.target_id}) if row.target_type == TargetType.USER and row.subject else ""


_THING: Final = linked(plain(thing_of, "console.field.target"), _to_target)
_OUTCOME: Final = state("success", OUTCOMES, "console.field.outcome")
_HAPPENED_AT: Final = when("created_at", "console.field.happened_at")
_COLUMNS: Final = (
    linked(
        sentence(sentence_of, "console.field.happened", beside=lambda row: row.action),
        lambda row, _path: address(_ONE, {"entry_id": row.id}),
    ),
    _THING,
    _OUTCOME,
    _HAPPENED_AT,
)
_FACTS: Final = (
    _HAPPENED_AT,
    plain(_by, "console.field.actor", beside=lambda row: row.actor.email if row.actor else ""),
    plain(lambda row: called(row.impersonator), "console.field.impersonator"),
    _THING,
    _OUTCOME,
    code("ip_address"),
)


async def _show_log(call: AnyCall, postern: Postern) -> Page:
    visit, query = PageVisit(call, postern), call.query
    given = {
        name: text for name in ("action", "target_type", "target_id", "actor", "since", "until") if (text := getattr(query, name).strip())
    }
    number = min(max(int(query.page), 1), _LAST_PAGE) if query.page.isascii() and query.page.isdecimal() and len(query.page) <= 5 else 1
    wanted, errors = _wanted(visit, given)
    if "actor" in given:
        try:
            wanted["actor_id"] = await actor_of_installation(visit, given["actor"])
        except BadRequest as refusal:
            errors["actor"] = visit.said(refusal)
    asked = {**wanted, "page": str(number), "limit": str(ON_A_PAGE_OF_LOG)}
    rows = (await visit.ask(list_platform_audit_log, query=asked)).logs
    choices = {
        "action": sorted(
            (Choice(one.name, event_in_words(one.name, visit.text)) for one in _ACTIONS), key=lambda one: one.label.casefold()
        ),
        "target_type": kinds_in_words(visit.text),
    }
    names = ("action", "target_type", "target_id", "actor", "since", "until")
    page = visit.show(
        "list.html",
        _POSITION,
        Head(title=visit.text("console.platform_log.title"), curl=visit.curl(list_platform_audit_log, query=wanted), errors=errors),
        columns=_COLUMNS,
        rows=rows_of(_COLUMNS, rows, visit.text, visit.path),
        filters=[(Filter(name, f"console.platform_log.filter_{name}"), given.get(name, ""), choices.get(name)) for name in names],
        filtered=given,
        at=AUDIT_LOG,
        empty=(visit.text("console.platform_log.empty_title"), visit.text("console.platform_log.empty_text")),
        older={**given, "page": str(number + 1)} if len(rows) == ON_A_PAGE_OF_LOG and number < _LAST_PAGE else None,
        newer={**given, "page": str(number - 1)} if number > 1 else None,
    )
    return Answer(page, 400 if errors else 200)


def _wanted(visit: PageVisit, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The query of the endpoint, and the errors by field: a value that cannot be one is named, and left out."""
    read: dict[str, str] = {}
    errors = {}
    for name, text in given.items():
        if name not in _READ:
            continue
        try:
            read[name] = _READ[name](text)
        except ValueError:
            errors[name] = visit.text(f"console.platform_log.wrong_{name}")
    if "target_id" in read and "target_type" not in read:
        del read["target_id"]
        errors.setdefault("target_type", visit.text("console.platform_log.wrong_target_type"))
    return read, errors


def _day(text: str) -> str:
    return datetime.combine(datetime.fromisoformat(text).date(), time(), UTC).isoformat()


_READ: Final[Mapping[str, Callable[[str], str]]] = {
    "action": str,
    "target_type": lambda text: TargetType(text).value,
    "target_id": str,
    "since": _day,
    "until": _day,
}


async def _show_entry(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    shown = await visit.ask(get_platform_audit_entry)
    page = visit.show(
        "platform/record/entry.html",
        _POSITION,
        Head(
            title=sentence_of(shown, visit.text),
            crumbs=((visit.text("console.platform_log.title"), AUDIT_LOG),),
            curl=visit.curl(get_platform_audit_entry),
        ),
        facts=facts_of(_FACTS, visit, shown),
        changes=changes_in(shown, visit.text),
        program=await program_in_words(visit, shown.user_agent),
        ids=facts_of(IDS, visit, shown),
        entry=details_of(shown, 1) if shown.details else "",
    )
    return Answer(page, 200)


_SECONDS: Final = re.compile(r"(\d{1,12})s")


class SoughtSetting(msgspec.Struct, frozen=True):
    q: Line = ""
    """A part of the name or of the sentence."""


class ShownSetting(NamedTuple):
    name: str
    value: str
    description: str
    """In English, as in the documentation."""


async def _show_settings(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    await visit.ask(list_settings)
    wanted = call.query.q.strip().casefold()
    groups: list[tuple[str, Sequence[ShownSetting]]] = []
    own = []
    for group, settings in in_force_by_group(postern.settings):
        shown = [
            (one, ShownSetting(one.name, in_time(value, visit.text), one.description), is_default(one, value))
            for one, value in settings
            if wanted in f"{one.name} {one.description}".casefold()
        ]
        own += [setting for _, setting, by_itself in shown if not by_itself]
        if others := [setting for _, setting, by_itself in shown if by_itself]:
            groups.append((group, others))
    page = visit.show(
        "platform/record/settings.html",
        position(CONFIGURATION_ENTRY, SETTINGS_TAB),
        Head(title=visit.text("console.settings_in_force.title"), curl=visit.curl(list_settings)),
        at=SETTINGS,
        wanted=call.query.q.strip(),
        own=own,
        groups_of_settings=groups,
    )
    return Answer(page, 200)


def in_time(value: str, text: Text) -> str:
    """A time in words: `7776000s` is 90 days. Any other value is as it is."""
    found = _SECONDS.fullmatch(value)
    seconds = int(found[1]) if found else 0
    if not seconds:
        return value
    return lasting(timedelta(seconds=seconds), text)


PAGES: Final = (
    console.get(AUDIT_LOG, of=list_platform_audit_log)(stated(_show_log, "show_platform_audit_log", AUDIT_LOG, query=AuditQuery)),
    console.get(_ONE, of=get_platform_audit_entry)(stated(_show_entry, "show_platform_audit_entry", _ONE)),
    console.get(SETTINGS, of=list_settings)(stated(_show_settings, "show_settings_in_force", SETTINGS, query=SoughtSetting)),
)

"""The audit log of the installation: what platform owners, operators and the system did that concerns no single organization."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, time
from typing import Any, Final
from uuid import UUID

import msgspec

from core.domain.pages import MOST_COUNTED
from core.domain.record.event_types import EVENT_TYPES, Audience
from core.domain.record.events import TargetType
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.pages.console.cells import Tone, code, copied, linked, plain, rows_of, state, when
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.navigation import address
from entrypoints.http.pages.console.platform.people import ONE as PERSON
from entrypoints.http.pages.console.platform.platform_tabs import AUDIT_LOG, AUDIT_LOG_ENTRY, AUDIT_LOG_TAB, position
from entrypoints.http.pages.console.resources import Filter
from entrypoints.http.pages.console.visit import AnyCall, Head, Page, PageVisit
from entrypoints.http.routes.platform.audit_log import PlatformAuditEntryRecord, get_platform_audit_entry, list_platform_audit_log
from entrypoints.http.routes.record.audit import key_of

_ONE: Final = f"{AUDIT_LOG}/{{entry_id}}"
_ON_A_PAGE: Final = 50
_LAST_PAGE: Final = MOST_COUNTED // _ON_A_PAGE
_POSITION: Final = position(AUDIT_LOG_ENTRY, AUDIT_LOG_TAB)
# The platform's log has the entries of everything that happens in no organization.
_ACTIONS: Final = tuple(one for one in EVENT_TYPES if one.audited and one.audience is not Audience.ORGANIZATION)


class AuditQuery(msgspec.Struct, frozen=True):
    action: str = ""
    target_type: str = ""
    target_id: str = ""
    actor: str = ""
    since: str = ""
    until: str = ""
    page: str = "1"


def _by(row: PlatformAuditEntryRecord) -> str:
    """A person's address, or the name of a key. An operator at the command line is named in the details."""
    if row.actor is None:
        return str(row.details.get("operator", ""))
    key = key_of(row.actor)
    return row.actor.email or "" if key is None else key.name


_COLUMNS: Final = (
    linked(code("action"), lambda row, _path: address(_ONE, {"entry_id": row.id})),
    plain(_by, "console.field.actor"),
    plain(lambda row: f"{row.target_type} {row.target_id}", "console.field.target"),
    state("success", {True: ("console.state.succeeded", Tone.GOOD), False: ("console.state.failed", Tone.BAD)}),
    when("created_at", "console.field.at"),
)


def _to_target(row: PlatformAuditEntryRecord, _path: object) -> str:
    return address(PERSON, {"user_id": row.target_id}) if row.target_type == TargetType.USER else ""


_FACTS: Final = (
    *_COLUMNS[1:2],
    plain(lambda row: None if row.impersonator is None else row.impersonator.email, "console.field.impersonator"),
    linked(_COLUMNS[2], _to_target),
    _COLUMNS[3],
    code("ip_address"),
    plain("user_agent"),
    when("created_at", "console.field.at"),
    copied("id"),
)


async def _show_log(call: AnyCall, postern: Postern) -> Page:
    visit, query = PageVisit(call, postern), call.query
    given = {
        name: text for name in ("action", "target_type", "target_id", "actor", "since", "until") if (text := getattr(query, name).strip())
    }
    number = min(max(int(query.page), 1), _LAST_PAGE) if query.page.isascii() and query.page.isdecimal() and len(query.page) <= 5 else 1
    wanted, errors = _wanted(visit, given)
    asked = {**wanted, "page": str(number), "limit": str(_ON_A_PAGE)}
    rows = (await visit.ask(list_platform_audit_log, query=asked)).logs
    choices = {
        "action": [Choice(one.name, one.name) for one in _ACTIONS],
        "target_type": [Choice(one.value, one.value) for one in TargetType],
    }
    names = ("action", "target_type", "target_id", "actor", "since", "until")
    page = visit.show(
        "list.html",
        _POSITION,
        Head(title=visit.text("console.platform_log.title"), curl=visit.curl(list_platform_audit_log, query=wanted), errors=errors),
        columns=_COLUMNS,
        rows=rows_of(_COLUMNS, rows, visit.text, visit.path),
        filters=[(Filter(name, f"console.platform_log.filter_{name}"), given.get(name, ""), choices.get(name)) for name in names],
        filtered=bool(given),
        at=AUDIT_LOG,
        empty=(visit.text("console.platform_log.empty_title"), visit.text("console.platform_log.empty_text")),
        older={**given, "page": str(number + 1)} if len(rows) == _ON_A_PAGE and number < _LAST_PAGE else None,
        newer={**given, "page": str(number - 1)} if number > 1 else None,
    )
    return Answer(page, 400 if errors else 200)


def _wanted(visit: PageVisit, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The query of the endpoint, and the errors by field: a value that cannot be one is named, and left out."""
    read: dict[str, str] = {}
    errors = {}
    for name, text in given.items():
        try:
            read[_ASKED.get(name, name)] = _READ[name](text)
        except ValueError:
            errors[name] = visit.text(f"console.platform_log.wrong_{name}")
    if "target_id" in read and "target_type" not in read:
        del read["target_id"]
        errors.setdefault("target_type", visit.text("console.platform_log.wrong_target_type"))
    return read, errors


def _day(text: str) -> str:
    return datetime.combine(datetime.fromisoformat(text).date(), time(), UTC).isoformat()


_ASKED: Final = {"actor": "actor_id"}
_READ: Final[Mapping[str, Callable[[str], str]]] = {
    "action": str,
    "target_type": lambda text: TargetType(text).value,
    "target_id": str,
    "actor": lambda text: str(UUID(text)),
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
            title=shown.action, crumbs=((visit.text("console.platform_log.title"), AUDIT_LOG),), curl=visit.curl(get_platform_audit_entry)
        ),
        facts=[(visit.text(one.label), one.cell(shown, visit.text, visit.path)) for one in _FACTS],
        details=[(name, _text(value)) for name, value in sorted(shown.details.items())],
    )
    return Answer(page, 200)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


PAGES: Final = (
    console.get(AUDIT_LOG, of=list_platform_audit_log)(stated(_show_log, "show_platform_audit_log", AUDIT_LOG, query=AuditQuery)),
    console.get(_ONE, of=get_platform_audit_entry)(stated(_show_entry, "show_platform_audit_entry", _ONE)),
)

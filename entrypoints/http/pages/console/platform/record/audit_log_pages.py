"""The audit log of the installation: what platform owners, operators and the system did that concerns no single organization."""

from datetime import UTC, datetime, time
from typing import Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import NotFound
from core.domain.identifiers import AuditEntryId, UserId
from core.domain.pages import MOST_COUNTED
from core.domain.pages import Page as Part
from core.domain.record.audit import AuditEntry, AuditFilter, Person
from core.domain.record.audit_chains import PLATFORM_CHAIN
from core.domain.record.event_types import EVENT_TYPES, Audience
from core.domain.record.events import TargetType
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.pages.console.cells import Tone, code, copied, linked, plain, rows_of, state, when
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.places import address
from entrypoints.http.pages.console.platform.people import ONE as PERSON
from entrypoints.http.pages.console.platform.places import AUDIT_LOG, AUDIT_LOG_ENTRY, AUDIT_LOG_TAB, spot
from entrypoints.http.pages.console.resources import Filter
from entrypoints.http.pages.console.visit import AnyCall, Head, Page, PageVisit

_ONE: Final = f"{AUDIT_LOG}/{{entry_id}}"
_ON_A_PAGE: Final = 50
_LAST_PAGE: Final = MOST_COUNTED // _ON_A_PAGE
_SPOT: Final = spot(AUDIT_LOG_ENTRY, AUDIT_LOG_TAB)
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


class _Shown(Frozen):
    entry: AuditEntry

    @property
    def actor(self) -> str:
        one = self.entry.actor
        return "" if one is None else one.email if isinstance(one, Person) else one.name


def _by(row: _Shown) -> str:
    return row.actor or str(row.entry.details.get("operator", ""))


_COLUMNS: Final = (
    linked(code("entry.action", "console.field.action"), lambda row, _path: address(_ONE, {"entry_id": row.entry.id})),
    plain(_by, "console.field.actor"),
    plain(lambda row: f"{row.entry.target_type} {row.entry.target_id}", "console.field.target"),
    state("entry.success", {True: ("console.state.succeeded", Tone.GOOD), False: ("console.state.failed", Tone.BAD)}),
    when("entry.created_at", "console.field.at"),
)


def _to_target(row: _Shown, _path: object) -> str:
    return address(PERSON, {"user_id": row.entry.target_id}) if row.entry.target_type == TargetType.USER else ""


_FACTS: Final = (
    *_COLUMNS[1:2],
    plain(lambda row: None if row.entry.impersonator is None else row.entry.impersonator.email, "console.field.impersonator"),
    linked(_COLUMNS[2], _to_target),
    _COLUMNS[3],
    code("entry.address", "console.field.ip_address"),
    plain("entry.user_agent", "console.field.user_agent"),
    when("entry.created_at", "console.field.at"),
    copied("entry.id", "console.field.id"),
)


async def _show_log(call: AnyCall, postern: Postern) -> Page:
    visit, query = PageVisit(call, postern), call.query
    given = {
        name: text for name in ("action", "target_type", "target_id", "actor", "since", "until") if (text := getattr(query, name).strip())
    }
    number = min(max(int(query.page), 1), _LAST_PAGE) if query.page.isascii() and query.page.isdecimal() and len(query.page) <= 5 else 1
    wanted, errors = _wanted(visit, given)
    found = await postern.record.audit.list(PLATFORM_CHAIN, wanted, Part(number, _ON_A_PAGE))
    rows = [_Shown(entry) for entry in found.items]
    choices = {
        "action": [Choice(one.name, one.name) for one in _ACTIONS],
        "target_type": [Choice(one.value, one.value) for one in TargetType],
    }
    names = ("action", "target_type", "target_id", "actor", "since", "until")
    page = visit.show(
        "list.html",
        _SPOT,
        Head(title=visit.text("console.platform_log.title"), errors=errors),
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


def _wanted(visit: PageVisit, given: dict[str, str]) -> tuple[AuditFilter, dict[str, str]]:
    """The filter, and the errors by field: a value that cannot be one is named, and left out."""
    read: dict[str, Any] = {}
    errors = {}
    for name, text in given.items():
        try:
            read[name] = _READ[name](text)
        except ValueError:
            errors[name] = visit.text(f"console.platform_log.wrong_{name}")
    if "target_id" in read and "target_type" not in read:
        del read["target_id"]
        errors.setdefault("target_type", visit.text("console.platform_log.wrong_target_type"))
    return AuditFilter(**read), errors


def _day(text: str) -> datetime:
    return datetime.combine(datetime.fromisoformat(text).date(), time(), UTC)


_READ: Final[dict[str, Any]] = {
    "action": str,
    "target_type": TargetType,
    "target_id": str,
    "actor": lambda text: UserId(UUID(text)),
    "since": _day,
    "until": _day,
}


async def _show_entry(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    try:
        wanted = AuditFilter(entry=AuditEntryId(UUID(visit.path["entry_id"])))
    except ValueError:
        raise NotFound from None
    found = await postern.record.audit.list(PLATFORM_CHAIN, wanted, Part(1, 1))
    if not found.items:
        raise NotFound
    shown = _Shown(found.items[0])
    page = visit.show(
        "platform/record/entry.html",
        _SPOT,
        Head(title=shown.entry.action, crumbs=((visit.text("console.platform_log.title"), AUDIT_LOG),)),
        facts=[(visit.text(one.label), one.cell(shown, visit.text, visit.path)) for one in _FACTS],
        details=[(name, _text(value)) for name, value in sorted(shown.entry.details.items())],
    )
    return Answer(page, 200)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


PAGES: Final = (
    console.get(AUDIT_LOG, of=PLATFORM_OWNER)(stated(_show_log, "show_platform_audit_log", AUDIT_LOG, query=AuditQuery)),
    console.get(_ONE, of=PLATFORM_OWNER)(stated(_show_entry, "show_platform_audit_entry", _ONE)),
)

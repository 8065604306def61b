"""The audit log of the organization: the list, one entry, the log as a file, and the check of its chain."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from core.domain.formats import table_line
from core.domain.identifiers import OrganizationId
from core.domain.record.audit import AuditEntry, AuditFilter, ChainFinding
from core.domain.record.events import UNDOES, TargetType
from core.domain.requests import MOST_ROWS_COUNTED, Page
from core.domain.tenancy.members import Member
from core.frozen import Frozen, replace
from core.usecases.record import OwnCheck
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.actors import actor_of_organization, program_in_words
from entrypoints.http.console.kit.cells import Tone, code, copied, linked, plain, sentence, state, when
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Choice
from entrypoints.http.console.kit.lists import asked_with, given_in
from entrypoints.http.console.kit.many import attachment, marked
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.resource_pages import facts_of, pages
from entrypoints.http.console.kit.resources import Filter, Resource
from entrypoints.http.console.kit.visit import AnyCall, Head, PageVisit
from entrypoints.http.console.kit.visit import Page as Shown
from entrypoints.http.console.organization.events import event_in_words
from entrypoints.http.console.organization.organization_tabs import AUDIT_LOG, AUDIT_LOG_TAB, LOGS_ENTRY, position
from entrypoints.http.console.organization.settings.audit_sentences import (
    PLACES,
    LoggedRun,
    called,
    changes_in,
    entry_of,
    folded,
    place_of,
    sentence_of,
    thing_of,
)
from entrypoints.http.console.organization.settings.entry_receivers import of_entry
from entrypoints.http.machinery.answers import Answer, Streamed
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.decoding import convert
from entrypoints.http.machinery.fields import Line, OrganizationPath
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS, PRIVACY
from entrypoints.http.routes.record.audit import (
    AuditEntryRecord,
    AuditLogQuery,
    filter_of,
    get_audit_entry,
    list_audit_event_types,
    list_audit_log,
    logged,
)
from entrypoints.http.routes.record.entry_receivers import list_entry_receivers
from ports.texts import Text

MOST_VERIFIED: Final = 10_000
"""Entries that one request checks. The command of the operator checks any number."""
_MOST_SHOWN: Final = 20
_AT_ONCE: Final = 500
_CSV: Final = f"{AUDIT_LOG}/~csv"
_LINES: Final = f"{AUDIT_LOG}/~lines"
_VERIFY: Final = f"{AUDIT_LOG}/~verify"
OUTCOMES: Final = {True: ("console.state.succeeded", Tone.GOOD), False: ("console.state.not_succeeded", Tone.BAD)}


async def _actions(visit: PageVisit) -> Sequence[Choice]:
    found = [Choice(one.value, event_in_words(one.value, visit.text)) for one in await visit.ask(list_audit_event_types)]
    return sorted(found, key=lambda one: one.label.casefold())


async def _targets(visit: PageVisit) -> Sequence[Choice]:
    return kinds_in_words(visit.text)


def kinds_in_words(text: Text) -> Sequence[Choice]:
    """The kinds of things that entries are about, by their words."""
    return sorted((Choice(one.value, text(f"console.kind.{one.value}")) for one in TargetType), key=lambda one: one.label.casefold())


async def _outcomes(visit: PageVisit) -> Sequence[Choice]:
    return [Choice("true", visit.text("console.state.succeeded")), Choice("false", visit.text("console.state.not_succeeded"))]


def details_of(one: Any, indent: int | None = None) -> str:
    return json.dumps(msgspec.to_builtins(one.details), ensure_ascii=False, indent=indent)


def _page_of(row: Any, path: Mapping[str, str]) -> str:
    """The page of the entry. A run of like entries leads to the list of them."""
    one = entry_of(row)
    if isinstance(row, LoggedRun) and row.more:
        actor = f"&actor_id={one.actor.id}" if one.actor else ""
        return f"{address(AUDIT_LOG, path)}?action={one.action}{actor}"
    return address(f"{AUDIT_LOG}/{{entry_id}}", {**path, "entry_id": str(one.id)})


def _undone(one: AuditEntryRecord) -> str:
    """The entry of the change that this one takes back."""
    return str(one.details.get(UNDOES, ""))


def _page_of_undone(one: AuditEntryRecord, path: Mapping[str, str]) -> str:
    return address(f"{AUDIT_LOG}/{{entry_id}}", {**path, "entry_id": _undone(one)}) if _undone(one) else ""


async def _more(visit: PageVisit, one: AuditEntryRecord) -> Mapping[str, Any]:
    return {
        "changes": changes_in(one, visit.text),
        "program": await program_in_words(visit, one.user_agent),
        "entry": details_of(one, 1) if one.details else "",
        "ids": facts_of(IDS, visit, one),
        **await of_entry(visit, one),
    }


IDS: Final = (
    code("action", "console.field.action"),
    code("target_type"),
    copied("target_id"),
    copied(lambda one: one.actor.id if one.actor else None, "console.field.actor_id"),
    code("user_agent"),
    copied("id"),
)
_THING: Final = linked(plain(lambda row: thing_of(entry_of(row)), "console.field.target"), place_of, *PLACES)
AUDIT: Final = Resource(
    name="audit_log",
    position=position(LOGS_ENTRY, AUDIT_LOG_TAB),
    at=AUDIT_LOG,
    listed=list_audit_log,
    rows="logs",
    is_log=True,
    columns=(
        linked(sentence(sentence_of, "console.field.happened", beside=lambda row: entry_of(row).action), _page_of),
        _THING,
        state(lambda row: entry_of(row).success, OUTCOMES, "console.field.outcome"),
        when(lambda row: entry_of(row).created_at, "console.field.happened_at"),
    ),
    filters=(
        Filter("action", "console.field.action", _actions),
        Filter("target_type", "console.field.target_type", _targets),
        Filter("target_id", "console.field.target_id"),
        Filter("actor_id", "console.audit_log.by", found=actor_of_organization),
        Filter("success", "console.field.outcome", _outcomes),
        Filter("since", "console.field.from", is_moment=True),
        Filter("until", "console.field.before", is_moment=True),
    ),
    parameter="entry_id",
    called=lambda one: str(one.action),
    record=get_audit_entry,
    state=(lambda one: one.success, OUTCOMES.__getitem__),
    facts=(
        when("created_at", "console.field.happened_at"),
        plain(lambda one: called(one.actor), "console.field.actor", beside=lambda one: one.actor.email if one.actor else ""),
        plain(lambda one: called(one.impersonator), "console.field.impersonator"),
        _THING,
        linked(plain(_undone, "console.field.undoes"), _page_of_undone, get_audit_entry),
        code("ip_address"),
    ),
    titled=lambda visit, one: sentence_of(one, visit.text),
    folded=folded,
    template="organization/settings/audit_entry.html",
    more=_more,
    also=(list_entry_receivers,),
    beneath=(
        ("console.audit_log.csv", _CSV, list_audit_log),
        ("console.audit_log.lines", _LINES, list_audit_log),
        ("console.audit_log.verify", _VERIFY, list_audit_log),
    ),
)

_ExportQuery: Any = msgspec.defstruct("AuditExportQuery", [(one.name, Line, "") for one in AUDIT.filters], frozen=True)
_COLUMNS: Final = (
    "created_at",
    "action",
    "success",
    "actor",
    "actor_id",
    "impersonator",
    "target_type",
    "target_id",
    "ip_address",
    "user_agent",
    "details",
    "id",
)


class _File(Frozen):
    """A kind of file that the log can be stored as."""

    name: str
    media_type: str
    head: bytes
    encoded: Callable[[AuditEntryRecord], bytes]


_TABLE: Final = _File(
    "audit-log.csv", "text/csv; charset=utf-8", marked(table_line(_COLUMNS)), lambda one: table_line(_cells(one)).encode()
)
_JSON_LINES: Final = _File("audit-log.jsonl", "application/x-ndjson", b"", lambda one: msgspec.json.encode(one) + b"\n")


@console.get(_CSV, of=list_audit_log, limit=(PAGE_LOADS, PRIVACY))
async def audit_log_as_table(call: Call[None, _ExportQuery, OrganizationPath, Member], postern: Postern) -> Shown:
    """Store the audit log as comma-separated values"""
    return await _exported(call, postern, _TABLE)


@console.get(_LINES, of=list_audit_log, limit=(PAGE_LOADS, PRIVACY))
async def audit_log_as_lines(call: Call[None, _ExportQuery, OrganizationPath, Member], postern: Postern) -> Shown:
    """Store the audit log as lines of JSON"""
    return await _exported(call, postern, _JSON_LINES)


async def _exported(call: AnyCall, postern: Postern, file: _File) -> Shown:
    visit = PageVisit(call, postern)
    wanted = filter_of(convert(await asked_with(AUDIT, visit, given_in(AUDIT, call.query)), AuditLogQuery))
    batches = batches_of(postern, call.caller.organization, wanted)
    # The first entries are read before the answer begins, so that a refusal is a page.
    first = await anext(batches)

    async def parts() -> AsyncGenerator[bytes, None]:
        yield file.head + b"".join(file.encoded(logged(call.caller, entry)) for entry in first)
        async for batch in batches:
            yield b"".join(file.encoded(logged(call.caller, entry)) for entry in batch)

    return cast("Shown", Answer(Streamed(parts()), 200, attachment(visit, file.name, file.media_type)))


async def batches_of(postern: Postern, organization: OrganizationId, wanted: AuditFilter) -> AsyncGenerator[Sequence[AuditEntry], None]:
    """The newest first, as the log stood when the export began. A filtered list ends after `MOST_COUNTED` entries, as on the page."""
    if not wanted.is_empty:
        now = postern.foundation.clock.now()
        wanted = replace(wanted, until=now if wanted.until is None or wanted.until > now else wanted.until)
    most, number, left = MOST_ROWS_COUNTED // _AT_ONCE, 1, -1
    while wanted.is_empty or number <= most:
        found = await postern.record.audit.list(organization, wanted, Page(number, _AT_ONCE))
        left = found.total if left < 0 else left
        # Entries that were added meanwhile stand in front, and push those behind them onto later pages.
        newest = found.total - (number - 1) * _AT_ONCE
        batch = [entry for place, entry in enumerate(found.items) if newest - place <= left]
        left -= len(batch)
        yield batch
        if left <= 0 or not found.items:
            return
        number += 1


def _cells(one: AuditEntryRecord) -> Sequence[str]:
    return (
        one.created_at.isoformat(timespec="milliseconds"),
        one.action,
        "true" if one.success else "false",
        called(one.actor),
        str(one.actor.id) if one.actor else "",
        called(one.impersonator),
        one.target_type,
        one.target_id,
        one.ip_address or "",
        one.user_agent or "",
        details_of(one),
        str(one.id),
    )


@console.get(_VERIFY, of=list_audit_log)
async def ask_to_verify_audit_log(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Shown:
    """See how the chain of the audit log is checked"""
    return Answer(_checked(PageVisit(call, postern), is_done=False), 200)


# The form changes nothing, so it calls no endpoint. People who see the log may check it.
@console.post(_VERIFY, of=list_audit_log.caller, limit=(PAGE_STEPS, PRIVACY))
async def verify_audit_log(call: Call[BoundForm, None, OrganizationPath, Member], postern: Postern) -> Shown:
    """Check whether entries of the organization's audit log were removed, added or altered

    One request checks 10 000 entries at most.
    """
    check = await postern.record.audit.verify_own(call.caller.organization, MOST_VERIFIED)
    return Answer(_checked(PageVisit(call, postern), check), 200)


def _checked(visit: PageVisit, check: OwnCheck | None = None, *, is_done: bool = True) -> bytes:
    findings = [] if check is None else check.findings
    return visit.show(
        "organization/settings/verify.html",
        AUDIT.position,
        Head(title=visit.text("console.verify.title"), crumbs=AUDIT.above(visit)),
        action=visit.here(_VERIFY),
        is_done=is_done,
        check=None if check is None else check.checked,
        faults=[(_place(one), visit.text(f"console.fault.{one.fault.name.lower()}"), _entry(visit, one)) for one in findings[:_MOST_SHOWN]],
        more=max(len(findings) - _MOST_SHOWN, 0),
        most=MOST_VERIFIED,
        command=f"postern audit verify --organization {visit.path['org_slug']}",
    )


def _place(finding: ChainFinding) -> str:
    if finding.sequence is None:
        return ""
    return str(finding.sequence) if finding.last is None else f"{finding.sequence} – {finding.last}"  # noqa: RUF001 - a span


def _entry(visit: PageVisit, finding: ChainFinding) -> Mapping[str, str]:
    return {} if finding.entry is None else {"id": str(finding.entry), "at": visit.here(AUDIT.one, entry_id=finding.entry)}


PAGES: Final = (audit_log_as_table, audit_log_as_lines, ask_to_verify_audit_log, verify_audit_log, *pages(AUDIT))

"""The receivers of an entry of the audit log: on the page of the entry, on the page of a person, and on a page that stays when the person
has left.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from core.domain.record.entry_receivers import OFFBOARDING_ACTIONS, EntryReceiverKind, ReceiverState
from core.domain.record.events import TargetType
from core.domain.tenancy.members import Member
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Cell, Column, Tone, linked, plain, rows_of, sentence, state, when
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.visit import Head, Page, PageVisit
from entrypoints.http.console.organization.events import event_in_words
from entrypoints.http.console.organization.organization_tabs import AUDIT_LOG, AUDIT_LOG_TAB, LOGS_ENTRY, position
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.routes.record.audit import get_audit_entry
from entrypoints.http.routes.record.entry_receivers import (
    EntryReceiverRecord,
    EntryReceiversRecord,
    OffboardingPath,
    list_entry_receivers,
    list_offboarding,
)
from entrypoints.http.routes.record.evidence import create_offboarding_evidence
from ports.texts import Text

OFFBOARDING: Final = f"{AUDIT_LOG}/~offboarding/{{user_id}}"
EVIDENCE: Final = f"{OFFBOARDING}/evidence"
_TONES: Final[Mapping[ReceiverState, Tone]] = {
    ReceiverState.RECEIVED: Tone.GOOD,
    ReceiverState.WAITING: Tone.WARN,
    ReceiverState.GIVEN_UP: Tone.BAD,
    ReceiverState.NOT_SENT: Tone.PLAIN,
    ReceiverState.ADDED_LATER: Tone.PLAIN,
    ReceiverState.NOT_KEPT: Tone.PLAIN,
    ReceiverState.NOT_RECORDED: Tone.PLAIN,
}
# Steps of provisioning, signals and logout tokens have words here; events have those of the catalogue.
_SENT: Final = frozenset(
    (
        *("made", "matched", "changed", "overwritten", "ended", "logout_token", "session_revoked", "credential_change"),
        *("account_disabled", "account_enabled", "account_purged"),
    )
)


def _kind(one: EntryReceiverRecord, text: Text) -> str:
    return text(f"console.entry_receivers.kind.{EntryReceiverKind(one.kind).value}")


def _sent(one: EntryReceiverRecord, text: Text) -> str:
    if one.sent is None:
        return ""
    step = one.sent.replace("-", "_")
    return text(f"console.entry_receivers.sent.{step}") if step in _SENT else event_in_words(one.sent, text)


def _state(receipt: ReceiverState) -> tuple[str, Tone]:
    return f"console.entry_receivers.state.{receipt.value}", _TONES[receipt]


def _answer(one: EntryReceiverRecord, text: Text) -> str:
    """The last answer in words, and what else there is to say of it."""
    return " ".join(text(f"console.entry_receivers.{name}", **values) for name, values in _remarks(one))


def _remarks(one: EntryReceiverRecord) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if one.not_kept_since is not None:
        yield "not_kept_since", {"at": one.not_kept_since}
    if one.state is ReceiverState.NOT_RECORDED:
        yield "browser_asked", {}
    if one.exported_to is not None:
        yield ("exported" if one.entry_number else "exported_unnumbered"), {"to": one.exported_to, "number": one.entry_number}
    if one.count > 1:
        yield "sessions", {"count": one.count}
    if one.is_by_time and one.count:
        yield "by_time", {}
    yield from _attempted(one)
    if not one.is_on and one.state in {ReceiverState.WAITING, ReceiverState.GIVEN_UP, ReceiverState.NOT_SENT}:
        yield "is_off", {}


def _attempted(one: EntryReceiverRecord) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if one.response_status_code is not None:
        yield "status", {"status": one.response_status_code}
    elif one.error is not None:
        yield "error", {"error": one.error}
    if one.attempts and one.attempts > 1:
        yield "attempts", {"count": one.attempts}
    if one.next_attempt_at is not None:
        yield "next", {"at": one.next_attempt_at}


COLUMNS: Final[Sequence[Column]] = (
    replace(plain("name", "console.entry_receivers.receiver"), beside_said=_kind),
    sentence(_sent, "console.entry_receivers.what"),
    replace(state("state", lambda value: _state(ReceiverState(value))), beside_said=_answer),
    when("queued_at", "console.entry_receivers.queued_at"),
    when("received_at", "console.entry_receivers.received_at"),
)


def _summary(one: EntryReceiversRecord, text: Text) -> str:
    """How many receivers are in each state."""
    counts = Counter(ReceiverState(receiver.state) for receiver in one.receivers)
    shown = [(text(_state(receipt)[0]), counts[receipt]) for receipt in ReceiverState if counts[receipt]]
    return text.listed(text("console.entry_receivers.counted", state=name, count=count) for name, count in shown)


_ACTS: Final = (
    linked(
        sentence(lambda one, text: event_in_words(one.action, text), "console.field.happened"),
        lambda one, path: address(f"{AUDIT_LOG}/{{entry_id}}", {**path, "entry_id": str(one.entry_id)}),
        get_audit_entry,
    ),
    sentence(_summary, "console.entry_receivers.title"),
    when("created_at", "console.field.happened_at"),
)


class _Shown:
    """The receivers of an entry, as the template shows them."""

    def __init__(self, visit: PageVisit, heard: EntryReceiversRecord) -> None:
        self.action = event_in_words(heard.action, visit.text)
        self.at = visit.here(f"{AUDIT_LOG}/{{entry_id}}", entry_id=heard.entry_id)
        self.created_at = heard.created_at
        self.columns = COLUMNS
        self.rows: Sequence[Sequence[Cell]] = rows_of(COLUMNS, heard.receivers, visit.text, visit.path)
        self.is_complete = heard.is_complete


async def of_entry(visit: PageVisit, entry: Any) -> Mapping[str, Any]:
    """For the page of the entry."""
    is_about_person = entry.target_type == TargetType.USER and entry.action in OFFBOARDING_ACTIONS
    return {
        "heard": _Shown(visit, await visit.ask(list_entry_receivers, entry_id=entry.id)),
        "offboarding": visit.here(OFFBOARDING, user_id=entry.target_id) if is_about_person else "",
    }


async def of_person(visit: PageVisit, user: UUID) -> Any:
    """For the page of the person: columns, rows, and the page that has all of it. None if there is nothing, or nothing to see."""
    if not visit.may(list_offboarding):
        return None
    found = await visit.ask(list_offboarding, user_id=user)
    rows = rows_of(visit.reachable(_ACTS), found.entries, visit.text, visit.path)
    return (_ACTS, rows, visit.here(OFFBOARDING, user_id=user)) if rows else None


@console.get(OFFBOARDING, of=list_offboarding)
async def show_offboarding(call: Call[None, None, OffboardingPath, Member], postern: Postern) -> Page:
    """See which receivers accepted the end of a person's access"""
    visit = PageVisit(call, postern)
    found = await visit.ask(list_offboarding)
    head = Head(
        title=visit.text("console.entry_receivers.offboarding"),
        crumbs=((visit.text("console.audit_log.title"), visit.here(AUDIT_LOG)),),
        curl=visit.curl(list_offboarding),
    )
    return Answer(
        visit.show(
            "organization/settings/offboarding.html",
            position(LOGS_ENTRY, AUDIT_LOG_TAB),
            head,
            person_id=str(found.user_id),
            entries=[_Shown(visit, one) for one in found.entries],
            evidence=visit.here(EVIDENCE, user_id=found.user_id) if visit.may(create_offboarding_evidence) else "",
            shown_at=postern.foundation.clock.now(),
        ),
        200,
    )


PAGES: Final = (show_offboarding,)

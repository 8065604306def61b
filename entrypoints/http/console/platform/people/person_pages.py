"""A person's page, their sessions and values, and what a platform owner does for them, or against somebody else in their account."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from core.domain.errors import BadRequest, NotFound, Refusal
from core.domain.identifiers import SessionId
from core.domain.identity.account_mails import MailedTokenPurpose
from core.domain.identity.proofs import StepUp
from core.domain.identity.upstream.providers import NAMES
from core.domain.platform.platform_users import AccountOverview
from core.domain.requests import Page as Part
from core.domain.tenancy.profile_fields import FieldWriter
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.actors import program_in_words
from entrypoints.http.console.kit.cells import (
    Cell,
    Column,
    Tone,
    code,
    copied,
    linked,
    number,
    plain,
    role,
    rows_of,
    state,
    when,
    words,
    yes_or_no,
)
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import Asked, InputKind, shape
from entrypoints.http.console.kit.resources import ON_A_PAGE_OF_LOG
from entrypoints.http.console.kit.visit import AnyCall, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.console.platform.people import (
    ONE,
    PERSON_TAB,
    SESSIONS_TAB,
    VALUES_TAB,
    above,
    authority,
    load,
    overview,
    position_of,
    user_of,
)
from entrypoints.http.console.platform.platform_tabs import HOME
from entrypoints.http.console.platform.questions import Question, QuestionSubject, question_pages
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.pages.account import NO_ERRORS, Listing
from entrypoints.http.pages.account.details import MANY_VALUES, ValuesForm, controls, mistakes, named, read, shown
from entrypoints.http.pages.kit.declaring import in_words
from entrypoints.http.routes.platform.platform_fields import change_platform_person_values, get_platform_person_values
from entrypoints.http.routes.platform.platform_users import (
    NewPlatformOwner,
    activate_user,
    deactivate_user,
    demote_platform_owner,
    disable_mfa_of_user,
    get_mfa_status_of_user,
    lock_user,
    promote_platform_owner,
    search_users,
)

_PROVIDERS: Final = {provider.value: name for provider, name in NAMES.items()}
_FACTS: Final = (
    plain("account.email", "console.field.email"),
    copied("account.id"),
    when("account.email_verified_at", "console.field.address_confirmed_at"),
    plain("pending_email"),
    state(
        lambda seen: seen.has_password, {True: ("console.yes", Tone.PLAIN), False: ("console.no", Tone.PLAIN)}, "console.field.has_password"
    ),
    when("password_changed_at"),
    when("mfa_enabled_at", "console.field.second_factor_since"),
    number(lambda seen: seen.backup_codes if seen.mfa_enabled_at else None, "console.field.backup_codes"),
    number("sessions"),
    number("devices"),
    number("trusted_devices"),
    when("account.created_at"),
)
_ORGANIZATIONS: Final[tuple[Column, ...]] = (
    linked(
        plain("organization", "console.field.organization"),
        lambda role, _path: f"{HOME}/organizations?search={role.organization}",
    ),
    role("role"),
    yes_or_no("is_active"),
)
_PASSKEYS: Final = (plain("name"), when("created_at"), when("last_used_at"))
_IDENTITIES: Final = (
    plain(lambda one: _PROVIDERS.get(one.provider, one.provider), "console.field.provider"),
    plain("email"),
    when("linked_at", "console.field.created_at"),
)
_LINKS: Final = (words("purpose", MailedTokenPurpose), when("expires_at"))
_CREDENTIALS: Final = (plain("kind"), code("prefix"), plain("place"), when("created_at"))
_ATTEMPTS: Final = (
    when("at", "console.field.at"),
    state("success", {True: ("console.state.succeeded", Tone.GOOD), False: ("console.state.failed", Tone.BAD)}),
    code("address", "console.field.ip_address"),
)
# The name of each act, the shows-when, and the kind of its button.
_ACTS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("act_as", lambda seen: seen.account.deactivated_at is None and not seen.account.is_platform_owner, "quiet"),
    ("reset_access", lambda _seen: True, "quiet"),
    ("lock", lambda seen: seen.account.deactivated_at is None, "danger"),
    ("remove_factor", lambda seen: seen.mfa_enabled_at is not None, "quiet"),
    ("promote", lambda seen: not seen.account.is_platform_owner and seen.account.deactivated_at is None, "quiet"),
    ("demote", lambda seen: seen.account.is_platform_owner, "danger"),
    ("deactivate", lambda seen: seen.account.deactivated_at is None or seen.account.is_locked, "danger"),
    ("reactivate", lambda seen: seen.account.deactivated_at is not None, "quiet"),
)


async def _show_person(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    seen = await overview(visit)
    own = visit.person.user == seen.account.id
    programs = {one.user_agent: await program_in_words(visit, one.user_agent) for one in seen.latest_attempts}
    tables = (
        ("organizations", _ORGANIZATIONS, seen.organizations),
        ("passkeys", _PASSKEYS, seen.passkeys),
        ("identities", _IDENTITIES, seen.identities),
        ("links", _LINKS, seen.links),
        ("credentials", _CREDENTIALS, seen.credentials),
        ("attempts", (*_ATTEMPTS, plain(lambda one: programs[one.user_agent], "console.field.user_agent")), seen.latest_attempts),
    )
    page = visit.show(
        "platform/people/person.html",
        position_of(PERSON_TAB),
        Head(
            title=seen.account.email.address,
            state=_state(visit, seen),
            crumbs=above(visit),
            curl=visit.curl(search_users, query={"user_id": str(seen.account.id)}),
            done=call.query.done,
        ),
        facts=_facts(visit, seen),
        # Whoever governs does not end their own access.
        acts=[(visit.text(f"console.people.{name}"), _at(visit, name), kind) for name, shows, kind in _ACTS if shows(seen) and not own],
        tables=[
            (visit.text(f"console.people.{name}"), columns, rows_of(columns, rows, visit.text, visit.path))
            for name, columns, rows in tables
        ],
    )
    return Answer(page, 200)


def _facts(visit: PageVisit, seen: AccountOverview) -> list[tuple[str, Cell]]:
    return [(visit.text(one.label), one.cell(seen, visit.text, visit.path)) for one in _FACTS]


def _state(visit: PageVisit, seen: AccountOverview) -> tuple[str, Tone]:
    if seen.account.is_locked:
        return visit.text("console.state.locked"), Tone.BAD
    if seen.account.deactivated_at is not None:
        return visit.text("console.state.deactivated"), Tone.BAD
    if seen.account.is_platform_owner:
        return visit.text("console.state.platform_owner"), Tone.GOOD
    if not seen.account.address_is_proved:
        return visit.text("console.state.not_verified"), Tone.WARN
    return visit.text("console.state.active"), Tone.GOOD


def _path(name: str) -> str:
    return f"{ONE}/{name.replace('_', '-')}"


def _at(visit: PageVisit, name: str) -> str:
    return visit.here(_path(name))


async def _deactivate(visit: PageVisit, _subject: QuestionSubject, _body: Any) -> None:
    await visit.ask(deactivate_user)


async def _reactivate(visit: PageVisit, _subject: QuestionSubject, _body: Any) -> None:
    await visit.ask(activate_user)


async def _lock(visit: PageVisit, _subject: QuestionSubject, _body: Any) -> None:
    await visit.ask(lock_user)


async def _reset_access(visit: PageVisit, _subject: QuestionSubject, _body: Any) -> None:
    await visit.postern.platform.account_administration.reset_password(user_of(visit), authority(visit), by_mail=True)


async def _remove_factor(visit: PageVisit, _subject: QuestionSubject, body: Any) -> None:
    await visit.ask(disable_mfa_of_user, body=body)


async def _promote(visit: PageVisit, _subject: QuestionSubject, _body: Any) -> None:
    await visit.ask(promote_platform_owner, body=NewPlatformOwner(user_of(visit)))


async def _demote(visit: PageVisit, _subject: QuestionSubject, _body: Any) -> None:
    await visit.ask(demote_platform_owner)


def _question(name: str, do: Any, **more: Any) -> Question:
    return Question(name=name, texts="console.people", at=_path(name), position=position_of(PERSON_TAB), load=load, do=do, **more)


_QUESTIONS: Final = (
    _question("deactivate", _deactivate, kind="final", of=deactivate_user),
    _question("reactivate", _reactivate, of=activate_user),
    _question("lock", _lock, kind="final", of=lock_user),
    _question("reset_access", _reset_access, kind="final", of=PLATFORM_OWNER, step_up=StepUp.ACCOUNT),
    _question(
        "remove_factor",
        _remove_factor,
        kind="final",
        of=disable_mfa_of_user,
        shape=shape(disable_mfa_of_user, Asked("reason", kind=InputKind.LONG)),
    ),
    _question("promote", _promote, of=promote_platform_owner),
    _question("demote", _demote, kind="final", of=demote_platform_owner),
)


_ALL_ENDED: Final = button("console.people.end_sessions")

_ENDED: Final = button("console.people.end_session")

_AT: Final = f"{ONE}/sessions"
_END: Final = f"{_AT}/{{session_id}}/end"
_COLUMNS: Final = (
    plain(lambda one: one.device_name, "console.field.device"),
    plain(lambda one: "/".join(filter(None, (one.organization, one.service))), "console.field.place"),
    when("created_at"),
    when("last_seen_at"),
    when("ends_at"),
)


async def _show_sessions(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    subject = await load(visit)
    part = Part(call.query.page, ON_A_PAGE_OF_LOG)
    found = await postern.platform.account_administration.sessions(user_of(visit), part)
    rows = rows_of(_COLUMNS, found.sessions, visit.text, visit.path)
    number = call.query.page
    page = visit.show(
        "platform/people/sessions.html",
        position_of(SESSIONS_TAB),
        Head(title=subject.called, crumbs=above(visit), done=call.query.done),
        columns=_COLUMNS,
        rows=[(cells, visit.here(_END, session_id=one.id), one.impersonated) for cells, one in zip(rows, found.sessions, strict=True)],
        end_all=visit.here(f"{_AT}/end"),
        at=visit.here(_AT),
        older={"page": str(number + 1)} if part.offset + len(rows) < found.total else None,
        newer={"page": str(number - 1)} if number > 1 else None,
    )
    return Answer(page, 200)


async def _end_session(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    try:
        session = SessionId(UUID(visit.path["session_id"]))
    except ValueError:
        raise NotFound from None
    await postern.platform.account_administration.end_session(user_of(visit), session, authority(visit))
    return redirect(f"{visit.here(_AT)}?done={_ENDED}")


async def _end_all(visit: PageVisit, _subject: QuestionSubject, _body: Any) -> str:
    await visit.postern.platform.account_administration.revoke_sessions(user_of(visit), authority(visit))
    return f"{visit.here(_AT)}?done={_ALL_ENDED}"


_ALL: Final = Question(
    name="end_sessions",
    texts="console.people",
    at=f"{_AT}/end",
    of=PLATFORM_OWNER,
    position=position_of(SESSIONS_TAB),
    load=load,
    do=_end_all,
    kind="final",
    step_up=StepUp.ACCOUNT,
)


_VALUE_PAGE_AT: Final = f"{ONE}/fields"


async def _show_values(call: AnyCall, postern: Postern) -> Page:
    return Answer(await _page(PageVisit(call, postern), {}, done=call.query.done), 200)


async def _save_values(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    typed = call.body.typed
    kept = await postern.tenancy.profile_values.of_installation(user_of(visit))
    asked = [("", field) for field in kept.written_by(FieldWriter.ADMINISTRATOR) if named("", field) in typed]
    wrong = dict(mistakes(asked, typed))
    if not wrong:
        given = {field.key: read(field, typed[named("", field)]) for _, field in asked}
        try:
            await postern.tenancy.profile_values.write_in_installation(user_of(visit), given, call.actor)
        except BadRequest as refusal:
            wrong[""] = refusal
    if wrong:
        return Answer(await _page(visit, typed, wrong), 400)
    return redirect(f"{visit.here(_VALUE_PAGE_AT)}?done=saved")


async def _page(visit: PageVisit, typed: Mapping[str, str], wrong: Mapping[str, Refusal] = NO_ERRORS, *, done: str = "") -> bytes:
    subject = await load(visit)
    kept = await visit.postern.tenancy.profile_values.of_installation(user_of(visit))
    own = [("", field) for field in kept.written_by(FieldWriter.ADMINISTRATOR)]
    texts = {named("", field): shown(kept.values.get(field.id)) for _, field in own}
    made = controls(1, own, {**texts, **{name: text for name, text in typed.items() if name in texts}}, wrong, visit.text)
    errors = {control.id: control.error for control in made if control.error}
    if "" in wrong:
        errors[""] = in_words(wrong[""], visit.text)
    return visit.show(
        "platform/people/values.html",
        position_of(VALUES_TAB),
        Head(title=subject.called, crumbs=above(visit), curl=visit.curl(get_platform_person_values), done=done, errors=errors),
        controls=made,
        others=[
            (field.label, shown(kept.values.get(field.id)).replace("\n", ", "))
            for field in kept.fields
            if not field.is_written_by(FieldWriter.ADMINISTRATOR)
        ],
        action=visit.here(_VALUE_PAGE_AT),
    )


PAGES: Final = (
    console.get(ONE, of=PLATFORM_OWNER, also=(get_mfa_status_of_user,))(
        stated(_show_person, "show_person_of_platform", ONE, query=DoneLink)
    ),
    *(one for question in _QUESTIONS for one in question_pages(question)),
    console.get(_AT, of=PLATFORM_OWNER)(stated(_show_sessions, "show_sessions_of_person", _AT, query=Listing)),
    console.post(_END, of=PLATFORM_OWNER)(stated(_end_session, "end_session_of_person", _END, body=BoundForm)),
    *question_pages(_ALL),
    console.get(_VALUE_PAGE_AT, of=get_platform_person_values)(
        stated(_show_values, "show_values_of_person", _VALUE_PAGE_AT, query=DoneLink)
    ),
    console.post(_VALUE_PAGE_AT, of=change_platform_person_values, accepts=MANY_VALUES)(
        stated(_save_values, "save_values_of_person", _VALUE_PAGE_AT, body=ValuesForm)
    ),
)

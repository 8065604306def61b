"""Lists of people: all of them, the platform owners, and second factors with suspicious sign-ins."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from core.domain.identity.login_events import AlertType
from core.domain.platform.platform_users import LONGEST_SOUGHT, MOST_FOUND
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.pages.console.cells import Tone, linked, plain, rows_of, state, when, words, yes_or_no
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.navigation import address
from entrypoints.http.pages.console.platform.people import ONE
from entrypoints.http.pages.console.platform.platform_tabs import (
    OWNERS,
    OWNERS_TAB,
    PEOPLE,
    PEOPLE_ENTRY,
    PEOPLE_TAB,
    SECOND_FACTORS,
    SECOND_FACTORS_TAB,
    position,
)
from entrypoints.http.pages.console.resources import Filter
from entrypoints.http.pages.console.visit import AnyCall, DoneLink, Head, Page, PageVisit
from entrypoints.http.routes.platform.platform_users import get_mfa_metrics, list_suspicious_activity, search_users

_SHOWN: Final = min(50, MOST_FOUND)


class SoughtPeople(DoneLink, frozen=True):
    search: str = ""


def _to_person(name: str) -> Any:
    return lambda row, _path: address(ONE, {"user_id": getattr(row, name)})


_STATE: Final = state(
    lambda row: row.is_platform_owner,
    {True: ("console.state.platform_owner", Tone.GOOD), False: ("console.state.person", Tone.PLAIN)},
)
_PEOPLE: Final = (
    linked(plain("email", beside="name"), _to_person("id")),
    _STATE,
    yes_or_no("mfa_enabled", "console.field.second_factor", good=True),
    plain(lambda row: ", ".join(one.slug for one in row.organizations), "console.field.organizations"),
    when("created_at"),
)
_ALERTS: Final = (
    linked(plain("email", beside="name"), _to_person("user_id")),
    words("alert_type", AlertType, "console.field.alert"),
    when("detected_at", "console.field.at"),
)
_GUESSES: Final = (
    words("alert_type", AlertType, "console.field.alert"),
    plain("network", "console.field.guess_network"),
    plain("accounts", "console.field.guessed_accounts"),
    plain("failures", "console.field.guess_failures"),
    when("detected_at", "console.field.at"),
)


async def _show_people(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    search = call.query.search.strip()[:LONGEST_SOUGHT]
    query = {"limit": _SHOWN, **_sought(search)}
    found = await visit.ask(search_users, query=query)
    page = visit.show(
        "list.html",
        position(PEOPLE_ENTRY, PEOPLE_TAB),
        Head(title=visit.text("console.people.title"), curl=visit.curl(search_users, query=query), done=call.query.done),
        columns=_PEOPLE,
        rows=rows_of(_PEOPLE, found.users, visit.text, visit.path),
        filters=[(Filter("search", "console.people.search"), search, None)],
        filtered=bool(search),
        at=PEOPLE,
        empty=(visit.text("console.people.empty_title"), visit.text("console.people.empty_text")),
        note="" if found.complete else visit.text("console.people.newest_read"),
        older=None,
        newer=None,
    )
    return Answer(page, 200)


def _sought(search: str) -> dict[str, str]:
    try:
        return {"user_id": str(UUID(search))}
    except ValueError:
        return {"search": search} if search else {}


async def _show_owners(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    owners = await postern.platform.platform_users.owners()
    rows: Sequence[Any] = [_Owner.of(one) for one in owners]
    page = visit.show(
        "list.html",
        position(PEOPLE_ENTRY, OWNERS_TAB),
        Head(title=visit.text("console.people.owners"), done=call.query.done),
        columns=_OWNERS,
        rows=rows_of(_OWNERS, rows, visit.text, visit.path),
        filters=(),
        filtered=False,
        at=OWNERS,
        empty=(visit.text("console.people.empty_title"), visit.text("console.people.empty_text")),
        older=None,
        newer=None,
    )
    return Answer(page, 200)


class _Owner(msgspec.Struct, frozen=True):
    id: UUID
    email: str
    name: str | None
    mfa_enabled: bool
    deactivated: bool
    created_at: Any

    @classmethod
    def of(cls, found: Any) -> "_Owner":
        account = found.account
        return cls(account.id, account.email.address, found.name, found.mfa_enabled, account.deactivated_at is not None, account.created_at)


_OWNERS: Final = (
    linked(plain("email", beside="name"), _to_person("id")),
    state("deactivated", {True: ("console.state.deactivated", Tone.BAD), False: ("console.state.active", Tone.GOOD)}),
    yes_or_no("mfa_enabled", "console.field.second_factor", good=True),
    when("created_at"),
)


async def _show_second_factors(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    figures = await visit.ask(get_mfa_metrics)
    suspicious = await visit.ask(list_suspicious_activity)
    page = visit.show(
        "platform/people/second_factors.html",
        position(PEOPLE_ENTRY, SECOND_FACTORS_TAB),
        Head(title=visit.text("console.people.second_factors"), curl=visit.curl(list_suspicious_activity)),
        figures=figures,
        columns=_ALERTS,
        rows=rows_of(_ALERTS, suspicious.alerts, visit.text, visit.path),
        guess_columns=_GUESSES,
        guesses=rows_of(_GUESSES, suspicious.guesses, visit.text, visit.path),
    )
    return Answer(page, 200)


PAGES: Final = (
    console.get(PEOPLE, of=search_users)(stated(_show_people, "show_people_of_platform", PEOPLE, query=SoughtPeople)),
    console.get(OWNERS, of=search_users)(stated(_show_owners, "show_platform_owners", OWNERS, query=DoneLink)),
    console.get(SECOND_FACTORS, of=get_mfa_metrics, also=(list_suspicious_activity,))(
        stated(_show_second_factors, "show_second_factors_of_platform", SECOND_FACTORS)
    ),
)

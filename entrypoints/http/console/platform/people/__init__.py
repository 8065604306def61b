"""People of the installation, for platform owners.

Lists of people: all of them, the platform owners, and second factors with suspicious sign-ins.

Acting as somebody: a platform owner's browser gets a session in that person's name beside its own, for an hour at most.

The session has a cookie of its own, and counts only beside the cookie of the platform owner's own session, which stays as it is. Pages that
act for people (their sign-in, flows of applications) never look at it.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import NotFound
from core.domain.identifiers import UserId
from core.domain.identity.callers import Caller
from core.domain.identity.login_events import AlertType
from core.domain.platform.governance import Authority
from core.domain.platform.platform_users import LONGEST_SOUGHT, MOST_FOUND, AccountOverview
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Tone, linked, plain, rows_of, state, when, words, yes_or_no
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import Asked, InputKind, shape
from entrypoints.http.console.kit.navigation import PagePosition, Tab, address
from entrypoints.http.console.kit.resources import Filter
from entrypoints.http.console.kit.visit import AnyCall, DoneLink, Head, Page, PageVisit
from entrypoints.http.console.platform.platform_tabs import (
    HOME,
    OWNERS,
    OWNERS_TAB,
    PEOPLE,
    PEOPLE_ENTRY,
    PEOPLE_TAB,
    PLATFORM,
    SECOND_FACTORS,
    SECOND_FACTORS_TAB,
    position,
)
from entrypoints.http.console.platform.questions import Question, QuestionSubject, question_pages
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import forget_acting, keep_acting
from entrypoints.http.machinery.browsers import HOME as START
from entrypoints.http.machinery.browsers import STOPS_ACTING, BoundForm
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.page_addresses import GOVERNED_PERSON
from entrypoints.http.pages.kit.declaring import page
from entrypoints.http.routes.identity.impersonation import impersonate_user
from entrypoints.http.routes.platform.platform_users import get_mfa_metrics, list_suspicious_activity, search_users

ONE: Final = GOVERNED_PERSON
PERSON_TAB: Final = Tab("console.tab.person", ONE, PLATFORM_OWNER)
SESSIONS_TAB: Final = Tab("console.tab.sessions", f"{ONE}/sessions", PLATFORM_OWNER)
VALUES_TAB: Final = Tab("console.tab.values", f"{ONE}/fields", PLATFORM_OWNER)
_TABS: Final = (PERSON_TAB, SESSIONS_TAB, VALUES_TAB)


def position_of(tab: Tab) -> PagePosition:
    return PagePosition(PLATFORM, PEOPLE_ENTRY, tab, _TABS)


def user_of(visit: PageVisit) -> UserId:
    """Raises `NotFound` for what is no id."""
    try:
        return UserId(UUID(visit.path["user_id"]))
    except ValueError:
        raise NotFound from None


def authority(visit: PageVisit) -> Authority:
    return Authority(visit.call.actor)


async def overview(visit: PageVisit) -> AccountOverview:
    """The person's account. That somebody looked is recorded. Raises `NotFound`."""
    return await visit.postern.platform.account_administration.show(user_of(visit), authority(visit))


async def load(visit: PageVisit) -> QuestionSubject:
    """The person, for questions about them."""
    (found,) = await visit.postern.platform.platform_users.search("", user_of(visit), 1) or (None,)
    if found is None:
        raise NotFound
    called, at = found.account.email.address, visit.here(ONE)
    return QuestionSubject(called, at, (*above(visit), (called, at)), found.account)


def above(visit: PageVisit) -> tuple[tuple[str, str], ...]:
    return ((visit.text("console.people.title"), visit.here(PEOPLE)),)


_SHOWN: Final = min(50, MOST_FOUND)


class SoughtPeople(DoneLink, frozen=True):
    search: Line = ""


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
        filtered={"search": search} if search else {},
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


STOP: Final = "/ui/stop-acting"


async def _act_as(visit: PageVisit, _subject: QuestionSubject, body: Any) -> Answer[NoBody]:
    begun = await visit.postern.identity.impersonations.begin_in_browser(visit.person, user_of(visit), body.reason, visit.call.actor)
    answer = redirect(START)
    lasts = begun.ends_at - visit.postern.foundation.clock.now()
    cookies = keep_acting(begun.token, lasts, visit.postern.foundation.public_url)
    return Answer(answer.value, answer.status, (*answer.headers, *cookies))


@page.post(STOP, caller=STOPS_ACTING, limit=UNLIMITED)
async def stop_acting(call: Call[BoundForm, None, None, Caller | None], postern: Postern) -> Answer[NoBody]:
    """Stop acting in somebody's name

    Your own session goes on.
    """
    caller = call.presented
    onward = HOME
    if caller is not None:
        await postern.identity.impersonations.end_in_browser(caller, call.actor)
        onward = address(ONE, {"user_id": caller.user})
    answer = redirect(onward)
    return Answer(answer.value, answer.status, (*answer.headers, *forget_acting(postern.foundation.public_url)))


_QUESTION: Final = Question(
    name="act_as",
    texts="console.people",
    at=f"{ONE}/act-as",
    of=impersonate_user,
    position=position_of(PERSON_TAB),
    load=load,
    do=_act_as,
    shape=shape(impersonate_user, Asked("reason", kind=InputKind.LONG)),
)

# `stop_acting` belongs to the browser, not to the console: it has no place there, and anybody may send it.


PAGES: Final = (
    console.get(PEOPLE, of=search_users)(stated(_show_people, "show_people_of_platform", PEOPLE, query=SoughtPeople)),
    console.get(OWNERS, of=search_users)(stated(_show_owners, "show_platform_owners", OWNERS, query=DoneLink)),
    console.get(SECOND_FACTORS, of=get_mfa_metrics, also=(list_suspicious_activity,))(
        stated(_show_second_factors, "show_second_factors_of_platform", SECOND_FACTORS)
    ),
    *question_pages(_QUESTION),
)

"""One search over everything of an organization that has a name, over its people, and over the pages of its console."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

import msgspec

from core.domain.errors import NotFound
from core.domain.federation.explained_errors import EXPLAINED
from core.domain.platform.searches import NamedKind, NamedOne, ThingKind
from core.domain.tenancy.members import LONGEST_SEARCH, Member
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.finding import (
    SHOWN,
    SUGGESTING,
    TYPED,
    AskedForm,
    AskedPage,
    ErrorPlace,
    FoundLine,
    LinesOfKind,
    error_lines,
    groups_of,
    show_asked,
    show_found,
    sought_by,
)
from entrypoints.http.console.kit.visit import Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.actions import ActionAskedFor, addresses_in, asked_in, filling
from entrypoints.http.console.organization.naming import NOBODY, named_by_search, named_in, strange_word_in
from entrypoints.http.console.organization.organization_tabs import (
    APIS,
    APIS_TAB,
    APPLICATIONS_TAB,
    DIRECTORIES,
    DIRECTORIES_TAB,
    EVENTS,
    KEYS,
    ORGANIZATION,
    OVERVIEW_ENTRY,
    OVERVIEW_TAB,
    PEOPLE,
    SCIM_TAB,
    SEARCH,
    SETTINGS,
    SETUP_LINKS,
    SIGN_INS_TAB,
    position,
)
from entrypoints.http.console.organization.people.members import called
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.routes.searches import LISTED_BY, search_things
from entrypoints.http.routes.services.end_users import get_end_user, list_end_users
from entrypoints.http.routes.tenancy.members import get_member, list_members
from entrypoints.http.routes.tenancy.organizations import get_organization

_PLACES: Final[Mapping[ThingKind, str]] = {
    ThingKind.APPLICATION: f"{applications.LIST}/{{slug}}",
    ThingKind.APPLICATION_ROLE: f"{applications.ROLES}/{{slug}}",
    ThingKind.PERMISSION: f"{applications.PERMISSIONS}/{{slug}}",
    ThingKind.CLAIM: f"{applications.CLAIMS}/{{id}}",
    ThingKind.PLAN: f"{applications.PLANS}/{{id}}",
    ThingKind.API_KEY: f"{applications.API_KEYS}/{{id}}",
    ThingKind.API: f"{APIS}/{{id}}",
    ThingKind.TEAM: f"{PEOPLE}/teams/{{slug}}",
    ThingKind.ROLE: f"{PEOPLE}/roles/{{id}}",
    ThingKind.FIELD: f"{PEOPLE}/fields/{{slug}}",
    ThingKind.INVITATION: f"{PEOPLE}/invitations/{{id}}",
    ThingKind.DIRECTORY: f"{DIRECTORIES}/{{id}}",
    ThingKind.DOMAIN: f"{DIRECTORIES}/domains/{{id}}",
    ThingKind.OWN_DOMAIN: f"{SETTINGS}/domain",
    ThingKind.SCIM_TOKEN: f"{DIRECTORIES}/scim/{{id}}",
    ThingKind.SETUP_LINK: f"{SETUP_LINKS}/{{id}}",
    ThingKind.WEBHOOK: f"{EVENTS}/{{id}}",
    ThingKind.SIEM: f"{EVENTS}/siem",
    ThingKind.MANAGEMENT_KEY: f"{KEYS}/{{id}}",
}
# Nobody has said which application the error came from.
_AT_SIGN_IN: Final = ErrorPlace(APPLICATIONS_TAB, ("console.tab.signing_in",))
_AT_TOKENS: Final = ErrorPlace(APPLICATIONS_TAB, ("console.tab.tokens",))
_AT_REFUSALS: Final = ErrorPlace(APPLICATIONS_TAB, ("console.tab.signing_in", "console.refusals.title"))
_AT_PROVIDER: Final = ErrorPlace(DIRECTORIES_TAB)
_AT_SCIM: Final = ErrorPlace(SCIM_TAB, ("console.scim_exchanges.title",))
ERROR_PLACES: Final[Mapping[str, ErrorPlace]] = {
    **{one.name: _AT_PROVIDER for one in EXPLAINED if one.name.startswith("AADSTS")},
    **{one.name: _AT_SCIM for one in EXPLAINED if one.name.startswith("SCIM")},
    "redirect_uri": _AT_SIGN_IN,
    "pkce": _AT_REFUSALS,
    "state": _AT_REFUSALS,
    "nonce": _AT_REFUSALS,
    "issuer": ErrorPlace(APPLICATIONS_TAB, ("console.tab.overview",)),
    "audience": _AT_TOKENS,
    "invalid_client": ErrorPlace(APPLICATIONS_TAB, ("console.tab.tokens", "console.client_secrets.title")),
    "unauthorized_client": _AT_SIGN_IN,
    "invalid_scope": ErrorPlace(APIS_TAB),
    "access_denied": ErrorPlace(SIGN_INS_TAB),
    "login_required": _AT_REFUSALS,
    "invalid_grant": _AT_REFUSALS,
}
"""The clock and the signing keys are the installation's."""
_LISTS: Final = (
    (list_members, "console.search.all_members", PEOPLE),
    (list_end_users, "console.search.all_end_users", f"{PEOPLE}/users"),
)


class SearchLink(msgspec.Struct, frozen=True):
    q: Annotated[str, msgspec.Meta(max_length=LONGEST_SEARCH)] = ""
    """The text that fills the field. Nothing is looked for until somebody presses."""


class _People(NamedTuple):
    members: Sequence[FoundLine]
    others: Sequence[FoundLine]
    """End users who are no members, as far as the members leave room."""


_MOST_NAME_WORDS: Final = 2
_MOST_SHOWN: Final = 3
"""Of what a search has found, each with what one does with it most."""
_ALSO: Final = (list_members, list_end_users, get_member, get_end_user, *LISTED_BY.values())
_POSITION: Final = position(OVERVIEW_ENTRY, OVERVIEW_TAB)


@console.get(SEARCH, of=get_organization, also=(search_things, list_members, list_end_users, *LISTED_BY.values()))
async def search_organization(call: Call[None, SearchLink, OrganizationPath, Member], postern: Postern) -> Page:
    """See what can be asked for in an organization"""
    return await show_found(PageVisit(call, postern), _POSITION, sought_by(call.query.q), (), pressed=False)


@console.post(SEARCH, of=get_organization, also=(search_things, *_ALSO), accepts=TYPED)
async def ask_organization(call: Call[AskedForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Ask for people, things, pages and actions of an organization"""
    visit, sought = PageVisit(call, postern), sought_by(call.body.q)
    asked = asked_in(call.body.q, visit) if sought else None
    # Of "end ada's sessions", Ada is looked for. An address says who is meant, whatever words stand around it.
    about = asked.object if asked is not None else next(iter(addresses_in(call.body.q)), "")
    wanted = sought_by(about) or sought
    groups: list[LinesOfKind] = []
    named = await named_in(visit, call.body.q) if sought else NOBODY
    if not about and len(sought.split()) > _MOST_NAME_WORDS:
        # Nobody is called like a sentence. Of one, the word that nothing here has may be a name.
        wanted = await strange_word_in(visit, sought) or sought
    if wanted and call.caller.organization_is_active:
        people = await _by_id(visit, wanted) or await _people(visit, wanted)
        things = (await visit.ask(search_things, query={"q": wanted})).things
        lines = [*people.members, *people.others][:SHOWN]
        if not named.lines and wanted != sought:
            named = await named_by_search(visit, call.body.q, _named(people, things))
        groups = [*([LinesOfKind("console.search.people", lines)] if lines else ()), *groups_of(things, _PLACES, visit.path)]
    # The whole lists have pages, and filters of their own: what was typed here stands in no address.
    lists = [(label, visit.here(where)) for listed, label, where in _LISTS if visit.may(listed)]
    actions = [*error_lines(visit, call.body.q, ERROR_PLACES), *filling(visit, asked, call.body.q), *named.wanted]
    page = None if groups else _asked_page(asked)
    return await show_found(visit, _POSITION, sought, groups, actions=actions, named=named.lines, asked=page, lists=lists)


@console.post(f"{SEARCH}/suggestions", of=get_organization, also=(list_members, list_end_users, *LISTED_BY.values()), **SUGGESTING)
async def suggest_in_organization(call: Call[AskedForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Suggest pages, actions, people and things to somebody who types"""
    visit = PageVisit(call, postern)
    asked, named = asked_in(call.body.q, visit), await named_in(visit, call.body.q)
    actions = [*filling(visit, asked, call.body.q), *named.wanted]
    return await show_asked(call, postern, ORGANIZATION, actions, ERROR_PLACES, named=named.lines, asked=_asked_page(asked))


def _named(people: _People, things: Sequence[Any]) -> Iterator[NamedOne]:
    """The first people and applications that a search has found."""
    for kind, some in ((NamedKind.MEMBER, people.members), (NamedKind.END_USER, people.others)):
        for one in some[:_MOST_SHOWN]:
            yield NamedOne(kind=kind, id=UUID(one.place.rpartition("/")[2]), name=one.name, beside=one.beside)
    for one in [one for one in things if one.kind is ThingKind.APPLICATION][:_MOST_SHOWN]:
        yield NamedOne(kind=NamedKind.APPLICATION, id=one.id, name=one.name, beside=one.slug)


def _asked_page(asked: ActionAskedFor | None) -> AskedPage | None:
    return None if asked is None else AskedPage(asked.action.at, asked.object)


async def _by_id(visit: PageVisit, sought: str) -> _People | None:
    """The person with this id. None if the text is no id of a person here."""
    try:
        user = UUID(sought)
    except ValueError:
        return None
    if visit.may(get_member):
        with suppress(NotFound):
            return _People([_member(visit, await visit.ask(get_member, user_id=user))], ())
    if visit.may(get_end_user):
        with suppress(NotFound):
            return _People((), [_end_user(visit, await visit.ask(get_end_user, user_id=user))])
    return None


async def _people(visit: PageVisit, sought: str) -> _People:
    """Members first. Many are end users, too."""
    members, others = dict[str, FoundLine](), list[FoundLine]()
    if visit.may(list_members):
        for one in (await visit.ask(list_members, query={"search": sought, "limit": SHOWN})).members:
            members[str(one.user.id)] = _member(visit, one)
    if visit.may(list_end_users) and len(members) < SHOWN:
        found = (await visit.ask(list_end_users, query={"search": sought, "limit": SHOWN})).users
        others = [_end_user(visit, one) for one in found if str(one.id) not in members]
    return _People([*members.values()], others)


def _member(visit: PageVisit, one: Any) -> FoundLine:
    return FoundLine(called(one), str(one.user.email), visit.here(f"{PEOPLE}/{{user_id}}", user_id=one.user.id))


def _end_user(visit: PageVisit, one: Any) -> FoundLine:
    return FoundLine(one.name or str(one.email), str(one.email), visit.here(f"{PEOPLE}/users/{{user_id}}", user_id=one.id))


PAGES: Final = (search_organization, ask_organization, suggest_in_organization)

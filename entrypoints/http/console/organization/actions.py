"""What somebody can ask for in words that is done on a page of its own: "invite bob@example.org", "rotate board's secret".

The table names pages. Who may open a page, its fresh proof, its confirmation and its refusals are the page's own, so an action that is
asked for does what the button on the page does, and nothing more.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

from core.domain.languages import Language
from core.domain.platform.searches import LONGEST_TEXT
from core.frozen import Frozen
from entrypoints.http.console.kit.declaring import console, opens
from entrypoints.http.console.kit.finding import ActionLine
from entrypoints.http.console.kit.finding.subjects import ADDRESS, APOSTROPHES, plain_words, stem_of, words_of_list
from entrypoints.http.console.kit.navigation import UnnamedAction
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.organization_tabs import DIRECTORIES, MEMBERS_TAB, PEOPLE, PEOPLE_ENTRY, position
from entrypoints.http.pages.kit import shipped_pages

MOST_ACTS: Final = 5
"""What stands beneath one person or application."""
MOST_INVITED: Final = 50
_LONGEST_NAME: Final = 100
_MOST_WORDS: Final = 400
_DOMAIN: Final = re.compile(r"[\w-]{1,63}(?:\.[\w-]{1,63})+")
_EDGES: Final = " \t\r\n?!.,;:\"'“”„«»"
_POSSESSIVE: Final = re.compile(r"'s$")
_ELIDED: Final = re.compile(r"^(?:[cdjlmnst]|qu)'", re.IGNORECASE)


class About(StrEnum):
    """What an action is about, as the text says it."""

    PERSON = "person"
    APPLICATION = "application"
    ADDRESSES = "addresses"
    """Addresses of mailboxes. They fill the form."""
    NAME = "name"
    """A name that nobody has looked for, since the thing is yet to be made. It fills the form."""
    DOMAIN = "domain"
    """The name of a domain, likewise. Other words are none."""


class AskedAction(Frozen):
    name: str
    """Of its texts: `console.actions.<name>`, with `{called}`, and `<name>_words`, by which it is asked for."""
    about: About
    at: str
    """The template of its page. A person's page has `{user_id}`, an application's `{service_slug}`."""
    of_end_user: str = ""
    """The page for somebody who is no member."""
    field: str = ""
    """The field of the form that is filled."""
    weakens: bool = False
    """Whether it weakens, ends or deletes something. Its phrases are then asked for by exactly these words: "is blocked" is no "block"."""


_ONE: Final = applications.ONE
ACTIONS: Final = (
    AskedAction("invite", About.ADDRESSES, f"{PEOPLE}/invitations/~new", field="emails"),
    AskedAction("new_team", About.NAME, f"{PEOPLE}/teams/~new", field="name"),
    AskedAction("new_domain", About.DOMAIN, f"{DIRECTORIES}/domains/~new", field="domain"),
    AskedAction("new_secret", About.APPLICATION, f"{applications.SECRETS}/~new"),
    AskedAction("end_sessions", About.PERSON, f"{PEOPLE}/{{user_id}}/end-sessions", f"{PEOPLE}/users/{{user_id}}/end", weakens=True),
    AskedAction("lock", About.PERSON, f"{PEOPLE}/{{user_id}}/lock", f"{PEOPLE}/users/{{user_id}}/lock", weakens=True),
    # People say "delete" of both, and this one first: of an address, the second is meant.
    AskedAction("delete_application", About.APPLICATION, f"{_ONE}/settings/end", weakens=True),
    AskedAction("remove", About.PERSON, f"{PEOPLE}/{{user_id}}/remove", weakens=True),
    AskedAction("role", About.PERSON, f"{PEOPLE}/{{user_id}}/role"),
    AskedAction("remove_factor", About.PERSON, f"{PEOPLE}/{{user_id}}/second-factor", weakens=True),
    AskedAction("why", About.PERSON, f"{PEOPLE}/{{user_id}}/why", f"{PEOPLE}/users/{{user_id}}/why"),
    AskedAction("why", About.PERSON, f"{PEOPLE}/{{user_id}}", f"{PEOPLE}/users/{{user_id}}"),
    AskedAction("opens", About.PERSON, f"{PEOPLE}/users/{{user_id}}/opens", f"{PEOPLE}/users/{{user_id}}/opens"),
    AskedAction("who_opens", About.APPLICATION, f"{_ONE}/who"),
    AskedAction("failed_requests", About.APPLICATION, applications.REFUSALS),
    AskedAction("redirects", About.APPLICATION, applications.SIGN_IN),
    AskedAction("access", About.APPLICATION, applications.ACCESS),
    AskedAction("rename", About.APPLICATION, applications.SETTINGS),
)
COMMONEST: Final = {
    About.PERSON: ("why", "role", "end_sessions", "opens", "remove_factor"),
    About.APPLICATION: ("redirects", "access", "new_secret", "who_opens", "failed_requests"),
}
"""By name, in the order in which they stand beneath whoever is named. What was asked for comes first."""
_FOUND_BY_NAME: Final = frozenset({About.PERSON, About.APPLICATION})
_OF_ADDRESSES: Final = frozenset({About.PERSON, About.ADDRESSES})
# "Why" has a page of its own that asks for the person, which its words find.
_HAS_A_PAGE: Final = "why"
for _one in ACTIONS:
    if _one.name != _HAS_A_PAGE and _one.about in _FOUND_BY_NAME:
        _position = position(PEOPLE_ENTRY, MEMBERS_TAB) if _one.about is About.PERSON else applications.LIST_POSITION
        console.unnamed_actions.append(UnnamedAction(f"console.actions.{_one.name}", _one.at, _position, _one.weakens))


class ActionAskedFor(NamedTuple):
    action: AskedAction
    object: str
    """What it is about, as it was typed."""


class _Typed(NamedTuple):
    raw: str
    words: frozenset[str]


def asked_in(text: str, visit: PageVisit) -> ActionAskedFor | None:
    """The action that the text asks for, and what the text says it is about. The longest of the phrases that the text has decides."""
    _, small, around = _known(visit.call.language)
    addresses = addresses_in(text)
    typed = [*_typed(text, visit.call.language)]
    # No application has an address of a mailbox, and no domain is asked for by one.
    suits = _OF_ADDRESSES if addresses else frozenset(About)
    found = next(((phrase, action) for phrase, action in _said_in(typed, visit.call.language) if action.about in suits), None)
    if found is None:
        return None
    phrase, action = found
    # Of "kick out ada@example.org today", the address says who it is, whatever else is said.
    object_ = addresses[0] if addresses else ""
    if not object_ and action.about in _FOUND_BY_NAME:
        object_ = _object(typed, phrase, small | around)
    # Some are called "App" or "Customer", and nobody has a name yet for what a form makes.
    object_ = object_ or _object(typed, phrase, small)
    return ActionAskedFor(action, object_[:_LONGEST_NAME]) if object_ or action.about is About.ADDRESSES else None


def all_asked_in(text: str, visit: PageVisit) -> Sequence[AskedAction]:
    """All actions that the text asks for, the likeliest first."""
    typed = [*_typed(text, visit.call.language)]
    return list(dict.fromkeys(action for _, action in _said_in(typed, visit.call.language)))


def _said_in(typed: Sequence["_Typed"], language: Language) -> Iterator[tuple[frozenset[str], AskedAction]]:
    """The phrases that the text has, the longest first. What weakens nothing is asked for by other forms of its words, too."""
    said = frozenset[str]().union(*(one.words for one in typed))
    stems = frozenset(map(stem_of, said))
    # "Offboarding" asks for what "offboard" does, and "users" are what "user" is. "Blocked" says how somebody is.
    said |= {one.removesuffix(ending) for one in said for ending in ("ing", "s") if one.endswith(ending)}
    for phrase, action in _known(language)[0]:
        if phrase <= said or (not action.weakens and phrase and stems.issuperset(map(stem_of, phrase))):
            yield phrase, action


def _object(typed: Sequence[_Typed], phrase: frozenset[str], around: frozenset[str]) -> str:
    """What is left without the phrase, and without words around it that are no name: "the" begins none, and "of" may stand in one."""
    stems = frozenset(map(stem_of, phrase))
    kept = [one for one in typed if not (one.words and (one.words <= phrase or stems.issuperset(map(stem_of, one.words))))]
    large = [at for at, one in enumerate(kept) if not (one.words and one.words <= around)]
    return " ".join(one.raw for one in kept[large[0] : large[-1] + 1]) if large else ""


@cache
def _known(language: Language) -> tuple[Sequence[tuple[frozenset[str], AskedAction]], frozenset[str], frozenset[str]]:
    """The phrases of the actions whose page is declared, the longest first, the small words of the language, and what people say around a
    name.
    """
    text = shipped_pages().text(language)
    phrases = [
        (frozenset(plain_words(phrase).split()), one)
        for one in ACTIONS
        if _declared(one.at)
        for phrase in text(f"console.actions.{one.name}_words").split(",")
    ]
    small, around = words_of_list(text("console.search.small_words")), words_of_list(text("console.search.words_around_a_name"))
    return sorted(phrases, key=lambda one: -len(one[0])), small, around


def _declared(at: str) -> bool:
    return bool(console.rules_of(at))


def _typed(text: str, language: Language) -> Iterator[_Typed]:
    for part in text[:LONGEST_TEXT].translate(APOSTROPHES).split()[:_MOST_WORDS]:
        raw = _POSSESSIVE.sub("", part.strip(_EDGES))
        if language is Language.FRENCH:
            raw = _ELIDED.sub("", raw)
        words = frozenset(plain_words(raw.replace("'", "")).split())
        if raw:
            yield _Typed(raw, words)


def addresses_in(text: str) -> Sequence[str]:
    found = (_POSSESSIVE.sub("", one.strip(_EDGES)) for one in ADDRESS.findall(text.translate(APOSTROPHES)))
    return list(dict.fromkeys(found))[:MOST_INVITED]


def filling(visit: PageVisit, asked: ActionAskedFor | None, text: str) -> Sequence[ActionLine]:
    """The action that fills a form with what was typed. It needs no look into the database."""
    if asked is None or not asked.action.field or not opens(visit, asked.action.at):
        return ()
    value = _value_of(asked, text)
    if not value:
        return ()
    called = value.replace("\n", ", ")
    return (ActionLine(_label(visit, asked.action, called), visit.here(asked.action.at), ((asked.action.field, value),)),)


def _value_of(asked: ActionAskedFor, text: str) -> str:
    match asked.action.about:
        case About.ADDRESSES:
            return "\n".join(addresses_in(text))
        case About.DOMAIN:
            return next((one for one in asked.object.split() if _DOMAIN.fullmatch(one)), "")
        case _:
            return asked.object


def acts_on(
    visit: PageVisit, about: About, asked: Sequence[AskedAction], called: str, *, is_member: bool = True, **path: object
) -> tuple[Sequence[ActionLine], Sequence[ActionLine]]:
    """What the text asks to be done with somebody or something, and the commonest of what else one does there, as far as the reader may."""
    order = [one for one in asked if one.about is about]
    wanted = _offered(visit, order, called, is_member=is_member, **path)[:1]
    common = [one for name in COMMONEST[about] for one in ACTIONS if one.name == name]
    rest = _offered(visit, [*order, *common], called, is_member=is_member, **path)
    return wanted, [one for one in rest if one not in wanted][: MOST_ACTS - len(wanted)]


def _offered(visit: PageVisit, actions: Sequence[AskedAction], called: str, *, is_member: bool, **path: object) -> Sequence[ActionLine]:
    """Of two pages of one action, the first that the reader may open."""
    lines: dict[str, ActionLine] = {}
    for one in actions:
        at = one.at if is_member or one.about is not About.PERSON else one.of_end_user
        if at and one.name not in lines and opens(visit, at):
            lines[one.name] = ActionLine(_label(visit, one, called), visit.here(at, **path))
    return [*lines.values()]


def _label(visit: PageVisit, action: AskedAction, called: str) -> str:
    return visit.text(f"console.actions.{action.name}", called=called)

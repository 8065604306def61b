"""Whoever or whatever a text names, whatever else it says: the people and things of the organization, each with what one does with it most,
and the pages of an application that the rest of the text asks for.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from core.domain.errors import Overloaded
from core.domain.platform.searches import LONGEST_TEXT, SHORTEST_NAME, NamedKind, NamedOne
from core.frozen import Frozen
from entrypoints.http.machinery.endpoints import parameters
from entrypoints.http.pages.console.finding import ActionLine, FoundLine, NamedLine, typed_question
from entrypoints.http.pages.console.finding.subjects import (
    SUBJECTS,
    KnownSubjects,
    SubjectKind,
    found_among,
    has_whole,
    plain_words,
    says_an_address,
    stem_of,
    words_of_list,
)
from entrypoints.http.pages.console.organization import applications
from entrypoints.http.pages.console.organization.actions import MOST_ACTS, About, AskedAction, acts_on, addresses_in, all_asked_in
from entrypoints.http.pages.console.organization.organization_tabs import APIS, DIRECTORIES, EVENTS, ORGANIZATION, PEOPLE
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.searches import named_in_organization

_PLACES: Final[Mapping[NamedKind, str]] = {
    NamedKind.MEMBER: f"{PEOPLE}/{{id}}",
    NamedKind.END_USER: f"{PEOPLE}/users/{{id}}",
    NamedKind.APPLICATION: f"{applications.LIST}/{{slug}}",
    NamedKind.API: f"{APIS}/{{id}}",
    NamedKind.TEAM: f"{PEOPLE}/teams/{{slug}}",
    NamedKind.ROLE: f"{PEOPLE}/roles/{{id}}",
    NamedKind.DIRECTORY: f"{DIRECTORIES}/{{id}}",
    NamedKind.WEBHOOK: f"{EVENTS}/{{id}}",
}
_PEOPLE_HEADING: Final = "console.search.people"
_PEOPLE: Final = frozenset({NamedKind.MEMBER, NamedKind.END_USER})
_OF_AN_APPLICATION: Final = frozenset({"org_slug", "service_slug"})
_MOST_PAGES: Final = 3
"""Of an application that the text names, and that the rest of the text asks for."""


class NamedInText(NamedTuple):
    wanted: Sequence[ActionLine]
    """What the text asks to be done with those that it names."""
    lines: Sequence[NamedLine]


NOBODY: Final = NamedInText((), ())


async def named_in(visit: PageVisit, text: str) -> NamedInText:
    words, addresses = _words_in(visit, text), _addresses_in(text)
    if not visit.call.caller.organization_is_active or not (addresses or any(len(one.encode()) >= SHORTEST_NAME for one in words)):
        return NOBODY
    try:
        found = await named_in_organization(visit.call.caller, visit.postern, words, addresses)
    except Overloaded:
        # Whoever types asks again with the next letter.
        return NOBODY
    typed = await _typed_in(visit, text)
    # The pages of one application: whoever means another chooses it first.
    first = next((one for one in found if one.kind is NamedKind.APPLICATION), None)
    lines = [_person(visit, one, typed) if one.kind in _PEOPLE else _thing(visit, one, typed, is_first=one is first) for one in found]
    # Of "Tom needs access to Board", Board is where somebody gives it.
    of_people = [done for done, line in lines if line.is_sure and line.heading == _PEOPLE_HEADING]
    of_things = [done for done, line in lines if line.is_sure and line.heading != _PEOPLE_HEADING]
    wanted = list(dict.fromkeys(chain(*of_things, *of_people)))
    sure = [line for _, line in lines if line.is_sure]
    return NamedInText(wanted or _beside_names(visit, sure, typed), [line for _, line in lines])


async def named_by_search(visit: PageVisit, text: str, found: Iterable[NamedOne]) -> NamedInText:
    """The same of whom and what the search has found by a part of the name or address, where no name is in the text."""
    typed = await _typed_in(visit, text)
    lines = [_person(visit, one, typed) if one.kind in _PEOPLE else _thing(visit, one, typed, is_first=False) for one in found]
    wanted = list(dict.fromkeys(chain(*(done for done, _ in lines))))
    return NamedInText(wanted, [NamedLine(line.heading, line.line, line.acts, is_sure=True) for _, line in lines])


async def strange_word_in(visit: PageVisit, text: str) -> str:
    """The first word that the console does not have, and that may be a name. Empty if there is none."""
    known = await SUBJECTS.of(ORGANIZATION, visit.call.language)
    words = (one for one in _words_in(visit, text) if len(one.encode()) >= SHORTEST_NAME)
    return next((one for one in words if known.lacks((one, stem_of(one)))), "")


async def _typed_in(visit: PageVisit, text: str) -> "_Typed":
    known = await SUBJECTS.of(ORGANIZATION, visit.call.language)
    return _Typed(_addresses_in(text), _words_in(visit, text), all_asked_in(text, visit), known)


def _addresses_in(text: str) -> Sequence[str]:
    return [one.casefold() for one in addresses_in(text)]


def _beside_names(visit: PageVisit, sure: Sequence[NamedLine], typed: "_Typed") -> Sequence[ActionLine]:
    """The page that answers all of what is said beside the names: of "transfer the organization to Ada", the one that does it."""
    names = frozenset(word for line in sure for word in plain_words(f"{line.line.name} {line.line.beside}").split())
    words = [word for word in typed.words if word not in names and word.removesuffix("s") not in names]
    if not sure or not words:
        return ()
    question = typed_question(visit, " ".join(words))
    found = found_among(typed.known, question, visit.call.caller)
    at = [one for one in found[:1] if one.at == one.template and has_whole(question, one)]
    return [ActionLine(one.title, visit.here(one.at), beside=one.beside) for one in at]


def _words_in(visit: PageVisit, text: str) -> Sequence[str]:
    """Without small words, as far as there are others: some are called "Can" or "Will"."""
    typed = " ".join(one for one in text[:LONGEST_TEXT].split() if not says_an_address(one))
    words = plain_words(typed).split()
    small = words_of_list(visit.text("console.search.small_words"))
    return [one for one in words if one not in small] or words


class _Typed(Frozen):
    addresses: Sequence[str]
    words: Sequence[str]
    asked: Sequence[AskedAction]
    known: KnownSubjects

    def meant(self, own: Sequence[str]) -> Sequence[str]:
        """The words that were typed of those of a name, and the last, if it begins one of them."""
        last = self.words[-1:]
        return [*(word for word in own if word in self.said), *(one for one in last if any(word.startswith(one) for word in own))]

    def has_strange(self, own: Sequence[str]) -> bool:
        """Whether a word of the name was typed that is none of the console, nor begins one."""
        begun = [one for one in self.words[-1:] if one not in own and any(word.startswith(one) for word in own)]
        return self.known.lacks(word for word in own if word in self.said) or any(f" {one}" not in self.known.said for one in begun)

    @property
    def said(self) -> frozenset[str]:
        """Of "toms", Tom is meant, too."""
        return frozenset(self.words) | {word[:-1] for word in self.words if word.endswith("s")}


def _person(visit: PageVisit, one: NamedOne, typed: _Typed) -> tuple[Sequence[ActionLine], NamedLine]:
    called, address = one.name or one.beside, one.beside.casefold()
    own = plain_words(f"{one.name or ''} {address.partition('@')[0]}").split()
    # "Mark" may be a verb. It is a person with the family name, or where something is asked to be done with one.
    is_said = len(set(typed.meant(own))) > 1 or any(one.about is About.PERSON for one in typed.asked)
    is_sure = address in typed.addresses or is_said or typed.has_strange(own)
    done, rest = acts_on(visit, About.PERSON, typed.asked, called, is_member=one.kind is NamedKind.MEMBER, user_id=one.id)
    line = FoundLine(called, one.beside, visit.here(_PLACES[one.kind], id=one.id))
    return done, NamedLine(_PEOPLE_HEADING, line, [*done, *rest], is_sure)


def _thing(visit: PageVisit, one: NamedOne, typed: _Typed, *, is_first: bool) -> tuple[Sequence[ActionLine], NamedLine]:
    called = one.name or one.beside
    own = plain_words(called).split()
    # Of "Google Calendar", "Google" alone may mean something else.
    is_sure = typed.said.issuperset(own) or "".join(own) in typed.said or one.beside in typed.said or typed.has_strange(own)
    heading = f"console.found.kind_{one.kind}"
    line = FoundLine(called, one.beside or visit.text(heading), visit.here(_PLACES[one.kind], id=one.id, slug=one.beside))
    if one.kind is not NamedKind.APPLICATION:
        return (), NamedLine(heading, line, (), is_sure)
    done, rest = acts_on(visit, About.APPLICATION, typed.asked, called, service_slug=one.beside)
    pages = _pages_of(visit, one, [word for word in typed.words if word not in own], typed.known) if is_first else ()
    acts = list({act.at: act for act in (*done, *pages, *rest)}.values())[:MOST_ACTS]
    return [*done, *pages[: 1 - len(done)]], NamedLine(heading, line, acts, is_sure)


def _pages_of(visit: PageVisit, one: NamedOne, words: Sequence[str], known: KnownSubjects) -> Sequence[ActionLine]:
    """The pages of the application that answer what else the text says."""
    if not words:
        return ()
    below = [
        subject
        for subject in known.each
        if subject.kind in {SubjectKind.BENEATH, SubjectKind.PART}
        and subject.template.startswith(f"{applications.ONE}/")
        and _OF_AN_APPLICATION.issuperset(parameters(subject.template))
    ]
    found = found_among(known.only(below), typed_question(visit, " ".join(words)), visit.call.caller)
    lines = [ActionLine(f"{subject.title} · {one.name}", visit.here(subject.template, service_slug=one.beside)) for subject in found]
    return list({line.at: line for line in lines}.values())[:_MOST_PAGES]

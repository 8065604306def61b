"""What a place of the console can be asked for by everyday words, without a look into the database: its pages, what one can do there, its
settings, the guides and the documentation.

Each declaration says its title, and its words beside the title, so a new page is found as soon as it is declared. The subjects of a place
and language are read once, by a thread: the catalogues and the guides are files.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

import trio

from core.domain.languages import Language
from core.frozen import Frozen
from entrypoints.http.description.documentation import chapters_in_words
from entrypoints.http.description.guides import guides_in_words
from entrypoints.http.machinery.browsers import admits
from entrypoints.http.machinery.callers import CallerRule
from entrypoints.http.machinery.endpoints import parameters
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.navigation import ConsolePlace, Tab
from entrypoints.http.pages.console.resources import Resource
from entrypoints.settings import DECLARATIONS
from ports.texts import Text

_OWN: Final = frozenset({"org_slug"})
_NO_LETTER: Final = re.compile(r"[^\w]+|_")
_INNER_HYPHEN: Final = re.compile(r"(?<=\w)-(?=\w)")
_ENDINGS: Final = re.compile(r"(?:ations?|ing|ers?|ed|es|en|s|e)$")
_SHORTEST_STEM: Final = 4
_MOST_WORDS: Final = 12
"""Of a question. Whoever pastes more has pasted something else."""


class SubjectKind(IntEnum):
    """In the order in which equals stand."""

    PAGE = 0
    ACTION = 1
    SETTING = 2
    BENEATH = 3
    GUIDE = 4
    DOCUMENTATION = 5


class KnownSubject(Frozen):
    kind: SubjectKind
    title: str
    """In the reader's language."""
    beside: str
    at: str
    """The template of the address."""
    rules: tuple[CallerRule, ...]
    called: frozenset[str]
    """The titles, squashed."""
    also_called: frozenset[str]
    """The phrases of the words, squashed."""
    own: str
    """The words of the title, each between spaces."""
    phrases: tuple[str, ...]
    """Those of each phrase, likewise."""
    words: str
    all: str
    """Also what stands around it: the words of its page."""

    def opens_for(self, caller: Any) -> bool:
        return all(admits(rule, caller) for rule in self.rules)


class TypedQuestion(Frozen):
    """What somebody typed, as the subjects are compared with it."""

    squashed: str
    words: tuple[tuple[str, str], ...]
    """The beginning of each word, after a space, and of its stem."""


def plain_words(text: str) -> str:
    """A text without what people leave out when they type: accents, capitals, punctuation, characters that nobody sees."""
    folded = unicodedata.normalize("NFKD", text.casefold().replace("ß", "ss"))
    kept = "".join(one for one in folded if not unicodedata.combining(one) and unicodedata.category(one) != "Cf")
    return " ".join(_NO_LETTER.sub(" ", kept).split())


def _squashed(text: str) -> str:
    return plain_words(text).replace(" ", "")


def _words_in(text: str) -> str:
    """Each word after a space. What a hyphen joins is found as one word, too."""
    plain = plain_words(text)
    joined = [plain_words(one) for one in _INNER_HYPHEN.sub("", text).split()] if "-" in text else []
    return " ".join(["", plain, *joined, ""])


def question_of(text: str, small_words: str) -> TypedQuestion:
    words = plain_words(text).split()[:_MOST_WORDS]
    small = frozenset(small_words.split())
    kept = [one for one in words if one not in small] or words
    return TypedQuestion(_squashed(text), tuple((f" {one}", f" {_stem(one)}" if len(one) > 1 else f" {one} ") for one in kept))


def _stem(word: str) -> str:
    cut = _ENDINGS.sub("", word)
    return cut if len(cut) >= _SHORTEST_STEM else word


def subject(  # noqa: PLR0917 - the parts of a declaration, in the order in which one says them
    kind: SubjectKind, title: str, beside: str, at: str, rules: tuple[CallerRule, ...], words: str = "", around: str = "", also: str = ""
) -> KnownSubject:
    """`also` is a second title."""
    phrases = [one for one in words.split(",") if one.strip()]
    return KnownSubject(
        kind=kind,
        title=title,
        beside="" if beside == title else beside,
        at=at,
        rules=rules,
        called=frozenset({_squashed(title), _squashed(also)} - {""}),
        also_called=frozenset(map(_squashed, phrases)),
        own=_words_in(f"{title} {also}"),
        phrases=tuple(map(_words_in, phrases)),
        words=(said := _words_in(words)),
        all=f"{_words_in(f'{title} {also}')}{said}{_words_in(around)}",
    )


def _has(words: str, one: tuple[str, str]) -> bool:
    # A stem begins the word and all of its forms.
    return one[1] in words


def worth(asked: TypedQuestion, one: KnownSubject) -> float:  # noqa: PLR0911 - one line a rank, from the best to the worst
    """How well the subject answers. 0 if it does not. Below 1, it has some of the words only."""
    if asked.squashed in one.called:
        return 100
    if asked.squashed in one.also_called:
        return 90
    said = [word for word in asked.words if word[1] in one.all]
    if 2 * len(said) <= len(asked.words):
        return 0
    own = [word for word in said if _has(one.own, word)]
    if len(own) == len(asked.words):
        return 80 if one.own.startswith(asked.words[0]) else 70
    if any(all(_has(phrase, word) for word in asked.words) for phrase in one.phrases):
        return 60
    known = [word for word in said if word in own or _has(one.words, word)]
    if len(known) == len(asked.words):
        return 50
    if own and len(said) == len(asked.words):
        return 30
    return len(known) / (len(asked.words) + 1) if 2 * len(known) > len(asked.words) else 0


def found_among(subjects: Iterable[KnownSubject], asked: TypedQuestion, caller: Any) -> Sequence[KnownSubject]:
    """What answers best comes first. What has some of the words only is said if nothing has all of them."""
    if not asked.squashed:
        return ()
    if len(asked.words) == 1:
        # Most questions are one word, and most subjects do not have it.
        ((_, word),) = asked.words
        subjects = [one for one in subjects if word in one.all or asked.squashed in one.called or asked.squashed in one.also_called]
    judged = [(value, one) for one in subjects if (value := worth(asked, one)) and one.opens_for(caller)]
    if any(value >= 1 for value, _ in judged):
        judged = [(value, one) for value, one in judged if value >= 1]
    return [one for _, one in sorted(judged, key=lambda pair: (-pair[0], pair[1].kind, len(pair[1].title)))]


class Subjects:
    """The subjects of each place, by the language. They are the same for as long as the process runs."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, Language], Sequence[KnownSubject]] = {}
        self._making = trio.Lock()
        self._limiter = trio.CapacityLimiter(1)

    async def of(self, place: ConsolePlace, language: Language) -> Sequence[KnownSubject]:
        key = (place.search, language)
        if key not in self._made:
            async with self._making:
                if key not in self._made:
                    self._made[key] = await trio.to_thread.run_sync(_made, place, language, limiter=self._limiter)
        return self._made[key]


SUBJECTS: Final = Subjects()


def _made(place: ConsolePlace, language: Language) -> Sequence[KnownSubject]:
    text = shipped_pages().text(language)
    return [*pages_of(place, text), *resources_of(place, text), *settings_of(place, text), *_documents(place, text)]


def pages_of(place: ConsolePlace, text: Text) -> Iterator[KnownSubject]:
    for _, entries in place.groups:
        for entry in entries:
            for tab in entry.pages:
                title = text(entry.label) if len(entry.pages) == 1 else text(tab.label)
                words = f"{text(tab.words)}, {text(entry.label)}"
                also = f"{text(tab.title)} {text(entry.label) if tab is entry.tabs[0] else ''}".strip()
                yield subject(SubjectKind.PAGE, title, text(entry.label), tab.at, (tab.rule,), words, also=also)


def words_of(resource: Resource) -> str:
    """The text key of what people may call the resource. Where a tab has its list, the tab's words are the same."""
    return resource.key_of("words")


def title_of(resource: Resource, text: Text) -> str:
    try:
        return text(resource.key_of("title"))
    except LookupError:
        return text(resource.position.tab.label)


def resources_of(place: ConsolePlace, text: Text) -> Iterator[KnownSubject]:
    at_tabs = {tab.at: tab for _, entries in place.groups for entry in entries for tab in entry.pages}
    for one in console.resources:
        if one.position.place is not place:
            continue
        title, words = title_of(one, text), text(words_of(one))
        position = one.position
        beside = " · ".join(dict.fromkeys([text(position.entry.label), text(position.tab.label)]))
        at, above = _reached(one.page or one.at, at_tabs)
        if one.at not in at_tabs or one.page:
            yield subject(SubjectKind.BENEATH, title, beside, at, (one.listed.caller, *above), words)
        around = f"{words} {title}"
        if one.making is not None:
            made, above = _reached(f"{one.at}/~new", at_tabs)
            rules = (one.making.shape.endpoint.caller, *above)
            yield subject(
                SubjectKind.ACTION, text(one.key_of("new")), title, made, rules, around=f"{around} {text('console.search.making')}"
            )
        for section in one.sections:
            rules = (section.shape.endpoint.caller, *above)
            asked = ", ".join(text(part.label) for part in section.shape.inputs)
            yield subject(SubjectKind.SETTING, text(one.key_of(f"section_{section.name}")), title, at, rules, around=f"{around} {asked}")
        for act in one.acts:
            yield subject(SubjectKind.ACTION, text(one.key_of(f"act_{act.name}")), title, at, (act.endpoint.caller, *above), around=around)
        if one.ending is not None:
            yield subject(SubjectKind.ACTION, text(one.key_of("end")), title, at, (one.ending.endpoint.caller, *above), around=around)


def _reached(at: str, tabs: Mapping[str, Tab]) -> tuple[str, tuple[CallerRule, ...]]:
    """The page from which one gets to this address: itself, or the list in which one chooses first, and that list's rule."""
    unknown = [name for name in parameters(at) if name not in _OWN]
    if not unknown:
        return at, ()
    nearest = at[: at.index(f"/{{{unknown[0]}}}")]
    return nearest, (tabs[nearest].rule,) if nearest in tabs else ()


def settings_of(place: ConsolePlace, text: Text) -> Iterator[KnownSubject]:
    """Cards, and pages beneath a record that are no resources."""
    at_tabs = {tab.at: tab for _, entries in place.groups for entry in entries for tab in entry.pages}
    for one in console.subjects:
        if one.position.place is place:
            at, above = _reached(one.at, at_tabs)
            kind = SubjectKind.SETTING if at == one.at else SubjectKind.BENEATH
            beside = text(one.position.entry.label)
            yield subject(kind, text(one.title), beside, at, (one.rule, *above), text(f"{one.title}_words"))


def _documents(place: ConsolePlace, text: Text) -> Iterator[KnownSubject]:
    if place.settings is not None:
        for one in DECLARATIONS:
            # The address has the setting's own name, and nothing that anybody typed.
            yield subject(
                SubjectKind.SETTING,
                one.name,
                one.group,
                f"{place.settings.at}?q={one.name}",
                (place.settings.rule,),
                also=one.name.removeprefix("POSTERN_").replace("_", " ").lower(),
                around=one.description,
            )
    for guide in guides_in_words():
        words = text(f"console.guide_words.{guide.name.replace('-', '_')}")
        yield subject(SubjectKind.GUIDE, guide.title, text("console.search.guide"), guide.address, (), words, around=guide.about)
    for name, title, words in chapters_in_words():
        beside = text("console.search.documentation")
        yield subject(SubjectKind.DOCUMENTATION, title, beside, f"/docs/{name}", (), ", ".join(words.split()))

"""What a place of the console can be asked for by everyday words, without a look into the database: its pages, what one can do there, its
settings, the guides and the documentation.

Each declaration says its title, and its words beside the title, so a new page is found as soon as it is declared. The subjects of a place
and language are read once, by a thread: the catalogues and the guides are files.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from itertools import pairwise
from math import log
from typing import Any, Final

import trio

from core.domain.languages import Language
from core.domain.normal_forms import NotNormalized, normalized
from core.domain.platform.searches import LONGEST_TEXT
from core.frozen import Frozen
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.navigation import ConsolePlace, Tab
from entrypoints.http.console.kit.resources import Resource, found_by_words
from entrypoints.http.description.documentation import chapter_words, chapters_in_words
from entrypoints.http.description.guides import guides_in_words
from entrypoints.http.machinery.browsers import admits
from entrypoints.http.machinery.callers import CallerRule
from entrypoints.http.machinery.endpoints import parameters
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.settings import DECLARATIONS, Declaration
from ports.texts import Text

_OWN: Final = frozenset({"org_slug"})
_NO_LETTER: Final = re.compile(r"[^\w]+|_")
_INNER_HYPHEN: Final = re.compile(r"(?<=\w)-(?=\w)")
_ENDINGS: Final = re.compile(r"(?:ations?|ing|ers?|ed|es|en|s|e)$")
# With the signs that people write around it, an address of a mailbox would be another one.
ADDRESS: Final = re.compile(r"[^\s,;:<>()\[\]\"“”„«»]{1,64}@[^\s,;:<>()\[\]\"“”„«»@]{1,255}")
# Telephones write other apostrophes than keyboards, and some of them count as letters.
APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2018\u2019\u201b\u02b9\u02bc\u2032\uff07\u00b4`", "'"))
_SHORTEST_STEM: Final = 4
_SHORTEST_MENDED: Final = 5
"""Of shorter words, one letter makes another word."""
_ENOUGH: Final = 0.35
"""The share of a question that an answer must have. Sentences have words that say nothing."""
_NEAR_THE_BEST: Final = 0.7
_SHARE_OF_STRANGE: Final = 3
"""What a word that nobody has says, beside one that a single subject has."""
_NAMES_A_PRODUCT: Final = 85
"""The rank of a guide to a product that the question names."""
_PROXY_GUIDES: Final = "proxies-"
"""What the names of guides to one proxy begin with."""
_LONGEST_OF_OURS: Final = 16 << 10
"""In characters, of the words of a guide."""
_LONGEST_FOLDED: Final = 3 * LONGEST_TEXT
_MOST_WORDS: Final = 12
"""Of a question. Whoever pastes more has pasted something else."""


class SubjectKind(IntEnum):
    """In the order in which equals stand."""

    PAGE = 0
    ACTION = 1
    PART = 2
    """A button or a form on the page of a record. Several records have parts of one name."""
    SETTING = 3
    BENEATH = 4
    GUIDE = 5
    DOCUMENTATION = 6


_NO_PAGE_OF_ITS_OWN: Final = frozenset({SubjectKind.BENEATH, SubjectKind.DOCUMENTATION})


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
    template: str = ""
    """The template of its own page, where `at` is the list in which one chooses first."""
    verbs: tuple[frozenset[str], ...] = ()
    """For what weakens, ends or deletes something: it answers only whoever has typed all words of one of these. Nobody who asks for the
    opposite is led there.
    """

    def opens_for(self, caller: Any) -> bool:
        return all(admits(rule, caller) for rule in self.rules)

    def suits(self, asked: "TypedQuestion") -> bool:
        return not self.verbs or any(verb <= asked.said for verb in self.verbs)


class KnownSubjects(Frozen):
    """The subjects of a place in a language, and all words by which they are found."""

    each: tuple[KnownSubject, ...]
    said: str
    """Each word by which they are found, after a space."""
    named: Mapping[str, tuple[KnownSubject, ...]]
    """The subjects by what they are called, squashed."""
    shaped: Mapping[tuple[str, int], tuple[str, ...]]
    """The words by their first letter and length: a slip changes neither much."""
    phrased: tuple[tuple[frozenset[str], KnownSubject], ...]
    """The phrases of two words and more, by their stems and without small words: "a custom field" is "custom fields"."""
    products: frozenset[str]
    """What only guides are called, squashed: a product that no page of the console has among its words."""

    def lacks(self, words: Iterable[str]) -> bool:
        """Whether one of the words is none by which anything is found: then it may be a name."""
        return any(f" {word} " not in f"{self.said} " for word in words)

    def only(self, some: Sequence[KnownSubject]) -> "KnownSubjects":
        """Some of these, by the words of all: a word that only others have is none that nobody has."""
        return KnownSubjects(tuple(some), self.said, {}, self.shaped, (), frozenset())

    @classmethod
    def of(cls, subjects: Iterable[KnownSubject], small: frozenset[str] = frozenset()) -> "KnownSubjects":
        each = tuple(subjects)
        vocabulary = sorted({word for one in each for word in f"{one.own}{one.words}".split()})
        shaped: dict[tuple[str, int], list[str]] = {}
        for word in vocabulary:
            shaped.setdefault((word[0], len(word)), []).append(word)
        named: dict[str, list[KnownSubject]] = {}
        for one in each:
            for called in one.called | one.also_called:
                named.setdefault(called, []).append(one)
        documents = {SubjectKind.GUIDE, SubjectKind.DOCUMENTATION}
        return cls(
            products=frozenset(called for called, some in named.items() if {one.kind for one in some} <= documents),
            named={called: tuple(some) for called, some in named.items()},
            each=each,
            said=f" {' '.join(vocabulary)}",
            shaped={shape: tuple(words) for shape, words in shaped.items()},
            phrased=tuple((phrase, one) for one in each for phrase in _phrases_of(one, small) if len(phrase) > 1),
        )


def _phrases_of(one: KnownSubject, small: frozenset[str]) -> Iterator[frozenset[str]]:
    for phrase in (one.own, *one.phrases):
        yield frozenset(stem_of(word) for word in phrase.split() if word not in small)


class TypedQuestion(Frozen):
    """What somebody typed, as the subjects are compared with it."""

    squashed: str
    words: tuple[tuple[str, str], ...]
    """The beginning of each word, after a space, and of its stem."""
    telling: tuple[tuple[str, str], ...]
    """Those that say a place. "Force" and "everyone" say none."""
    said: frozenset[str] = frozenset()
    """All words, also the small ones, as they were typed."""

    @property
    def joined(self) -> str:
        """As `squashed`, without the small words: "turn on 2FA" asks for what is called so."""
        return "".join(word[1:] for word, _ in self.words)


def plain_words(text: str) -> str:
    """A text without what people leave out when they type: accents, capitals, punctuation, characters that nobody sees. Empty for a text
    that is too long, or piles up marks. Whoever passes what somebody typed has cut it to `LONGEST_TEXT`.
    """
    try:
        folded = normalized(text.translate(APOSTROPHES).casefold().replace("ß", "ss"), "NFKD", _LONGEST_OF_OURS)
    except NotNormalized:
        return ""
    # One letter can come apart into eighteen.
    folded = folded[: max(_LONGEST_FOLDED, len(text))]
    kept = "".join(one for one in folded if not unicodedata.combining(one) and unicodedata.category(one) != "Cf")
    return " ".join(_NO_LETTER.sub(" ", kept).split())


@cache
def words_of_list(text: str) -> frozenset[str]:
    """The words of a shipped list, as somebody types them: "où" is "ou"."""
    return frozenset(plain_words(text).split())


def _squashed(text: str) -> str:
    return plain_words(text).replace(" ", "")


def _words_in(text: str) -> str:
    """Each word after a space. What a hyphen joins is found as one word, too."""
    plain = plain_words(text)
    joined = [plain_words(one) for one in _INNER_HYPHEN.sub("", text).split()] if "-" in text else []
    return " ".join(["", plain, *joined, ""])


def question_of(text: str, small_words: str, placeless_words: str) -> TypedQuestion:
    # Of "offboard ada@example.org", the address says nothing about pages, and neither does what is written around it without a space.
    words = plain_words(" ".join(one for one in text.split() if not says_an_address(one))).split()[:_MOST_WORDS]
    small, placeless = words_of_list(small_words), words_of_list(placeless_words)
    kept = [one for one in words if one not in small] or words
    telling = [one for one in kept if one not in placeless] or kept
    return TypedQuestion(_squashed(text), tuple(map(_sought, kept)), tuple(map(_sought, telling)), frozenset(words))


def _of_words(words: tuple[tuple[str, str], ...], said: frozenset[str]) -> TypedQuestion:
    return TypedQuestion("".join(word[1:] for word, _ in words), words, words, said)


def _sought(word: str) -> tuple[str, str]:
    return f" {word}", f" {stem_of(word)}" if len(word) > 1 else f" {word} "


def stem_of(word: str) -> str:
    cut = _ENDINGS.sub("", word)
    return cut if len(cut) >= _SHORTEST_STEM else word


def subject(  # noqa: PLR0917 - the parts of a declaration, in the order in which one says them
    kind: SubjectKind,
    title: str,
    beside: str,
    at: str,
    rules: tuple[CallerRule, ...],
    words: str = "",
    around: str = "",
    also: Sequence[str] = (),
    *,
    template: str = "",
    verbs: tuple[frozenset[str], ...] = (),
) -> KnownSubject:
    """`also` are further titles."""
    phrases = [one for one in words.split(",") if one.strip()]
    return KnownSubject(
        kind=kind,
        title=title,
        beside="" if beside == title else beside,
        at=at,
        rules=rules,
        called=frozenset(map(_squashed, (title, *also))),
        also_called=frozenset(map(_squashed, phrases)),
        own=_words_in(" ".join((title, *also))),
        phrases=tuple(map(_words_in, phrases)),
        words=(said := _words_in(words)),
        all=f"{_words_in(' '.join((title, *also)))}{said}{_words_in(around)}",
        template=template or at,
        verbs=verbs,
    )


def _verbs(label: str, text: Text, *, ends: bool = False) -> tuple[frozenset[str], ...]:
    """Of a button that ends something, or says that it does: each word that says so. "Remove the webhook" asks for "Delete webhook"."""
    ending = words_of_list(text("console.search.ending_words"))
    return tuple(frozenset({one}) for one in ending) if ends or not ending.isdisjoint(plain_words(label).split()) else ()


def _has(words: str, one: tuple[str, str]) -> bool:
    # A stem begins the word and all of its forms.
    return one[1] in words


def worth(asked: TypedQuestion, one: KnownSubject) -> float:  # noqa: PLR0911 - one line a rank, from the best to the worst
    """How well the subject answers. 0 if it lacks some of the words."""
    if asked.squashed in one.called and one.kind not in _NO_PAGE_OF_ITS_OWN:
        # What has this among its words is what most people mean.
        return 89 if one.kind is SubjectKind.PART else 100
    # What is beneath a record that nobody has named, and a chapter of the documentation, are no better than a page with this among its
    # words.
    if not {asked.squashed, asked.joined}.isdisjoint(one.also_called | one.called):
        return 90
    if not all(word[1] in one.all for word in asked.words):
        return 0
    own = [word for word in asked.words if _has(one.own, word)]
    if len(own) == len(asked.words):
        if one.kind is SubjectKind.PART:
            return 59
        return 80 if one.own.startswith(asked.words[0]) else 70
    if any(all(_has(phrase, word) for word in asked.words) for phrase in one.phrases):
        return 60
    if all(word in own or _has(one.words, word) for word in asked.words):
        return 50
    return 30 if own else 0


def says_an_address(text: str) -> bool:
    return bool(ADDRESS.search(text))


def has_whole(asked: TypedQuestion, one: KnownSubject) -> bool:
    """Whether the subject has each word of the question, and not merely one that begins so."""
    return all(f"{word} " in one.all for word, _ in asked.telling)


def found_among(known: KnownSubjects, asked: TypedQuestion, caller: Any) -> Sequence[KnownSubject]:
    """What answers best comes first. What has some of the words only is said if nothing has all of them."""
    if not asked.squashed or not asked.words:
        return ()
    judged = _answering(known, asked, caller)
    if not judged:
        # Some subjects have "force" or "everyone" among their words, so these are left out only where nothing has them all.
        asked = _of_words(asked.telling, asked.said)
        judged = _answering(known, asked, caller)
    if not judged:
        # Nobody sees a letter too many while typing.
        mended = _mended(known, asked)
        is_mended = mended.words != asked.words
        judged = (_answering(known, mended, caller) if is_mended else ()) or _nearly(known, asked, caller)
        judged = judged or (_nearly(known, mended, caller) if is_mended else ())
    return [one for _, one in sorted(judged, key=lambda pair: (-pair[0], pair[1].kind, len(pair[1].title)))]


def _answering(known: KnownSubjects, asked: TypedQuestion, caller: Any) -> Sequence[tuple[float, KnownSubject]]:
    # Most subjects lack one of the words. A few are called what was typed without its spaces.
    subjects: Sequence[KnownSubject] = known.each
    for _, word in asked.words:
        subjects = [one for one in subjects if word in one.all]
    named = [one for one in known.named.get(asked.squashed, ()) if one not in subjects]
    answers = [(value, one) for one in (*subjects, *named) if (value := worth(asked, one)) and one.suits(asked) and one.opens_for(caller)]
    products = _products_in(known, asked)
    # Whoever names a product comes for its guide, and pages that name the product among others come after.
    return [(max(value, _NAMES_A_PRODUCT + value / 100) if _is_for(one, products) else value, one) for value, one in answers]


def _products_in(known: KnownSubjects, asked: TypedQuestion) -> frozenset[str]:
    """The products that the question names, with one word or with two."""
    words = [word[1:] for word, _ in asked.words]
    return known.products.intersection([*words, *map("".join, pairwise(words))])


def _is_for(one: KnownSubject, products: frozenset[str]) -> bool:
    return one.kind is SubjectKind.GUIDE and any(name in one.also_called and name in one.own.replace(" ", "") for name in products)


def _nearly(known: KnownSubjects, asked: TypedQuestion, caller: Any) -> Sequence[tuple[float, KnownSubject]]:
    """What has most of what the question says. A word that few subjects have says more than one that many have, and one that none has
    ("yesterday", a name) says that nothing answers it whole.
    """
    # A letter alone says nothing of what somebody means.
    asked = _of_words(tuple(word for word in asked.words if len(word[0]) > len(" x")), asked.said)
    # By the place of the subject. Most subjects have none of the words.
    having = [[at for at, one in enumerate(known.each) if word in one.all] for _, word in asked.words]
    most = len(known.each)
    weights = [log(1 + most / len(one)) if one else log(1 + most) / _SHARE_OF_STRANGE for one in having]
    shares: dict[int, float] = {}
    for word, weight, places in zip(asked.words, weights, having, strict=True):
        for at in places:
            one = known.each[at]
            if _has(one.own, word) or _has(one.words, word):
                shares[at] = shares.get(at, 0) + weight
    # A whole phrase of theirs is meant, whatever else stands in a sentence.
    stems = {stem[1:].rstrip() for _, stem in asked.words}
    whole = {id(one): len(phrase) for phrase, one in known.phrased if phrase <= stems}
    enough = _ENOUGH * sum(weights)
    found: list[tuple[float, KnownSubject]] = []
    for at, share in shares.items():
        one = known.each[at]
        if (share >= enough or id(one) in whole) and one.suits(asked) and one.opens_for(caller):
            # Words that stand together, in the title or in one phrase, mean what they mean there.
            together = max(sum(_has(part, word) for word in asked.words) for part in (one.own, *one.phrases))
            value = share / sum(weights) + together / 100
            found.append((max(value, _ENOUGH) + whole[id(one)] / 10 if id(one) in whole else value, one))
    best = max((value for value, _ in found), default=0)
    return [(value, one) for value, one in found if value >= best * _NEAR_THE_BEST]


def _mended(known: KnownSubjects, asked: TypedQuestion) -> TypedQuestion:
    """The question with words that nobody has as words that differ by one slip: a letter too many, too few, another, or two exchanged."""
    mended = tuple(_mended_word(known, word[1:]) for word, _ in asked.words)
    return _of_words(tuple(map(_sought, mended)), asked.said.union(mended))


def _mended_word(known: KnownSubjects, word: str) -> str:
    if len(word) < _SHORTEST_MENDED or f" {stem_of(word)}" in known.said:
        return word
    same, shorter, longer = (known.shaped.get((word[0], len(word) + more), ()) for more in (0, -1, 1))
    return next((one for one in (*same, *shorter, *longer) if _slipped(one, word)), word)


def _slipped(one: str, other: str) -> bool:
    """Whether one slip makes the other word of the one. Their lengths differ by one at most."""
    if len(one) == len(other):
        differ = [at for at in range(len(one)) if one[at] != other[at]]
        return len(differ) == 1 or (len(differ) == 2 and _exchanged(one, other, *differ))
    short, long = sorted((one, other), key=len)
    return any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


def _exchanged(one: str, other: str, first: int, second: int) -> bool:
    return second == first + 1 and one[first] == other[second] and one[second] == other[first]


class Subjects:
    """The subjects of each place, by the language. They are the same for as long as the process runs."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, Language], KnownSubjects] = {}
        self._making = trio.Lock()
        self._limiter = trio.CapacityLimiter(1)

    async def of(self, place: ConsolePlace, language: Language) -> KnownSubjects:
        key = (place.search, language)
        if key not in self._made:
            async with self._making:
                if key not in self._made:
                    self._made[key] = await trio.to_thread.run_sync(_made, place, language, limiter=self._limiter)
        return self._made[key]


SUBJECTS: Final = Subjects()


def _made(place: ConsolePlace, language: Language) -> KnownSubjects:
    text = shipped_pages().text(language)
    subjects = [*pages_of(place, text), *resources_of(place, text), *settings_of(place, text), *_documents(place, text)]
    return KnownSubjects.of(subjects, words_of_list(text("console.search.small_words")))


def pages_of(place: ConsolePlace, text: Text) -> Iterator[KnownSubject]:
    for _, entries in place.groups:
        for entry in entries:
            for tab in entry.pages:
                title = text(entry.label) if len(entry.pages) == 1 else text(tab.label)
                words = f"{text(tab.words)}, {text(entry.label)}"
                also = (text(tab.title), *((text(entry.label),) if tab is entry.tabs[0] else ()))
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
    for one in found_by_words.resources:
        if one.position.place is not place:
            continue
        title, words = title_of(one, text), text(words_of(one))
        position = one.position
        beside = " · ".join(dict.fromkeys([text(position.entry.label), text(position.tab.label)]))
        at, above = _reached(one.page or one.at, at_tabs)
        if one.at not in at_tabs or one.page:
            rules = (one.listed.caller, *above)
            yield subject(SubjectKind.BENEATH, title, beside, at, rules, words, template=one.page or one.at)
        around = f"{words} {title}"
        if one.making is not None:
            made, above = _reached(f"{one.at}/~new", at_tabs)
            rules = (one.making.shape.endpoint.caller, *above)
            making = f"{around} {text('console.search.making')}"
            yield subject(SubjectKind.ACTION, text(one.key_of("new")), title, made, rules, around=making, template=f"{one.at}/~new")
        for section in one.sections:
            rules = (section.shape.endpoint.caller, *above)
            asked = ", ".join(text(part.label) for part in section.shape.inputs)
            label = text(one.key_of(f"section_{section.name}"))
            yield subject(
                SubjectKind.PART, label, title, at, rules, around=f"{around} {asked}", template=one.one, verbs=_verbs(label, text)
            )
        for act in one.acts:
            label, rules = text(one.key_of(f"act_{act.name}")), (act.endpoint.caller, *above)
            verbs = _verbs(label, text, ends=act.kind == "danger")
            yield subject(SubjectKind.PART, label, title, at, rules, around=around, template=one.one, verbs=verbs)
        if one.ending is not None:
            label, rules = text(one.key_of("end")), (one.ending.endpoint.caller, *above)
            yield subject(
                SubjectKind.ACTION, label, title, at, rules, around=around, template=one.one, verbs=_verbs(label, text, ends=True)
            )


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
            rules = tuple(dict.fromkeys((one.rule, *console.rules_of(one.at), *above)))
            yield subject(kind, text(one.title), beside, at, rules, text(f"{one.title}_words"), template=one.at)
    for action in console.unnamed_actions:
        if action.position.place is place and (rules := console.rules_of(action.at)):
            # Whose it is, one chooses in the list.
            at, above = _reached(action.at, at_tabs)
            title, tab = text(action.title, called="…"), action.position.tab
            words = text(f"{action.title}_words")
            # Who says "client" or "colleague" for what the list has says it here, too.
            around = text(tab.words)
            verbs = tuple(words_of_list(phrase) for phrase in words.split(",")) if action.weakens else ()
            yield subject(
                SubjectKind.ACTION, title, text(tab.label), at, (*rules, *above), words, around=around, template=action.at, verbs=verbs
            )


def setting_words(one: Declaration) -> str:
    """The text key of what people call the settings of this group."""
    return f"console.setting_words.{one.group.lower().replace(' ', '_').replace('-', '_')}"


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
                text(setting_words(one)),
                also=(one.names[0].removeprefix("POSTERN_").replace("_", " ").lower(),),
                around=one.description,
            )
    for guide in guides_in_words():
        words = text(f"console.guide_words.{guide.name.replace('-', '_')}")
        around = f"{guide.about} {text('console.search.guide_around')}"
        # The name of the proxy alone is a title, too: "nginx" asks for its guide, and not for a record's page with nginx among its words.
        also = (guide.name.removeprefix(_PROXY_GUIDES),) if guide.name.startswith(_PROXY_GUIDES) else ()
        yield subject(SubjectKind.GUIDE, guide.title, text("console.search.guide"), guide.address, (), words, around=around, also=also)
    for name, title in chapters_in_words():
        beside = text("console.search.documentation")
        yield subject(SubjectKind.DOCUMENTATION, title, beside, f"/docs/{name}", (), text(chapter_words(name)))

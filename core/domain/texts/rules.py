"""Validates custom texts, wherever they come from: the API, the console, configuration files, translators' files, and imports of an
organization.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Final

from core.domain.errors import BadRequest
from core.domain.languages import Language
from core.domain.lines import MOST_MARKS, one_line, require_few_marks
from core.domain.mail import LONGEST_LABEL
from core.domain.normal_forms import NotNormalized, normalized
from core.domain.outbound import NotADestination, destination
from core.domain.texts.own_texts import OPEN_TEXTS, OpenText, TextKind
from core.frozen import Frozen

PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")
BETWEEN_PARAGRAPHS: Final = "\n\n"
END_OF_LINE: Final = "\n"
# The words and the address of a link. Neither has brackets of its own, so that no two programs can read it in two ways.
_LINK: Final = re.compile(r"\[([^\[\]\n]+)\]\(([^()\s]+)\)")


class TextLink(Frozen):
    words: str
    address: str


def paragraphs(text: str) -> Sequence[str]:
    return text.split(BETWEEN_PARAGRAPHS)


def parts(paragraph: str) -> Sequence[str | TextLink]:
    """Splits a paragraph, in order, into strings, which may have placeholders, and links, whose words may have them. Whoever shows a custom
    text splits it with this function.
    """
    found: list[str | TextLink] = []
    end = 0
    for match in _LINK.finditer(paragraph):
        if match.start() > end:
            found.append(paragraph[end : match.start()])
        found.append(TextLink(match[1], match[2]))
        end = match.end()
    if end < len(paragraph):
        found.append(paragraph[end:])
    return found


def links(text: str) -> Sequence[TextLink]:
    return [TextLink(match[1], match[2]) for match in _LINK.finditer(text)]


def without_links(text: str) -> str:
    """The text with the words of its links alone."""
    return _LINK.sub(r"\1", text)


MOST_PARAGRAPHS: Final = 4
# Of a text that keeps its lines, empty ones counted too: it stands below every page.
MOST_LINES: Final = 12
LONGEST_BUTTON: Final = 40
# Ours may be short: "Sign in" leaves no room for a sentence of one's own. So a line may have this many characters in any case, and a text
# of paragraphs may have those.
LINE: Final = 60
PARAGRAPHS: Final = 600
# Longer than any text may be. What is longer still is not looked at letter by letter.
LONGEST: Final = 4000
MOST_TIMES: Final = 2
# As many as a file of translators can have in every text. Whoever sends thousands of made-up keys does not hear of each.
MOST_FAULTS: Final = 2 * len(OPEN_TEXTS)
_JOINERS: Final = "\u200c\u200d"
# Control and format characters, characters that nobody has assigned, and separators that break a line.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Invisible letters and an invisible symbol: the fillers of Hangul, and Braille without a dot.
_BLANKS: Final = frozenset("\u034f\u115f\u1160\u3164\uffa0\u2800")
_TAG: Final = re.compile(r"<[A-Za-z/!?]|&#?[A-Za-z0-9]+;")
_MARKDOWN: Final = re.compile(r"!\[|\*\*|__|`|~~|^#{1,6} ", re.MULTILINE)
# Mail programs make a link of these, wherever they lead.
_BARE_ADDRESS: Final = re.compile(r"\w://|\bwww\.", re.IGNORECASE)
# What readers take for the name of a host, as in "bank.example" and "help@bank.example".
_NAMED_HOST: Final = re.compile(r"(?<![\w-])[\w-]++(?:[.。][\w-]++)++")
_LABEL_OF_LETTERS: Final = re.compile(r"[.。][^\W\d_]{2,}+(?![\w-])")
_FULL_STOP: Final = re.compile("[.。]")
# Of what somebody wrote, as a fault quotes it.
_LONGEST_QUOTED: Final = 100
# The beginning of a word that mail programs decode (RFC 2047).
_ENCODED: Final = "=?"
_SPACES: Final = re.compile(r"[ \t]+")
_AROUND_END_OF_LINE: Final = re.compile(r" ?\n ?")
_EMPTY_LINES: Final = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")


class OwnText(Frozen):
    """A text that somebody wants in place of ours."""

    key: str
    language: Language
    text: str


class FormerDefault(Frozen):
    """A default text of an earlier release. The current default has the same meaning in other words."""

    digest: str
    length: int

    @classmethod
    def of(cls, text: str) -> "FormerDefault":
        return cls(sha256(text.encode()).hexdigest()[:16], len(text))


FormerDefaults = Mapping[str, Sequence[FormerDefault]]
"""By key."""


class TextRules(Frozen):
    """What the rules must know: our texts by language and key, and the domains to which links may lead."""

    ours: Mapping[Language, Mapping[str, str]]
    english: Mapping[str, str]
    hosts: Collection[str] = ()
    of_organization: bool = False
    """Whether the own texts are those of an organization."""
    former: Mapping[Language, FormerDefaults] = {}

    def is_open(self, opened: OpenText) -> bool:
        return opened.is_of_organizations or not self.of_organization

    def ours_of(self, key: str, language: Language) -> str:
        """What the own text stands in place of. Empty where we have none."""
        return self.ours.get(language, {}).get(key) or self.english.get(key, "")

    def is_current(self, key: str, language: Language, default: str) -> bool:
        """Returns whether a text is the current default, or a former default with the same meaning."""
        return default == self.ours_of(key, language) or FormerDefault.of(default) in self._former_of(key, language)

    def _former_of(self, key: str, language: Language) -> Sequence[FormerDefault]:
        return self.former.get(language, {}).get(key, ())

    def most(self, key: str, language: Language) -> int:
        """Returns how many characters an own text may have: twice as many as ours, in English or in that language, or as many as a line, or
        as paragraphs, may have in any case. A former default counts, too: a text that was written beside it still fits.
        """
        kind = OPEN_TEXTS[key].kind
        if kind is TextKind.BUTTON:
            return LONGEST_BUTTON
        least = PARAGRAPHS if kind.has_paragraphs else LINE
        former = (one.length for spoken in (language, Language.ENGLISH) for one in self._former_of(key, spoken))
        return max(least, 2 * max(len(self.ours_of(key, language)), len(self.english.get(key, "")), *former))

    def placeholders(self, key: str) -> Sequence[str]:
        return list(dict.fromkeys(PLACEHOLDER.findall(self.english.get(key, ""))))


class TextFault(Frozen):
    """Why a text is refused. `words` and `values` are those of a refusal."""

    key: str
    language: Language | str
    message: str
    words: str
    values: Mapping[str, object] = {}

    def __str__(self) -> str:
        return f"{self.key} ({self.language}): {self.message}"


class TextsRefused(BadRequest):
    """Some of the texts are not as they may be. Nothing was changed. `faults` has each, so that somebody mends them all at once."""

    def __init__(self, faults: Sequence[TextFault]) -> None:
        first = faults[0]
        super().__init__(f"texts: {'; '.join(map(str, faults))}", words=first.words, values=first.values)
        self.faults = faults


def checked_texts(texts: Sequence[OwnText], rules: TextRules) -> Sequence[OwnText]:
    """The texts as they are stored. Raises `TextsRefused` with all that is wrong."""
    kept = [OwnText(one.key, one.language, canonical(one)) for one in texts]
    if found := list(islice((fault for one in kept for fault in faults(one, rules)), MOST_FAULTS)):
        raise TextsRefused(found)
    return kept


def canonical(one: OwnText) -> str:
    """The text with one form for what looks the same: letters composed, one space between words, one empty line between paragraphs. A line
    break within a paragraph is a space, because forms and files break lines where their width ends; a footer keeps its lines. A text of one
    line keeps its breaks, and is refused for them.
    """
    if len(one.text) > LONGEST:
        return one.text
    try:
        text = normalized(one.text.replace("\r\n", "\n").replace("\r", "\n"), "NFC", LONGEST).strip(" \t\n")
    except NotNormalized:
        # The rule about marks refuses it.
        return one.text
    opened = OPEN_TEXTS.get(one.key)
    if opened is None or not opened.kind.has_paragraphs:
        return _SPACES.sub(" ", text)
    end = END_OF_LINE if opened.kind.keeps_lines else " "
    return BETWEEN_PARAGRAPHS.join(_AROUND_END_OF_LINE.sub(end, _SPACES.sub(" ", part)).strip(" ") for part in _EMPTY_LINES.split(text))


def faults(one: OwnText, rules: TextRules) -> Iterator[TextFault]:
    """Everything that is wrong with the text, which is in its one form."""
    opened = OPEN_TEXTS.get(one.key)
    if opened is None:
        yield _closed(one)
    elif not rules.is_open(opened):
        yield _fault(one, "own_text_of_installation", "shown where no organization is known: only the installation can change it")
    elif not one_line(one.text[:LONGEST]):
        yield _fault(one, "own_text_empty", "send a text, or null to restore the default text")
    else:
        yield from _length(one, rules)
        if len(one.text) <= LONGEST:
            yield from _lines(one, opened)
            yield from _letters(one)
            yield from _markup(one)
            yield from _placeholders(one, rules)
            yield from _links(one, opened, rules)


def _fault(one: OwnText, words: str, message: str, **values: object) -> TextFault:
    return TextFault(one.key, one.language, message, words, values)


def _closed(one: OwnText) -> TextFault:
    return _fault(
        one,
        "own_text_closed",
        "cannot be customized: Postern keeps the texts that show who asks and for whom, what a code or a link does, what "
        "people allow, or which rule applies",
    )


def _length(one: OwnText, rules: TextRules) -> Iterator[TextFault]:
    most = rules.most(one.key, one.language)
    over = len(one.text) - most
    if over > 0:
        yield _fault(one, "own_text_long", f"too long by {over}: at most {most} characters", over=over, most=most)


def _lines(one: OwnText, opened: OpenText) -> Iterator[TextFault]:
    if not opened.kind.has_paragraphs:
        if "\n" in one.text:
            yield _fault(one, "own_text_lines", "must be one line")
    elif len(paragraphs(one.text)) > MOST_PARAGRAPHS:
        yield _fault(one, "own_text_paragraphs", f"at most {MOST_PARAGRAPHS} paragraphs", most=MOST_PARAGRAPHS)
    elif one.text.count(END_OF_LINE) >= MOST_LINES:
        yield _fault(one, "own_text_many_lines", f"at most {MOST_LINES} lines", most=MOST_LINES)


def _letters(one: OwnText) -> Iterator[TextFault]:
    if any(_is_hidden(one.text, at) for at in range(len(one.text))):
        yield _fault(one, "own_text_hidden", "has invisible characters: control characters, direction marks, or zero-width spaces")
    try:
        require_few_marks(one.key, one.text)
    except BadRequest as refusal:
        yield _fault(one, refusal.words, f"at most {MOST_MARKS} combining marks may follow one letter", **refusal.values)


def _is_hidden(text: str, at: int) -> bool:
    letter = text[at]
    if letter in _JOINERS:
        # Persian and many languages of India need them between two letters, and pictures of people between two parts.
        around = text[at - 1 : at] + text[at + 1 : at + 2]
        return len(around) < 2 or any(other.isascii() or other in _JOINERS for other in around)
    return (letter != "\n" and unicodedata.category(letter) in _HIDDEN) or letter in _BLANKS


def _markup(one: OwnText) -> Iterator[TextFault]:
    if _TAG.search(one.text) or _ENCODED in one.text:
        yield _fault(one, "own_text_html", "HTML would be shown literally: use plain text")
    if _MARKDOWN.search(one.text):
        yield _fault(
            one,
            "own_text_markdown",
            "Markdown would be shown literally: only [words](https://…) is supported, in texts of several paragraphs",
        )


def _placeholders(one: OwnText, rules: TextRules) -> Iterator[TextFault]:
    ours = rules.placeholders(one.key)
    listed = ", ".join(f"{{{name}}}" for name in ours)
    times = Counter(PLACEHOLDER.findall(one.text))
    for name in times:
        if name not in ours:
            known = f"the text has {listed}" if ours else "the text has none"
            words = "own_text_placeholder_unknown" if ours else "own_text_placeholder_none"
            yield _fault(one, words, f"{{{name}}} is not a placeholder of this text: {known}", name=f"{{{name}}}", known=listed)
    for name in ours:
        if times[name] == 0:
            yield _fault(one, "own_text_placeholder_missing", f"{{{name}}} is required", name=f"{{{name}}}")
        elif times[name] > MOST_TIMES:
            yield _fault(
                one, "own_text_placeholder_often", f"{{{name}}} can be used at most {MOST_TIMES} times", name=f"{{{name}}}", most=MOST_TIMES
            )
    if set("{}") & set(PLACEHOLDER.sub("", one.text)):
        yield _fault(one, "own_text_braces", "braces can be used for placeholders only")


def _links(one: OwnText, opened: OpenText, rules: TextRules) -> Iterator[TextFault]:
    if links(one.text) and not opened.kind.has_paragraphs:
        yield _fault(one, "own_text_link_here", "links are allowed only in texts of several paragraphs")
        return
    for link in links(one.text):
        host = _host(link.address)
        if host is None:
            yield _fault(
                one,
                "own_text_address",
                f"{link.address} must be a URL that begins with https://, without a port",
                address=link.address,
            )
        elif not is_below(host, rules.hosts):
            yield _fault(
                one,
                "own_text_host",
                f"verify the domain of {host} first, or a parent domain: links to other domains are not allowed",
                host=host,
            )
        elif other := _other_host(link.words, host):
            yield _fault(one, "own_text_link_words", f"the link text names {other}, but the link leads to {host}", named=other, host=host)
    if _BARE_ADDRESS.search(without_links(one.text)) or "](" in without_links(one.text):
        yield _fault(one, "own_text_bare_address", "write a URL as [words](https://…), in a text of several paragraphs")


def _host(address: str) -> str | None:
    try:
        place = destination(address)
    except NotADestination:
        return None
    plain = place.scheme == "https" and address.startswith("https://") and place.authority == place.host and place.address is None
    return place.host if plain and "{" not in address else None


def _other_host(words: str, host: str) -> str | None:
    """A host that the words name, and that is neither this one nor above or below it."""
    named: str
    try:
        plain = normalized(words, "NFKC", LONGEST)
    except NotNormalized:
        return words[:_LONGEST_QUOTED]
    for named in _NAMED_HOST.findall(plain):
        if not _LABEL_OF_LETTERS.search(named):
            continue
        if any(len(label) > LONGEST_LABEL for label in _FULL_STOP.split(named)):
            # No host is called so, and to encode the label takes time that grows with the square of its length.
            return named[:_LONGEST_QUOTED]
        try:
            one = named.encode("idna").decode().lower()
        except UnicodeError:
            return named
        if not is_below(one, [host]) and not is_below(host, [one]):
            return named
    return None


def is_below(host: str, domains: Collection[str]) -> bool:
    """Whether the host is one of the domains, or below one."""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)

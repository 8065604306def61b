"""Files of translators in gettext's form (`.po`): the part that texts without plural forms need. Every editor of translations reads and
writes it. A library would bring a thousand lines for these.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from core.frozen import Frozen

_LINE: Final = re.compile(r'(?:(msgctxt|msgid|msgstr) )?"((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_PLURAL: Final = ("msgid_plural", "msgstr[")
_MANY_PLURALS: Final = "a text that a number decides about is not open: leave it out"


class Translation(Frozen):
    """A text to translate. `context` tells it from others with the same `id`, which is the text to translate."""

    context: str
    id: str
    text: str
    comments: Sequence[str] = ()
    line: int = 0
    """Where it begins in its file."""
    is_fuzzy: bool = False
    """A program has guessed the translation, and nobody has looked at it."""


class PoFile(Frozen):
    headers: Mapping[str, str]
    messages: Sequence[Translation]


class UnreadablePo(Exception):
    """The message names the line."""


def written(headers: Mapping[str, str], messages: Iterable[Translation]) -> str:
    head = "".join(f"{name}: {value}\n" for name, value in headers.items())
    parts = [f'msgid ""\nmsgstr {_quoted(head)}\n']
    for one in messages:
        comments = "".join(f"#. {line}\n" for line in one.comments)
        parts.append(f"{comments}msgctxt {_quoted(one.context)}\nmsgid {_quoted(one.id)}\nmsgstr {_quoted(one.text)}\n")
    return "\n".join(parts)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\r", "\\r")
    lines = escaped.split("\n")
    if len(lines) == 1:
        return f'"{escaped}"'
    broken = [f'"{line}\\n"' for line in lines[:-1]] + ([f'"{lines[-1]}"'] if lines[-1] else [])
    return "\n".join(['""', *broken])


def read(source: str) -> PoFile:
    """Raises `UnreadablePo`."""
    reader = _Reader()
    for number, line in enumerate(source.removeprefix("\ufeff").splitlines(), 1):
        reader.take(number, line.strip())
    reader.end()
    head = next((one.text for one in reader.messages if not one.id and not one.context), "")
    headers = {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in head.split("\n")) if colon}
    return PoFile(headers, [one for one in reader.messages if one.id or one.context])


class _Reader:
    """Puts the lines of a message together. A message ends where the next one, or a comment, begins."""

    def __init__(self) -> None:
        self.messages: list[Translation] = []
        self._parts: dict[str, str] = {}
        self._now = ""
        self._line = 0
        self._is_fuzzy = False

    def take(self, number: int, line: str) -> None:
        if line.startswith("#"):
            self.end()
            self._is_fuzzy = self._is_fuzzy or (line.startswith("#,") and "fuzzy" in line)
        elif line.startswith(_PLURAL):
            raise UnreadablePo(f"Line {number}: {_MANY_PLURALS}")
        elif line:
            found = _LINE.fullmatch(line)
            if found is None or (found[1] is None and not self._now):
                raise UnreadablePo(f'Line {number}: neither a comment nor msgctxt, msgid or msgstr with a text in "quotes"')
            self._part(number, found[1], _plain(number, found[2]))

    def _part(self, number: int, name: str | None, text: str) -> None:
        if name is None:
            self._parts[self._now] += text
            return
        if name in self._parts or (name == "msgctxt" and self._parts):
            self.end()
        if not self._parts:
            self._line = number
        self._now = name
        self._parts[name] = text

    def end(self) -> None:
        if not self._parts:
            return
        if not {"msgid", "msgstr"} <= self._parts.keys():
            raise UnreadablePo(f"Line {self._line}: a text needs a msgid and a msgstr")
        context, text = self._parts.get("msgctxt", ""), self._parts["msgstr"]
        self.messages.append(Translation(context, self._parts["msgid"], text, (), self._line, self._is_fuzzy))
        self._parts, self._now, self._is_fuzzy = {}, "", False


def _plain(number: int, text: str) -> str:
    def opened(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise UnreadablePo(f"Line {number}: there is no \\{match[1]}")
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(opened, text)

"""`python -m ops.words`: checks the English texts that readers see against `terms.toml` beside this; `--list` prints each finding, and
`--lower` writes the numbers found into that file where they are lower.

1. banned: phrases of the product's former language, counted for each phrase. Code, API values and targets of links do not count.
2. hidden: trade terms among a page's search words that the page does not show.
3. unnamed: pages of the console whose title shares no noun with the API resource that they show.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from core.frozen import Frozen
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.http.application import PAGES
from entrypoints.http.description import openapi
from entrypoints.http.routes import ROUTES
from entrypoints.settings import DECLARATIONS
from ops.bench.report import ROOT

TERMS: Final = ROOT / "ops" / "words" / "terms.toml"
_CODE: Final = re.compile(r"^```.*?^```|``.+?``|`[^`]*`|<!--.*?-->|\]\([^)\s]*\)|<[^>]*>|https?://\S+|\{[^}]*\}", re.DOTALL | re.MULTILINE)
_MOST: Final = re.compile(r"^phrase = '(?P<phrase>.*)'\n(?P<instead>instead = .*\n)most = (?P<most>\d+)$", re.MULTILINE)
_DOCUMENTS: Final = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/guides/**/*.md", "docs/operations/**/*.md")
_TABS: Final = "entrypoints/http/console/organization/organization_tabs.py"
_VERBS: Final = frozenset({"list", "get", "set", "change", "create", "open", "transfer", "delete", "show", "organization", "own"})


class Banned(NamedTuple):
    phrase: re.Pattern[str]
    instead: str
    most: int


class SeenText(NamedTuple):
    where: str
    text: str


class Terms(Frozen):
    banned: tuple[Banned, ...]
    trade: Mapping[str, tuple[str, ...]]
    """Each term with the words of which a page shows one."""
    titled: Mapping[str, str]
    """By noun of the API: the noun that a title says for it."""


def terms() -> Terms:
    read = tomllib.loads(TERMS.read_text(encoding="utf-8"))
    return Terms(
        banned=tuple(Banned(re.compile(one["phrase"], re.MULTILINE), one["instead"], one["most"]) for one in read["banned"]),
        trade={one["term"]: (one["term"], *one.get("shown", ())) for one in read["trade"]},
        titled={one["resource"]: one["title"] for one in read["titled"]},
    )


def prose(text: str) -> str:
    """The text without code, values of the API, placeholders and targets of links. It keeps its lines."""
    return _CODE.sub(lambda found: "\n" * found.group().count("\n"), text)


def found_in(text: str, banned: Iterable[Banned]) -> Iterator[tuple[Banned, re.Match[str]]]:
    kept = prose(text)
    return ((one, found) for one in banned for found in one.phrase.finditer(kept))


def seen() -> Iterator[SeenText]:
    """All English texts that readers see: pages, emails, the API's description, the help of commands, settings, documents."""
    for file, key, text in _catalogue(ROOT):
        if not _is_search(key):
            yield SeenText(f"{file}: {key}", text)
    document = openapi.document([*ROUTES, *PAGES], base_url="https://id.example.com", version="0")
    yield from _described(document, "openapi")
    yield from _helped(command_line(), "postern")
    for one in DECLARATIONS:
        yield SeenText(one.name, f"{one.description} {one.unset}")
    for pattern in _DOCUMENTS:
        for path in sorted(ROOT.glob(pattern)):
            yield SeenText(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))


def banned(known: Terms, texts: Iterable[SeenText]) -> Iterator[tuple[Banned, str]]:
    for where, text in texts:
        for one, found in found_in(text, known.banned):
            line = prose(text)[: found.start()].count("\n") + 1
            yield one, f"{where}{f':{line}' if where.endswith('.md') else ''}: “{found.group()}”: {one.instead}"


def hidden(known: Terms, root: Path = ROOT) -> Iterator[str]:
    shown: dict[str, str] = {}
    for file, key, text in _catalogue(root):
        if not _is_search(key):
            shown[file] = f"{shown.get(file, '')} {text.lower()}"
    for file, key, text in _catalogue(root):
        if not _is_search(key) or "guide_words" in key or "chapter_words" in key or "setting_words" in key or "ending_words" in key:
            continue
        for term, words in known.trade.items():
            sought = re.search(rf"\b{re.escape(term.lower())}", text.lower())
            if sought and not any(word.lower() in shown.get(file, "") for word in words):
                yield f"{file}: {key}: the search knows “{term}”, and the page shows none of {', '.join(words)}"


def unnamed(known: Terms, root: Path = ROOT) -> Iterator[str]:
    titles = {key: text for _, key, text in _catalogue(root)}
    for node in ast.walk(ast.parse((root / _TABS).read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Name("Tab"), args=[_, _, ast.Attribute(ast.Name(operation), "caller"), ast.Constant(str(key))]):
                title = titles[key]
                nouns = {_singular(word) for word in operation.split("_")} - _VERBS
                said = {known.titled.get(noun, noun) for noun in nouns}
                if nouns and not said & {_singular(word.lower()) for word in re.findall(r"[A-Za-z-]+", title)}:
                    yield f"title “{title}” shows {operation}"


def _singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else word.rstrip("s")


def _catalogue(root: Path) -> Iterator[tuple[str, str, str]]:
    for path in sorted(root.glob("entrypoints/**/texts/*.toml")):
        for key, text in _flat(tomllib.loads(path.read_text(encoding="utf-8")).get("en", {})):
            yield str(path.relative_to(root)), key, text
    for key, text in _flat(tomllib.loads((root / "adapters/texts/en.toml").read_text(encoding="utf-8"))):
        yield "adapters/texts/en.toml", key, text


def _flat(table: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", str(value)


def _is_search(key: str) -> bool:
    return re.search(r"(^|[._])words$|guide_words|chapter_words|setting_words", key) is not None


def _described(value: object, where: str) -> Iterator[SeenText]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in {"summary", "description", "title"} and isinstance(inner, str):
                yield SeenText(where, inner)
            elif name not in {"example", "examples", "default", "enum"}:
                yield from _described(inner, f"{where}/{name}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _described(inner, f"{where}/{number}")


def _helped(parser: argparse.ArgumentParser, where: str) -> Iterator[SeenText]:
    yield SeenText(where, f"{parser.description or ''}\n{parser.epilog or ''}")
    for action in parser._actions:  # noqa: SLF001 - argparse lists what it knows nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for choice in action._choices_actions:  # noqa: SLF001
                yield SeenText(f"{where} {choice.dest}", choice.help or "")
            for name, inner in action.choices.items():
                yield from _helped(inner, f"{where} {name}")
        elif action.help and action.help != argparse.SUPPRESS:
            yield SeenText(f"{where} {'/'.join(action.option_strings) or action.dest}", action.help)


def lowered(text: str, counted: Mapping[str, int]) -> str:
    """The file of terms with the numbers found, where they are lower than before."""

    def one(found: re.Match[str]) -> str:
        most = min(int(found["most"]), counted.get(found["phrase"], 0))
        return f"phrase = '{found['phrase']}'\n{found['instead']}most = {most}"

    return _MOST.sub(one, text)


def main(arguments: list[str]) -> int:
    known = terms()
    found = list(banned(known, seen()))
    counted = Counter(one.phrase.pattern for one, _ in found)
    if "--lower" in arguments:
        TERMS.write_text(lowered(TERMS.read_text(encoding="utf-8"), counted), encoding="utf-8")
    checks = {"banned": [line for _, line in found], "hidden": list(hidden(known)), "unnamed": list(unnamed(known))}
    for name, lines in checks.items():
        print(f"{name}: {len(lines)}")
        if "--list" in arguments:
            print(*(f"  {line}" for line in lines), sep="\n")
    over = [one for one in known.banned if counted[one.phrase.pattern] > one.most]
    for one in over:
        print(f"{one.phrase.pattern}: {counted[one.phrase.pattern]}, and {one.most} at most")
    return 1 if over or checks["hidden"] or checks["unnamed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

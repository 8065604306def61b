"""Reads a catalogue: the part of TOML that a list of texts needs. `tomllib` reads the same texts from these files (a test compares), but it
takes twenty times as long, and the first person to see a page waits for it.
"""

import re
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from core.domain.languages import Language

_SECTION: Final = re.compile(r"\[([a-z_0-9.]+)\]")
# No escapes, and so no straight quotation marks and no backslashes: what stands there is what is shown.
_TEXT: Final = re.compile(r'([a-z_0-9.]+) = "([^"\\]+)"')


class UnreadableCatalogue(Exception):
    """A line of a shipped catalogue is not in the form that all have. A test of ours finds it first."""


def shipped(language: Language) -> dict[str, str]:
    """The texts of a language, by dotted key. The texts of the console, and of the pages behind
    set-up links, are in files of their own.
    """
    source = "".join(one.read_text(encoding="utf-8") for one in sources(language))
    return read(source)


def sources(language: Language) -> Sequence[Traversable]:
    folder = files(__package__)
    parts = [one for one in folder.joinpath("console", language).iterdir() if one.name.endswith(".toml")]
    return [folder.joinpath(f"{language}.toml"), *sorted(parts, key=lambda one: one.name)]


def read(source: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    section = ""
    for number, line in enumerate(source.split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        if heading := _SECTION.fullmatch(line):
            section = f"{heading[1]}."
        elif (found := _TEXT.fullmatch(line)) and section + found[1] not in texts:
            texts[section + found[1]] = found[2]
        else:
            raise UnreadableCatalogue(f"Line {number}: neither a section nor a new text")
    return texts

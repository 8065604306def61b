"""Selects the entries of the changelog that concern an installation."""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from adapters.postgres.driver.connection import Connection
from core.frozen import Frozen
from entrypoints.settings import DECLARATIONS, Declaration, Settings, read
from entrypoints.shipped_files import INSTALLED, REPOSITORY

CHANGELOG: Final = "CHANGELOG.md"
FEATURES: Final[Mapping[str, str]] = {
    "API keys": "select exists (select from api_keys)",
    "directories": "select exists (select from directory_people)",
    "fields": "select exists (select from all_profile_fields)",
    "hooks": "select exists (select from hooks)",
    "organizations' mail servers": "select exists (select from mail_servers)",
    "provisioning": "select exists (select from provisioning_connections)",
    "SAML": "select exists (select from saml_configurations)",
    "shared signals": "select exists (select from signal_streams)",
    "SIEM": "select exists (select from siem_configurations)",
    "terms": "select exists (select from terms)",
    "webhooks": "select exists (select from webhooks)",
}
"""Each feature that a mark may name, and whether the copy has something of it."""

_SECTION: Final = re.compile(r"^## (?P<name>.+)$", re.MULTILINE)
_ENTRY: Final = re.compile(r"^- (?:.*\n)(?:(?:  .*)?\n)*", re.MULTILINE)
_MARK: Final = re.compile(r"\s*\(concerns: (?P<words>[^()]+)\)\.?\s*\Z")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_FEW: Final = 24
_SENTENCE: Final = re.compile(r".+?\.(?=\s|\Z)")


class ChangelogEntry(Frozen):
    """`text` is one paragraph. `concerns` are the words of its mark; empty: everybody.

    An entry may end with `(concerns: hooks, POSTERN_OUTBOUND_PROXY)`: features that have rows, and settings that are not at their default.
    An entry without such a mark concerns everybody.
    """

    text: str
    concerns: Sequence[str] = ()

    @property
    def beginning(self) -> str:
        """Its first sentence, and more of them while they are only a few words."""
        end = 0
        while end < _FEW and (match := _SENTENCE.match(self.text, end)) is not None:
            end = match.end()
        return self.text[:end] if end else self.text


def changelog() -> str:
    """Empty if the file is not shipped."""
    for folder in (REPOSITORY, *INSTALLED):
        file = folder / CHANGELOG
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return ""


def entries_since(text: str, version: str) -> Sequence[ChangelogEntry]:
    """Those of the sections above the one of this version."""
    sections = [*_SECTION.finditer(text)]
    end = next((one.start() for one in sections if one["name"].partition(" ")[0] == version), len(text))
    begin = sections[0].start() if sections else 0
    return [_entry(match[0]) for match in _ENTRY.finditer(text, begin, max(begin, end))]


def _entry(text: str) -> ChangelogEntry:
    plain = " ".join(text[2:].partition("```")[0].split())
    mark = _MARK.search(plain)
    words = () if mark is None else tuple(word.strip() for word in mark["words"].split(","))
    body = plain if mark is None else plain[: mark.start()]
    return ChangelogEntry(_LINK.sub(r"\1", body).replace("**", ""), words)


def concerning(entries: Sequence[ChangelogEntry], used: Collection[str]) -> Sequence[ChangelogEntry]:
    return [one for one in entries if not one.concerns or any(word in used for word in one.concerns)]


async def used_words(settings: Settings, url: str) -> Collection[str]:
    """The settings that are not at their default, and the features that the copy has rows of."""
    usual = read({})
    used = {name for one in DECLARATIONS if _is_set(one, getattr(settings, one.field), getattr(usual, one.field)) for name in one.names}
    async with await Connection.connect(url) as connection:
        for feature, statement in FEATURES.items():
            if await (await connection.execute(statement.encode())).fetchone() == (True,):
                used.add(feature)
    return used


def _is_set(one: Declaration, value: object, usual: object) -> bool:
    """Secrets are never compared."""
    return value is not None if one.secret else value != usual


def shipped_at() -> Path | None:
    """Where the file is. None if it is not shipped."""
    return next((folder / CHANGELOG for folder in (REPOSITORY, *INSTALLED) if (folder / CHANGELOG).is_file()), None)

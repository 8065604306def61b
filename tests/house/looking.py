"""What there is in the house, looked up once: the walk compares each noun with it."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any

from adapters.postgres.backups.restored import _expected
from adapters.postgres.migrate import shipped as shipped_migrations
from adapters.postgres.platform import configuration, todos
from adapters.postgres.tables.declaring import Table
from adapters.postgres.tables.every import TABLES
from adapters.texts import shipped
from core.domain.languages import CONSOLE_LANGUAGES, Language
from core.domain.platform.searches import ThingKind
from core.domain.record.event_types import EVENT_TYPES, EventType
from core.frozen import Frozen
from entrypoints.cli.verbs.deriving import verbs_of
from entrypoints.http.application import PAGES as ALL_PAGES
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.routes import ROUTES
from entrypoints.http.routes.configuration.kinds import ObjectKind
from entrypoints.http.routes.configuration.registry import BY_ID
from entrypoints.http.routes.searches import LISTED_BY
from tests.places import PAGES, ROOT

# Pages about the code or made from it: what stands there says nothing to an administrator.
_OUR_OWN = re.compile(r"docs/(decisions/|architecture\.md|personal-data\.md|settings\.md)")
_UNLOGGED = re.compile(r"^create unlogged table (\w+)", re.MULTILINE)
_BOUND = re.compile(r"\bMOST_\w+")


class House(Frozen, kw_only=True):
    tables: Mapping[str, Table]
    logged: Collection[str]
    """The tables that a backup has: all but those that PostgreSQL writes no log of."""
    endpoints: Collection[Endpoint]
    commands: Collection[str]
    """The endpoints that are commands."""
    pages: Collection[str]
    events: Mapping[str, EventType]
    texts: Mapping[Language, Mapping[str, str]]
    kinds: Mapping[str, ObjectKind]
    exported: Collection[str]
    """The kinds that a document shows."""
    found: str
    """The statements of the search."""
    listed: Collection[Any]
    """The kinds that the search of an organization shows to those who may list them."""
    documents: str
    """What the documents of `docs` tell, in small letters."""
    asked: Collection[tuple[str, str]]
    """The bounds that code asks, each with the module that declares it."""


@cache
def house() -> House:
    unlogged = {name for migration in shipped_migrations() for name in _UNLOGGED.findall(migration.sql)}
    return House(
        tables=TABLES,
        logged=frozenset(part.removeprefix("table ") for part in _expected() if part.startswith("table ")) - unlogged,
        endpoints=tuple(ROUTES),
        commands=frozenset(str(one) for verbs in verbs_of(ROUTES).values() for one in verbs.values()),
        pages=frozenset(one.path for one in ALL_PAGES if one.method == "GET"),
        events={one.name: one for one in EVENT_TYPES},
        texts={language: shipped(language, PAGES) for language in CONSOLE_LANGUAGES},
        kinds=BY_ID,
        exported=frozenset((*configuration._STATEMENTS, *configuration._OF_PLATFORM)),
        found=f"{todos._FOUND_IN_ORGANIZATION}{todos._FOUND_EVERYWHERE}",
        listed=frozenset((*LISTED_BY, ThingKind.ORGANIZATION, ThingKind.TIER)),
        documents=" ".join(_documents().lower().split()),
        asked=frozenset(_asked()),
    )


def _documents() -> str:
    files = sorted((ROOT / "docs").rglob("*.md"))
    return "\n".join(one.read_text(encoding="utf-8") for one in files if not _OUR_OWN.match(one.relative_to(ROOT).as_posix()))


def _asked() -> Iterator[tuple[str, str]]:
    """A bound is asked in the module that declares it, or in one that imports it from there."""
    for folder in ("core", "adapters/postgres"):
        for file in (ROOT / folder).rglob("*.py"):
            names = Counter(_BOUND.findall(source := file.read_text(encoding="utf-8")))
            here = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            yield from ((here, name) for name, count in names.items() if count > 1)
            yield from ((module, name) for module in re.findall(r"^from ([\w.]+) import", source, re.MULTILINE) for name in names)

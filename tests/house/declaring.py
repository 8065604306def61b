"""What a noun of ours is, and what belongs to one.

A noun is a class with an id that a table of `adapters/postgres/tables` holds for a person, an organization, a service or the platform. Its
declaration stands in `tests/house/nouns`, in the file of its area, and names what nobody can derive. `obligations.py` asks the rest.
"""

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from core.domain.platform.searches import ThingKind
from core.frozen import Frozen

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Noun(Frozen, kw_only=True):
    """What a noun does not have is left out: the walk then asks for it, or finds the reason in `exemptions.py`."""

    name: str
    """In words, as a document would say it of one: `trusted issuer`."""
    of: type[Frozen]
    """The class of the domain."""
    id: Any = None
    """The type of its id, from `core.domain.identifiers`."""
    table: str
    column: str = ""
    """The column of the table that holds it, as JSON, where the table is another noun's."""
    parts: Mapping[str, str] = _NOTHING
    """The tables that hold its parts: settings, used values, ties to another noun, its log. Each with what it holds."""
    part_ids: tuple[Any, ...] = ()
    """The types of the parts' ids."""
    settings: tuple[type[Frozen], ...] = ()
    """The classes of what people set of its parts."""
    at: str = ""
    """The address of the list, or of the thing where there is one at most. One of several stands below: `{at}/{…}`."""
    is_single: bool = False
    """Whether whoever it belongs to has one at most."""
    events: tuple[str, ...] = ()
    """The beginnings of the names of its events: `team` begins `team.created`."""
    page: str = ""
    """The page where people see it: of the console, or of the account where it is a person's."""
    document: str = ""
    """The id of the kind in configuration documents (`entrypoints/http/routes/configuration/registry.py`)."""
    search: ThingKind | None = None
    most: str = ""
    """The constant that bounds it, in the module of its class, or with the module's name before it."""
    told_as: tuple[str, ...] = ()
    """What the documents call it, if not by its name."""

    @property
    def tables(self) -> tuple[str, ...]:
        return (*(() if self.column else (self.table,)), *self.parts)

    @property
    def bound(self) -> int | None:
        """The number of the constant. None if no constant is named, or there is none of this name."""
        value = getattr(sys.modules.get(self.module_of_bound), self.most.rpartition(".")[2] or "-", None)
        return value if isinstance(value, int) else None

    @property
    def module_of_bound(self) -> str:
        return self.most.rpartition(".")[0] or self.of.__module__


class Foundation(Frozen):
    """Tables that hold no noun and no part of one, with what they are instead."""

    reason: str
    tables: tuple[str, ...]
    ids: tuple[Any, ...] = ()
    """The types of the ids that only these tables have."""

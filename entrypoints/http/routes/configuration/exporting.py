"""Exports what is configured as a configuration file. It never contains secrets."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Final, TypeVar

import msgspec
import trio

from core.domain.platform.configuration.objects import ORGANIZATION, SERVICE, ObjectPlace
from core.domain.platform.configuration.planning import Present
from entrypoints.http.routes.configuration.acting import DocumentCaller
from entrypoints.http.routes.configuration.applying import normal
from entrypoints.http.routes.configuration.kinds import Within
from entrypoints.http.routes.configuration.reading import VERSION
from entrypoints.http.routes.configuration.registry import BY_ID, KINDS, within

Item = TypeVar("Item")

_SLICE: Final = 50
# In seconds. After so long, other tasks have their turn before the next slice.
_LONGEST: Final = 0.001


class _Turns:
    def __init__(self) -> None:
        self._began = perf_counter()

    async def share(self) -> None:
        if perf_counter() - self._began > _LONGEST:
            await trio.lowlevel.checkpoint()
            self._began = perf_counter()


async def exported(acting: DocumentCaller, organizations: Collection[str], *, with_platform: bool, are_all: bool = False) -> dict[str, Any]:
    """The document of these organizations, and of the installation. Kinds that the caller may not see are left out. `are_all`: there are no
    other organizations, so that their objects need not be asked for by their slugs.
    """
    configurations = acting.postern.platform.configurations
    # Whoever may see a kind of object in one of the organizations may see it in all of them: members and keys have one organization.
    anyone = next(iter(organizations), "")
    kinds = [kind.id for kind in KINDS if await acting.may(kind.shown_by, anyone) is None]
    stored = await configurations.stored(kinds, None if are_all and organizations else organizations)
    named = {"", *organizations}
    turns = _Turns()
    present: dict[ObjectPlace, Present] = {}
    seen: dict[tuple[str, str], bool] = {}
    for part in _slices(stored):
        # Somebody may have made an organization since `organizations` were read.
        these = normal(configurations.present([one for one in part if one.place.organization in named]))
        for place in these:
            if (place.organization, place.kind) not in seen:
                seen[place.organization, place.kind] = await acting.may(BY_ID[place.kind].shown_by, place.organization) is None
        present |= these
        await turns.share()
    document: dict[str, Any] = {}
    for _ in _growing(document, present, seen, organizations, with_platform=with_platform):
        await turns.share()
    return document


async def encoded(document: dict[str, Any]) -> dict[str, Any]:
    """The same document, with its organizations already in JSON: what is left to encode takes no time that grows with them."""
    if "organizations" not in document:
        return document
    organizations: dict[str, msgspec.Raw] = {}
    turns = _Turns()
    for part in _slices(list(document["organizations"].items())):
        organizations |= {slug: msgspec.Raw(_encode(one)) for slug, one in part}
        await turns.share()
    return {**document, "organizations": organizations}


_encode: Final = msgspec.json.Encoder().encode


def tree(
    present: Mapping[ObjectPlace, Present], seen: Mapping[tuple[str, str], bool], organizations: Collection[str], *, with_platform: bool
) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for _ in _growing(document, present, seen, organizations, with_platform=with_platform):
        pass
    return document


def _growing(
    document: dict[str, Any],
    present: Mapping[ObjectPlace, Present],
    seen: Mapping[tuple[str, str], bool],
    organizations: Collection[str],
    *,
    with_platform: bool,
) -> Iterator[None]:
    """Fills the document. Stops after each slice, so that a caller can let others have their turn."""
    document["postern"] = VERSION
    if with_platform:
        document["platform"] = {}
    if organizations:
        within = document["organizations"] = {}
        for slugs in _slices(sorted(organizations)):
            within |= {slug: {} for slug in slugs}
            yield
    shown: dict[str, list[ObjectPlace]] = {}
    for part in _slices(list(present)):
        for place in part:
            if seen[place.organization, place.kind] and (place.organization or with_platform) and not present[place].is_directorys:
                shown.setdefault(place.organization, []).append(place)
        yield
    lacking: list[tuple[str, ...]] = []
    for part in _slices([place for organization in sorted(shown) for place in _in_order(shown[organization])]):
        for place in part:
            _put(document, place, present[place])
            lacking += _lacking(place, present, seen)
        yield
    _put_whole(document, lacking)


def _in_order(places: list[ObjectPlace]) -> list[ObjectPlace]:
    """Of one organization."""
    return sorted(places, key=_turn) if len(places) > 1 else places


def _put(document: dict[str, Any], place: ObjectPlace, one: Present) -> None:
    at = document
    for step in place.steps:
        at = at.setdefault(step, {})
    at.update(BY_ID[place.kind].as_shown(one.fields))


def _put_whole(document: dict[str, Any], lacking: Iterable[tuple[str, ...]]) -> None:
    """A new object begins with what it brings. A whole collection says that this one has it no more."""
    for *above, collection in lacking:
        at = document
        for step in above:
            at = at[step]
        at[collection] = {"whole": True, "entries": at.get(collection, {})}


def _lacking(place: ObjectPlace, present: Mapping[ObjectPlace, Present], seen: Mapping[tuple[str, str], bool]) -> Iterator[tuple[str, ...]]:
    for kind, name in BY_ID[place.kind].brings:
        if seen.get((place.organization, kind), True) and ObjectPlace(place.organization, place.name, kind, name) not in present:
            yield (*place.steps, kind)


def _slices(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[start : start + _SLICE] for start in range(0, len(items), _SLICE))


def _turn(place: ObjectPlace) -> tuple[Any, ...]:
    """Organizations by slug. In each, its own fields first, then its kinds in their order, and services last, each with what it has."""
    if place.kind == ORGANIZATION:
        return (place.organization, 0)
    service = place.service or (place.name if place.kind == SERVICE else "")
    return (place.organization, 2 if service else 1, service, place.kind != SERVICE, _RANK[place.kind], place.name)


_RANK = {kind.id: at for at, kind in enumerate(KINDS)}


def wholly(document: dict[str, Any]) -> dict[str, Any]:
    """The document with all of its collections whole. A service's entries are whole in themselves."""
    return {
        name: value if name == "postern" else _whole_holders(value) if name == "organizations" else _whole_kinds(value, Within.PLATFORM)
        for name, value in document.items()
    }


def _whole_holders(organizations: Mapping[str, Any]) -> dict[str, Any]:
    return {slug: _whole_kinds(one, Within.ORGANIZATION) for slug, one in organizations.items()}


def _whole_kinds(held: Mapping[str, Any], place: Within) -> dict[str, Any]:
    """Collections that are not there are written down as empty ones: nothing may be in them."""
    made = dict(held)
    for name, kind in within(place).items():
        if kind.is_single or kind.end is None:
            continue
        entries = held.get(name, {})
        if entries.get("whole") is True:
            continue
        if kind.id == SERVICE:
            entries = {slug: _whole_kinds(one, Within.SERVICE) for slug, one in entries.items()}
        made[name] = {"whole": True, "entries": entries}
    return made

"""Writes what is set as a document: the tree that a file or an answer has. Secrets are never in it."""

from collections.abc import Collection, Mapping
from typing import Any

from core.domain.platform.configuration.objects import ORGANIZATION, SERVICE, ObjectPlace
from core.domain.platform.configuration.planning import Present
from entrypoints.http.routes.configuration.acting import DocumentCaller
from entrypoints.http.routes.configuration.applying import beside, normal
from entrypoints.http.routes.configuration.kinds import Within
from entrypoints.http.routes.configuration.reading import VERSION
from entrypoints.http.routes.configuration.registry import BY_ID, KINDS, within


async def exported(acting: DocumentCaller, organizations: Collection[str], *, with_platform: bool) -> dict[str, Any]:
    """The document of these organizations, and of the installation. Kinds that the caller may not see are left out."""
    configurations = acting.postern.platform.configurations
    # Whoever may see a kind of object in one of the organizations may see it in all of them: members and keys have one organization.
    anyone = next(iter(organizations), "")
    kinds = [kind.id for kind in KINDS if await acting.may(kind.shown_by, anyone) is None]
    stored = await configurations.stored(kinds, organizations)
    present = await beside(lambda: normal(configurations.present(stored)))
    seen: dict[tuple[str, str], bool] = {}
    for place in present:
        if (place.organization, place.kind) not in seen:
            seen[place.organization, place.kind] = await acting.may(BY_ID[place.kind].shown_by, place.organization) is None
    return await beside(lambda: tree(present, seen, organizations, with_platform=with_platform))


def tree(
    present: Mapping[ObjectPlace, Present], seen: Mapping[tuple[str, str], bool], organizations: Collection[str], *, with_platform: bool
) -> dict[str, Any]:
    document: dict[str, Any] = {"postern": VERSION}
    if with_platform:
        document["platform"] = {}
    if organizations:
        document["organizations"] = {slug: {} for slug in sorted(organizations)}
    lacking: list[tuple[str, ...]] = []
    for place in sorted(present, key=_turn):
        one = present[place]
        if one.is_directorys or not seen[place.organization, place.kind] or (not place.organization and not with_platform):
            continue
        at = document
        for step in place.steps:
            at = at.setdefault(step, {})
        at.update(BY_ID[place.kind].as_shown(one.fields))
        for kind, name in BY_ID[place.kind].brings:
            if seen.get((place.organization, kind), True) and ObjectPlace(place.organization, place.name, kind, name) not in present:
                lacking.append((*place.steps, kind))
    # A new object begins with what it brings. A whole collection says that this one has it no more.
    for *above, collection in lacking:
        at = document
        for step in above:
            at = at[step]
        at[collection] = {"whole": True, "entries": at.get(collection, {})}
    return document


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

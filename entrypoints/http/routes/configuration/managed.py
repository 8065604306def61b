"""The objects that documents manage: which of them an endpoint would change, and which were changed by hand since."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from core.domain.errors import NotFound
from core.domain.identifiers import OrganizationId
from core.domain.platform.configuration.objects import ManagedMark, has_drifted
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.routes.configuration.kinds import ObjectKind, Within
from entrypoints.http.routes.configuration.registry import BY_ID, KINDS


class ManagedObject(Frozen):
    mark: ManagedMark
    has_drifted: bool


async def managed_objects(postern: Postern, organization: str) -> Sequence[ManagedObject]:
    """Of an organization, or of the installation for an empty slug, in the order of places."""
    configurations = postern.platform.configurations
    marks = await configurations.all_managed(organization)
    kinds = sorted({mark.place.kind for mark in marks})
    stored = await configurations.stored(kinds, [organization])
    present = {one.place: BY_ID[one.place.kind].as_stored(one.fields) for one in stored}
    return [ManagedObject(mark, has_drifted(mark, present.get(mark.place))) for mark in marks]


def _paths(kind: ObjectKind) -> frozenset[str]:
    """The addresses of one such object in the API."""
    stated = [one for one in (kind.change, kind.end) if one is not None]
    shown = (kind.shown_by,) if kind.is_single and not kind.parameter else ()
    return frozenset(one.path for one in (*stated, *shown))


# The address of an organization itself answers with much that no document sets, so only its change counts.
_AT: Final[Mapping[str, ObjectKind]] = {path: kind for kind in KINDS if not kind.is_founded for path in _paths(kind)}
_CHANGES: Final[Mapping[str, ObjectKind]] = {str(kind.change): kind for kind in KINDS if kind.is_founded}
_LISTED: Final[Mapping[str, ObjectKind]] = {kind.shown_by.path: kind for kind in KINDS if not kind.is_single}


def kind_offered(of: Endpoint, page: str) -> ObjectKind | None:
    """The kind of the one object that a page of the console shows or changes. None for a list, and for what no document manages."""
    kind = _CHANGES.get(str(of)) or _AT.get(of.path) or _LISTED.get(of.path)
    return kind if kind is not None and (not kind.parameter or kind.parameter in parameters(page)) else None


async def mark_of(postern: Postern, kind: ObjectKind, values: Mapping[str, str]) -> ManagedMark | None:
    """The mark of the object that these values of a path name. None if no document manages the object. Raises `NotFound` for a value that
    names nothing, since this comes before the values get the types of the endpoint.
    """
    if kind.parameter == "org_id":
        try:
            wanted = OrganizationId(UUID(values["org_id"]))
        except ValueError:
            raise NotFound from None
        organization = (await postern.platform.governance.show(wanted)).organization.slug
        return await postern.platform.configurations.managed(organization, "", kind.id, "")
    service = values.get("service_slug", "") if kind.within is Within.SERVICE else ""
    named = "" if kind.is_single else values[kind.parameter]
    return await postern.platform.configurations.managed(values.get("org_slug", ""), service, kind.id, named)

"""The registry of all kinds of objects in configuration files, in the order of their creation, and the objects that files manage."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from core.domain.errors import NotFound
from core.domain.identifiers import OrganizationId
from core.domain.platform.configuration.objects import PLATFORM_FIELDS, PLATFORM_TEXTS, ManagedMark, has_drifted
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.routes.configuration.hook_kinds import HOOK_KIND, PLATFORM_HOOK_KIND
from entrypoints.http.routes.configuration.kinds import ObjectKind, Within, entry
from entrypoints.http.routes.configuration.organization_kinds import (
    NO_TEXTS,
    ORGANIZATION_KINDS,
    SERVICE_KINDS,
    STORED_TEXTS,
    bounds,
    stated_bounds,
)
from entrypoints.http.routes.configuration.risk_kinds import PLATFORM_RISK_KIND, RISK_KIND
from entrypoints.http.routes.platform import for_everybody, further_providers, platform_fields, text_approvals
from entrypoints.http.routes.tenancy import texts

_PLATFORM_KINDS: Final = (
    ObjectKind(
        name="profile_fields",
        stored_as=PLATFORM_FIELDS,
        within=Within.PLATFORM,
        entry=entry("PlatformFieldEntry", platform_fields.NewPlatformField, without=("key",)),
        shown_by=platform_fields.list_platform_fields,
        make=platform_fields.create_platform_field,
        change=platform_fields.change_platform_field,
        end=platform_fields.delete_platform_field,
        key="key",
        parameter="key",
        new_id="key",
        fixed=frozenset({"kind"}),
        unordered=frozenset({"written_by"}),
        stored={"rule": bounds},
        shown={"rule": stated_bounds},
    ),
    ObjectKind(
        name="providers",
        within=Within.PLATFORM,
        entry=entry("FurtherProviderEntry", further_providers.NewFurtherProvider, without=("key",)),
        shown_by=further_providers.list_further_providers,
        make=further_providers.create_further_provider,
        change=further_providers.change_further_provider,
        end=further_providers.delete_further_provider,
        key="key",
        parameter="key",
        new_id="key",
        secrets=("client_secret",),
        made_with={"active": False},
        fixed=frozenset({"preset", "kind"}),
        unordered=frozenset({"organizations"}),
    ),
    ObjectKind(
        name="texts",
        stored_as=PLATFORM_TEXTS,
        within=Within.PLATFORM,
        entry=entry("InstallationTextsEntry", texts.WholeTextsBody),
        shown_by=for_everybody.list_installation_texts,
        change=for_everybody.replace_installation_texts,
        is_single=True,
        standing=NO_TEXTS,
        stored=STORED_TEXTS,
    ),
    PLATFORM_RISK_KIND,
    PLATFORM_HOOK_KIND,
    ObjectKind(
        name="text_rules",
        within=Within.PLATFORM,
        entry=entry("TextRulesEntry", text_approvals.TextRulesBody),
        shown_by=text_approvals.get_text_rules,
        change=text_approvals.set_text_rules,
        is_single=True,
        standing={"mails": True, "pages": False},
    ),
)

# The rules of an organization may name the role of a service, which is made before.
_AFTER_SERVICES: Final = frozenset({"sign_in_rules"})
KINDS: Final[tuple[ObjectKind, ...]] = (
    *_PLATFORM_KINDS,
    *(kind for kind in ORGANIZATION_KINDS if kind.name not in _AFTER_SERVICES),
    *SERVICE_KINDS,
    *(kind for kind in ORGANIZATION_KINDS if kind.name in _AFTER_SERVICES),
    RISK_KIND,
    HOOK_KIND,
)
BY_ID: Final[Mapping[str, ObjectKind]] = {kind.id: kind for kind in KINDS}
RULES: Final = tuple(kind.rules for kind in KINDS)


def within(place: Within) -> Mapping[str, ObjectKind]:
    """The kinds that stand beside the own fields of a holder, by their names in documents."""
    return {kind.name: kind for kind in KINDS if kind.within is place and not (kind.is_holder and kind.is_single)}


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

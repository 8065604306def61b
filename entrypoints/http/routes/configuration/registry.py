"""All kinds of objects that documents have, in the order in which they are made. What a kind names in its fields stands before it."""

from collections.abc import Mapping
from typing import Final

from core.domain.platform.configuration.objects import PLATFORM_FIELDS, PLATFORM_TEXTS
from entrypoints.http.routes.configuration.entries import entry
from entrypoints.http.routes.configuration.kinds import ObjectKind, Within
from entrypoints.http.routes.configuration.organization_kinds import NO_TEXTS, ORGANIZATION_KINDS, STORED_TEXTS, bounds, stated_bounds
from entrypoints.http.routes.configuration.risk_kinds import PLATFORM_RISK_KIND, RISK_KIND
from entrypoints.http.routes.configuration.service_kinds import SERVICE_KINDS
from entrypoints.http.routes.platform import further_providers, installation_texts, platform_fields, text_approvals
from entrypoints.http.routes.tenancy.texts import texts

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
        shown_by=installation_texts.list_installation_texts,
        change=installation_texts.replace_installation_texts,
        is_single=True,
        standing=NO_TEXTS,
        stored=STORED_TEXTS,
    ),
    PLATFORM_RISK_KIND,
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
)
BY_ID: Final[Mapping[str, ObjectKind]] = {kind.id: kind for kind in KINDS}
RULES: Final = tuple(kind.rules for kind in KINDS)


def within(place: Within) -> Mapping[str, ObjectKind]:
    """The kinds that stand beside the own fields of a holder, by their names in documents."""
    return {kind.name: kind for kind in KINDS if kind.within is place and not (kind.is_holder and kind.is_single)}

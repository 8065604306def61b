"""Reads configured objects for configuration files in PostgreSQL, one statement a kind, with their marks and proposals."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns, CountRow, IdRow, storable_text
from adapters.postgres.identity.upstream.providers import FURTHER
from adapters.postgres.services import service_roles, services
from adapters.postgres.services.plans import PLAN
from adapters.postgres.services.resource_servers import RESOURCE_SERVER, named_services
from adapters.postgres.services.user_keys import USER_KEY_SETTINGS
from adapters.postgres.statements import OnPool, OnStatements, ask, ask_for_many, first, only, tell
from adapters.postgres.tenancy import hooks, roles
from adapters.postgres.tenancy.branding import LOOK
from adapters.postgres.tenancy.management_keys import OF_KEY, OWES_SECOND_FACTOR, TRUSTED_ISSUER
from adapters.postgres.tenancy.offboarding import DEADLINE
from adapters.postgres.tenancy.organizations import MAIL_SERVER, ORGANIZATION, RULES
from adapters.postgres.tenancy.profile_fields import FIELD
from adapters.postgres.tenancy.siem import SIEM
from adapters.postgres.tenancy.upstream_providers import UPSTREAM_PROVIDER
from adapters.postgres.tenancy.webhooks import WEBHOOK
from core.domain.federation.saml.configurations import Configuration, ConfigurationChange, Understood
from core.domain.formats import timestamp
from core.domain.identifiers import OrganizationId, ProposalId
from core.domain.languages import Language
from core.domain.platform.configuration.objects import (
    HOOK,
    PLATFORM_FIELDS,
    PLATFORM_HOOK,
    PLATFORM_RISK,
    PLATFORM_TEXTS,
    SERVICE,
    ManagedMark,
    ObjectPlace,
)
from core.domain.platform.configuration.planning import PROPOSES, Proposal, ProposalState
from core.domain.services.plans import PlanChange
from core.domain.services.proxies import ProxySettingsChange
from core.domain.services.resource_servers import ResourceServerChange
from core.domain.services.service_roles import ServiceRoleChange
from core.domain.services.services import ServiceChange
from core.domain.services.user_keys import UserKeySettingsChange
from core.domain.tenancy.branding import LookChange
from core.domain.tenancy.hooks import HookDraft
from core.domain.tenancy.mail_servers import MailServerSettings
from core.domain.tenancy.management_keys import Maker, able_in_organization
from core.domain.tenancy.offboarding import OffboardingMinutes
from core.domain.tenancy.organizations import OrganizationUpdate
from core.domain.tenancy.roles import capabilities_of
from core.domain.tenancy.sign_in_rules import SignInRulesChange
from core.domain.tenancy.trusted_issuers import TrustedIssuerChange
from core.domain.tenancy.webhooks import WebhookChange
from core.frozen import Frozen, names_of
from ports.platform import SealedProposal, StoredObject


def _mark(
    *,
    organization: str,
    service: str,
    kind: str,
    name: str,
    named: Sequence[str],
    by_person: str | None,
    by_key: str | None,
    **columns: Any,
) -> ManagedMark:
    place = ObjectPlace(organization, service, kind, name)
    return ManagedMark(place=place, named=tuple(named), by=by_person or by_key or "", **columns)


class PostgresManagedMarks(OnPool):
    """Implements `ports.platform.ManagedMarks`."""

    async def replace(
        self, organization: str, kinds: Sequence[str], marks: Sequence[ManagedMark], person: UUID | None, key: UUID | None
    ) -> None:
        rows = [
            {
                "service": one.place.service,
                "kind": one.place.kind,
                "name": one.place.name,
                "object_id": one.id,
                "document": one.document,
                "named": list(one.named),
                "fields_digest": one.fields,
                "managed_at": timestamp(one.at),
            }
            for one in marks
        ]
        await tell(
            self._pool,
            _REPLACE if organization else _REPLACE_OF_INSTALLATION,
            {"organization": storable_text(organization), "kinds": list(kinds), "marks": Jsonb(rows), "person": person, "key": key},
        )

    async def find(self, organization: str, service: str, kind: str, id: str) -> ManagedMark | None:  # noqa: A002 - the noun's own word
        parameters = {
            "organization": storable_text(organization),
            "service": storable_text(service),
            "kind": kind,
            "id": storable_text(id),
        }
        return first(await ask(self._pool, _mark, _FIND if organization else _FIND_OF_INSTALLATION, parameters))

    async def list(self, organization: str) -> Sequence[ManagedMark]:
        statement = _LIST if organization else _LIST_OF_INSTALLATION
        return await ask(self._pool, _mark, statement, {"organization": storable_text(organization)})


_COLUMNS: Final = """
    managed.service, managed.kind, managed.name, managed.object_id as id, managed.document, managed.named,
           managed.fields_digest as fields, managed.managed_at as at, users.email as by_person, management_keys.name as by_key
"""
_ITS_MAKER: Final = """
      left join users on users.id = managed.managed_by
      left join management_keys on management_keys.id = managed.managed_by_key
"""
_OF_ORGANIZATION: Final[LiteralString] = f"""
    select organizations.slug as organization, {_COLUMNS}
      from organizations
      join managed_objects as managed on managed.org_id = organizations.id
      {_ITS_MAKER}
     where organizations.slug = %(organization)s
"""
_OF_INSTALLATION: Final[LiteralString] = f"""
    select '' as organization, {_COLUMNS}
      from managed_objects as managed
      {_ITS_MAKER}
     where managed.org_id is null
"""
_ONE: Final = "and managed.service = %(service)s and managed.kind = %(kind)s and managed.object_id = %(id)s"
_ORDER: Final = "order by managed.service, managed.kind, managed.name"
_FIND: Final[LiteralString] = f"{_OF_ORGANIZATION} {_ONE}"
_FIND_OF_INSTALLATION: Final[LiteralString] = f"{_OF_INSTALLATION} {_ONE}"
_LIST: Final[LiteralString] = f"{_OF_ORGANIZATION} {_ORDER}"
_LIST_OF_INSTALLATION: Final[LiteralString] = f"{_OF_INSTALLATION} {_ORDER}"

# Two documents at once: the row of the organization lets the second wait for the first, so that the marks are those of one of them.
_HELD: Final = "held as materialized (select id from organizations where slug = %(organization)s for no key update)"
_VALUES: Final = """
    service, kind, name, object_id, document, named, fields_digest, managed_at, %(person)s::uuid, %(key)s::uuid
"""
_SENT: Final = """
    jsonb_to_recordset(%(marks)s) as sent (
        service text, kind text, name text, object_id text, document text, named text[], fields_digest text, managed_at timestamptz
    )
"""
_SAVED: Final = """
       set object_id = excluded.object_id, document = excluded.document, named = excluded.named, fields_digest = excluded.fields_digest,
           managed_at = excluded.managed_at, managed_by = excluded.managed_by, managed_by_key = excluded.managed_by_key
"""
_INTO: Final = """
    managed_objects (org_id, service, kind, name, object_id, document, named, fields_digest, managed_at, managed_by, managed_by_key)
"""
_REPLACE: Final[LiteralString] = f"""
    with {_HELD},
         gone as (
             delete from managed_objects
              using held
              where managed_objects.org_id = held.id and managed_objects.kind = any(%(kinds)s)
                and (managed_objects.service, managed_objects.kind, managed_objects.name) not in (select service, kind, name from {_SENT})
         )
    insert into {_INTO}
    select held.id, {_VALUES}
      from held
     cross join {_SENT}
        on conflict (org_id, service, kind, name) where org_id is not null do update
       {_SAVED}
"""
_REPLACE_OF_INSTALLATION: Final[LiteralString] = f"""
    with gone as (
             delete from managed_objects
              where org_id is null and kind = any(%(kinds)s) and (service, kind, name) not in (select service, kind, name from {_SENT})
         )
    insert into {_INTO}
    select null, {_VALUES}
      from {_SENT}
        on conflict (service, kind, name) where org_id is null do update
       {_SAVED}
"""


PROPOSAL: Final = Columns(
    Proposal,
    "proposals",
    named={"organization": "org_id", "document": "document_digest", "plan": "plan_digest", "key": "key_id"},
    apart=("proposed_by",),
)


class _Maker(Frozen):
    """Who proposes: a person, or a management key with what its own maker may do."""

    key_capabilities: list[str] | None
    key_is_adopted: bool
    relations: list[str]
    owes_second_factor: bool

    def may_propose(self) -> bool:
        if self.key_capabilities is None:
            return PROPOSES in capabilities_of(self.relations)
        maker = None if self.key_is_adopted else Maker(frozenset(self.relations), self.owes_second_factor)
        return PROPOSES in able_in_organization(self.key_capabilities, maker)


def _counting(**columns: Any) -> Proposal | None:
    """None for a proposal whose maker may propose no more."""
    maker = _Maker(**{name: columns.pop(name) for name in _OF_MAKER})
    return PROPOSAL.row(**columns) if maker.may_propose() else None


def _sealed(*, sealed_document: bytes | None, **columns: Any) -> SealedProposal | None:
    proposal = _counting(**columns)
    return None if proposal is None else SealedProposal(proposal, sealed_document)


class ProposalRows(OnStatements):
    """Implements `ports.platform.ProposalStore`."""

    async def list(self, organization: OrganizationId, now: datetime) -> Sequence[Proposal]:
        found = await self._statements.ask(_counting, _PROPOSAL_LIST, {"organization": organization, "now": now})
        return [one for one in found if one is not None]

    async def find(self, organization: OrganizationId, proposal: ProposalId, now: datetime) -> SealedProposal | None:
        return first(await self._statements.ask(_sealed, _PROPOSAL_FIND, {"organization": organization, "id": proposal, "now": now}))

    async def waiting(self, organization: OrganizationId, now: datetime) -> int:
        return sum(one.state is ProposalState.WAITING for one in await self.list(organization, now))

    async def add(self, proposal: Proposal, sealed_document: bytes) -> None:
        await self._statements.tell(_ADD, {**PROPOSAL.values(proposal), "sealed_document": sealed_document})

    async def take(self, organization: OrganizationId, proposal: ProposalId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _TAKE, {"organization": organization, "id": proposal, "at": at}))

    async def remove(self, organization: OrganizationId, proposal: ProposalId) -> bool:
        return bool(await self._statements.ask(IdRow, _REMOVE, {"organization": organization, "id": proposal}))


_OF_MAKER: Final = names_of(_Maker)

# The row of a key's proposal goes with its key, by a foreign key. `users` is empty for a maker who has left or is deactivated, and who then
# stands in no relation to the organization. A key counts as long as whoever made it may do what it does, until somebody adopts it.
_NAMED: Final[LiteralString] = f"""
           {PROPOSAL.names}, coalesce(keys.name, users.email, '') as proposed_by,
           {OF_KEY},
           case when users.id is null then '{{}}'::text[] else {roles.RELATIONS_OF_MEMBER} end as relations,
           case when users.id is null then false else {OWES_SECOND_FACTOR} end as owes_second_factor"""

_COUNTING: Final = """
      from proposals
      join organizations as wanted on wanted.id = proposals.org_id
      left join management_keys as keys on keys.id = proposals.key_id
      left join users on users.id = coalesce(keys.created_by, proposals.created_by) and users.deactivated_at is null
       and exists (select from memberships where memberships.org_id = proposals.org_id and memberships.user_id = users.id)
     where proposals.org_id = %(organization)s and proposals.expires_at > %(now)s
       and (proposals.key_id is null or keys.expires_at > %(now)s)
"""

_PROPOSAL_LIST: Final[LiteralString] = f"select {_NAMED} {_COUNTING} order by proposals.created_at desc, proposals.id desc"

_PROPOSAL_FIND: Final[LiteralString] = f"select {_NAMED}, proposals.sealed_document {_COUNTING} and proposals.id = %(id)s"

_ADD: Final[LiteralString] = f"""
    insert into proposals ({PROPOSAL.into("sealed_document")}) values ({PROPOSAL.inserted("sealed_document")})
"""

_TAKE: Final = """
    update proposals
       set enacted_at = %(at)s, sealed_document = null
     where id = %(id)s and org_id = %(organization)s and enacted_at is null
 returning id
"""

_REMOVE: Final = "delete from proposals where id = %(id)s and org_id = %(organization)s returning id"


# Risk policies name applications by ID, and exceptions teams; a configuration file names both by slug. What was deleted keeps its ID, so
# that the policy reads as it is. An exception of a user is in no file, as users are in none, and since when a policy is enforced cannot be
# set.
_POLICIES: Final = """
    coalesce(
        (
            select jsonb_agg(
                       case when said.rule -> 'when' ? 'services' then jsonb_set(said.rule, '{when,services}', (
                           select jsonb_agg(coalesce(services.slug, named.id))
                             from jsonb_array_elements_text(said.rule #> '{when,services}') as named (id)
                             left join services on services.org_id = organizations.id and services.id = named.id::uuid
                       )) else said.rule end
                       order by stored.place
                   )
              from jsonb_array_elements(organizations.risk_policies) with ordinality as stored (rule, place)
             cross join lateral (select stored.rule - 'counts_since' as rule) as said
        ),
        '[]'
    )
"""

_EXCEPTIONS: Final = """
    coalesce(
        (
            select jsonb_agg(
                       case when teams.slug is null then stored.one else jsonb_set(stored.one, '{value}', to_jsonb(teams.slug)) end
                       order by stored.place
                   )
              from jsonb_array_elements(organizations.risk_exceptions) with ordinality as stored (one, place)
              left join teams on stored.one ->> 'kind' = 'team' and teams.org_id = organizations.id
                             and teams.id::text = stored.one ->> 'value'
             where stored.one ->> 'kind' <> 'person'
        ),
        '[]'
    )
"""

RISK_POLICIES: Final[LiteralString] = f"""
    select organizations.slug as organization,
           jsonb_build_object('policies', {_POLICIES}, 'exceptions', {_EXCEPTIONS}) as fields
      from organizations
"""

PLATFORM_RISK_POLICIES: Final = """
    select '' as organization,
           jsonb_build_object(
               'policies', coalesce(
                   (
                       select jsonb_agg(kept.one - 'counts_since' order by kept.place)
                         from jsonb_array_elements(stored.policies) with ordinality as kept (one, place)
                   ),
                   '[]'
               ),
               'exceptions', coalesce(
                   (
                       select jsonb_agg(kept.one order by kept.place)
                         from jsonb_array_elements(stored.exceptions) with ordinality as kept (one, place)
                        where kept.one ->> 'kind' <> 'person'
                   ),
                   '[]'
               )
           ) as fields
      from (values (true)) as this (installation)
      left join installation_risk_policies as stored on this.installation
"""


_OF_SERVICES: Final = """
      from organizations
      join services on services.org_id = organizations.id and services.service_type <> 'metadata'
"""

# Metadata clients are no wish of anybody, either: they come by themselves.
# Keys that were read from `jwks_uri` are no wish of anybody.
_SERVICES: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as name, services.slug as id, services.user_count as people,
           jsonb_build_object(
               {services.SERVICE.document({*names_of(ServiceChange)} - {"redirect_uris", "jwks"})},
               -- The hosts of a proxy say these.
               'redirect_uris', case when service_type = 'proxy' then '{{}}' else redirect_uris end,
               'jwks', case when jwks_uri is null then jwks end, 'metadata', services.metadata
           ) as fields
      {_OF_SERVICES}
"""

_PLANS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service, plans.key as name, plans.id::text as id,
           plans.subscription_count as people,
           jsonb_build_object({PLAN.document(names_of(PlanChange))}) as fields
      {_OF_SERVICES}
      join plans on plans.service_id = services.id and plans.deleted_at is null
"""

_PERMISSIONS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service, permissions.key as name, permissions.key as id,
           jsonb_build_object({service_roles.PERMISSION.document(("description",))}) as fields
      {_OF_SERVICES}
      join permissions on permissions.service_id = services.id
"""

_SERVICE_ROLES: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service, service_roles.slug as name, service_roles.slug as id,
           (select count(*) from relations where relations.service_id is not null and relations.object_id = service_roles.id)::integer
               as people,
           jsonb_build_object({service_roles.ROLE.document(names_of(ServiceRoleChange))}) as fields
      {_OF_SERVICES}
      join service_roles on service_roles.service_id = services.id
"""

_CLAIMS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service, service_claims.name, service_claims.id::text as id,
           jsonb_build_object('source', source, 'argument', argument, 'into', told_in) as fields
      {_OF_SERVICES}
      join service_claims on service_claims.service_id = services.id
"""

# Assignments to people are no configuration.
_ASSIGNMENTS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service, held.id::text as id, '{{}}'::jsonb as fields,
           service_roles.slug || case when held.team_id is null then ' to role ' || coalesce(roles.slug, held.built_in_role)
                                      else ' to team ' || teams.slug end as name,
           (select count(*) from team_members where team_members.team_id = held.team_id)::integer as people
      {_OF_SERVICES}
      join relations as held on held.service_id = services.id and held.user_id is null
      join service_roles on service_roles.id = held.object_id
      left join teams on teams.id = held.team_id
      left join roles on roles.id = held.role_id
"""


def _saml(kind: type[Frozen]) -> LiteralString:
    """The fields that a configuration shares with the class. Their columns have their names."""
    return ", ".join(f"'{name}', saml_configurations.{name}" for name in names_of(Configuration) if name in names_of(kind))


_SAML: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service,
           jsonb_build_object({_saml(ConfigurationChange)}) as fields
      {_OF_SERVICES}
      join saml_configurations on saml_configurations.service_id = services.id
"""

# A configuration by hand has no more than its entry in `saml` says.
_SAML_SERVICE_PROVIDERS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service,
           jsonb_build_object(
               {_saml(Understood)}
           ) as fields
      {_OF_SERVICES}
      join saml_configurations on saml_configurations.service_id = services.id and saml_configurations.metadata_uploaded_at is not null
"""

_USER_KEYS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service,
           jsonb_build_object(
               {USER_KEY_SETTINGS.document(names_of(UserKeySettingsChange))},
               'resource', (
                   select identifier
                     from resource_servers
                    where resource_servers.id = user_key_settings.resource_id and resource_servers.service_id = services.id
               )
           ) as fields
      {_OF_SERVICES}
      join user_key_settings on user_key_settings.service_id = services.id
"""

_PROXIES: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service,
           jsonb_build_object(
               {services.PROXY_SETTINGS.document(names_of(ProxySettingsChange))},
               'hosts', (
                   select coalesce(jsonb_agg(proxy_hosts.host order by proxy_hosts.host), '[]')
                     from proxy_hosts
                    where proxy_hosts.service_id = services.id
               )
           ) as fields
      {_OF_SERVICES}
      join proxies on proxies.service_id = services.id
"""

# Whether people are sent is its state, and the token is nobody's to read.
_PROVISIONING: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service,
           jsonb_build_object(
               'preset', preset, 'base_url', base_url, 'mapping', mapping, 'attributes_left_out', attributes_left_out,
               'teams', case
                   when team_ids is not null then array(select teams.slug from teams where teams.id = any(team_ids) order by teams.slug)
               end
           ) as fields
      {_OF_SERVICES}
      join provisioning_connections on provisioning_connections.service_id = services.id
"""

OF_SERVICE: Final[dict[str, LiteralString]] = {
    "services": _SERVICES,
    "plans": _PLANS,
    "permissions": _PERMISSIONS,
    "service_roles": _SERVICE_ROLES,
    "claims": _CLAIMS,
    "assignments": _ASSIGNMENTS,
    "saml_service_provider": _SAML_SERVICE_PROVIDERS,
    "saml": _SAML,
    "user_keys": _USER_KEYS,
    "proxy": _PROXIES,
    "provisioning": _PROVISIONING,
}


_ORGANIZATION: Final[LiteralString] = f"""
    select organizations.slug as organization, organizations.id::text as id, organizations.member_count as people,
           jsonb_build_object({ORGANIZATION.document(names_of(OrganizationUpdate))}, 'metadata', organizations.metadata) as fields
      from organizations
"""

_LIMITS: Final[LiteralString] = f"""
    select organizations.slug as organization,
           jsonb_build_object('tier', tiers.name, {ORGANIZATION.document(("max_services", "max_users"))}) as fields
      from organizations
      join tiers on tiers.id = organizations.tier_id
"""

_SIGN_IN_RULES: Final[LiteralString] = f"""
    select organizations.slug as organization,
           jsonb_build_object(
               {RULES.document({*names_of(SignInRulesChange)} - {"session_hours"})}, 'session_lifetime_hours', session_hours,
               'mfa_policy', case when mfa_required_since is null then 'optional' else 'required' end,
               'admin_factor', coalesce(admin_factor, 'optional'),
               'afar_requests', case when afar_since is null then 'off' else 'on' end,
               'all_factor', coalesce(all_factor, 'optional'),
               'all_factor_role', (
                   select services.slug || '/' || service_roles.slug
                     from service_roles
                     join services on services.id = service_roles.service_id
                    where service_roles.id = organizations.all_factor_role_id and services.org_id = organizations.id
               )
           ) as fields
      from organizations
"""

_BRANDING: Final[LiteralString] = f"""
    select organizations.slug as organization,
           jsonb_build_object({LOOK.document(names_of(LookChange))}, 'second_color', look::jsonb -> 'second_color',
                              'corner', look::jsonb -> 'corner', 'font', look::jsonb -> 'font') as fields
      from organizations
"""

_LANGUAGES: Final = """
    select organizations.slug as organization,
           jsonb_build_object('languages', coalesce(to_jsonb(string_to_array(languages, ',')), '[]')) as fields
      from organizations
"""

# Every language that we speak, with an empty map where there is no own text.
_ALL_LANGUAGES: Final[LiteralString] = ",".join(Language)
_SPOKEN: Final[LiteralString] = f"""
    (
        select jsonb_object_agg(spoken.language, coalesce(
                   (
                       select jsonb_object_agg(organization_texts.key, organization_texts.text)
                         from organization_texts
                        where {{}} and organization_texts.language = spoken.language
                   ),
                   '{{{{}}}}'
               ))
          from unnest('{{{{{_ALL_LANGUAGES}}}}}'::text[]) as spoken (language)
    )
"""

_TEXTS: Final[LiteralString] = f"""
    select organizations.slug as organization, {_SPOKEN.format("organization_texts.org_id = organizations.id")} as fields
      from organizations
"""

INSTALLATION_TEXTS: Final[LiteralString] = f"select '' as organization, {_SPOKEN.format('organization_texts.org_id is null')} as fields"

_MAIL_SERVER: Final[LiteralString] = f"""
    select organizations.slug as organization, jsonb_build_object({MAIL_SERVER.document(names_of(MailServerSettings))}) as fields
      from organizations
      join mail_servers on mail_servers.org_id = organizations.id
"""

_DOMAIN: Final = """
    select organizations.slug as organization, jsonb_build_object('domain', domains.domain) as fields
      from organizations
      join domains on domains.org_id = organizations.id
"""

_OFFBOARDING_DEADLINE: Final[LiteralString] = f"""
    select organizations.slug as organization, jsonb_build_object({DEADLINE.document(names_of(OffboardingMinutes))}) as fields
      from organizations
      join offboarding_deadlines on offboarding_deadlines.org_id = organizations.id
"""

_SIEM: Final[LiteralString] = f"""
    select organizations.slug as organization,
           jsonb_build_object('provider_type', provider_type,
                              {SIEM.document(("name", "endpoint_url", "batch_size", "is_active"))}) as fields
      from organizations
      join siem_configurations on siem_configurations.org_id = organizations.id
"""

# Whether it counts is its state, and no document lets it.
_HOOK: Final[LiteralString] = f"""
    select organizations.slug as organization, jsonb_build_object({hooks.HOOK.document(names_of(HookDraft))}) as fields
      from organizations
      join hooks on hooks.org_id = organizations.id
"""

_PLATFORM_HOOK: Final[LiteralString] = f"""
    select '' as organization, jsonb_build_object({hooks.HOOK.document(names_of(HookDraft))}) as fields
      from hooks
     where org_id is null
"""

_SCIM_SETTINGS: Final = """
    select organizations.slug as organization,
           jsonb_build_object('groups', coalesce(scim_groups.groups, 'organization'),
                              'profile_mapping', coalesce(scim_groups.profile_mapping, '{}')) as fields
      from organizations
      left join scim_groups on scim_groups.org_id = organizations.id
"""

_FIELDS: Final = ("label", "kind", "rule", "written_by", "required", "asked_at", "position")

_PROFILE_FIELDS: Final[LiteralString] = f"""
    select organizations.slug as organization, profile_fields.key as name, profile_fields.key as id,
           jsonb_build_object({FIELD.document(_FIELDS)}) as fields
      from organizations
      join profile_fields on profile_fields.org_id = organizations.id
"""

_ROLES: Final[LiteralString] = f"""
    select organizations.slug as organization, roles.slug as name, roles.id::text as id,
           (select count(*) from memberships where memberships.role_id = roles.id)::integer as people,
           jsonb_build_object({roles.ROLE.document(("name", "description"))}, 'permissions', array(
               select relation from relations where relations.role_id = roles.id and relations.object_type = 'organization'
           )) as fields
      from organizations
      join roles on roles.org_id = organizations.id
"""

_TEAMS: Final[LiteralString] = f"""
    select organizations.slug as organization, teams.slug as name, teams.slug as id, teams.source = 'directory' as is_directorys,
           (select count(*) from team_members where team_members.team_id = teams.id)::integer as people,
           jsonb_build_object({roles.TEAM.document(("name", "role"))}) as fields
      from organizations
      join teams on teams.org_id = organizations.id
"""

# We have disabled a paused webhook because it failed. That is its state, and no wish of anybody.
_WEBHOOKS: Final[LiteralString] = f"""
    select organizations.slug as organization, webhooks.name, webhooks.id::text as id,
           jsonb_build_object(
               {WEBHOOK.document({*names_of(WebhookChange)} - {"name", "is_active"})}, 'is_active', is_active or paused_at is not null
           ) as fields
      from organizations
      join webhooks on webhooks.org_id = organizations.id
"""

# Whether people can sign in through a directory is its state, and so is an owner's word that any provider waits for: until then it counts
# as enabled, as it will be. What its metadata bring by their address is no wish of anybody.
_UPSTREAM_PROVIDERS: Final[LiteralString] = f"""
    select organizations.slug as organization, upstream_providers.name, upstream_providers.id::text as id,
           (select count(*) from identities where identities.upstream_provider_id = upstream_providers.id)::integer as people,
           jsonb_build_object({UPSTREAM_PROVIDER.document(("kind", "profile_mapping"))})
           || case kind
               when 'ldap' then '{{}}' else jsonb_build_object({UPSTREAM_PROVIDER.document(("second_factor_values",))})
           end || case kind
               when 'ldap' then jsonb_strip_nulls(ldap - '{{read_threshold,read_seconds}}'::text[])
               when 'oidc' then jsonb_build_object(
                   {UPSTREAM_PROVIDER.document(("issuer", "client_id", "scopes"))}, 'enabled', enabled or state <> 'active')
               else jsonb_strip_nulls(jsonb_build_object(
                   'issuer', issuer,
                   'sso_url', coalesce(saml ->> 'sso_url', ''), 'slo_url', coalesce(saml ->> 'slo_url', ''),
                   'slo_response_url', coalesce(saml ->> 'slo_response_url', ''),
                   'slo_binding', coalesce(saml ->> 'slo_binding', 'redirect'), 'metadata_url', coalesce(saml ->> 'metadata_url', ''),
                   'preset', saml ->> 'preset', 'subject_source', coalesce(saml ->> 'subject_source', 'name_id'),
                   'email_sources', coalesce(saml -> 'email_sources', '["name_id"]'),
                   'wants_encrypted', coalesce((saml ->> 'wants_encrypted')::boolean, false),
                   'requested_contexts', coalesce(saml -> 'contexts', '[]'),
                   'certificates', array(
                       select one ->> 'pem' from jsonb_array_elements(saml -> 'certificates') as one
                        where one ->> 'source' = 'hand' or coalesce(saml ->> 'metadata_url', '') = ''
                   )
               ))
           end as fields
      from organizations
      join upstream_providers on upstream_providers.org_id = organizations.id
"""

_OAUTH_CREDENTIALS: Final = """
    select organizations.slug as organization, oauth_credentials.provider as name, oauth_credentials.provider as id,
           jsonb_build_object('client_id', client_id) as fields
      from organizations
      join oauth_credentials on oauth_credentials.org_id = organizations.id
"""

# One of the organization's own providers is named by the place of it in a document.
_DOMAIN_ROUTES: Final = """
    select organizations.slug as organization, domain_routes.domain as name, domain_routes.id::text as id,
           jsonb_build_object(
               'upstream_provider', coalesce(domain_routes.shared_provider, 'upstream_providers/' || upstream_providers.name),
               'login_policy', domain_routes.login_policy, 'join_policy', domain_routes.join_policy
           ) as fields
      from organizations
      join domain_routes on domain_routes.org_id = organizations.id
      left join upstream_providers on upstream_providers.id = domain_routes.own_provider
"""

# Whether tokens are made for an API is its state.
_RESOURCE_SERVERS: Final[LiteralString] = f"""
    select organizations.slug as organization, resource_servers.identifier as name, resource_servers.id::text as id,
           jsonb_build_object(
               {RESOURCE_SERVER.document({*names_of(ResourceServerChange)} - {"scopes"})},
               'scopes', coalesce(
                   (
                       select jsonb_agg(jsonb_build_object('acr_values', '[]'::jsonb, 'max_age', null) || scope.own order by scope.place)
                         from jsonb_array_elements(resource_servers.scopes) with ordinality as scope (own, place)
                   ),
                   '[]'
               ),
               'service_slug', services.slug,
               'admitted_services', {named_services("resource_admissions")},
               'exchanges', {named_services("resource_exchanges")}
           ) as fields
      from organizations
      join resource_servers on resource_servers.org_id = organizations.id
      left join services on services.id = resource_servers.service_id
"""

# Those of management keys are no part of a document, as the keys are none.
_TRUSTED_ISSUERS: Final[LiteralString] = f"""
    select organizations.slug as organization, trusted_issuers.name, trusted_issuers.id::text as id,
           jsonb_build_object(
               'service_slug', services.slug, {TRUSTED_ISSUER.document({*names_of(TrustedIssuerChange)} - {"name"})}
           ) as fields
      from organizations
      join trusted_issuers on trusted_issuers.org_id = organizations.id
      join services on services.id = trusted_issuers.service_id
"""

OF_ORGANIZATION: Final[dict[str, LiteralString]] = {
    "organization": _ORGANIZATION,
    "limits": _LIMITS,
    "sign_in_rules": _SIGN_IN_RULES,
    "branding": _BRANDING,
    "languages": _LANGUAGES,
    "texts": _TEXTS,
    "mail_server": _MAIL_SERVER,
    "domain": _DOMAIN,
    "offboarding_deadline": _OFFBOARDING_DEADLINE,
    "siem": _SIEM,
    HOOK: _HOOK,
    "scim_settings": _SCIM_SETTINGS,
    "profile_fields": _PROFILE_FIELDS,
    "roles": _ROLES,
    "teams": _TEAMS,
    "webhooks": _WEBHOOKS,
    "upstream_providers": _UPSTREAM_PROVIDERS,
    "oauth_credentials": _OAUTH_CREDENTIALS,
    "domain_routes": _DOMAIN_ROUTES,
    "resource_servers": _RESOURCE_SERVERS,
    "trusted_issuers": _TRUSTED_ISSUERS,
    "risk_policies": RISK_POLICIES,
}


class _Slug(Frozen):
    slug: str


class _Named(Frozen):
    slug: str
    id: UUID


class _Object(Frozen, kw_only=True):
    organization: str
    service: str = ""
    name: str = ""
    id: str = ""
    fields: dict[str, Any]
    people: int = 0
    is_directorys: bool = False

    def stored(self, kind: str) -> StoredObject:
        return StoredObject(
            place=ObjectPlace(self.organization, self.service, kind, self.name),
            id=self.id,
            fields=self.fields,
            people=self.people,
            is_directorys=self.is_directorys,
        )


class PostgresConfigurations(OnPool):
    """Implements `ports.platform.ConfigurationReader`.

    A configuration file shows the fields of the class by which the API changes the object. Where this class has a secret, a statement lists
    the fields.
    """

    async def slugs(self) -> Sequence[str]:
        return await ask_for_many(self._pool, _Slug, _SLUGS, None, lambda row: row.slug)

    async def objects(self, kind: str, organizations: Collection[str] | None) -> Sequence[StoredObject]:
        if kind in _OF_PLATFORM:
            return await ask_for_many(self._pool, _Object, _OF_PLATFORM[kind], None, lambda row: row.stored(kind))
        statement = _STATEMENTS[kind]
        if organizations is None:
            return await ask_for_many(self._pool, _Object, statement, None, lambda row: row.stored(kind))
        parameters = {"organizations": [storable_text(one) for one in organizations]}
        return await ask_for_many(self._pool, _Object, f"{statement} {_OF_SOME}", parameters, lambda row: row.stored(kind))

    async def ids(self, kind: str, organization: str, slugs: Collection[str]) -> Mapping[str, UUID]:
        parameters = {"organization": storable_text(organization), "slugs": [storable_text(one) for one in slugs]}
        return {row.slug: row.id for row in await ask(self._pool, _Named, _IDS[kind], parameters)}

    async def lately(self, organization: str, service: str, since: datetime) -> int:
        parameters = {"organization": storable_text(organization), "service": storable_text(service), "since": since}
        return only(await ask(self._pool, CountRow, _LATELY, parameters)).count


_STATEMENTS: Final = {**OF_ORGANIZATION, **OF_SERVICE}
_OF_SOME: Final = "where organizations.slug = any(%(organizations)s)"

_SLUGS: Final = "select slug from organizations order by slug"

_PLATFORM_FIELDS: Final[LiteralString] = f"""
    select '' as organization, key as name, key as id,
           jsonb_build_object({FIELD.document((*_FIELDS, "scope"))}) as fields
      from profile_fields
     where org_id is null
"""

# A draft counts as enabled, as it will be: that it waits is its state.
_FURTHER_PROVIDERS: Final[LiteralString] = f"""
    select '' as organization, key as name, key as id,
           jsonb_build_object(
               {FURTHER.document(("preset", "name", "client_id", "position"))}, 'active', state = 'active',
               'enabled', enabled or state = 'draft',
               'organizations', case
                   when organizations is not null then array(
                       select offered.slug
                         from organizations as offered
                        where offered.id = any (further_providers.organizations)
                        order by offered.slug
                   )
               end
           ) || (settings - 'secret_kind') as fields
      from further_providers
"""

_TEXT_RULES: Final = """
    select '' as organization,
           jsonb_build_object('mails', coalesce(stored.mails, true), 'pages', coalesce(stored.pages, false)) as fields
      from (values (true)) as this (installation)
      left join text_approval_rules as stored on this.installation
"""

_OF_PLATFORM: Final[dict[str, LiteralString]] = {
    PLATFORM_FIELDS: _PLATFORM_FIELDS,
    "providers": _FURTHER_PROVIDERS,
    PLATFORM_RISK: PLATFORM_RISK_POLICIES,
    PLATFORM_HOOK: _PLATFORM_HOOK,
    "text_rules": _TEXT_RULES,
    PLATFORM_TEXTS: INSTALLATION_TEXTS,
}

_IDS: Final = {
    SERVICE: """
        select services.slug, services.id
          from organizations
          join services on services.org_id = organizations.id and services.slug = any(%(slugs)s)
         where organizations.slug = %(organization)s
    """,
    "teams": """
        select teams.slug, teams.id
          from organizations
          join teams on teams.org_id = organizations.id and teams.slug = any(%(slugs)s)
         where organizations.slug = %(organization)s
    """,
}

_LATELY: Final = """
    select count(*) as count
      from organizations
      join services on services.org_id = organizations.id and services.slug = %(service)s
      join service_users on service_users.service_id = services.id and service_users.last_login_at > %(since)s
     where organizations.slug = %(organization)s
"""

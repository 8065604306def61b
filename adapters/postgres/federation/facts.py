"""What an application may learn of a user besides the account, and the previews of its tokens, in PostgreSQL."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.columns import array, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.saml import CONFIGURATION, configuration
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.factors.mfa import grace_is_over, second_factor_due_in
from adapters.postgres.identity.proofs.sign_in_policy import ASKS_FOR_ROLE, admits
from adapters.postgres.identity.sessions.parts import PROFILE, SUBSCRIPTION_STATE, profile, subscription_state
from adapters.postgres.identity.terms import terms_due, time_is_over
from adapters.postgres.services.service_roles import roles_held
from adapters.postgres.services.services import CLAIM, service_claim
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import ask_in_order, first
from adapters.postgres.tenancy.roles import teams_of
from adapters.postgres.ties import IS_OWN_MEMBERSHIP, IS_OWN_USE
from core.domain.claims import NO_FACTS, KnownField, ServiceClaim, ServiceFacts
from core.domain.federation.oauth.authorization_steps import RequestingApplication
from core.domain.federation.oauth.authorizations import Registered
from core.domain.federation.token_preview import PreviewedPerson
from core.domain.identifiers import ClientId, OrganizationId, ServiceId, UserId
from core.domain.mail import Email
from core.domain.services.clients import shown
from core.domain.services.services import ServiceType, SignInPolicy
from core.frozen import Frozen, names_of, shared

# The number of services with a sign-in in a busy minute.
_READ: Final = 256
# The different sets of roles that these services' people hold.
_HELD: Final = 1024


class FactsRow(NamedTuple):
    """The columns of `FACTS`, in their order."""

    organization_name: str
    role: str | None
    subscription: Mapping[str, Any] | None
    claims: str | None
    roles: str | None
    teams: Sequence[str]
    person_fields: Mapping[str, Sequence[Any]] | None
    organization_fields: Mapping[str, Sequence[Any]] | None

    def facts(self) -> ServiceFacts:
        roles, permissions = _rights(self.roles)
        subscription = subscription_state(self.subscription)
        return ServiceFacts(
            claims=_claims(self.claims),
            roles=roles,
            permissions=permissions,
            teams=self.teams,
            person_fields=_fields(self.person_fields),
            organization_fields=_fields(self.organization_fields),
            organization_name=self.organization_name,
            role=self.role or "",
            plan=subscription.plan,
            features=subscription.features,
        )


@lru_cache(maxsize=_READ)
def _claims(found: str | None) -> Sequence[ServiceClaim]:
    """The claims are the same text for each person of a service. The cache parses each text once, and again after a change."""
    return () if found is None else tuple(service_claim(one) for one in json.loads(found))


@lru_cache(maxsize=_HELD)
def _rights(found: str | None) -> tuple[Sequence[str], Sequence[str]]:
    """The roles, and their permissions. Many people of a service hold the same roles, and their text is the same."""
    held = () if found is None else json.loads(found)
    return tuple(sorted(slug for slug, _ in held)), tuple(sorted({one for _, permissions in held for one in permissions}))


def _fields(found: Mapping[str, Sequence[Any]] | None) -> Mapping[str, KnownField]:
    return {} if found is None else {key: KnownField(*field) for key, field in found.items()}


_Asked = tuple[ServiceId, UserId]


def _placed(place: int, *columns: Any) -> tuple[int, FactsRow]:
    return place, FactsRow(*columns)


class PostgresFacts:
    """Implements `ports.identity.accounts.FactLookup`. Questions that come at once share a round trip."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known = SharedLookups(self._find, gathers=True)

    async def find(self, service: ServiceId, user: UserId) -> ServiceFacts:
        return await self._known.find((service, user)) or NO_FACTS

    async def _find(self, asked: Sequence[_Asked]) -> Mapping[_Asked, ServiceFacts]:
        parameters = {"services": array([service.hex for service, _ in asked]), "users": array([user.hex for _, user in asked])}
        return {asked[place - 1]: row.facts() for place, row in await ask_in_order(self._pool, _placed, FACTS_OF, parameters)}


# A `KnownField`, where a statement calls the field `fields` and what is kept of it `kept`. A value is kept by the id of its field.
KNOWN_FIELD: Final = "json_build_array(kept.values -> fields.id::text, fields.scope, 'person' = any (fields.written_by))"


def _fields_named(source: LiteralString, keeper_of_field: LiteralString, keeper_of_value: LiteralString) -> LiteralString:
    """The fields that claims of this source name, by their keys: `KnownField`. A value is kept by the id of its field, so a new field of
    the same key never tells the values of a deleted one. Several claims may name one field.
    """
    return f"""(
        select json_object_agg(fields.key, {KNOWN_FIELD})
          from service_claims
          join profile_fields as fields on fields.key = service_claims.argument #>> '{{}}' and fields.org_id {keeper_of_field}
          left join profile_values as kept on kept.user_id = users.id and kept.org_id {keeper_of_value}
         where service_claims.service_id = services.id and service_claims.source = '{source}'
    )"""


# A statement that reads `services`, its organization, `users` and the person's place in the organization can tell the facts by this. Text
# and JSON, as PostgreSQL makes them in less time than binary JSON.
FACTS: Final[LiteralString] = f"""
           organizations.name as organization_name, memberships.role,
           {SUBSCRIPTION_STATE} as subscription,
           (
               select json_agg({CLAIM} order by service_claims.name)::text
                 from service_claims
                where service_claims.service_id = services.id
           ) as claims,
           (
               select json_agg(json_build_array(held.slug, held.permissions))::text
                 from ({roles_held("users.id", "services.org_id", "services.id")}) as held
           ) as roles,
           array(
               select teams.slug
                 from ({teams_of("users.id", "services.org_id")}) as joined
                 join teams on teams.id = joined.team_id
                order by teams.slug
           ) as teams,
           {_fields_named("person_field", "is null", "is null")} as person_fields,
           {_fields_named("organization_field", "= services.org_id", "= services.org_id")} as organization_fields"""

# The statement looks into each index once for each question, as those of `adapters/postgres/tenancy/callers.py` do.
FACTS_OF: Final[LiteralString] = f"""
    select asked.place, {FACTS}
      from unnest((select %(services)s::uuid[]), (select %(users)s::uuid[])) with ordinality as asked (service, person, place)
     cross join lateral (select id, org_id from services where id = asked.service limit 1) as services
     cross join lateral (select id, name from organizations where id = services.org_id limit 1) as organizations
     cross join lateral (select id from users where id = asked.person limit 1) as users
      left join lateral (
                select role from memberships where org_id = services.org_id and user_id = users.id limit 1
           ) as memberships on true
"""


class _Previewed(Frozen):
    user: UUID
    email: str
    email_is_verified: bool
    is_platform_owner: bool
    is_deactivated: bool
    client_id: str
    service_id: UUID
    service_slug: str
    service_name: str
    service_type: str
    sign_in_policy: str
    trusted: bool
    is_agent: bool
    organization_id: UUID
    organization_slug: str
    organization_is_active: bool
    is_own_member: bool
    is_own_user: bool
    is_admitted: bool
    owes_second_factor: bool
    owes_terms: bool
    consented: list[str] | None
    saml_entity_id: str | None
    saml_scopes: list[str] | None
    profile: Mapping[str, Any] | None
    configuration: str | None

    def person(self, facts: FactsRow) -> PreviewedPerson:
        service_type = ServiceType(self.service_type)
        return PreviewedPerson(
            **_of_person(self),
            application=RequestingApplication(
                **_of_application(self),
                service=ServiceId(self.service_id),
                organization=OrganizationId(self.organization_id),
                organization_name=facts.organization_name,
                slug=self.service_slug,
                name=self.service_name,
                # A preview redirects nobody and authenticates nobody.
                registered=Registered(
                    ClientId(self.client_id),
                    (),
                    is_native=not service_type.is_confidential,
                    authenticates=False,
                    may_be_public=service_type.may_be_public,
                ),
                sign_in_policy=SignInPolicy(self.sign_in_policy),
            ),
            client=shown(ClientId(self.client_id)),
            email=Email(self.email),
            profile=profile(self.profile),
            facts=facts.facts(),
            subscription=subscription_state(facts.subscription),
            configuration=configuration(self.configuration),
            saml_allowed=self.saml_entity_id,
            saml_scopes=self.saml_scopes or (),
        )


_of_person: Final = shared(_Previewed, PreviewedPerson, "email", "saml_scopes", "profile", "configuration")
_of_application: Final = shared(_Previewed, RequestingApplication, "sign_in_policy")


def _previewed(*columns: Any) -> PreviewedPerson:
    own = len(names_of(_Previewed))
    return _Previewed(*columns[:own]).person(FactsRow(*columns[own:]))


def _admitted(service: UUID, user: UUID | None, *columns: Any) -> PreviewedPerson | None:  # noqa: ARG001 - it says that there is one
    """A service that admits nobody has one row of nulls."""
    return None if user is None else _previewed(user, *columns)


class _HookRefused(NamedTuple):
    at: datetime


class PostgresTokenPreviews:
    """Implements `ports.federation.oauth.PreviewLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, organization: OrganizationId, service_slug: str, user: UserId) -> PreviewedPerson | None:
        parameters = {"organization": organization, "service": storable_text(service_slug), "user": user}
        return first(await ask_in_order(self._pool, _previewed, _FIND, parameters))

    async def find_all(self, organization: OrganizationId, user: UserId, limit: int) -> Sequence[PreviewedPerson]:
        parameters = {"organization": organization, "user": user, "limit": limit}
        return await ask_in_order(self._pool, _previewed, _FIND_ALL, parameters)

    async def find_tied(self, organization: OrganizationId, email: Email) -> UserId | None:
        parameters = {"organization": organization, "email_key": email.key}
        found = first(await ask_in_order(self._pool, UUID, _FIND_TIED, parameters))
        return None if found is None else UserId(found)

    async def hook_refused_at(self, organization: OrganizationId, user: UserId) -> datetime | None:
        parameters = {"organization": organization, "user": user}
        found = first(await ask_in_order(self._pool, _HookRefused, _HOOK_REFUSED_AT, parameters))
        return None if found is None else found.at

    async def find_admitted(
        self, organization: OrganizationId, service_slug: str, after: UserId | None, limit: int
    ) -> Sequence[PreviewedPerson] | None:
        parameters = {"organization": organization, "service": storable_text(service_slug), "after": after, "limit": limit}
        found = await ask_in_order(self._pool, _admitted, _FIND_ADMITTED, parameters)
        return [one for one in found if one is not None] if found else None

    async def find_named(self, organization_slug: str, service_slug: str, email: Email) -> PreviewedPerson | None:
        parameters = {"organization": storable_text(organization_slug), "service": storable_text(service_slug), "email_key": email.key}
        return first(await ask_in_order(self._pool, _previewed, _FIND_NAMED, parameters))


# The columns of `_Previewed`, and then those of `FactsRow`. People without a tie to the service or its organization are not found.
_PREVIEWED: Final[LiteralString] = f"""
    select users.id, users.email, {is_verified_for("services.org_id")}, users.is_platform_owner, users.deactivated_at is not null,
           services.oauth_client_id as client_id, services.id, services.slug, services.name, services.service_type,
           services.sign_in_policy, services.trusted, services.is_agent, organizations.id, organizations.slug,
           organizations.status = 'active',
           coalesce({IS_OWN_MEMBERSHIP}, false),
           coalesce({IS_OWN_USE}, false),
           {admits("memberships.role is not null", "users.id")},
           {grace_is_over(second_factor_due_in("services.org_id", "users.id"))},
           {time_is_over(terms_due("users.id"))},
           consents.scopes, consents.saml_entity_id, consents.saml_scopes,
           {PROFILE},
           {CONFIGURATION},
           {FACTS}
      from services
      join organizations on organizations.id = services.org_id
     cross join users
      left join memberships on memberships.org_id = services.org_id and memberships.user_id = users.id
      left join service_users on service_users.service_id = services.id and service_users.user_id = users.id
      left join consents on consents.service_id = services.id and consents.user_id = users.id
      left join saml_configurations as saml on saml.service_id = services.id
     where (memberships.user_id is not null or service_users.user_id is not null)
"""

_FIND: Final[LiteralString] = f"""
    {_PREVIEWED}
       and services.org_id = %(organization)s and services.slug = %(service)s and users.id = %(user)s
"""

_FIND_ALL: Final[LiteralString] = f"""
    {_PREVIEWED}
       and services.org_id = %(organization)s and users.id = %(user)s
     order by services.name, services.id
     limit %(limit)s
"""

# An address that nobody has is looked for among the ties all the same, under an id that nobody has: so the time says nothing of accounts
# elsewhere.
_FIND_TIED: Final = """
    with named as materialized (
             select coalesce((select id from users where email_key = %(email_key)s), '00000000-0000-0000-0000-000000000000'::uuid) as id
         )
    select named.id::text
      from named
     where exists (select from memberships where memberships.org_id = %(organization)s and memberships.user_id = named.id)
        or exists (select from service_users where service_users.org_id = %(organization)s and service_users.user_id = named.id)
"""

# What the hook said of a session that is still open, under the name by which it counts today. It holds where the hook hears of the person
# and can keep them out at all.
_HOOK_REFUSED_AT: Final = """
    select to_timestamp((said.verdict ->> 'at')::double precision)
      from hooks
      join sessions on sessions.user_id = %(user)s and sessions.revoked_at is null and sessions.expires_at > now()
     cross join lateral (select sessions.hook_verdicts -> (hooks.counts_as || '/' || hooks.org_id)) as said (verdict)
     where hooks.org_id = %(organization)s and hooks.counts_as is not null and (said.verdict ->> 'no')::boolean
       and not hooks_let_in_owner(%(user)s, %(organization)s)
       and (hooks_hear_of(%(user)s, %(organization)s, null)
            or exists (
                   select from services where services.org_id = %(organization)s and hooks_hear_of(%(user)s, %(organization)s, services.id)
               ))
     order by 1 desc
     limit 1
"""

# Those who may be admitted come first, from indexes, so that nobody else is looked at. Where the policy asks for a role, these are the
# people whom the service's assignments reach: without assignments, nobody is looked at, however many members there are. The rule itself
# comes last. It is asked of one after the other by their ids, until a page is full, so they are sorted before.
_FIND_ADMITTED: Final[LiteralString] = f"""
    with asked as materialized (
             select services.id, services.org_id, services.sign_in_policy
               from services
              where services.org_id = %(organization)s and services.slug = %(service)s
         ),
         given as materialized (
             select relations.user_id, relations.role_id, relations.team_id, relations.built_in_role
               from asked as services
               join relations on relations.service_id = services.id
              where {ASKS_FOR_ROLE}
         ),
         looked_at as materialized (
             select given.user_id from given where given.user_id is not null
              union
             select memberships.user_id
               from memberships
              where memberships.org_id = %(organization)s
                and memberships.role_id = any (array(select given.role_id from given where given.role_id is not null))
              union
             select memberships.user_id
               from memberships
              where memberships.org_id = %(organization)s
                and memberships.role = any (array(select given.built_in_role from given where given.built_in_role is not null))
              union
             select team_members.user_id
               from teams
               join team_members on team_members.team_id = teams.id and team_members.org_id = teams.org_id
              where teams.org_id = %(organization)s
                and (teams.id = any (array(select given.team_id from given where given.team_id is not null))
                     or teams.role_id = any (array(select given.role_id from given where given.role_id is not null))
                     or teams.role = any (array(select given.built_in_role from given where given.built_in_role is not null)))
              union
             select everybody.user_id
               from asked as services
              cross join lateral (
                        select user_id from memberships where memberships.org_id = services.org_id
                         union all
                        select user_id from service_users where service_users.service_id = services.id
                    ) as everybody
              where not ({ASKS_FOR_ROLE})
         ),
         admitted as materialized (
             select tied.user_id
               from (
                        select user_id
                          from looked_at
                         where %(after)s::uuid is null or user_id > %(after)s::uuid
                         order by user_id
                        offset 0
                    ) as tied
              cross join asked as services
               left join memberships on memberships.org_id = services.org_id and memberships.user_id = tied.user_id
               left join service_users on service_users.service_id = services.id and service_users.user_id = tied.user_id
              where (memberships.user_id is not null or service_users.user_id is not null)
                and {admits("memberships.role is not null", "tied.user_id")}
              order by tied.user_id
              limit %(limit)s
         )
    select asked.id, shown.*
      from asked
      left join lateral (
                {_PREVIEWED}
                   and services.id = asked.id and users.id = any (array(select user_id from admitted))
           ) as shown (user_id) on true
     order by shown.user_id
"""

_FIND_NAMED: Final[LiteralString] = f"""
    {_PREVIEWED}
       and organizations.slug = %(organization)s and services.slug = %(service)s and users.email_key = %(email_key)s
"""

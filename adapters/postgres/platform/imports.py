"""The import of people in PostgreSQL: what is known of them, and the rows of a whole batch, table by table."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import IdRow, array, array_of_texts, storable, storable_text
from adapters.postgres.identity.addresses import BRINGS_PROOFS
from adapters.postgres.statements import OnStatements
from adapters.postgres.tenancy.profile_fields import ProfileFieldRows
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, RoleId, ServiceId, ServiceRoleId, TeamId, UserId
from core.domain.platform.imports.clients import slug_of
from core.domain.platform.imports.decisions import Existing, Facts, ImportDestination, ImportedBefore, KnownProvider
from core.domain.services.service_roles import HOLDER as HOLDER_OF_SERVICE_ROLE
from core.domain.tenancy.profile_fields import KeptValues
from core.domain.tenancy.roles import HOLDER, Assignable, BuiltInRole, built_in, capabilities_of
from core.domain.tenancy.tiers import user_limit
from core.frozen import Frozen
from ports.platform import Candidate, Written

NO_MEMBERS: Final = 0


class _Organization(Frozen):
    id: UUID
    is_active: bool
    max_users: int | None
    default_max_users: int | None
    roles: list[dict[str, Any]]
    teams: list[dict[str, Any]]
    service_roles: list[dict[str, Any]]
    providers: list[dict[str, Any]]


class _Before(Frozen):
    digest: bytes
    user_id: UUID | None
    is_new: bool


class _Account(Frozen):
    id: UUID
    email_key: str
    is_shut: bool
    is_member: bool
    was_removed: bool

    def existing(self) -> Existing:
        return Existing(user=UserId(self.id), is_shut=self.is_shut, is_member=self.is_member, was_removed=self.was_removed)


class _Identity(Frozen):
    provider: str
    issuer: str
    subject: str


class ImportRows(OnStatements):
    """Implements `ports.platform.ImportStore`."""

    async def destination(self, slug: str, shared: Sequence[KnownProvider]) -> ImportDestination | None:
        fields = ProfileFieldRows(self._statements)
        if not slug:
            kept = KeptValues(await fields.list(None), {})
            return ImportDestination(roles={}, teams={}, closed_teams=frozenset(), service_roles={}, providers=shared, fields=kept)
        rows = await self._statements.ask(_Organization, _ORGANIZATION, {"slug": storable_text(slug)})
        if not rows:
            return None
        (row,) = rows
        organization = OrganizationId(row.id)
        return ImportDestination(
            organization=organization,
            slug=slug,
            is_active=row.is_active,
            roles={one["slug"]: _role(one) for one in row.roles} | _BUILT_IN,
            teams=_by_name(one for one in row.teams if one["is_open"]),
            closed_teams=frozenset(_by_name(one for one in row.teams if not one["is_open"])),
            service_roles={
                (slug_of(one["service"]), slug_of(one["role"])): (ServiceId(UUID(one["service_id"])), ServiceRoleId(UUID(one["id"])))
                for one in row.service_roles
            },
            providers=[*shared, *(KnownProvider(one["id"], one["issuer"], one["client_id"], is_shared=False) for one in row.providers)],
            fields=KeptValues(await fields.list(organization), {}),
            most_members=user_limit(row.max_users, row.default_max_users).max_users,
        )

    async def lock_for_update(self, to: ImportDestination, candidates: Sequence[Candidate]) -> None:
        if to.organization is not None:
            await self._statements.tell(_HOLD_ORGANIZATION, {"organization": to.organization})
        await self._statements.tell(_HOLD_ACCOUNTS, _whom(candidates))

    async def facts(self, to: ImportDestination, candidates: Sequence[Candidate]) -> Facts:
        whom = {**_whom(candidates), "organization": to.organization}
        before = await self._statements.ask(_Before, _BEFORE, whom)
        accounts = await self._statements.ask(_Account, _ACCOUNTS, whom)
        people = [one.person for one in candidates]
        known = {UserId(row.id): row.existing() for row in accounts}
        return Facts(
            before={row.digest: ImportedBefore(None if row.user_id is None else UserId(row.user_id), row.is_new) for row in before},
            accounts={row.email_key: row.existing() for row in accounts},
            users=known,
            usernames=await self._usernames(candidates) if any(one.username for one in people) else frozenset(),
            identities=await self._identities(to, candidates) if any(one.identities for one in people) else frozenset(),
            passkeys=await self._passkeys(candidates) if any(one.passkeys for one in people) else frozenset(),
            members=NO_MEMBERS if to.organization is None else await self._members(to.organization),
        )

    async def write(self, to: ImportDestination, people: Sequence[Written], at: datetime) -> bool:
        organization = to.organization
        new = sorted((one for one in people if one.decision.account is not None), key=lambda one: one.email.key)
        told = {"at": at, "organization": organization}
        await self._statements.tell(BRINGS_PROOFS)
        for statement, rows in (
            (_USE_UP_NAMES, _used_names(new)),
            (_ADD_ACCOUNTS, [_account(one) for one in new]),
            (_ADD_PASSKEYS, [row for one in new for row in _passkeys(one)]),
            (_ADD_IDENTITIES, [row for one in new for row in _identities(one)]),
        ):
            if rows and len(await self._statements.ask(IdRow, statement, {**told, "rows": Jsonb(rows)})) < len(rows):
                return False
        for statement, rows in (
            (_ADD_FACTORS, [_factor(one) for one in new if one.sealed_totp is not None]),
            (_ADD_VALUES, [_values(one) for one in new if one.decision.account is not None and one.decision.account.values]),
            (_ADD_MEMBERS, [_member(one, organization) for one in people if one.membership is not None]),
            (_ADD_TO_TEAMS, [row for one in people for row in _teams(one)]),
            (_ADD_ASSIGNMENTS, [row for one in people for row in _assignments(one)]),
            (_REMEMBER, [_remembered(one) for one in people]),
        ):
            if rows:
                await self._statements.tell(statement, {**told, "rows": Jsonb(rows)})
        return True

    async def _members(self, organization: OrganizationId) -> int:
        rows = await self._statements.ask_in_order(int, _MEMBERS, {"organization": organization})
        return rows[0] if rows else NO_MEMBERS

    async def _usernames(self, candidates: Sequence[Candidate]) -> frozenset[bytes]:
        digests = array(one.marks.username.hex() for one in candidates if one.person.username)
        return frozenset(await self._statements.ask_in_order(bytes, _USED_NAMES, {"digests": digests}))

    async def _identities(self, to: ImportDestination, candidates: Sequence[Candidate]) -> frozenset[tuple[str, str, str]]:
        subjects = array_of_texts({told.subject for one in candidates for told in one.person.identities})
        providers = array_of_texts({one.key for one in to.providers})
        issuers = array_of_texts({one.issuer for one in to.providers})
        parameters = {"providers": providers, "issuers": issuers, "subjects": subjects}
        rows = await self._statements.ask(_Identity, _KNOWN_IDENTITIES, parameters)
        return frozenset((row.provider, row.issuer, row.subject) for row in rows)

    async def _passkeys(self, candidates: Sequence[Candidate]) -> frozenset[bytes]:
        credentials = array(told.credential_id.hex() for one in candidates for told in one.person.passkeys)
        return frozenset(await self._statements.ask_in_order(bytes, _KNOWN_PASSKEYS, {"digests": credentials}))


_BUILT_IN: Final = {found.slug: found for role in (BuiltInRole.ADMIN, BuiltInRole.MEMBER) if (found := built_in(role)) is not None}


def _whom(candidates: Sequence[Candidate]) -> Mapping[str, str]:
    return {
        "digests": array(one.marks.person.hex() for one in candidates),
        "keys": array_of_texts(one.email.key for one in candidates),
    }


def _role(row: Mapping[str, Any]) -> Assignable:
    return Assignable(row["slug"], RoleId(UUID(row["id"])), capabilities_of(row["relations"]))


def _by_name(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, TeamId]:
    """By slugs and by names. Where the two are in conflict, the slug counts."""
    teams = list(rows)
    names = {one["name"].casefold(): TeamId(UUID(one["id"])) for one in teams}
    return names | {one["slug"]: TeamId(UUID(one["id"])) for one in teams}


def _used_names(new: Sequence[Written]) -> Sequence[Json]:
    return [_bytes(one.marks.username) for one in new if one.decision.account is not None and one.decision.account.username is not None]


def _account(one: Written) -> Json:
    account = one.decision.account
    if account is None:
        raise LookupError("nothing is made for this person")
    profile = account.profile
    has_profile = any((profile.name, profile.given_name, profile.family_name, account.username, profile.zoneinfo))
    return {
        "id": str(one.marks.user),
        "email": storable_text(account.email.address),
        "email_key": storable_text(account.email.key),
        "password_hash": one.password,
        "is_verified": account.is_verified,
        "is_disabled": account.is_disabled,
        "language": None if profile.language is None else profile.language.value,
        "name": _text(profile.name),
        "given_name": _text(profile.given_name),
        "family_name": _text(profile.family_name),
        "username": account.username,
        "zoneinfo": _text(profile.zoneinfo),
        "has_profile": has_profile,
    }


def _passkeys(one: Written) -> Iterable[Json]:
    account = one.decision.account
    for passkey_id, told in zip(one.passkeys, () if account is None else account.passkeys, strict=True):
        yield {
            "id": str(passkey_id),
            "user_id": str(one.marks.user),
            "credential_id": _bytes(told.credential_id),
            "public_key": _bytes(told.public_key),
            "sign_count": told.sign_count,
            "name": storable_text(told.name),
            "aaguid": str(told.aaguid),
            "transports": list(told.transports),
            "backup_eligible": bool(told.backup_eligible),
            "backed_up": told.backed_up,
            "user_handle": _bytes(told.user_handle),
            "awaits_first_use": told.backup_eligible is None,
            "is_second_factor": told.is_second_factor,
        }


def _identities(one: Written) -> Iterable[Json]:
    account = one.decision.account
    for identity_id, told in zip(one.identities, () if account is None else account.identities, strict=True):
        yield {
            "id": str(identity_id),
            "user_id": str(one.marks.user),
            "provider": told.provider.key,
            "own_provider": None if told.provider.is_shared else told.provider.key,
            "issuer": told.provider.issuer,
            "subject": storable_text(told.subject),
            "email": storable_text(told.email),
        }


def _factor(one: Written) -> Json:
    return {"user_id": str(one.marks.user), "secret": _bytes(one.sealed_totp or b"")}


def _values(one: Written) -> Json:
    account = one.decision.account
    values = {} if account is None else account.values
    stored: dict[str, Json] = {str(field): list(value) if isinstance(value, tuple) else value for field, value in values.items()}
    return {"user_id": str(one.marks.user), "values": storable(stored)}


def _member(one: Written, organization: OrganizationId | None) -> Json:
    listing = one.decision.listing
    if listing is None:
        raise LookupError("nothing lists this person")
    role = listing.role
    return {
        "id": str(one.membership),
        "user_id": str(one.decision.user),
        "role": role.slug,
        "role_id": None if role.id is None else str(role.id),
        "relation": role.slug if role.id is None else HOLDER,
        "object_type": "organization" if role.id is None else "role",
        "object_id": str(organization if role.id is None else role.id),
    }


def _teams(one: Written) -> Iterable[Json]:
    listing = one.decision.listing
    for team in () if listing is None else listing.teams:
        yield {"team_id": str(team), "user_id": str(one.decision.user)}


def _assignments(one: Written) -> Iterable[Json]:
    listing = one.decision.listing
    for assignment, (service, role) in zip(one.assignments, () if listing is None else listing.service_roles, strict=True):
        yield {
            "id": str(assignment),
            "user_id": str(one.decision.user),
            "relation": HOLDER_OF_SERVICE_ROLE,
            "service_id": str(service),
            "role": str(role),
        }


def _remembered(one: Written) -> Json:
    return {"digest": _bytes(one.marks.person), "user_id": str(one.decision.user), "is_new": one.decision.account is not None}


def _bytes(raw: bytes) -> str:
    return f"\\x{raw.hex()}"


def _text(text: str | None) -> str | None:
    return None if text is None else storable_text(text)


_ORGANIZATION: Final = """
    select organizations.id, organizations.status = 'active' as is_active, organizations.max_users, tiers.default_max_users,
           (
               select coalesce(jsonb_agg(jsonb_build_object(
                          'id', roles.id, 'slug', roles.slug,
                          'relations', array(select relations.relation from relations where relations.role_id = roles.id)
                      )), '[]')
                 from roles
                where roles.org_id = organizations.id
           ) as roles,
           (
               select coalesce(jsonb_agg(jsonb_build_object(
                          'id', teams.id, 'slug', teams.slug, 'name', teams.name,
                          'is_open', teams.source = 'own' and teams.role is null
                      )), '[]')
                 from teams
                where teams.org_id = organizations.id
           ) as teams,
           (
               select coalesce(jsonb_agg(jsonb_build_object(
                          'id', service_roles.id, 'role', service_roles.slug, 'service_id', services.id, 'service', services.slug
                      )), '[]')
                 from services
                 join service_roles on service_roles.service_id = services.id
                where services.org_id = organizations.id
           ) as service_roles,
           (
               select coalesce(jsonb_agg(jsonb_build_object(
                          'id', upstream_providers.id, 'issuer', upstream_providers.issuer, 'client_id', upstream_providers.client_id
                      )), '[]')
                 from upstream_providers
                where upstream_providers.org_id = organizations.id and upstream_providers.kind = 'oidc'
           ) as providers
      from organizations
      left join tiers on tiers.id = organizations.tier_id
     where organizations.slug = %(slug)s
"""

_HOLD_ORGANIZATION: Final = "select from organizations where id = %(organization)s for no key update"

_DIGESTS: Final[LiteralString] = "array(select decode(one, 'hex') from unnest(%(digests)s::text[]) as one)"

# A statement of its own, so that the next one sees what others committed while this one waited.
_HOLD_ACCOUNTS: Final[LiteralString] = f"""
    select
      from users
     where id in (
               select id from users where email_key = any (%(keys)s::text[])
                union all
               select user_id from imported_people where digest = any ({_DIGESTS})
           )
     order by id
       for key share
"""

_BEFORE: Final[LiteralString] = f"select digest, user_id, is_new from imported_people where digest = any ({_DIGESTS})"

# Whom the organization or its directory has taken out does not come back by an import. What is left of a forgotten person counts as gone.
_ACCOUNTS: Final[LiteralString] = f"""
    select users.id, users.email_key,
           users.anonymized_at is not null or users.deactivated_at is not null and users.deactivated_by is null as is_shut,
           exists (
               select from memberships where memberships.org_id = %(organization)s::uuid and memberships.user_id = users.id
           ) as is_member,
           exists (
               select from former_members where former_members.org_id = %(organization)s::uuid and former_members.user_id = users.id
           )
        or exists (
               select
                 from provisioned_users
                where provisioned_users.org_id = %(organization)s::uuid and provisioned_users.user_id = users.id
                  and not provisioned_users.is_member
           ) as was_removed
      from users
     where users.id in (
               select id from users where email_key = any (%(keys)s::text[])
                union all
               select user_id from imported_people where digest = any ({_DIGESTS})
           )
"""

_MEMBERS: Final = "select member_count as members from organizations where id = %(organization)s"

_USED_NAMES: Final[LiteralString] = f"select digest from used_usernames where digest = any ({_DIGESTS})"

_KNOWN_PASSKEYS: Final[LiteralString] = f"select credential_id as digest from passkeys where credential_id = any ({_DIGESTS})"

_KNOWN_IDENTITIES: Final = """
    select provider, issuer, subject
      from identities
     where provider = any (%(providers)s::text[]) and issuer = any (%(issuers)s::text[]) and subject = any (%(subjects)s::text[])
"""

_USE_UP_NAMES: Final = """
    insert into used_usernames (digest)
    select told::bytea from jsonb_array_elements_text(%(rows)s) as told
        on conflict do nothing
 returning gen_random_uuid() as id
"""

# In one order everywhere: of two imports at once, the second waits for the first, and neither waits for the other.
_ADD_ACCOUNTS: Final = """
    insert into users (id, email, email_key, password_hash, email_verified_at, deactivated_at, created_at, updated_at, language, name,
                       given_name, family_name, username, zoneinfo, profile_updated_at)
    select id, email, email_key, password_hash, case when is_verified then %(at)s end,
           case when is_disabled then %(at)s end, %(at)s, %(at)s, language, name, given_name, family_name, username, zoneinfo,
           case when has_profile then %(at)s end
      from jsonb_to_recordset(%(rows)s)
        as told (id uuid, email text, email_key text, password_hash text, is_verified boolean, is_disabled boolean, language text,
                 name text, given_name text, family_name text, username text, zoneinfo text, has_profile boolean)
     order by email_key
        on conflict (email_key) do nothing
 returning id
"""

_ADD_PASSKEYS: Final = """
    insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,
                          created_at, second_factor_since, user_handle, awaits_first_use)
    select id, user_id, credential_id, public_key, sign_count, name, aaguid,
           array(select jsonb_array_elements_text(transports)), backup_eligible, backed_up, %(at)s,
           case when is_second_factor then %(at)s end, user_handle, awaits_first_use
      from jsonb_to_recordset(%(rows)s)
        as told (id uuid, user_id uuid, credential_id bytea, public_key bytea, sign_count bigint, name text, aaguid uuid,
                 transports jsonb, backup_eligible boolean, backed_up boolean, user_handle bytea, awaits_first_use boolean,
                 is_second_factor boolean)
     order by credential_id
        on conflict (credential_id) do nothing
 returning id
"""

_ADD_IDENTITIES: Final = """
    insert into identities (id, user_id, provider, upstream_provider_id, issuer, subject, email, linked_at)
    select id, user_id, provider, own_provider, issuer, subject, email, %(at)s
      from jsonb_to_recordset(%(rows)s)
        as told (id uuid, user_id uuid, provider text, own_provider uuid, issuer text, subject text, email text)
     order by provider, issuer, subject
        on conflict do nothing
 returning id
"""

_ADD_FACTORS: Final = """
    insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at)
    select user_id, secret, %(at)s, %(at)s from jsonb_to_recordset(%(rows)s) as told (user_id uuid, secret bytea)
"""

_ADD_VALUES: Final = """
    insert into profile_values (user_id, org_id, values, updated_at)
    select user_id, %(organization)s::uuid, told.values, %(at)s from jsonb_to_recordset(%(rows)s) as told (user_id uuid, values jsonb)
        on conflict do nothing
"""

# Of a person who is listed, `own_since` is null.
_ADD_MEMBERS: Final = """
    with told as (
             select *
               from jsonb_to_recordset(%(rows)s)
                 as told (id uuid, user_id uuid, role text, role_id uuid, relation text, object_type text, object_id uuid)
         ),
         added as (
             insert into memberships (id, org_id, user_id, role, role_id, created_at)
             select id, %(organization)s::uuid, user_id, role, role_id, %(at)s from told order by user_id
                 on conflict (org_id, user_id) do nothing
          returning user_id
         )
  insert into relations (organization_id, user_id, relation, object_type, object_id)
  select %(organization)s::uuid, user_id, relation, object_type, object_id from told where user_id in (select user_id from added)
"""

_ADD_TO_TEAMS: Final = """
    insert into team_members (team_id, org_id, user_id, added_at)
    select team_id, %(organization)s::uuid, user_id, %(at)s from jsonb_to_recordset(%(rows)s) as told (team_id uuid, user_id uuid)
     order by team_id, user_id
        on conflict do nothing
"""

_ADD_ASSIGNMENTS: Final = """
    insert into relations (organization_id, user_id, relation, object_type, object_id, id, service_id, created_at)
    select %(organization)s::uuid, user_id, relation, 'service_role', role, id, service_id, %(at)s
      from jsonb_to_recordset(%(rows)s) as told (id uuid, user_id uuid, relation text, service_id uuid, role uuid)
        on conflict do nothing
"""

_REMEMBER: Final = """
    insert into imported_people (digest, user_id, is_new, imported_at)
    select digest, user_id, is_new, %(at)s from jsonb_to_recordset(%(rows)s) as told (digest bytea, user_id uuid, is_new boolean)
     order by digest
        on conflict do nothing
"""

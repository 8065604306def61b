"""Profile fields that organizations and the installation declare, and their values, in PostgreSQL."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns, IdRow, storable, storable_text
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.locks import INSTALLATION_FIELDS, NAMESPACE
from adapters.postgres.statements import OnStatements
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, ProfileFieldId, ServiceId, UserId
from core.domain.tenancy.profile_fields import (
    FieldKind,
    FieldRule,
    FieldShape,
    FieldValue,
    FieldWriter,
    KeptValues,
    ProfileField,
    kept_value,
    read_rule,
)
from core.domain.tenancy.profile_values import AskedFields, HeldPerson, KeptBy


def shape_of(stored: Mapping[str, Any]) -> FieldShape:
    """From the JSON of the columns of the same names."""
    return FieldShape(key=stored["key"], kind=FieldKind(stored["kind"]), rule=read_rule(stored["rule"]))


def _stated(rule: FieldRule) -> Jsonb:
    return Jsonb(storable(rule.stated))


def _writers(words: Iterable[str]) -> frozenset[FieldWriter]:
    return frozenset(map(FieldWriter, words))


FIELD: Final = Columns(
    ProfileField,
    "profile_fields",
    named={"organization": "org_id"},
    texts=("label",),
    turned={"rule": (read_rule, _stated), "written_by": (_writers, sorted)},
)


class ProfileFieldRows(OnStatements):
    """Implements `ports.tenancy.organizations.ProfileFieldStore`."""

    async def list(self, organization: OrganizationId | None) -> Sequence[ProfileField]:
        statement = _LIST_OF_INSTALLATION if organization is None else _LIST_OF_ORGANIZATION
        return await self._statements.ask(FIELD.row, statement, {"organization": organization})

    async def hold_all(self, organization: OrganizationId | None) -> Sequence[ProfileField]:
        if organization is None:
            await self._statements.tell(_HOLD_INSTALLATION, {"namespace": NAMESPACE, "lock": INSTALLATION_FIELDS})
        return await self.list(organization)

    async def add(self, field: ProfileField) -> bool:
        return bool(await self._statements.ask(IdRow, _ADD, FIELD.values(field)))

    async def save(self, field: ProfileField) -> None:
        await self._statements.tell(_SAVE, FIELD.values(field))

    async def delete(self, field: ProfileFieldId, at: datetime) -> None:
        await self._statements.tell(_DELETE, {"id": field, "at": at})


# Statements name `is null` or `= …`, because no index finds `is not distinct from`.
_LIST_OF_ORGANIZATION: Final[LiteralString] = f"""
    select {FIELD.names} from profile_fields where org_id = %(organization)s order by position, key
"""
_LIST_OF_INSTALLATION: Final[LiteralString] = f"""
    select {FIELD.names} from profile_fields where org_id is null order by position, key
"""

_HOLD_INSTALLATION: Final = "select pg_advisory_xact_lock(%(namespace)s, %(lock)s)"

# A field of a deleted organization is deleted with it, by its foreign key.
_ADD: Final[LiteralString] = f"""
    insert into all_profile_fields ({FIELD.into()})
    values ({FIELD.inserted()})
        on conflict do nothing
 returning id
"""

_SAVE: Final[LiteralString] = f"""
    update all_profile_fields set {FIELD.changes("id", "organization", "key", "kind", "created_at")} where id = %(id)s
"""

# Waits for everybody who writes values of this field, so that the job finds them.
_DELETE: Final = "update all_profile_fields set deleted_at = %(at)s where id = %(id)s"


class _Row:
    """A field with what one keeper knows of the person. Without a field, the row says that the keeper has none."""

    def __init__(
        self,
        *,
        value: Json = None,
        kept_at: datetime | None = None,
        is_member: bool = False,
        keeper_slug: str = "",
        keeper_name: str = "",
        **columns: Any,
    ) -> None:
        self.field = FIELD.found(**columns)
        self.value = value
        self.kept_at = kept_at
        self.is_member = is_member
        self.keeper_slug = keeper_slug
        self.keeper_name = keeper_name


class ProfileValueRows(OnStatements):
    """Implements `ports.tenancy.organizations.ProfileValueStore`.

    One row for a user and each owner of fields, with the values by the IDs of their fields. A value whose field was deleted is never read
    again, and `adapters/postgres/upkeep/purging.py` removes it.
    """

    async def read_tied(self, user: UserId, organization: OrganizationId | None) -> HeldPerson | None:
        statement = _READ_TIED_TO_INSTALLATION if organization is None else _READ_TIED
        rows = await self._statements.ask(_Row, statement, {"user": user, "organization": organization})
        if not rows:
            return None
        return HeldPerson(user, organization, _kept(rows), rows[0].is_member)

    async def read_all(self, user: UserId, slug: str | None, most: int) -> Sequence[KeptBy]:
        parameters = {"user": user, "slug": None if slug is None else storable_text(slug), "most": most}
        rows = await self._statements.ask(_Row, _READ_ALL, parameters)
        return [KeptBy(keeper, of[0].keeper_slug, of[0].keeper_name, _kept(of)) for keeper, of in _by_keeper(rows).items()]

    async def hold(self, user: UserId, organization: OrganizationId | None) -> HeldPerson | None:
        for statement in _HOLDS_OF_INSTALLATION if organization is None else _HOLDS_OF_ORGANIZATION:
            await self._statements.tell(statement, {"user": user, "organization": organization})
        return await self.read_tied(user, organization)

    async def save(
        self, user: UserId, organization: OrganizationId | None, values: Mapping[ProfileFieldId, FieldValue], at: datetime
    ) -> None:
        # The values of fields that are gone by now are not among these, so they end here.
        stored = {str(field): list(value) if isinstance(value, tuple) else value for field, value in values.items()}
        parameters = {"user": user, "organization": organization, "values": Jsonb(storable(stored)), "at": at}
        statement = _SAVE_OF_INSTALLATION if organization is None else _SAVE_OF_ORGANIZATION
        await self._statements.tell(statement, parameters)

    async def asked(self, user: UserId, slug: str | None, service: ServiceId | None) -> Sequence[AskedFields]:
        parameters = {"user": user, "slug": None if slug is None else storable_text(slug), "service": service}
        rows = await self._statements.ask(_Row, _ASKED, parameters)
        return [
            AskedFields(
                keeper,
                of[0].keeper_slug,
                of[0].keeper_name,
                [row.field for row in of if row.field is not None and not row.field.rule_is_lost],
            )
            for keeper, of in _by_keeper(rows).items()
            if not all(row.field is None or row.field.rule_is_lost for row in of)
        ]

    async def enter(self, user: UserId, organization: OrganizationId, service: ServiceId, at: datetime) -> None:
        await self._statements.tell(_ENTER, {"user": user, "organization": organization, "service": service, "at": at})

    async def remember_asked(
        self, user: UserId, organization: OrganizationId | None, fields: Sequence[ProfileFieldId], at: datetime
    ) -> None:
        statement = _ASKED_OF_INSTALLATION if organization is None else _ASKED_OF_ORGANIZATION
        await self._statements.tell(statement, {"user": user, "organization": organization, "fields": list(fields), "at": at})


def _kept(rows: Sequence[_Row]) -> KeptValues:
    found = [(row, row.field) for row in rows if row.field is not None]
    known = {field.id: kept_value(field, row.value) for row, field in found}
    values = {field: value for field, value in known.items() if value is not None}
    return KeptValues([field for _, field in found if not field.rule_is_lost], values, found[0][0].kept_at if found else None)


def _by_keeper(rows: Sequence[_Row]) -> Mapping[OrganizationId | None, Sequence[_Row]]:
    found: dict[OrganizationId | None, list[_Row]] = {}
    for row in rows:
        if row.field is not None:
            found.setdefault(row.field.organization, []).append(row)
    return found


_FIELD: Final[LiteralString] = FIELD.names_in("fields")
_VALUE: Final = "profile_values.values -> fields.id::text as value, profile_values.updated_at as kept_at"
_OF_ORGANIZATION: Final = "profile_values.user_id = %(user)s and profile_values.org_id = %(organization)s"
_OF_INSTALLATION: Final = "profile_values.user_id = %(user)s and profile_values.org_id is null"


def _is_tied(organization: LiteralString, person: LiteralString) -> LiteralString:
    """Whether a person is tied to an organization: as its member, as somebody whom its directory knows, or as a user of its services. The
    values end with the last of these ties, by the trigger of `forget_profile_values`.
    """
    return f"""(
               exists (select from memberships where memberships.org_id = {organization} and memberships.user_id = {person})
            or exists (select from service_users where service_users.org_id = {organization} and service_users.user_id = {person})
            or exists (
                   select from provisioned_users where provisioned_users.org_id = {organization} and provisioned_users.user_id = {person}
               )
           )"""


_READ_TIED: Final[LiteralString] = f"""
    with tie as materialized (
             select exists (
                        select from memberships where org_id = %(organization)s and user_id = %(user)s
                         union all
                        select from provisioned_users where org_id = %(organization)s and user_id = %(user)s
                    ) as is_member,
                    exists (select from service_users where org_id = %(organization)s and user_id = %(user)s) as is_user
         )
  select {_FIELD}, {_VALUE}, tie.is_member
    from tie
    left join profile_fields as fields on fields.org_id = %(organization)s
    left join profile_values on {_OF_ORGANIZATION}
   where tie.is_member or tie.is_user
   order by fields.position, fields.key
"""

_READ_TIED_TO_INSTALLATION: Final[LiteralString] = f"""
    select {_FIELD}, {_VALUE}, false as is_member
      from users
      left join profile_fields as fields on fields.org_id is null
      left join profile_values on {_OF_INSTALLATION}
     where users.id = %(user)s and users.anonymized_at is null
     order by fields.position, fields.key
"""

_READ_ALL: Final[LiteralString] = f"""
    with keepers as materialized (
             select organizations.id, organizations.slug, organizations.name
               from (
                        select org_id from memberships where user_id = %(user)s
                     union
                        select org_id from service_users where user_id = %(user)s
                     union
                        select org_id from provisioned_users where user_id = %(user)s
                    ) as ties
               join organizations on organizations.id = ties.org_id
              where (%(slug)s::text is null or organizations.slug = %(slug)s)
                and exists (select from profile_fields where profile_fields.org_id = organizations.id)
              order by organizations.slug
              limit %(most)s::bigint
         ),
         told as (
             select {_FIELD}, {_VALUE}, '' as keeper_slug, '' as keeper_name
               from profile_fields as fields
               left join profile_values on {_OF_INSTALLATION}
              where fields.org_id is null
              union all
             select {_FIELD}, {_VALUE}, keepers.slug, keepers.name
               from keepers
               join profile_fields as fields on fields.org_id = keepers.id
               left join profile_values on profile_values.user_id = %(user)s and profile_values.org_id = keepers.id
         )
  select * from told order by keeper_slug, position, key
"""

# The account before the ties, and the ties before the values, as everywhere. Nobody who holds a field waits for anything else, so its lock
# may come anywhere. Whoever deletes the field waits for this lock, and the job then finds the value.
_HOLD_ACCOUNT: Final = "select from users where id = %(user)s and anonymized_at is null for key share"

_HOLDS_OF_ORGANIZATION: Final[tuple[LiteralString, ...]] = (
    "select from organizations where id = %(organization)s for key share",
    _HOLD_ACCOUNT,
    "select from memberships where org_id = %(organization)s and user_id = %(user)s for key share",
    "select from provisioned_users where org_id = %(organization)s and user_id = %(user)s for key share",
    """
    select from service_users where org_id = %(organization)s and user_id = %(user)s order by service_id for key share
    """,
    """
    select from all_profile_fields where org_id = %(organization)s and deleted_at is null order by id for share
    """,
    f"""
    insert into profile_values (user_id, org_id, updated_at)
    select users.id, organizations.id, now()
      from users
      join organizations on organizations.id = %(organization)s
     where users.id = %(user)s and users.anonymized_at is null and {_is_tied("organizations.id", "users.id")}
        on conflict do nothing
    """,
    f"select from profile_values where {_OF_ORGANIZATION} for update",
)

_HOLDS_OF_INSTALLATION: Final[tuple[LiteralString, ...]] = (
    _HOLD_ACCOUNT,
    "select from all_profile_fields where org_id is null and deleted_at is null order by id for share",
    """
    insert into profile_values (user_id, updated_at)
    select id, now() from users where id = %(user)s and anonymized_at is null
        on conflict do nothing
    """,
    f"select from profile_values where {_OF_INSTALLATION} for update",
)

_SAVED: Final = "update profile_values set values = %(values)s, updated_at = %(at)s"
_SAVE_OF_ORGANIZATION: Final[LiteralString] = f"{_SAVED} where {_OF_ORGANIZATION}"
_SAVE_OF_INSTALLATION: Final[LiteralString] = f"{_SAVED} where {_OF_INSTALLATION}"

_REMEMBER: Final = """
    update profile_values
       set asked = array(select distinct unnest(asked || %(fields)s::uuid[])), updated_at = %(at)s
"""
_ASKED_OF_ORGANIZATION: Final[LiteralString] = f"{_REMEMBER} where {_OF_ORGANIZATION}"
_ASKED_OF_INSTALLATION: Final[LiteralString] = f"{_REMEMBER} where {_OF_INSTALLATION}"


# An organization that merely lists a person asks nothing until the person has confirmed the membership, or goes to one of its services.
_ASKED: Final[LiteralString] = f"""
    with keepers as materialized (
             select organizations.id, organizations.slug, organizations.name, memberships.created_at as since
               from memberships
               join organizations on organizations.id = memberships.org_id
              where memberships.user_id = %(user)s and organizations.status = 'active'
                and case when %(slug)s::text is null then memberships.own_since is not null else organizations.slug = %(slug)s end
              union all
             select organizations.id, organizations.slug, organizations.name, coalesce(used.created_at, now())
               from services
               join organizations on organizations.id = services.org_id
               left join service_users as used on used.service_id = services.id and used.user_id = %(user)s
              where services.id = %(service)s and organizations.slug = %(slug)s and organizations.status = 'active'
                and {admits("false", "%(user)s")}
                and not exists (
                        select from memberships where memberships.org_id = organizations.id and memberships.user_id = %(user)s
                    )
         ),
         asked as (
             select {_FIELD}, '' as keeper_slug, '' as keeper_name
               from users
               join profile_fields as fields on fields.org_id is null and fields.asked_at is not null
               left join profile_values on {_OF_INSTALLATION}
              where users.id = %(user)s and is_to_be_asked(fields, profile_values, users.created_at)
              union all
             select {_FIELD}, keepers.slug, keepers.name
               from keepers
               join profile_fields as fields on fields.org_id = keepers.id and fields.asked_at is not null
               left join profile_values on profile_values.user_id = %(user)s and profile_values.org_id = keepers.id
              where is_to_be_asked(fields, profile_values, keepers.since)
         )
  select * from asked order by keeper_slug, position, key limit 100
"""


# The person has typed answers for the organization of this service, and gets the tie that the service's servers could make as well: no
# consent, and nothing of the account is shown by it.
_ENTER: Final[LiteralString] = f"""
    insert into service_users (service_id, user_id, org_id, created_at)
    select services.id, users.id, services.org_id, %(at)s
      from services
      join users on users.id = %(user)s and users.anonymized_at is null
     where services.id = %(service)s and services.org_id = %(organization)s and {admits("false", "users.id")}
        on conflict (service_id, user_id) do nothing
"""


def values_in_organization(organization: LiteralString, person: LiteralString) -> LiteralString:
    """For statements of other stores: the values as an object by the keys of the fields, in the order of the fields; null if there are
    none.
    """
    return f"""(
               select json_object_agg(fields.key, profile_values.values -> fields.id::text order by fields.position, fields.key)
                 from profile_values
                 join profile_fields as fields on fields.org_id = profile_values.org_id and profile_values.values ? fields.id::text
                where profile_values.user_id = {person} and profile_values.org_id = {organization}
           )"""

"""Keys of machines: how keys of each kind are kept and used, management keys, and trusted issuers."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Generic, LiteralString, NamedTuple, TypeVar
from uuid import UUID

from adapters.postgres.columns import Columns, IdRow, array, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.factors.mfa import grace_is_over, second_factor_due_in
from adapters.postgres.presence import mark
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import OnStatements, OnTransaction, Statements, Transaction, ask, ask_in_order, first, first_made, only
from adapters.postgres.tenancy.roles import RELATIONS_OF_MEMBER
from core.domain.identifiers import (
    ApiKeyId,
    ClientId,
    ClientSecretId,
    InvitationId,
    ManagementKeyId,
    OrganizationId,
    ServiceId,
    TrustedIssuerId,
    UserId,
)
from core.domain.mail import Email
from core.domain.tenancy.management_keys import (
    MOST_LISTED,
    Holder,
    KnownKey,
    MadeByKey,
    MadeInvitation,
    MadeKey,
    MadeSecret,
    Maker,
    ManagementKey,
    ManagementKeyHolder,
    able_in_organization,
    able_on_platform,
)
from core.domain.tenancy.trusted_issuers import TEXTS, TrustedIssuer
from core.frozen import Frozen
from ports.tenancy.members import ExistingTrustedIssuers, TrustingService

# The shortest time between two updates of one key's `last_used_at`.
_PAUSE: Final = timedelta(minutes=1)

Id = TypeVar("Id", bound=UUID)


class KeyTable(Frozen):
    """A table with `id`, `name`, `prefix` and `digest` (both unique), `last_used_at`, `expires_at` and `created_at`. A table of which only
    the use is marked needs `id` and `last_used_at` alone. `owner` is the column that names the key's owner, and `maker` the one that names
    the person who answers for the key. `more` are the columns that only this kind of key has. `also` is another condition under which a
    shown key is found, besides its digest.
    """

    name: LiteralString
    owner: LiteralString
    more: tuple[LiteralString, ...] = ()
    also: LiteralString = ""
    maker: LiteralString = "created_by"


class KeyLookups(Generic[Holder]):
    """Finds keys of one kind. `statement` is made with `asked_keys` and selects the columns of `row` in their order. A `row` has the key's
    `digest`, and its method `known` returns the key.
    """

    def __init__(self, pool: Pool, row: Callable[..., Any], statement: LiteralString) -> None:
        self._pool = pool
        self._row = row
        self._statement: LiteralString = statement
        self._known = SharedLookups(self._find)

    async def find(self, digest: bytes) -> KnownKey[Holder] | None:
        return await self._known.find(digest)

    async def _find(self, digests: Sequence[bytes]) -> Mapping[bytes, KnownKey[Holder]]:
        rows = await ask_in_order(self._pool, self._row, self._statement, {"digests": array([digest.hex() for digest in digests])})
        return {row.digest: row.known() for row in rows}


class PostgresKeyUse:
    """Implements `ports.system.PresenceStore` for one kind of key. All processes together mark a key at most once a minute."""

    def __init__(self, pool: Pool, table: KeyTable) -> None:
        self._pool = pool
        self._mark: LiteralString = _marking(table)

    async def mark_seen(self, times: Mapping[Id, datetime]) -> None:
        await mark(self._pool, self._mark, times, {"pause": _PAUSE})


async def added(transaction: Statements | Transaction, statement: LiteralString, columns: Mapping[str, Any]) -> int | None:
    """Runs a statement that `adding` made. Returns the number of keys before, or None when another key has the prefix."""
    return first(await transaction.ask_in_order(int, statement, columns))


def asked_keys(table: KeyTable) -> LiteralString:
    """The `from` part of a look-up of keys. PostgreSQL looks into the index once for each key, whether there is one key or a hundred:
    `adapters/postgres/tenancy/callers.py` gives the reason.
    """
    found: LiteralString = f"select * from {table.name} where {table.name}.digest = decode(asked.digest, 'hex') limit 1"
    if table.also:
        found = f"({found}) union all (select * from {table.name} where {table.also} limit 1) limit 1"
    return f"""unnest((select %(digests)s::text[])) as asked (digest)
     cross join lateral (
               {found}
           ) as keys"""


def adding(table: KeyTable, others: LiteralString = "") -> LiteralString:
    """The statement that adds a key. It also counts the owner's keys that existed when it began. `others` is the condition for these keys;
    by default they have the same owner.
    """
    columns = ("id", table.owner, "name", "prefix", "digest", *table.more, "expires_at", table.maker, "created_at")
    return f"""
    insert into {table.name} ({", ".join(columns)})
    values ({", ".join(f"%({column})s" for column in columns)})
        on conflict (prefix) do nothing
 returning (select count(*) from {table.name} as others where {others or f"others.{table.owner} = %({table.owner})s"}) as before
"""


def _marking(table: KeyTable) -> LiteralString:
    return f"""
    with due as (
             select keys.id, used.at
               from {table.name} as keys
               join unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) as used (id, at) on used.id = keys.id
              where keys.last_used_at is null or keys.last_used_at <= used.at - %(pause)s
              order by keys.id
                for no key update of keys      -- all processes lock in this order, so two that mark the same keys cannot deadlock
         )
  update {table.name}
     set last_used_at = due.at
    from due
   where {table.name}.id = due.id
"""


class _Known(NamedTuple):
    id: UUID
    digest: bytes
    name: str
    prefix: str
    expires_at: datetime
    capabilities: list[str]
    created_by: UUID
    adopted_by: UUID | None
    organization_id: UUID | None
    organization_slug: str | None
    organization_is_active: bool
    relations: list[str]
    owes_second_factor: bool
    is_platform_owner: bool
    organization_name: str = ""

    def holder(self) -> ManagementKeyHolder:
        maker = None
        if self.adopted_by is None:
            maker = Maker(frozenset(self.relations), self.owes_second_factor, self.is_platform_owner)
        organization = None if self.organization_id is None else OrganizationId(self.organization_id)
        able = (
            {"platform_capabilities": able_on_platform(self.capabilities, maker)}
            if organization is None
            else {"capabilities": able_in_organization(self.capabilities, maker)}
        )
        return ManagementKeyHolder(
            key=ManagementKeyId(self.id),
            name=self.name,
            prefix=self.prefix,
            organization=organization,
            organization_slug=self.organization_slug or "",
            organization_name=self.organization_name,
            responsible=UserId(self.adopted_by or self.created_by),
            **able,
        )

    def known(self) -> KnownKey[ManagementKeyHolder]:
        return KnownKey(self.holder(), self.digest, self.expires_at, self.organization_is_active)


# Statements tell the maker's address, whether the maker is still there, and until when the former secret still works.
MANAGEMENT_KEY: Final = Columns(
    ManagementKey, "management_keys", named={"organization": "org_id"}, apart=("maker", "maker_is_here", "former_until"), texts=("name",)
)


def _key(*, maker: str | None, **columns: Any) -> ManagementKey:
    return MANAGEMENT_KEY.row(maker=None if maker is None else Email(maker), **columns)


class _Made(Frozen, kw_only=True):
    """The things of one kind that a key has made."""

    kind: str
    things: Sequence[Mapping[str, Any]]


def _with_made(
    *, kind: str | None, things: Sequence[Mapping[str, Any]] | None, **columns: Any
) -> tuple[ManagementKey, str | None, Sequence[Mapping[str, Any]] | None]:
    """A key with the things of one kind that it has made, or alone."""
    return _key(**columns), kind, things


class PostgresManagementKeys(KeyLookups[ManagementKeyHolder]):
    """Implements `ports.tenancy.members.ManagementKeyLookup`."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, _Known, FIND_MANAGEMENT_KEY)

    async def find_trusting(self, key: ManagementKeyId, rule: TrustedIssuerId, rule_of: datetime) -> KnownKey[ManagementKeyHolder] | None:
        row = first(await ask(self._pool, _Known, _TRUSTING, {"id": key, "rule": rule, "at": rule_of}))
        return None if row is None else row.known()

    async def list(self, organization: OrganizationId | None) -> Sequence[ManagementKey]:
        return await ask(self._pool, _key, *_in(organization, _LIST))

    async def find_with_made(self, organization: OrganizationId | None, key: ManagementKeyId) -> tuple[ManagementKey, MadeByKey] | None:
        rows = await ask(self._pool, _with_made, *_in(organization, _GET, id=key, limit=MOST_LISTED))
        if not rows:
            return None
        return rows[0][0], _made({kind: things for _, kind, things in rows if kind is not None and things is not None})


class ManagementKeyRows(OnTransaction):
    """Implements `ports.tenancy.members.ManagementKeyStore` in one transaction."""

    async def add(self, key: ManagementKey, digest: bytes) -> int | None:
        return await added(
            self._transaction,
            _ADD_TO_PLATFORM if key.organization is None else _ADD,
            {
                "id": key.id,
                "org_id": key.organization,
                "name": storable_text(key.name),
                "prefix": key.prefix,
                "digest": digest,
                "capabilities": [str(word) for word in key.capabilities],
                "expires_at": key.expires_at,
                "created_by": key.created_by,
                "created_at": key.created_at,
            },
        )

    async def able(self, key: ManagementKeyId) -> KnownKey[ManagementKeyHolder] | None:
        return first_made(await self._transaction.ask(_Known, _ABLE, {"id": key}), _Known.known)

    async def find(self, organization: OrganizationId | None, key: ManagementKeyId) -> ManagementKey | None:
        return first(await self._transaction.ask(_key, *_in(organization, _HOLD, id=key)))

    async def adopt(self, key: ManagementKey, digest: bytes, owner: UserId, at: datetime, former_until: datetime) -> ManagementKey | None:
        parameters = {"id": key.id, "prefix": key.prefix, "digest": digest, "owner": owner, "at": at, "until": former_until}
        return first(await self._transaction.ask(_key, _ADOPT, parameters))

    async def made(self, key: ManagementKeyId) -> MadeByKey:
        return _made({row.kind: row.things for row in await self._transaction.ask(_Made, _MADE, {"id": key, "limit": MOST_LISTED})})

    async def end(self, organization: OrganizationId | None, key: ManagementKeyId) -> ManagementKey | None:
        return first(await self._transaction.ask(_key, *_in(organization, _END, id=key)))


def _made(things: Mapping[str, Sequence[Mapping[str, Any]]]) -> MadeByKey:
    return MadeByKey(
        [MadeKey(ApiKeyId(UUID(one["id"])), one["service"], one["name"], one["prefix"]) for one in things.get("api_key", ())],
        [MadeSecret(ClientSecretId(UUID(one["id"])), one["service"], one["prefix"]) for one in things.get("client_secret", ())],
        [
            MadeInvitation(
                InvitationId(UUID(one["id"])),
                Email(one["email"]),
                one["role"],
                datetime.fromisoformat(one["created_at"]),
                one["status"] == "accepted",
            )
            for one in things.get("invitation", ())
        ],
    )


def _in(
    organization: OrganizationId | None, statement: Mapping[bool, LiteralString], **parameters: Any
) -> tuple[LiteralString, Mapping[str, Any]]:
    """The statement for keys of an organization, or of the platform, with its parameters."""
    if organization is None:
        return statement[False], parameters
    return statement[True], {"organization": organization, **parameters}


def _for_both(statement: LiteralString) -> Mapping[bool, LiteralString]:
    """The statement for keys of an organization, and for those of the platform. One statement for both could not use the index."""
    return {
        True: statement.replace("{place}", "management_keys.org_id = %(organization)s"),
        False: statement.replace("{place}", "management_keys.org_id is null"),
    }


def is_here(person: LiteralString, key: LiteralString = "management_keys") -> LiteralString:
    """Whether this person is a member of the organization of a row of `management_keys`, or a platform owner for a key of the platform. The
    account is active.
    """
    return f"""exists (
                   select
                     from users as holders
                    where holders.id = {person} and holders.deactivated_at is null
                      and case
                              when {key}.org_id is null then holders.is_platform_owner
                              else exists (
                                  select
                                    from memberships
                                   where memberships.org_id = {key}.org_id and memberships.user_id = holders.id
                              )
                          end
               )"""


# The former secret ends with its day, and with whoever knows it.
_BY_FORMER_SECRET: Final[LiteralString] = f"""management_keys.former_digest = decode(asked.digest, 'hex')
                      and management_keys.former_until > now() and {is_here("management_keys.former_holder")}"""

MANAGEMENT_KEYS: Final = KeyTable("management_keys", "org_id", ("capabilities",), also=_BY_FORMER_SECRET)

_KEY: Final[LiteralString] = f"""{MANAGEMENT_KEY.names},
           (select makers.email from users as makers where makers.id = management_keys.created_by) as maker,
           {is_here("management_keys.created_by")} as maker_is_here,
           case when management_keys.former_until > now() then management_keys.former_until end as former_until"""

# Of a maker, whose row is `users`, towards the organization `wanted`.
OWES_SECOND_FACTOR: Final[LiteralString] = grace_is_over(second_factor_due_in("wanted.id", "users.id"))

# Of a key, whose row is `keys`, for statements about what it has made.
OF_KEY: Final = "keys.capabilities as key_capabilities, keys.adopted_at is not null as key_is_adopted"

# The maker counts until somebody adopts the key. `users` is empty for a maker who is gone or deactivated, so that such a maker stands in no
# relation to the organization.
_KNOWN: Final[LiteralString] = f"""
    select keys.id, {{digest}}, keys.name, keys.prefix, keys.expires_at, keys.capabilities, keys.created_by, keys.adopted_by,
           wanted.id as organization_id, wanted.slug as organization_slug,
           coalesce(wanted.status = 'active', true) as organization_is_active,
           case when users.id is null then '{{}}'::text[] else {RELATIONS_OF_MEMBER} end as relations,
           case when users.id is null then false else {OWES_SECOND_FACTOR} end as owes_second_factor,
           coalesce(users.is_platform_owner, false) as is_platform_owner
"""
_ITS_MAKER: Final = """
      left join lateral (select * from organizations where organizations.id = keys.org_id limit 1) as wanted on true
      left join lateral (
                select users.id, users.is_platform_owner
                  from users
                 where keys.adopted_at is null and users.id = keys.created_by and users.deactivated_at is null
                 limit 1
           ) as users on true
     where (keys.org_id is null or wanted.id is not null)
"""

_SHOWN: Final = "case when keys.digest = decode(asked.digest, 'hex') then keys.digest else keys.former_digest end as digest"

FIND_MANAGEMENT_KEY: Final[LiteralString] = f"{_KNOWN.replace('{digest}', _SHOWN)} from {asked_keys(MANAGEMENT_KEYS)} {_ITS_MAKER}"

_ABLE: Final[LiteralString] = f"""
    {_KNOWN.replace("{digest}", "keys.digest")}, coalesce(wanted.name, '') as organization_name
      from management_keys as keys {_ITS_MAKER} and keys.id = %(id)s and keys.expires_at > now()
"""

# The person whose key it is has set the rule: nobody else may, and an adoption leaves the rules of before behind.
_TRUSTING: Final[LiteralString] = f"""{_ABLE}
       and exists (
               select from trusted_issuers
                where trusted_issuers.id = %(rule)s and trusted_issuers.key_id = keys.id and trusted_issuers.updated_at = %(at)s
                  and (keys.adopted_at is null or trusted_issuers.updated_at > keys.adopted_at)
           )
       and {is_here("coalesce(keys.adopted_by, keys.created_by)", "keys")}
"""

# There are few enough keys to show them all.
_LIST: Final = _for_both(f"""
    select {_KEY} from management_keys where {{place}} order by management_keys.created_at desc, management_keys.id desc
""")

_ADD: Final[LiteralString] = adding(MANAGEMENT_KEYS)
_ADD_TO_PLATFORM: Final[LiteralString] = adding(MANAGEMENT_KEYS, "others.org_id is null")

_HOLD: Final = _for_both(f"""
    select {_KEY} from management_keys where management_keys.id = %(id)s and {{place}} for no key update of management_keys
""")

_STAYS: Final[LiteralString] = is_here("coalesce(management_keys.adopted_by, management_keys.created_by)")
_ADOPT: Final[LiteralString] = f"""
    update management_keys
       set adopted_by = %(owner)s, adopted_at = %(at)s, prefix = %(prefix)s, digest = %(digest)s,
           former_digest = case when {_STAYS} then management_keys.digest end,
           former_until = case when {_STAYS} then %(until)s::timestamptz end,
           former_holder = case when {_STAYS} then coalesce(management_keys.adopted_by, management_keys.created_by) end
     where management_keys.id = %(id)s
       and not exists (select from management_keys as others where others.prefix = %(prefix)s)
 returning {_KEY}
"""

_END: Final = _for_both(f"delete from management_keys where management_keys.id = %(id)s and {{place}} returning {_KEY}")

_MADE: Final = """
    select 'api_key' as kind, coalesce(json_agg(made), '[]') as things
      from (
               select api_keys.id, services.slug as service, api_keys.name, api_keys.prefix
                 from api_keys
                 join services on services.id = api_keys.service_id
                where api_keys.made_by_key = %(id)s
                order by api_keys.created_at desc, api_keys.id desc
                limit %(limit)s
           ) as made
     union all
    select 'client_secret', coalesce(json_agg(made), '[]')
      from (
               select client_secrets.id, services.slug as service, client_secrets.prefix
                 from client_secrets
                 join services on services.id = client_secrets.service_id
                where client_secrets.made_by_key = %(id)s
                order by client_secrets.created_at desc, client_secrets.id desc
                limit %(limit)s
           ) as made
     union all
    select 'invitation', coalesce(json_agg(made), '[]')
      from (
               select invitations.id, invitations.email, invitations.role, invitations.status, invitations.created_at
                 from invitations
                where invitations.org_id = (select org_id from management_keys where id = %(id)s)
                  and invitations.made_by_key = %(id)s
                  and (invitations.status = 'accepted' or invitations.status = 'pending' and invitations.expires_at > now())
                order by invitations.id desc
                limit %(limit)s
           ) as made
"""

_GET: Final = _for_both(f"""
    select {_KEY}, made.kind, made.things
      from management_keys
      left join ({_MADE}) as made on true
     where management_keys.id = %(id)s and {{place}}
""")


TRUSTED_ISSUERS: Final = KeyTable("trusted_issuers", "org_id")

TRUSTED_ISSUER: Final = Columns(
    TrustedIssuer,
    "trusted_issuers",
    named={"organization": "org_id", "service": "service_id", "key": "key_id"},
    apart=("service_slug",),
    texts=TEXTS,
    derived=("last_used_at",),
)


class TrustedIssuerRows(OnStatements):
    """Implements `ports.tenancy.members.TrustedIssuerStore`."""

    async def list(self, organization: OrganizationId) -> Sequence[TrustedIssuer]:
        return await self._statements.ask(TRUSTED_ISSUER.row, _TRUSTED_ISSUER_LIST, {"organization": organization})

    async def find(self, organization: OrganizationId, rule: TrustedIssuerId) -> TrustedIssuer | None:
        return first(await self._statements.ask(TRUSTED_ISSUER.row, _TRUSTED_ISSUER_GET, {"organization": organization, "id": rule}))

    async def asked_by(self, client: ClientId) -> Sequence[TrustedIssuer]:
        return await self._statements.ask(TRUSTED_ISSUER.row, _ASKED_BY, {"client": client, "key": _key_id(client)})

    async def service(self, organization: OrganizationId, slug: str) -> TrustingService | None:
        parameters = {"organization": organization, "slug": storable_text(slug)}
        return first(await self._statements.ask(TrustingService, _SERVICE, parameters))

    async def existing(
        self, organization: OrganizationId, service: ServiceId | None, key: ManagementKeyId | None
    ) -> ExistingTrustedIssuers:
        parameters = {"organization": organization, "service": service, "key": key}
        return only(await self._statements.ask(ExistingTrustedIssuers, _EXISTING, parameters))

    async def add(self, rule: TrustedIssuer) -> bool:
        return bool(await self._statements.ask(IdRow, _TRUSTED_ISSUER_ADD, TRUSTED_ISSUER.values(rule)))

    async def save(self, rule: TrustedIssuer) -> bool:
        return bool(await self._statements.ask(IdRow, _SAVE, TRUSTED_ISSUER.values(rule)))

    async def remove(self, rule: TrustedIssuerId) -> None:
        await self._statements.tell("delete from trusted_issuers where id = %(id)s", {"id": rule})


def _key_id(client: ClientId) -> UUID | None:
    """A management key's id. None for a client id that no key has: that of a service that kept its own."""
    try:
        return UUID(client)
    except ValueError:
        return None


# The services of `services` are not being deleted.
_COLUMNS: Final[LiteralString] = f"""
           {TRUSTED_ISSUER.names},
           (select services.slug from services where services.id = trusted_issuers.service_id) as service_slug"""

_TRUSTED_ISSUER_LIST: Final[LiteralString] = f"""
    select {_COLUMNS}
      from trusted_issuers
     where org_id = %(organization)s
       and (service_id is null or service_id in (select id from services where services.org_id = %(organization)s))
     order by id
"""

_TRUSTED_ISSUER_GET: Final[LiteralString] = f"""
    select {_COLUMNS}
      from trusted_issuers
     where org_id = %(organization)s and id = %(id)s
       and (service_id is null or service_id in (select id from services where services.org_id = %(organization)s))
"""

_ASKED_BY: Final[LiteralString] = f"""
    select {_COLUMNS}
      from trusted_issuers
     where service_id = (select services.id from services where services.oauth_client_id = %(client)s)
        or key_id = %(key)s::uuid
     order by id
"""

# `for key share` keeps the service until the rule refers to it.
_SERVICE: Final = """
    select id, service_type in ('web', 'api') as is_confidential
      from services
     where org_id = %(organization)s and slug = %(slug)s
       for key share
"""

_EXISTING: Final = """
    select count(*) as count,
           count(*) filter (where service_id = %(service)s::uuid or key_id = %(key)s::uuid) as of_one
      from trusted_issuers
     where org_id = %(organization)s
"""

_TRUSTED_ISSUER_ADD: Final[LiteralString] = f"""
    insert into trusted_issuers ({TRUSTED_ISSUER.into()})
    values ({TRUSTED_ISSUER.inserted()})
        on conflict (org_id, name) do nothing
 returning id
"""

_SAVE: Final[LiteralString] = f"""
    update trusted_issuers
       set {TRUSTED_ISSUER.changes("id", "organization", "service", "key", "created_at")}
     where id = %(id)s
       and not exists (
               select from trusted_issuers as others
                where others.org_id = trusted_issuers.org_id and others.name = %(name)s and others.id <> %(id)s
           )
 returning id
"""

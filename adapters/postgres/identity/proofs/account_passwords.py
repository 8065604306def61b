"""Passwords of accounts in PostgreSQL, and what protects them: locks, counts of guesses, and proof-of-work challenges."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import AnswerRow, IdRow, array, array_of_texts, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.accounts import ACCOUNT, ACCOUNT_AND_LOCK, OPENS_BY_PROOF, is_locked
from adapters.postgres.identity.addresses import is_unproved, is_vouched
from adapters.postgres.identity.privacy.forgetting import IS_THE_MAKERS
from adapters.postgres.statements import OnPool, OnTransaction, ask, ask_in_order, first, first_made, tell
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.account_locks import BeforeLock
from core.domain.identity.accounts import AccountPassword, BeforeReset, Registration, Unverified
from core.domain.identity.guards.guesses import SUSPICIONS, FailedGuess, GuessPlace, OriginPlaces
from core.domain.identity.passwords import STRANGER, PasswordStanding
from core.domain.identity.upstream.claims import AddedKind, AddedWay
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.secrets import Token
from core.frozen import Frozen
from ports.identity.accounts import PasswordCounts


def _password(*, email: str, language: str | None, **columns: Any) -> AccountPassword:
    return AccountPassword(email=Email(email), language=Language.of(language), **columns)


def _before(*, had_password: bool, **account: Any) -> BeforeReset:
    return BeforeReset(ACCOUNT.row(**account), had_password)


class _Standing(Frozen):
    shortest: int | None
    names: list[str]

    def standing(self) -> PasswordStanding:
        return PasswordStanding(self.shortest, tuple(self.names))


class PostgresPasswordStandings:
    """Implements `ports.identity.accounts.PasswordStandings`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, user: UserId) -> PasswordStanding:
        return first_made(await ask(self._pool, _Standing, _FIND_STANDING, {"user": user}), _Standing.standing) or STRANGER


class AccountPasswordRows(OnTransaction):
    """Implements `ports.identity.accounts.AccountPasswordStore` in one transaction."""

    async def find(self, user: UserId) -> AccountPassword | None:
        return first(await self._transaction.ask(_password, _FIND_HASH, {"user": user}))

    async def replace(self, user: UserId, old: str | None, new: str, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _REPLACE_HASH, {"user": user, "old": old, "new": new, "at": at}))

    async def reset(self, user: UserId, email: Email, new: str, at: datetime) -> BeforeReset | None:
        parameters = {"user": user, "email_key": email.key, "new": new, "at": at}
        return first(await self._transaction.ask(_before, _RESET_HASH, parameters))

    async def registration(self, user: UserId) -> Registration | None:
        return first(await self._transaction.ask(Registration, _FIND_REGISTRATION, {"user": user}))

    async def forget_unverified(self, user: UserId, at: datetime) -> Unverified | None:
        return first_made(
            await self._transaction.ask(AnswerRow, _FORGET_UNVERIFIED_HASH, {"user": user, "at": at}),
            lambda row: Unverified(is_vouched=row.yes),
        )

    async def forget(self, user: UserId, at: datetime) -> None:
        await self._transaction.tell(_FORGET_HASH, {"user": user, "at": at})


_FIND_HASH: Final = """
    select email, password_hash as encoded, password_changed_at as changed_at, language
      from users
     where id = %(user)s and deactivated_at is null
"""

# Active organizations alone, as elsewhere: who is suspended asks for nothing outside itself.
_FIND_STANDING: Final[LiteralString] = f"""
    with own as (
             select organizations.name, organizations.shortest_password
               from memberships
               join organizations on organizations.id = memberships.org_id
              where memberships.user_id = %(user)s and {IS_OWN_MEMBERSHIP} and organizations.status = 'active'
         )
  select (select max(shortest_password) from own)::int as shortest,
         array_remove(array[users.name, users.given_name, users.family_name, users.username], null)
         || array(select name from own order by name limit 20)
         || array(
                select services.name
                  from service_users
                  join services on services.id = service_users.service_id
                 where service_users.user_id = %(user)s and service_users.own_since is not null
                 order by service_users.last_login_at desc nulls last
                 limit 20
            ) as names
    from users
   where users.id = %(user)s
"""

_FIND_REGISTRATION: Final[LiteralString] = f"""
    select password_hash as encoded, registered_in as browser, {is_vouched()} as is_vouched
      from users
     where id = %(user)s and {is_unproved()}
"""

_REPLACE_HASH: Final = """
    update users
       set password_hash = %(new)s, password_changed_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null and password_hash is not distinct from %(old)s::text
 returning id
"""

_WAS_LOCKED: Final[LiteralString] = f"({is_locked('before')}) is true"

# A stranger may have registered the account, with a password, before the address was proved. So the service where that happened is no
# longer its origin. Who made an account for somebody else stays its maker, however often the password is reset, until the account is
# deactivated: whoever then asks for a link opens it, and it is nobody's. A lock says nothing about whose account it is.
_RESET_HASH: Final[LiteralString] = f"""
    with before as (
             select {ACCOUNT_AND_LOCK}, users.password_hash
               from users
              where id = %(user)s and (deactivated_at is null or {OPENS_BY_PROOF} or {is_locked()}) and email_key = %(email_key)s
                for no key update
         )
  update users
     set origin_service_id = case
                                  when before.deactivated_at is not null and not {_WAS_LOCKED} then null
                                  when users.origin_org_id is null and {is_unproved("before")}
                                   and before.password_hash is not null then null
                                  else origin_service_id
                              end,
         origin_org_id = case when before.deactivated_at is null or {_WAS_LOCKED} then origin_org_id end,
         deactivated_at = null, deactivated_by_org_id = null,
         password_hash = %(new)s, password_changed_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s,
         email_verified_at = coalesce(before.email_verified_at, %(at)s), registered_in = null
    from before
   where users.id = before.id
returning {ACCOUNT.names_in("before")}, before.deactivated_by, before.locked_at, before.lock_waits,
          before.password_hash is not null as had_password
"""

_FORGET_UNVERIFIED_HASH: Final[LiteralString] = f"""
    update users
       set password_hash = null, registered_in = null, language = null, pending_email = null, pending_email_key = null,
           origin_service_id = case when origin_org_id is not null then origin_service_id end, updated_at = %(at)s
     where id = %(user)s and {is_unproved()}
 returning {is_vouched()} as yes
"""

_FORGET_HASH: Final = """
    update users
       set password_hash = null, password_changed_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s
"""


_NOTHING: Final = BeforeLock(has_password=False, consents=0, devices=0)


def _added(kind: str, id: UUID, name: str, at: datetime) -> AddedWay:  # noqa: A002 - the column's name
    return AddedWay(AddedKind(kind), id, name, at)


class AccountLockRows(OnTransaction):
    """Implements `ports.identity.accounts.AccountLockStore` in one transaction."""

    async def before(self, user: UserId, at: datetime) -> BeforeLock:
        return first(await self._transaction.ask(BeforeLock, _BEFORE, {"user": user, "at": at})) or _NOTHING

    async def lock(self, user: UserId, at: datetime) -> None:
        await self._transaction.tell(_LOCK, {"user": user, "at": at})

    async def added_since(self, user: UserId, since: datetime) -> Sequence[AddedWay]:
        return await self._transaction.ask(_added, _ADDED_SINCE, {"user": user, "since": since})

    async def is_the_makers(self, user: UserId, organization: OrganizationId) -> bool:
        rows = await self._transaction.ask(AnswerRow, _IS_THE_MAKERS, {"user": user, "organization": organization})
        return bool(rows) and rows[0].yes


_BEFORE: Final = """
    select password_hash is not null as has_password,
           (select count(*) from consents where consents.user_id = users.id) as consents,
           (
               select count(*)
                 from devices
                where devices.user_id = users.id and devices.revoked_at is null and devices.trusted_until > %(at)s
           ) as devices
      from users
     where id = %(user)s
"""

# Equal moments say that it is a lock, and no deactivation: see `Account.is_locked`.
_LOCK: Final = """
    update users
       set deactivated_at = %(at)s, locked_at = %(at)s, password_hash = null, password_changed_at = %(at)s, pending_email = null,
           pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null
"""

_ADDED_SINCE: Final = """
    select 'second_factor' as kind, user_id as id, '' as name, enabled_at as at
      from mfa_secrets
     where user_id = %(user)s and enabled_at > %(since)s
     union all
    select 'passkey', id, name, created_at
      from passkeys
     where user_id = %(user)s and created_at > %(since)s
     union all
    select 'identity', identities.id, coalesce(providers.name, identities.provider), identities.linked_at
      from identities
      left join upstream_providers as providers on providers.id = identities.upstream_provider_id
     where identities.user_id = %(user)s and identities.linked_at > %(since)s
     order by at, kind, id
"""

_IS_THE_MAKERS: Final[LiteralString] = f"select coalesce({IS_THE_MAKERS}, false) as yes from users where users.id = %(user)s"


# One source makes hashes of few shapes. Beyond this number, a shape counts once somebody has tried a password of it.
MOST_SHAPES: Final = 64


class _Count(Frozen):
    kind: str
    number: int


class _Own(Frozen):
    ours: int
    none: int


class PostgresForeignHashes(OnPool):
    """Implements `ports.identity.accounts.ForeignHashStore`."""

    async def shapes(self) -> Sequence[str]:
        return await ask_in_order(self._pool, str, _SHAPES, {"most": MOST_SHAPES})

    async def remaining(self) -> Mapping[str, int]:
        return {row.kind: row.number for row in await ask(self._pool, _Count, _REMAINING)}

    async def counts(self) -> PasswordCounts:
        (own,) = await ask(self._pool, _Own, _OWN)
        return PasswordCounts(own.ours, own.none, await self.remaining())


# The index is made of these words.
_FOREIGN: Final = "left(password_hash, 9) = '$foreign$'"
_SHAPE: Final = "split_part(password_hash, '$', 3) || '$' || split_part(password_hash, '$', 4)"

# Each step finds the next shape in the index, however many hashes have the one before.
_SHAPES: Final[LiteralString] = f"""
    with recursive known as (
             (select {_SHAPE} as shape from users where {_FOREIGN} order by 1 limit 1)
              union all
             select (
                        select {_SHAPE}
                          from users
                         where {_FOREIGN} and ({_SHAPE}) > known.shape
                         order by ({_SHAPE})
                         limit 1
                    )
               from known
              where known.shape is not null
         )
  select shape
    from known
   where shape is not null
   limit %(most)s
"""

_REMAINING: Final[LiteralString] = f"""
    select split_part({_SHAPE}, '$', 1) as kind, count(*) as number
      from users
     where {_FOREIGN}
  group by 1
  order by 1
"""

_OWN: Final[LiteralString] = f"""
    select count(*) filter (where password_hash is not null and not {_FOREIGN}) as ours,
           count(*) filter (where password_hash is null and anonymized_at is null) as none
      from users
"""


class GuessRows(OnTransaction):
    """Implements `ports.identity.sign_in.GuessStore`."""

    async def count(self, guess: FailedGuess) -> None:
        places = [one.place for one in guess.counts]
        moments = {"guess_hour": guess.hour, "guess_at": guess.at}
        counted = {
            **_keys(places),
            **moments,
            "guess_user": guess.user,
            "guess_network": guess.origin.network,
            "guess_widest": guess.origin.widest,
            "guess_family": guess.origin.family,
        }
        types = array(SUSPICIONS[one.kind].alert.value for one in places)
        marks = array(str(one.mark) for one in guess.counts)
        await self._transaction.tell_along(_COUNT, {**counted, "guess_marks": marks})
        await self._transaction.tell_along(_NOTICE, {**_keys(places), **_limits(places), "guess_types": types, **moments})


def pressure_parameters(places: OriginPlaces | None) -> Mapping[str, Any]:
    """The parameters of `PRESSURE`."""
    asked = () if places is None else places.places
    return {**_keys(asked), **_limits(asked), "guess_hour": None if places is None else places.hour}


def _keys(places: Sequence[GuessPlace]) -> Mapping[str, Any]:
    return {
        "guess_kinds": array(one.kind.value for one in places),
        "guess_slots": array(str(one.slot) for one in places),
        "guess_keys": array_of_texts(one.key for one in places),
    }


def _limits(places: Sequence[GuessPlace]) -> Mapping[str, Any]:
    suspicions = [SUSPICIONS[one.kind] for one in places]
    return {
        "guess_failures": array(str(one.failures) for one in suspicions),
        "guess_spreads": array(str(one.marks) for one in suspicions),
    }


# An expression: how many times as many failures as are usual came from the places, over enough accounts. 0 for less.
PRESSURE: Final = """
    coalesce((
        select max(there.failures::float8 / place.failures)
          from unnest(%(guess_kinds)s::text[], %(guess_slots)s::int[], %(guess_keys)s::text[], %(guess_failures)s::int[],
                      %(guess_spreads)s::int[]) as place (kind, slot, key, failures, spread)
         cross join lateral (
                  select counts.failures, counts.seen
                    from guess_counts as counts
                   where counts.kind = place.kind and counts.slot = place.slot and counts.key = place.key
                     and counts.hour = %(guess_hour)s::timestamptz
                  offset 0
              ) as there
         where there.failures >= place.failures and bit_count(there.seen::bit(64)) >= place.spread
    ), 0)"""

# A slot belongs to one key. A failure of another key takes one from its count, and takes the slot over when nothing is left: so what fails
# most stays, and a flood of ever new keys makes no rows. Counts of another hour are over. The row of a password knows no time but the hour:
# the time of its last failure would say which account, and which entry in the log of sign-ins, had this password.
_COUNT: Final = """
    insert into guess_counts as counts (kind, slot, key, hour, user_id, network, family, failures, seen, first_at, last_at)
    select one.kind, one.slot, one.key, %(guess_hour)s::timestamptz,
           case when one.kind = 'account' then %(guess_user)s::uuid end,
           case one.kind when 'network' then %(guess_network)s::text when 'wide' then %(guess_widest)s::text end,
           case when one.kind = 'network' then %(guess_family)s::text end,
           1, 1::bigint << one.mark, moments.at, moments.at
      from unnest(%(guess_kinds)s::text[], %(guess_slots)s::int[], %(guess_keys)s::text[], %(guess_marks)s::int[])
           as one (kind, slot, key, mark)
     cross join lateral (
               select case when one.kind = 'password' then %(guess_hour)s::timestamptz else %(guess_at)s::timestamptz end as at
           ) as moments
     order by one.kind, one.slot
        on conflict (kind, slot) do update
       set (key, hour, id, user_id, network, family, failures, seen, first_at, last_at) = (
               select counts.key, counts.hour, counts.id, counts.user_id, counts.network, counts.family, counts.failures + 1,
                      counts.seen | excluded.seen, counts.first_at, excluded.last_at
                where counts.hour = excluded.hour and counts.key = excluded.key
                union all
               select counts.key, counts.hour, counts.id, counts.user_id, counts.network, counts.family, counts.failures - 1,
                      counts.seen, counts.first_at, counts.last_at
                where counts.hour = excluded.hour and counts.key <> excluded.key and counts.failures > 1
                union all
               select excluded.key, excluded.hour, excluded.id, excluded.user_id, excluded.network, excluded.family, excluded.failures,
                      excluded.seen, excluded.first_at, excluded.last_at
                where counts.hour <> excluded.hour or (counts.key <> excluded.key and counts.failures <= 1)
           )
"""

# This travels with `_COUNT` in one statement, so it sees the counts as they were before: an alert stands from the failure after its limit,
# whose time it has. That of a password has the hour alone, for the reason that its row has: the alert has the row's id.
_NOTICE: Final = """
    insert into guess_alerts as alert (id, type, user_id, network, family, marks, failures, first_at, last_at)
    select counts.id, one.type, counts.user_id, counts.network, counts.family, bit_count(counts.seen::bit(64)), counts.failures,
           counts.first_at, case when one.kind = 'password' then %(guess_hour)s::timestamptz else %(guess_at)s::timestamptz end
      from unnest(%(guess_kinds)s::text[], %(guess_slots)s::int[], %(guess_keys)s::text[], %(guess_failures)s::int[],
                  %(guess_spreads)s::int[], %(guess_types)s::text[]) as one (kind, slot, key, failures, spread, type)
     cross join lateral (
              select *
                from guess_counts as row
               where row.kind = one.kind and row.slot = one.slot and row.key = one.key and row.hour = %(guess_hour)s::timestamptz
              offset 0
          ) as counts
     where counts.failures >= one.failures and bit_count(counts.seen::bit(64)) >= one.spread
     order by one.kind, one.slot
        on conflict (id) do update set marks = excluded.marks, failures = excluded.failures, last_at = excluded.last_at
"""


class PostgresPuzzles(OnPool):
    """Implements `ports.identity.sign_in.PuzzleStore`.

    A used challenge has a row, whose key accepts each once, whichever process it reaches.
    """

    async def use(self, puzzle: UUID, until: datetime) -> bool:
        return await tell(self._pool, _USE, {"puzzle": puzzle, "until": until}) == 1

    async def is_known_device(self, email: Email, device_token: Token) -> bool:
        parameters = {"email_key": storable_text(email.key), "device_digest": device_token.digest()}
        return bool(await ask_in_order(self._pool, int, _KNOWN, parameters))


_USE: Final = "insert into used_puzzles (id, expires_at) values (%(puzzle)s, %(until)s) on conflict (id) do nothing"

_KNOWN: Final = """
    select 1
      from devices
      join users on users.id = devices.user_id
     where devices.token_digest = %(device_digest)s and devices.revoked_at is null and users.email_key = %(email_key)s
"""

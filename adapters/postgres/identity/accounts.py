"""Accounts in PostgreSQL."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final, LiteralString

from psycopg.errors import UniqueViolation

from adapters.postgres.columns import Columns
from adapters.postgres.identity.addresses import nobody_knows
from adapters.postgres.identity.privacy.forgetting import HANDED_OVER, HOLDS
from adapters.postgres.identity.privacy.holding import NEVER_USED, NOBODYS
from adapters.postgres.identity.upstream.proved_domains import proved_domains
from adapters.postgres.rows import AnswerRow, IdRow
from adapters.postgres.statements import first, only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnTransaction
from core.domain.errors import BadRequest
from core.domain.identifiers import IdentityId, OrganizationId, PasskeyId, ServiceId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.proofs import WaysIn
from core.domain.identity.upstream.claims import Voucher
from core.domain.languages import Language
from core.domain.mail import Email, mail_domain

ACCOUNT: Final = Columns(
    Account,
    "users",
    apart=("deactivated_by", "locked_at", "lock_waits", "password_changed_at"),
    turned={"language": (Language.of, attrgetter("value")), "address_vouched_by": (Voucher.of, attrgetter("text"))},
)
# For statements that must know who has deactivated the account: whether a proof of the address, or a directory, may activate it again.
ACCOUNT_AND_WHO_DEACTIVATED: Final[LiteralString] = f"{ACCOUNT.names}, users.deactivated_by"
# The same condition as `Account.opens_by_proof`.
OPENS_BY_PROOF: Final = "users.deactivated_by is not null"


def is_locked(row: LiteralString = "users") -> LiteralString:
    """The same condition as `Account.is_locked`, on a row of `users`."""
    return f"{row}.deactivated_at = {row}.locked_at"


def lock_waits(row: LiteralString = "users") -> LiteralString:
    """The lock of a row of `users` waits for its answer. A lock sets both moments, and whatever answers it moves the second."""
    return f"({row}.deactivated_at is not null and {row}.locked_at = {row}.password_changed_at)"


# For those that must know whether it is locked.
ACCOUNT_AND_LOCK: Final[LiteralString] = f"{ACCOUNT_AND_WHO_DEACTIVATED}, users.locked_at, {lock_waits()} is true as lock_waits"
# Ends the deactivation by an organization's directory. It may have come over a lock, which goes on.
LIFTED: Final = "deactivated_at = case when locked_at = password_changed_at then locked_at end, deactivated_by_org_id = null"


_NO_WAYS_IN: Final = WaysIn(password=False, passkeys=0, identities=0)


class AccountRows(OnTransaction):
    """Implements `ports.identity.accounts.AccountStore` in one transaction."""

    async def add(
        self,
        account: Account,
        password_hash: str | None,
        origin: ServiceId | None = None,
        *,
        origin_organization: OrganizationId | None = None,
        registered_in: bytes | None = None,
    ) -> bool:
        added = await self._transaction.ask(
            IdRow,
            _ADD,
            {
                **ACCOUNT.values(account),
                "email_key": account.email.key,
                "password_hash": password_hash,
                "origin": origin,
                "origin_organization": origin_organization,
                "registered_in": registered_in,
            },
        )
        return bool(added)

    async def open_by_proof(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _OPEN_BY_PROOF, {"user": user, "at": at}))

    async def forget_holder(self, user: UserId) -> None:
        for statement in (*HOLDS, *HANDED_OVER):
            await self._transaction.tell(statement, {"user": user})

    async def find(self, email: Email) -> Account | None:
        return first(await self._transaction.ask(ACCOUNT.row, _FIND, {"email_key": email.key}))

    async def hold(self, user: UserId) -> None:
        # Nobody reads the answer of this statement, so the statement travels with the next one.
        await self._transaction.tell(_HOLD, {"user": user})

    async def hold_to_move(self, user: UserId) -> None:
        await self._transaction.tell(_HOLD_TO_MOVE, {"user": user})

    async def hold_shared(self, user: UserId) -> None:
        await self._transaction.tell(_HOLD_SHARED, {"user": user})

    async def ways_in(self, user: UserId) -> WaysIn:
        return first(await self._transaction.ask(WaysIn, _WAYS_IN, {"user": user})) or _NO_WAYS_IN

    async def other_ways_in(self, user: UserId, email: Email, *, but: PasskeyId | IdentityId, shared: Collection[str]) -> WaysIn:
        whose = {"user": user, "email_key": storable_text(email.key), "mail_domain": storable_text(mail_domain(email))}
        return first(await self._transaction.ask(WaysIn, _OTHER_WAYS_IN, {**whose, "but": but, "shared": list(shared)})) or _NO_WAYS_IN

    async def verify_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        return first(await self._transaction.ask(ACCOUNT.row, _VERIFY_EMAIL, {"user": user, "email_key": email.key, "at": at}))

    async def is_nobodys(self, user: UserId) -> bool:
        rows = await self._transaction.ask(AnswerRow, NOBODYS, {"user": user})
        return bool(rows) and rows[0].yes

    async def hold_unproved(self, now: datetime, retention: timedelta, after: datetime | None, limit: int) -> Sequence[Account]:
        parameters = {"now": now, "retention": retention, "after": after, "limit": limit}
        accounts = await self._transaction.ask(ACCOUNT.row, HOLD_UNPROVED, parameters)
        return sorted(accounts, key=lambda account: (account.created_at, account.id))

    async def never_used(self, users: Collection[UserId], now: datetime) -> Sequence[UserId]:
        return [UserId(row.id) for row in await self._transaction.ask(IdRow, NEVER_USED, {"users": list(users), "now": now})]

    async def email_is_taken(self, email: Email, user: UserId) -> bool:
        return only(await self._transaction.ask(AnswerRow, _EMAIL_IS_TAKEN, {"email_key": email.key, "user": user})).yes

    async def await_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        parameters = {"user": user, "email": email.address, "email_key": email.key, "at": at}
        return first(await self._transaction.ask(ACCOUNT.row, _AWAIT_EMAIL, parameters))

    async def withdraw_email(self, user: UserId, at: datetime) -> None:
        await self._transaction.tell(_WITHDRAW_EMAIL, {"user": user, "at": at})

    async def change_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        try:
            changed = await self._transaction.ask(ACCOUNT.row, _CHANGE_EMAIL, {"user": user, "email": email.address, "at": at})
        except UniqueViolation:
            raise BadRequest("This e-mail address cannot be used", words="email_unusable") from None
        return first(changed)

    async def find_all(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        return {account.id: account for account in await self._transaction.ask(ACCOUNT.row, _FIND_ALL, {"users": list(users)})}

    async def deactivate(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _DEACTIVATE, {"user": user, "at": at}))

    async def activate(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _ACTIVATE, {"user": user, "at": at}))


# Of two transactions that add the same e-mail address at once, the second waits for the first's commit and then adds nothing. A service or
# an organization that is being deleted at this moment does not become the origin. `origin_org_id` says who made the account: see
# `privacy/holding.py`. No other statement writes it, except to clear it.
_ADD: Final = """
    insert into users (id, email, email_key, password_hash, is_platform_owner, email_verified_at, address_vouched_by, deactivated_at,
                       origin_service_id, origin_org_id, registered_in, created_at, updated_at, language)
    values (%(id)s, %(email)s, %(email_key)s, %(password_hash)s, %(is_platform_owner)s, %(email_verified_at)s,
            %(address_vouched_by)s, %(deactivated_at)s,
            (select services.id from services where services.id = %(origin)s for key share),
            (select organizations.id from organizations where organizations.id = %(origin_organization)s for key share), %(registered_in)s,
            %(created_at)s, %(created_at)s, %(language)s)
        on conflict (email_key) do nothing
 returning id
"""

_OPEN_BY_PROOF: Final[LiteralString] = f"""
    update users
       set deactivated_at = null, deactivated_by_org_id = null, origin_org_id = null, origin_service_id = null, updated_at = %(at)s
     where id = %(user)s and {OPENS_BY_PROOF} and {lock_waits()} is not true
 returning id
"""

_FIND: Final[LiteralString] = f"""
    select {ACCOUNT_AND_LOCK}
      from users
     where email_key = %(email_key)s
"""

_FIND_ALL: Final[LiteralString] = f"""
    select {ACCOUNT_AND_LOCK}, users.password_changed_at
      from users
     where id = any(%(users)s)
"""

# The weakest lock that keeps out a second change: other transactions can still add rows that refer to the account.
_HOLD: Final = "select id from users where id = %(user)s for no key update"

_HOLD_TO_MOVE: Final = "select from users where id = %(user)s for update"

_WAYS_IN: Final = """
    select password_hash is not null as password,
           (select count(*) from passkeys where passkeys.user_id = users.id) as passkeys,
           (select count(*) from identities where identities.user_id = users.id) as identities
      from users
     where id = %(user)s
"""

# The statement counts an identity at one of the three shared providers if the installation or an active organization has a client there. It
# counts an identity at an organization's own provider if that provider may vouch for the account: the same condition as `_may_vouch` in
# `upstream/identities.py`.
_OTHER_WAYS_IN: Final[LiteralString] = f"""
    select password_hash is not null as password,
           (select count(*) from passkeys where passkeys.user_id = users.id and passkeys.id <> %(but)s) as passkeys,
           (
               select count(*)
                 from identities
                 left join upstream_providers as providers on providers.id = identities.upstream_provider_id
                 left join organizations on organizations.id = providers.org_id
                where identities.user_id = users.id and identities.id <> %(but)s
                  and (
                          identities.provider = any (%(shared)s::text[])
                       or exists (
                              select
                                from oauth_credentials
                                join organizations as homes on homes.id = oauth_credentials.org_id and homes.status = 'active'
                               where oauth_credentials.provider = identities.provider
                          )
                       or exists (
                              -- With another issuer, or another profile, it knows nobody by the identities of before.
                              select
                                from further_providers as further
                               where further.key = identities.provider and further.enabled
                                 and identities.issuer =
                                     coalesce(nullif(further.settings ->> 'issuer', ''), further.settings ->> 'profile_url')
                          )
                       or (
                              providers.enabled and organizations.status = 'active'
                          and users.email_key = %(email_key)s and not users.is_platform_owner
                          and %(mail_domain)s::text = any ({proved_domains("providers.org_id")}::text[])
                          )
                      )
           ) as identities
      from users
     where id = %(user)s
"""

_HOLD_SHARED: Final = "select from users where id = %(user)s for share"

_VERIFY_EMAIL: Final[LiteralString] = f"""
    update users
       set email_verified_at = coalesce(email_verified_at, %(at)s), registered_in = null, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null and email_key = %(email_key)s
 returning {ACCOUNT.names}
"""

# Skips accounts that somebody holds: whoever proves an address at this moment holds the account, and has their way. A clock that is wrong,
# the process's or the database's, must not end accounts that are young.
HOLD_UNPROVED: Final[LiteralString] = f"""
    select {ACCOUNT.names}
      from users
     where {nobody_knows()} and users.deactivated_at is null and users.origin_org_id is null and not users.is_platform_owner
       and users.created_at < least(%(now)s, now()) - %(retention)s::interval
       and users.created_at > coalesce(%(after)s::timestamptz, '-infinity')
     order by users.created_at
     limit %(limit)s
       for update skip locked
"""

_EMAIL_IS_TAKEN: Final = "select exists (select from users where email_key = %(email_key)s and id <> %(user)s) as yes"

_AWAIT_EMAIL: Final[LiteralString] = f"""
    update users
       set pending_email = %(email)s, pending_email_key = %(email_key)s, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null
 returning {ACCOUNT.names}
"""

_WITHDRAW_EMAIL: Final = """
    update users
       set pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and pending_email is not null
"""

_CHANGE_EMAIL: Final[LiteralString] = f"""
    with before as (
             select {ACCOUNT.names}
               from users
              where id = %(user)s and deactivated_at is null and pending_email = %(email)s
                for no key update
         )
  update users
     set email = pending_email, email_key = pending_email_key, pending_email = null, pending_email_key = null,
         email_verified_at = %(at)s, updated_at = %(at)s
    from before
   where users.id = before.id
returning before.*
"""


# If a directory had deactivated the account, the platform takes the deactivation over, and no directory can activate the account again. A
# lock ends with it: no new password opens the account. Two moments that are equal would be a lock.
_DEACTIVATE: Final[LiteralString] = f"""
    update users
       set deactivated_at = %(at)s, deactivated_by_org_id = null, deactivated_by = null, locked_at = nullif(locked_at, %(at)s),
           pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and (deactivated_at is null or deactivated_by is not null or {is_locked()})
 returning id
"""

# Whoever lets a locked account in by hand has answered the lock.
_ACTIVATE: Final[LiteralString] = f"""
    update users
       set deactivated_at = null, deactivated_by_org_id = null, updated_at = %(at)s,
           password_changed_at = case when {lock_waits()} then %(at)s else password_changed_at end
     where id = %(user)s and deactivated_at is not null and anonymized_at is null
 returning id
"""

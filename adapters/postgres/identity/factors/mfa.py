"""Second factors in PostgreSQL: sealed secrets, digests of backup codes, pre-authentications, and the log of all changes and guesses."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.identity.upstream.proved_domains import proved_domains
from adapters.postgres.rate_limits import TAKE_WANTED
from adapters.postgres.rows import AnswerRow
from adapters.postgres.statements import Parameters, Statements
from adapters.postgres.storable import storable, storable_address, storable_text
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import DeviceId, IdentityId, OrganizationId, PreauthenticationId, ServiceId, SessionId, UserId
from core.domain.identity.devices import LONGEST_USER_AGENT, Client
from core.domain.identity.mfa import MOST_WRONG_CODES, Guess, MfaEvent, MfaSecret, Preauthentication, SecondFactorStatus
from core.domain.identity.upstream.directory_visits import restored_visit
from core.domain.json import Json
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor
from core.frozen import Frozen
from ports.clock import Clock
from ports.system import Ids


class _Secret(Frozen):
    sealed_secret: bytes
    created_at: datetime
    enabled_at: datetime | None
    last_step: int
    session_id: UUID | None

    def of(self, user: UserId) -> MfaSecret:
        session = None if self.session_id is None else SessionId(self.session_id)
        return MfaSecret(user, self.sealed_secret, self.created_at, self.enabled_at, self.last_step, session)


class _Guess(Frozen):
    wait: float
    sealed_secret: bytes | None
    created_at: datetime | None
    enabled_at: datetime | None
    last_step: int | None
    session_id: UUID | None
    enabled: bool


class _Person(Frozen):
    user_id: UUID


class _Deleted(Frozen):
    was_enabled: bool


class _Preauthentication(Frozen):
    user_id: UUID
    device_id: UUID | None
    organization_id: UUID | None
    service_id: UUID | None
    created_at: datetime
    expires_at: datetime
    provider: str
    authenticated_by: list[str]
    identity_id: UUID | None
    upstream: str
    directory_visit: Mapping[str, Any] | None
    stated_at: datetime | None
    refuses_applications: bool
    vouched_domains: list[str] | None


class _Failures(Frozen):
    failures: int


class MfaRows:
    """Implements `ports.identity.mfa.MfaStore`."""

    def __init__(self, statements: Statements | Transaction, ids: Ids, clock: Clock) -> None:
        self._statements = statements
        self._ids = ids
        self._clock = clock

    async def status(self, user: UserId) -> SecondFactorStatus:
        (status,) = await self._statements.ask(SecondFactorStatus, _STATUS, {"user": user})
        return status

    async def has_codes(self, user: UserId, digests: Sequence[bytes]) -> bool:
        return bool(await self._statements.ask(_Person, _HAS_CODES, {"user": user, "digests": list(digests)}))

    async def put_pending(
        self, user: UserId, session: SessionId, sealed_secret: bytes, at: datetime, *, beside_passkeys: bool = False
    ) -> bool:
        parameters = {"user": user, "session": session, "sealed_secret": sealed_secret, "at": at, "beside_passkeys": beside_passkeys}
        return await self._found(_PUT_PENDING, parameters)

    async def find(self, user: UserId) -> MfaSecret | None:
        rows = await self._statements.ask(_Secret, _FIND, {"user": user})
        return rows[0].of(user) if rows else None

    async def hold(self, user: UserId) -> bool:
        (row,) = await self._statements.ask(AnswerRow, _HOLD, {"user": user})
        return row.yes

    async def is_enabled(self, user: UserId) -> bool:
        (row,) = await self._statements.ask(AnswerRow, _IS_ENABLED, {"user": user})
        return row.yes

    async def begin_guess(self, user: UserId, limit: RateLimit, client: Client | None = None) -> Guess:
        device, trust = (None, None) if client is None else (client.device_token, client.trust_token)
        (row,) = await self._statements.ask(
            _Guess,
            _BEGIN_GUESS,
            {
                "user": user,
                "device_digest": None if device is None else device.digest(),
                "trust_digest": None if trust is None else trust.digest(),
                "limit": limit.name,
                "burst": float(limit.burst),
                "pace": limit.seconds_per_request,
            },
        )
        if row.sealed_secret is None or row.created_at is None or row.last_step is None:
            return Guess(row.wait, None, row.enabled)
        secret = _Secret(row.sealed_secret, row.created_at, row.enabled_at, row.last_step, row.session_id)
        return Guess(row.wait, secret.of(user), row.enabled)

    async def enable(self, user: UserId, step: int, at: datetime, *, beside_passkeys: bool = False) -> bool:
        return await self._found(_ENABLE, {"user": user, "step": step, "at": at, "beside_passkeys": beside_passkeys})

    async def redeem_step(self, user: UserId, step: int) -> bool:
        return await self._found(_REDEEM_STEP, {"user": user, "step": step})

    async def redeem_backup_code(self, user: UserId, digest: bytes, at: datetime) -> bool:
        return await self._found(_REDEEM_BACKUP_CODE, {"user": user, "digest": digest, "at": at})

    async def replace_backup_codes(self, user: UserId, digests: Sequence[bytes]) -> None:
        await self._statements.tell(_DELETE_BACKUP_CODES, {"user": user})
        await self._statements.tell(_ADD_BACKUP_CODES, {"user": user, "digests": list(digests)})

    async def disable(self, user: UserId) -> bool:
        (deleted,) = await self._statements.ask(_Deleted, _DISABLE, {"user": user})
        # The codes go after the secret: a request that replaces the codes locks the secret, and so has finished by now.
        await self._statements.tell(_DELETE_BACKUP_CODES, {"user": user})
        return deleted.was_enabled

    async def log(self, event: MfaEvent, user: UserId, actor: Actor, *, success: bool, details: Mapping[str, Json] | None = None) -> None:
        by = {name: str(who) for name, who in (("actor", actor.user), ("impersonator", actor.impersonator)) if who not in {None, user}}
        await self._statements.tell(
            _LOG,
            {
                "id": self._ids.new(),
                "user": user,
                "name": event.value,
                "success": success,
                "address": storable_address(actor.address),
                "user_agent": None if actor.user_agent is None else storable_text(actor.user_agent[:LONGEST_USER_AGENT]),
                "details": Jsonb(storable({**by, **(details or {})})),
                "at": self._clock.now(),
            },
        )

    async def add_preauthentication(self, preauthentication: Preauthentication) -> None:
        await self._statements.tell(
            _ADD_PREAUTHENTICATION,
            {
                "id": preauthentication.id,
                "user": preauthentication.user,
                "device": preauthentication.device,
                "organization": preauthentication.organization,
                "service": preauthentication.service,
                "created_at": preauthentication.created_at,
                "expires_at": preauthentication.expires_at,
                "provider": preauthentication.provider,
                "authenticated_by": list(preauthentication.amr),
                "identity": preauthentication.identity,
                "visit": None if preauthentication.visit is None else Jsonb(storable(preauthentication.visit.stored())),
                "stated_at": preauthentication.stated_at,
                "refuses_applications": preauthentication.refuses_applications,
            },
        )

    async def find_preauthentication(self, id: PreauthenticationId) -> Preauthentication | None:  # noqa: A002 - the noun's own word
        rows = await self._statements.ask(_Preauthentication, _FIND_PREAUTHENTICATION, {"id": id, "most": MOST_WRONG_CODES})
        if not rows:
            return None
        (row,) = rows
        return Preauthentication(
            id=id,
            user=UserId(row.user_id),
            device=None if row.device_id is None else DeviceId(row.device_id),
            organization=None if row.organization_id is None else OrganizationId(row.organization_id),
            created_at=row.created_at,
            expires_at=row.expires_at,
            service=None if row.service_id is None else ServiceId(row.service_id),
            provider=row.provider,
            amr=tuple(row.authenticated_by),
            identity=None if row.identity_id is None else IdentityId(row.identity_id),
            upstream=row.upstream,
            visit=None if row.directory_visit is None else restored_visit(row.directory_visit),
            stated_at=row.stated_at,
            refuses_applications=row.refuses_applications,
            vouched_domains=None if row.vouched_domains is None else frozenset(row.vouched_domains),
        )

    async def fail_preauthentication(self, id: PreauthenticationId) -> int:  # noqa: A002
        rows = await self._statements.ask(_Failures, _FAIL_PREAUTHENTICATION, {"id": id})
        return rows[0].failures if rows else 0

    async def end_preauthentications(self, user: UserId, at: datetime) -> None:
        await self._statements.tell(_END_PREAUTHENTICATIONS, {"user": user, "at": at})

    async def consume_preauthentication(self, id: PreauthenticationId, at: datetime) -> bool:  # noqa: A002
        return await self._found(_CONSUME_PREAUTHENTICATION, {"id": id, "at": at, "most": MOST_WRONG_CODES})

    async def _found(self, statement: LiteralString, parameters: Parameters) -> bool:
        return bool(await self._statements.ask(_Person, statement, parameters))


# Parts for any statement: whether somebody has a second factor, and when the members of an organization must have one. Each part looks
# into an index. PostgreSQL could turn a condition with `exists` into a scan of everybody's factors, so a statement that reads many people
# uses `second_factor_since` and not `has_second_factor`.


def second_factor_since(person: LiteralString) -> LiteralString:
    """The moment since when the person has a second factor; null without one."""
    return f"""least(
               (select mfa_secrets.enabled_at from mfa_secrets where mfa_secrets.user_id = {person} limit 1),
               (select min(passkeys.second_factor_since) from passkeys where passkeys.user_id = {person})
           )"""


def has_second_factor(person: LiteralString) -> LiteralString:
    return f"""(
               exists (select from mfa_secrets where mfa_secrets.user_id = {person} and mfa_secrets.enabled_at is not null)
            or exists (select from passkeys where passkeys.user_id = {person} and passkeys.second_factor_since is not null)
           )"""


def second_factor_due(person: LiteralString) -> LiteralString:
    """The end of the grace period of a member who has no second factor although the organization requires one; null for all others. The
    statement must read `organizations` and `memberships`; either row may be missing. PostgreSQL looks for the person's second factor only
    if the organization requires one.

    `person` is the account that must have the second factor: the member, or a platform owner who acts in the member's name.
    """
    return f"""
           case
               when organizations.mfa_required_since is not null and memberships.user_id is not null
                and {second_factor_since(person)} is null
               then greatest(organizations.mfa_required_since, memberships.created_at) + organizations.mfa_grace_days * interval '1 day'
           end"""


def second_factor_due_in(organization: LiteralString, person: LiteralString) -> LiteralString:
    """`second_factor_due` as a subquery, for the given person in the given organization. The subquery evaluates `organization` and `person`
    in a `from` clause of their own, before it joins its tables. Otherwise a column of the outer statement would be taken for a column of
    the subquery's table of the same name.
    """
    return f"""(
               select {second_factor_due("asked.person")}
                 from (select {organization} as organization, {person} as person) as asked
                 join organizations on organizations.id = asked.organization
                 join memberships on memberships.org_id = asked.organization and memberships.user_id = asked.person
           )"""


# The account that acts in a session: the person, or the platform owner who impersonates the person.
ACTING: Final = "coalesce(sessions.impersonator_id, sessions.user_id)"


def grace_is_over(due: LiteralString, at: LiteralString = "now()") -> LiteralString:
    """`due` is the value of `second_factor_due`. The rule of the domain has the same name, in `core/domain/tenancy/sign_in_rules.py`."""
    return f"coalesce({due} <= {at}, false)"


OWES_SECOND_FACTOR: Final[LiteralString] = grace_is_over(second_factor_due(ACTING))


# An enabled secret stays as it is, and the statement returns no row.
_PUT_PENDING: Final = """
    insert into mfa_secrets as secret (user_id, sealed_secret, created_at, session_id)
    select account.id, %(sealed_secret)s, %(at)s, %(session)s
      from (select id from users where id = %(user)s for key share) as account
     where %(beside_passkeys)s
        or not exists (select from passkeys where user_id = %(user)s and second_factor_since is not null)
        on conflict (user_id) do update
       set sealed_secret = excluded.sealed_secret, created_at = excluded.created_at, session_id = excluded.session_id
     where secret.enabled_at is null
 returning user_id
"""

_FIND: Final = "select sealed_secret, created_at, enabled_at, last_step, session_id from mfa_secrets where user_id = %(user)s"

# Every statement locks the secret before the passkeys, so that no two of them deadlock.
_HOLD: Final = """
    with secret as materialized (
             select enabled_at from mfa_secrets where user_id = %(user)s for update
         ),
         keys as materialized (
             select second_factor_since from passkeys where user_id = %(user)s order by id for update
         )
  select exists (select from secret where enabled_at is not null)
      or exists (select from keys where second_factor_since is not null) as yes
"""

_IS_ENABLED: Final[LiteralString] = f"select {has_second_factor('%(user)s')} as yes"

# Every guess locks the bucket's row first, so guesses queue in one order.
_BEGIN_GUESS: Final[LiteralString] = f"""
    with wanted as (
             select %(limit)s::text as limit_name,
                    coalesce(
                        (
                            select id::text
                              from devices
                             where user_id = %(user)s
                               and token_digest = %(device_digest)s
                               and trust_digest = %(trust_digest)s
                               and trusted_until > now()
                               and revoked_at is null
                        ),
                        %(user)s::text
                    ) as key,
                    %(burst)s::double precision as burst,
                    %(pace)s::double precision as pace
         ),
         taken as ({TAKE_WANTED}),
         held as (
             select sealed_secret, created_at, enabled_at, last_step, session_id
               from mfa_secrets
              where user_id = %(user)s
                for update                             -- a new set-up must not slip in between the code's check and its effect
         )
  select taken.wait, held.sealed_secret, held.created_at, held.enabled_at, held.last_step, held.session_id,
         held.enabled_at is not null
      or exists (select from passkeys where user_id = %(user)s and second_factor_since is not null) as enabled
    from taken
    left join held on true
"""

_ENABLE: Final = """
    update mfa_secrets
       set enabled_at = %(at)s, last_step = %(step)s, made_in = session_id, session_id = null
     where user_id = %(user)s and enabled_at is null
       and (
               %(beside_passkeys)s
            or not exists (select from passkeys where passkeys.user_id = %(user)s and passkeys.second_factor_since is not null)
           )
 returning user_id
"""

_REDEEM_STEP: Final = """
    update mfa_secrets
       set last_step = %(step)s
     where user_id = %(user)s and enabled_at is not null and last_step < %(step)s
 returning user_id
"""

_REDEEM_BACKUP_CODE: Final[LiteralString] = f"""
    update backup_codes
       set used_at = %(at)s
     where user_id = %(user)s
       and digest = %(digest)s
       and used_at is null
       and {has_second_factor("%(user)s")}
 returning user_id
"""

_DELETE_BACKUP_CODES: Final = "delete from backup_codes where user_id = %(user)s"

_ADD_BACKUP_CODES: Final = """
    insert into backup_codes (user_id, digest) select %(user)s, digest from unnest(%(digests)s::bytea[]) as given (digest)
"""

# The person keeps the passkeys, and can still sign in with a passkey alone.
_DISABLE: Final = """
    with secret as (
             delete from mfa_secrets where user_id = %(user)s returning enabled_at
         ),
         keys as (
             update passkeys set second_factor_since = null where user_id = %(user)s and second_factor_since is not null returning id
         )
  select exists (select from secret where enabled_at is not null) or exists (select from keys) as was_enabled
"""

_STATUS: Final[LiteralString] = f"""
    select {has_second_factor("%(user)s")} as enabled,
           exists (select from backup_codes where user_id = %(user)s and used_at is null) as has_backup_codes
"""

_HAS_CODES: Final = """
    select user_id
      from backup_codes
     where user_id = %(user)s and used_at is null
     group by user_id
    having count(*) = cardinality(%(digests)s::bytea[]) and bool_and(digest = any (%(digests)s::bytea[]))
"""

_LOG: Final = """
    insert into mfa_events (id, user_id, name, success, address, user_agent, details, created_at)
    values (%(id)s, %(user)s, %(name)s, %(success)s, %(address)s, %(user_agent)s, %(details)s, %(at)s)
"""

_ADD_PREAUTHENTICATION: Final = """
    insert into preauthentications (id, user_id, device_id, organization_id, service_id, created_at, expires_at, provider,
                                   authenticated_by, identity_id, directory_visit, stated_at, refuses_applications)
    values (%(id)s, %(user)s, %(device)s, %(organization)s, %(service)s, %(created_at)s, %(expires_at)s, %(provider)s,
            %(authenticated_by)s, %(identity)s, %(visit)s, %(stated_at)s, %(refuses_applications)s)
"""

# The disconnection of an identity deletes the row. An organization's own provider must be on at this moment, too.
_FIND_PREAUTHENTICATION: Final[LiteralString] = f"""
    select waiting.user_id, waiting.device_id, waiting.organization_id, waiting.service_id, waiting.created_at, waiting.expires_at,
           waiting.provider, waiting.authenticated_by, waiting.identity_id, waiting.directory_visit,
           waiting.stated_at, waiting.refuses_applications,
           coalesce(identities.provider, '') as upstream,
           case when providers.id is not null then coalesce({proved_domains("providers.org_id")}, '{{}}') end as vouched_domains
      from preauthentications as waiting
      left join identities on identities.id = waiting.identity_id
      left join upstream_providers as providers on providers.id = identities.upstream_provider_id
      left join organizations on organizations.id = providers.org_id and organizations.status = 'active'
     where waiting.id = %(id)s and waiting.consumed_at is null and waiting.failures < %(most)s and waiting.expires_at > now()
       and (providers.id is null or (providers.enabled and organizations.id is not null))
       for update of waiting                           -- of several guesses at once, each sees the failures of the guesses before it
"""

_FAIL_PREAUTHENTICATION: Final = "update preauthentications set failures = failures + 1 where id = %(id)s returning failures"

_END_PREAUTHENTICATIONS: Final = """
    with waiting as (
             select id from preauthentications where user_id = %(user)s and consumed_at is null order by id for update
         )
  update preauthentications
     set consumed_at = %(at)s
    from waiting
   where preauthentications.id = waiting.id
"""

_CONSUME_PREAUTHENTICATION: Final = """
    update preauthentications
       set consumed_at = %(at)s
     where id = %(id)s and consumed_at is null and failures < %(most)s and expires_at > %(at)s
 returning user_id
"""

"""Second factors in PostgreSQL: sealed secrets, digests of backup codes, pre-authentications, and the log of all changes and guesses."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns
from adapters.postgres.identity.upstream.proved_domains import proved_domains
from adapters.postgres.rate_limits import TAKE_WANTED
from adapters.postgres.rows import AnswerRow
from adapters.postgres.statements import Parameters, Statements, first, only
from adapters.postgres.storable import storable, storable_address, storable_text
from adapters.postgres.transaction import Transaction
from core.domain.formats import Json
from core.domain.identifiers import PreauthenticationId, SessionId, UserId
from core.domain.identity.devices import LONGEST_USER_AGENT, Client
from core.domain.identity.mfa import MOST_WRONG_CODES, Guess, MfaEvent, MfaSecret, Preauthentication, SecondFactorStatus
from core.domain.identity.upstream.directory_visits import restored_visit
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor
from core.frozen import Frozen
from ports.system import Clock, Ids

MFA_SECRET: Final = Columns(MfaSecret, "mfa_secrets", named={"user": "user_id", "session": "session_id"}, prefix="secret_")

PREAUTHENTICATION: Final = Columns(
    Preauthentication,
    "preauthentications",
    named={
        "user": "user_id",
        "device": "device_id",
        "organization": "organization_id",
        "service": "service_id",
        "amr": "authenticated_by",
        "identity": "identity_id",
        "visit": "directory_visit",
    },
    apart=("upstream", "vouched_domains"),
    turned={"visit": (restored_visit, lambda visit: Jsonb(storable(visit.stored())))},
)


def _guess(*, wait: float, enabled: bool, **secret: Any) -> Guess:
    return Guess(wait, MFA_SECRET.found(**secret), enabled)


def _preauthentication(*, vouched_domains: Sequence[str] | None, **columns: Any) -> Preauthentication:
    return PREAUTHENTICATION.row(vouched_domains=None if vouched_domains is None else frozenset(vouched_domains), **columns)


class _Person(Frozen):
    user_id: UUID


class _Deleted(Frozen):
    was_enabled: bool


class MfaRows:
    """Implements `ports.identity.sign_in.MfaStore`."""

    def __init__(self, statements: Statements | Transaction, ids: Ids, clock: Clock) -> None:
        self._statements = statements
        self._ids = ids
        self._clock = clock

    async def status(self, user: UserId) -> SecondFactorStatus:
        return only(await self._statements.ask(SecondFactorStatus, _STATUS, {"user": user}))

    async def has_codes(self, user: UserId, digests: Sequence[bytes]) -> bool:
        return bool(await self._statements.ask(_Person, _HAS_CODES, {"user": user, "digests": list(digests)}))

    async def were_shown(self, user: UserId, form: UUID) -> bool:
        parameters = {"user": user, "name": MfaEvent.BACKUP_CODES_SHOWN.value, "form": str(form)}
        return await self._found(_WERE_SHOWN, parameters)

    async def put_pending(
        self, user: UserId, session: SessionId, sealed_secret: bytes, at: datetime, *, beside_passkeys: bool = False
    ) -> bool:
        parameters = {"user": user, "session": session, "sealed_secret": sealed_secret, "at": at, "beside_passkeys": beside_passkeys}
        return await self._found(_PUT_PENDING, parameters)

    async def find(self, user: UserId) -> MfaSecret | None:
        return first(await self._statements.ask(MFA_SECRET.row, _FIND, {"user": user}))

    async def hold(self, user: UserId) -> bool:
        return only(await self._statements.ask(AnswerRow, _HOLD, {"user": user})).yes

    async def is_enabled(self, user: UserId) -> bool:
        return only(await self._statements.ask(AnswerRow, _IS_ENABLED, {"user": user})).yes

    async def begin_guess(self, user: UserId, limit: RateLimit, client: Client | None = None) -> Guess:
        device, trust = (None, None) if client is None else (client.device_token, client.trust_token)
        return only(
            await self._statements.ask(
                _guess,
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
        )

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
        await self._statements.tell(_ADD_PREAUTHENTICATION, PREAUTHENTICATION.values(preauthentication))

    async def find_preauthentication(self, id: PreauthenticationId) -> Preauthentication | None:  # noqa: A002 - the noun's own word
        return first(await self._statements.ask(_preauthentication, _FIND_PREAUTHENTICATION, {"id": id, "most": MOST_WRONG_CODES}))

    async def fail_preauthentication(self, id: PreauthenticationId) -> int:  # noqa: A002
        rows = await self._statements.ask_in_order(int, _FAIL_PREAUTHENTICATION, {"id": id})
        return rows[0] if rows else 0

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


def has_passkey(person: LiteralString) -> LiteralString:
    return f"exists (select from passkeys where passkeys.user_id = {person})"


# Whether the row of `memberships` is an administrator's, of their own or by a team: see `core.domain.tenancy.sign_in_rules.AdminFactor`.
ADMINISTERS: Final = """(
               memberships.role in ('owner', 'admin')
            or exists (
                   select
                     from team_members
                     join teams on teams.id = team_members.team_id
                    where team_members.user_id = memberships.user_id and team_members.org_id = memberships.org_id and teams.role = 'admin'
               )
           )"""


def stated_factor_counts(session: LiteralString) -> LiteralString:
    """Whether a directory of `organizations` has stated a second factor for the session, which counts for the organization's own rule. The
    session of somebody who acts for the person has none.
    """
    return f"""(
               {session}.factor_through is not null
           and directory_factor_counts({session}.factor_through, {session}.factor_stated, organizations.id)
           )"""


def second_factor_due(person: LiteralString, session: LiteralString | None = None) -> LiteralString:
    """The end of the grace period of a member who has no second factor although the organization requires one, of an administrator who
    lacks what the organization requires of administrators, or of a member who lacks the passkey that it requires of everybody or of those
    with a role; null for all others. The statement must read `organizations` and `memberships`; either row may be missing. PostgreSQL
    looks for the person's second factor only if the organization requires one.

    `person` is the account that must have the second factor: the member, or a platform owner who acts in the member's name. `session` is
    the session that asks, if one does: what its directory has stated may stand for the second factor, and never for a passkey.
    """
    stated: LiteralString = "" if session is None else f" and not {stated_factor_counts(session)}"
    return f"""
           least(
               case
                   when organizations.mfa_required_since is not null and memberships.user_id is not null
                    and {second_factor_since(person)} is null{stated}
                   then {grace_ends("organizations.mfa_required_since")}
               end,
               case
                   when organizations.admin_factor is not null and memberships.user_id is not null and {ADMINISTERS}
                    and case organizations.admin_factor
                            when 'passkey' then {second_factor_since(person)} is null or not {has_passkey(person)}
                            else {second_factor_since(person)} is null{stated}
                        end
                   then {grace_ends("organizations.admin_required_since")}
               end,
               case
                   when organizations.all_factor is not null and memberships.user_id is not null
                    and owes_passkey(organizations.all_factor, organizations.all_factor_role_id, organizations.id, memberships.user_id,
                                     {person})
                   then {grace_ends("organizations.all_required_since")}
               end
           )"""


def grace_ends(since: LiteralString) -> LiteralString:
    """The end of a member's grace period, for a demand that began at that time."""
    return f"greatest({since}, memberships.created_at) + organizations.mfa_grace_days * interval '1 day'"


def second_factor_due_in(organization: LiteralString, person: LiteralString, session: LiteralString | None = None) -> LiteralString:
    """`second_factor_due` as a subquery, for the given person in the given organization. The subquery evaluates `organization` and `person`
    in a `from` clause of their own, before it joins its tables. Otherwise a column of the outer statement would be taken for a column of
    the subquery's table of the same name.
    """
    return f"""(
               select {second_factor_due("asked.person", session)}
                 from (select {organization} as organization, {person} as person) as asked
                 join organizations on organizations.id = asked.organization
                 join memberships on memberships.org_id = asked.organization and memberships.user_id = asked.person
           )"""


# The account that acts in a session: the person, or the platform owner who impersonates the person.
ACTING: Final = "coalesce(sessions.impersonator_id, sessions.user_id)"


def grace_is_over(due: LiteralString, at: LiteralString = "now()") -> LiteralString:
    """`due` is the value of `second_factor_due`. The rule of the domain has the same name, in `core/domain/tenancy/sign_in_rules.py`."""
    return f"coalesce({due} <= {at}, false)"


OWES_SECOND_FACTOR: Final[LiteralString] = grace_is_over(second_factor_due(ACTING, "sessions"))


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

_FIND: Final[LiteralString] = f"select {MFA_SECRET.names} from mfa_secrets where user_id = %(user)s"

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
             select {MFA_SECRET.names}
               from mfa_secrets
              where user_id = %(user)s
                for update                             -- a new set-up must not slip in between the code's check and its effect
         )
  select taken.wait, held.*,
         held.secret_enabled_at is not null
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

_WERE_SHOWN: Final = """
    select user_id from mfa_events where user_id = %(user)s and name = %(name)s and details->>'form' = %(form)s limit 1
"""

_LOG: Final = """
    insert into mfa_events (id, user_id, name, success, address, user_agent, details, created_at)
    values (%(id)s, %(user)s, %(name)s, %(success)s, %(address)s, %(user_agent)s, %(details)s, %(at)s)
"""

_ADD_PREAUTHENTICATION: Final[LiteralString] = f"""
    insert into preauthentications ({PREAUTHENTICATION.into()}) values ({PREAUTHENTICATION.inserted()})
"""

# The disconnection of an identity deletes the row. An organization's own provider must be on at this moment, too.
_FIND_PREAUTHENTICATION: Final[LiteralString] = f"""
    select {PREAUTHENTICATION.names_in("waiting")},
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

"""Second factors, devices and known habits of users in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import AnswerRow, Columns, storable, storable_address, storable_text
from adapters.postgres.identity.addresses import proved_domains
from adapters.postgres.rate_limits import TAKE_WANTED
from adapters.postgres.statements import OnStatements, Parameters, Statements, Transaction, first, only
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from core.domain.formats import Json
from core.domain.identifiers import DeviceId, PreauthenticationId, SessionId, UserId
from core.domain.identity.devices import LONGEST_USER_AGENT, Client, Device, DeviceType, Location, UserAgent, located
from core.domain.identity.mfa import MOST_WRONG_CODES, Guess, MfaEvent, MfaSecret, Preauthentication, SecondFactorStatus
from core.domain.identity.risk import FAILED_ATTEMPTS, HISTORY, NOTHING_KNOWN, Approach, Knowledge, KnownDevice, Sighting
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
    """Implements `ports.identity.sign_in.MfaStore`.

    Stores sealed secrets, digests of backup codes, pre-authentications, and the log of all changes and attempts.
    """

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


# A condition on `organizations`: it asks somebody for a factor, so `second_factor_due` may have something to say.
ASKS_FOR_FACTOR: Final = "num_nonnulls(organizations.mfa_required_since, organizations.admin_factor, organizations.all_factor) > 0"
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


# A part of any statement that reads `users`: one jsonb value about the row's person. `knowledge_parameters` gives the parameters of this
# part, and `knowledge_of` reads its value:
#
#     select users.id, …, {KNOWLEDGE} as knowledge from users where email_key = %(email_key)s
#
# Every subquery reads a bounded number of rows from an index, however many sign-ins a stranger has tried: the last `HISTORY` good sign-ins,
# the last twenty of all, and the person's devices. The value holds these rows uncounted: most people have few, and for PostgreSQL an
# aggregate costs more to initialize than the rows cost to read.
_KNOWLEDGE: Final[LiteralString] = """(
    select jsonb_build_object(
               {shown}
               'by_agent', (
                   select jsonb_build_object('id', devices.id, 'trusted_until', extract(epoch from devices.trusted_until))
                     from devices
                    where devices.user_id = users.id
                      and devices.revoked_at is null
                      and devices.device_type = %(device_type)s
                      and devices.browser is not distinct from %(device_browser)s
                      and devices.os is not distinct from %(device_os)s
                    order by devices.last_used_at desc
                    limit 1
               ),
               'good', array(
                   select jsonb_build_array(extract(hour from login_events.created_at at time zone 'UTC'), login_events.country)
                     from login_events
                    where login_events.user_id = users.id and login_events.success and not login_events.flagged
                    order by login_events.id desc
                    limit %(device_history)s
               ),
               'latest', array(
                   select case when not login_events.success then coalesce(login_events.reason, '') end
                     from login_events
                    where login_events.user_id = users.id
                    order by login_events.id desc
                    limit 20
               )
               {trust_days}
           )
)"""
# The fewest days of trust that one of the person's own organizations allows. Null for a person without one.
STRICTEST_TRUST: Final[LiteralString] = f"""
                   select min(organizations.device_trust_days)
                     from memberships
                     join organizations on organizations.id = memberships.org_id
                    where memberships.user_id = {{user}} and {IS_OWN_MEMBERSHIP} and organizations.status = 'active'
"""
_STRICTEST: Final[LiteralString] = STRICTEST_TRUST.format(user="devices.user_id")
# The period counts from the moment when the trust was given, even if the organization has shortened the period since. A row without
# `trusted_at` is older than that column; its trust was given for 30 days.
_TRUSTED_UNTIL: Final[LiteralString] = f"""
                   case
                       when devices.trusted_until is not null
                       then least(
                                devices.trusted_until,
                                coalesce(devices.trusted_at, devices.trusted_until - interval '30 days')
                                + ({_STRICTEST}) * interval '1 day'
                            )
                   end"""
_SHOWN: Final[LiteralString] = f"""
               'by_token', (
                   select jsonb_build_object(
                              'id', devices.id,
                              'trusted_until', extract(epoch from {_TRUSTED_UNTIL}),
                              'brings_trust', coalesce(devices.trust_digest = %(trust_digest)s, false)
                          )
                     from devices
                    where devices.token_digest = %(device_digest)s and devices.user_id = users.id and devices.revoked_at is null
               ),
"""
_TRUST_DAYS: Final[LiteralString] = f""",
               'trust_days', ({STRICTEST_TRUST.format(user="users.id")})
"""
KNOWLEDGE: Final[LiteralString] = _KNOWLEDGE.format(shown=_SHOWN, trust_days=_TRUST_DAYS)
# The knowledge that the first statement of a sign-in reads, by whether the client shows a device token. It leaves out `trust_days`: a
# person can ask for trust only together with a second factor, and then a second statement reads the whole knowledge.
FIRST_KNOWLEDGE: Final[Mapping[bool, LiteralString]] = {
    True: _KNOWLEDGE.format(shown=_SHOWN, trust_days=""),
    False: _KNOWLEDGE.format(shown="", trust_days=""),
}


def knowledge_parameters(approach: Approach) -> Mapping[str, Any]:
    client, agent = approach.client, approach.agent
    return {
        "device_digest": None if client.device_token is None else client.device_token.digest(),
        "trust_digest": None if client.trust_token is None else client.trust_token.digest(),
        "device_type": agent.device_type.value,
        "device_browser": _text(agent.browser),
        "device_os": _text(agent.os),
        "device_history": HISTORY,
    }


_FAILURES: Final = frozenset(failure.value for failure in FAILED_ATTEMPTS)


def knowledge_of(value: Mapping[str, Any]) -> Knowledge:
    good, failures = value["good"], takewhile(_is_failure, value["latest"])
    return Knowledge(
        by_token=_known(value.get("by_token")),
        by_agent=_known(value["by_agent"]),
        sign_ins=len(good),
        hours=frozenset(hour for hour, _ in good),
        countries=frozenset(country for _, country in good if country is not None),
        failed_attempts=sum(reason in _FAILURES for reason in failures),
        trust_days=value.get("trust_days"),
    )


def _is_failure(reason: str | None) -> bool:
    """A sign-in that succeeded has the reason None."""
    return reason is not None


def _known(value: Mapping[str, Any] | None) -> KnownDevice | None:
    if value is None:
        return None
    until = value["trusted_until"]
    return KnownDevice(
        DeviceId(UUID(value["id"])), None if until is None else datetime.fromtimestamp(until, UTC), value.get("brings_trust", False)
    )


class _Knowledge(Frozen):
    knowledge: dict[str, Any]


DEVICE: Final = Columns(
    Device, "devices", named={"user": "user_id"}, apart=("agent", "last_address", "last_location", "risk_score", "trusted_until")
)


def _device(
    *,
    device_type: str,
    browser: str | None,
    browser_version: str | None,
    os: str | None,
    os_version: str | None,
    last_country: str | None,
    last_city: str | None,
    risk_score: float,
    **columns: Any,
) -> Device:
    return DEVICE.row(
        agent=UserAgent(DeviceType(device_type), browser, browser_version, os, os_version),
        last_location=located(last_country, last_city),
        risk_score=round(risk_score, 2),
        **columns,
    )


class DeviceRows(OnStatements):
    """Implements `ports.identity.sign_in.DeviceStore`."""

    async def list(self, user: UserId) -> Sequence[Device]:
        return await self._statements.ask(_device, _LIST, {"user": user})

    async def find(self, device: DeviceId) -> Device | None:
        return first(await self._statements.ask(_device, _GET, {"id": device}))

    async def knowledge(self, user: UserId, approach: Approach) -> Knowledge:
        rows = await self._statements.ask(_Knowledge, _KNOWLEDGE_OF_USER, {"user": user, **knowledge_parameters(approach)})
        return knowledge_of(rows[0].knowledge) if rows else NOTHING_KNOWN

    async def add(self, device: Device, token_digest: bytes) -> None:
        await self._statements.tell_along(
            _ADD,
            {
                "id": device.id,
                "user": device.user,
                "token_digest": token_digest,
                "name": _text(device.name),
                **_seen_with(device.agent, device.last_address, device.last_location),
                "risk_score": device.risk_score,
                "risk_factors": list(device.risk_factors),
                "at": device.created_at,
            },
        )

    async def used(self, device: DeviceId, user: UserId, sighting: Sighting, token_digest: bytes | None, at: datetime) -> None:
        approach = sighting.approach
        brought = approach.client.device_token if sighting.is_proven else None
        await self._statements.tell_along(
            _USED,
            {
                "id": device,
                "user": user,
                "token_digest": token_digest,
                "brought_digest": None if brought is None else brought.digest(),
                "name": _text(approach.agent.name),
                **_seen_with(approach.agent, approach.client.address, approach.location),
                "risk_score": sighting.risk.score,
                "risk_factors": [factor.value for factor in sighting.risk.factors],
                "at": at,
            },
        )

    async def trust(self, device: DeviceId, trust_digest: bytes, at: datetime, until: datetime) -> None:
        await self._statements.tell(_TRUST, {"id": device, "digest": trust_digest, "at": at, "until": until})

    async def end_trust(self, user: UserId) -> None:
        await self._statements.tell(_END_TRUST, {"user": user})

    async def hold(self, device: DeviceId) -> Device | None:
        return first(await self._statements.ask(_device, _DEVICE_HOLD, {"id": device}))

    async def rename(self, device: DeviceId, name: str, at: datetime) -> None:
        await self._statements.tell(_RENAME, {"id": device, "name": _text(name), "at": at})

    async def revoke(self, device: DeviceId, at: datetime) -> None:
        await self._statements.tell(_REVOKE, {"id": device, "at": at})

    async def revoke_all(self, user: UserId, at: datetime, *, but: SessionId | None = None) -> None:
        await self._statements.tell(_REVOKE_ALL, {"user": user, "at": at, "but": but})


def _text(text: str | None) -> str | None:
    return None if text is None else storable_text(text)


def _seen_with(agent: UserAgent, address: str | None, location: Location | None) -> Mapping[str, Any]:
    return {
        "device_type": agent.device_type.value,
        "browser": _text(agent.browser),
        "browser_version": _text(agent.browser_version),
        "os": _text(agent.os),
        "os_version": _text(agent.os_version),
        "address": storable_address(address),
        "country": None if location is None else _text(location.country),
        "city": None if location is None else _text(location.city),
    }


_KNOWLEDGE_OF_USER: Final[LiteralString] = f"select {KNOWLEDGE} as knowledge from users where users.id = %(user)s"

# Who writes `last_used_at` writes its week, too: otherwise a trigger does, at the price of a call.
_WEEK: Final = "date_trunc('week', %(at)s::timestamptz at time zone 'UTC')::date"

_ADD: Final[LiteralString] = f"""
    insert into devices (id, user_id, token_digest, name, device_type, browser, browser_version, os, os_version, last_used_at, last_address,
                         last_country, last_city, risk_score, risk_factors, created_at, updated_at, last_used_week)
    values (%(id)s, %(user)s, %(token_digest)s, %(name)s, %(device_type)s, %(browser)s, %(browser_version)s, %(os)s, %(os_version)s, %(at)s,
            %(address)s, %(country)s, %(city)s, %(risk_score)s, %(risk_factors)s, %(at)s, %(at)s, {_WEEK})
"""

# The device keeps its name, because the person may have chosen the name. If the clean-up has deleted the row since the sign-in recognized
# the device, the statement inserts the row again.
_USED: Final[LiteralString] = f"""
    insert into devices (id, user_id, token_digest, name, device_type, browser, browser_version, os, os_version, last_used_at, last_address,
                         last_country, last_city, risk_score, risk_factors, created_at, updated_at, last_used_week)
    values (%(id)s, %(user)s, coalesce(%(token_digest)s::bytea, %(brought_digest)s), %(name)s, %(device_type)s, %(browser)s,
            %(browser_version)s, %(os)s, %(os_version)s, %(at)s, %(address)s, %(country)s, %(city)s, %(risk_score)s, %(risk_factors)s,
            %(at)s, %(at)s, {_WEEK})
        on conflict (id) do update
       set device_type = excluded.device_type, browser = excluded.browser, browser_version = excluded.browser_version, os = excluded.os,
           os_version = excluded.os_version, last_used_at = excluded.last_used_at, last_used_week = excluded.last_used_week,
           last_address = excluded.last_address,
           last_country = excluded.last_country, last_city = excluded.last_city, risk_score = excluded.risk_score,
           risk_factors = excluded.risk_factors,
           token_digest = coalesce(%(token_digest)s, devices.token_digest),
           trust_digest = case when %(token_digest)s::bytea is null then devices.trust_digest end,
           trusted_until = case when %(token_digest)s::bytea is null then devices.trusted_until end,
           revoked_at = null
"""

_TRUST: Final = "update devices set trust_digest = %(digest)s, trusted_until = %(until)s, trusted_at = %(at)s where id = %(id)s"

# The statement locks the devices in the order in which a deletion locks them, so that the two cannot deadlock.
_END_TRUST: Final = """
    with trusted as (
             select id
               from devices
              where user_id = %(user)s and trusted_until is not null and revoked_at is null
              order by id
                for no key update
         )
  update devices
     set trust_digest = null, trusted_until = null
    from trusted
   where devices.id = trusted.id
"""

# Locked in the same order.
_REVOKE_ALL: Final = """
       with known
         as (
             select id
               from devices
              where user_id = %(user)s
                and revoked_at is null
                and id is distinct from (select device_id from sessions where sessions.id = %(but)s)
              order by id
                for no key update
         )
  update devices
     set revoked_at = %(at)s, token_digest = null, trust_digest = null, trusted_until = null, updated_at = %(at)s
    from known
   where devices.id = known.id
"""

_COLUMNS: Final[LiteralString] = f"""
    {DEVICE.names}, device_type, browser, browser_version, os, os_version, host(last_address) as last_address, last_country, last_city,
    risk_score, {_TRUSTED_UNTIL} as trusted_until
"""

_DEVICE_HOLD: Final[LiteralString] = f"select {_COLUMNS} from devices where id = %(id)s for no key update"

_GET: Final[LiteralString] = f"select {_COLUMNS} from devices where id = %(id)s and revoked_at is null"

_LIST: Final[LiteralString] = (
    f"select {_COLUMNS} from devices where user_id = %(user)s and revoked_at is null order by last_used_at desc, id"
)

_RENAME: Final = "update devices set name = %(name)s, updated_at = %(at)s where id = %(id)s"

_REVOKE: Final = """
    update devices
       set revoked_at = %(at)s, token_digest = null, trust_digest = null, trusted_until = null, updated_at = %(at)s
     where id = %(id)s
"""

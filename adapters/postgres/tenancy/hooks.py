"""Hooks in PostgreSQL: their settings and reports, whom they are asked about, and what they said of a session."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.backups.restored import HELD_UNTIL
from adapters.postgres.columns import AnswerRow, Columns, IdRow
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.factors.mfa import has_second_factor
from adapters.postgres.identity.sessions.parts import PROFILE, profile
from adapters.postgres.statements import OnStatements, first, only
from core.domain.claims import DescribedPerson
from core.domain.identifiers import FlowId, HookId, LoginEventId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.guards.hook_verdicts import VERDICT_LIFETIME, AskingDoor, HookFactor, HookReason, HookSaid, HookWord
from core.domain.mail import Email
from core.domain.tenancy.hooks import KNOWN_AFTER, MOST_EXCHANGES, Hook, HookExchange, HookPeople, HookReport
from core.frozen import Frozen, names_of, shared, values_of
from ports.tenancy.hooks import AskedHooks, HookTimes, SealedHook, UnaskedAccess

HOOK: Final = Columns(Hook, "hooks", named={"organization": "org_id"})
EXCHANGE: Final = Columns(HookExchange, "hook_exchanges", named={"hook": "hook_id"}, texts=("sent", "answered"))


def _sealed(*, sealed_secret: bytes, previous_sealed_secret: bytes | None, **columns: Any) -> SealedHook:
    return SealedHook(HOOK.row(**columns), sealed_secret, previous_sealed_secret)


class _Secret(Frozen):
    sealed_secret: bytes | None


class _SnapshotRow(Frozen, kw_only=True):
    slug: str
    application: Mapping[str, Any] | None
    email: str
    email_is_verified: bool
    role: str
    profile: Mapping[str, Any] | None
    is_owner: bool
    is_known: bool
    has_second_factor: bool
    has_passkey: bool
    is_new_device: bool


_of_hooks: Final = shared(_SnapshotRow, AskedHooks, "application")
_of_person: Final = shared(_SnapshotRow, DescribedPerson, "email", "profile")


def _to_ask(**columns: Any) -> tuple[_SnapshotRow, SealedHook]:
    return _SnapshotRow(**{name: columns.pop(name) for name in names_of(_SnapshotRow)}), _sealed(**columns)


class HookRows(OnStatements):
    """Implements `ports.tenancy.hooks.HookStore`."""

    async def find(self, organization: OrganizationId | None) -> Hook | None:
        return first(await self._statements.ask(HOOK.row, _FIND[organization is None], {"organization": organization}))

    async def lock_installation(self) -> None:
        await self._statements.tell(_HOLD_INSTALLATION, {})

    async def find_for_update(self, organization: OrganizationId | None) -> Hook | None:
        return first(await self._statements.ask(HOOK.row, _HOLD[organization is None], {"organization": organization}))

    async def add(self, hook: Hook, sealed_secret: bytes) -> bool:
        return bool(await self._statements.ask(IdRow, _ADD, {**HOOK.values(hook), "sealed_secret": sealed_secret}))

    async def save(self, hook: Hook) -> None:
        await self._statements.tell(_SAVE, HOOK.values(hook))

    async def sealed_secret(self, hook: HookId) -> bytes | None:
        return only(await self._statements.ask(_Secret, "select sealed_secret from hooks where id = %(id)s", {"id": hook})).sealed_secret

    async def replace_secret(self, hook: Hook, sealed: bytes, previous_sealed: bytes | None, previous_until: datetime) -> None:
        await self._statements.tell(_SAVE, HOOK.values(hook))
        await self._statements.tell(_ROTATE, {"id": hook.id, "sealed": sealed, "previous": previous_sealed, "until": previous_until})

    async def delete(self, hook: HookId) -> None:
        await self._statements.tell("delete from hooks where id = %(id)s", {"id": hook})

    async def report(self, hook: HookId) -> HookReport:
        return first(await self._statements.ask(HookReport, _REPORT, {"id": hook})) or HookReport()

    async def exchanges(self, hook: HookId) -> Sequence[HookExchange]:
        return await self._statements.ask(EXCHANGE.row, _EXCHANGES, {"hook": hook, "most": MOST_EXCHANGES})

    async def unasked(self, organization: OrganizationId) -> UnaskedAccess:
        return only(await self._statements.ask(UnaskedAccess, _UNASKED, {"organization": organization}))

    async def sealed(self, organization: OrganizationId | None) -> SealedHook | None:
        return first(await self._statements.ask(_sealed, _SEALED[organization is None], {"organization": organization}))

    async def to_ask(self, door: AskingDoor) -> AskedHooks | None:
        token = None if door.came is None else door.came.device_token
        parameters = values_of(door) | {
            "device": None if token is None else token.digest(),
            "before": door.came_after,
            "known_after": KNOWN_AFTER,
        }
        rows = await self._statements.ask(_to_ask, _TO_ASK, parameters)
        if not rows:
            return None
        standing = rows[0][0]
        return AskedHooks(
            **_of_hooks(standing),
            hooks=[hook for _, hook in rows],
            organization_slug=standing.slug,
            application=standing.application or door.unplaced,
            person=DescribedPerson(
                **_of_person(standing),
                user=door.person,
                email=Email(standing.email),
                organization=door.organization,
                organization_slug=standing.slug,
                profile=profile(standing.profile),
            ),
            people=_people(standing),
        )

    async def against(self, session: SessionId, person: UserId, organization: OrganizationId, service: ServiceId | None) -> bool:
        parameters = {"session": session, "person": person, "organization": organization, "service": service}
        return only(await self._statements.ask(AnswerRow, _AGAINST, parameters)).yes

    async def record(self, exchange: HookExchange) -> None:
        await self._statements.tell(_RECORD, {**EXCHANGE.values(exchange), "most": MOST_EXCHANGES})

    async def keep_verdicts(self, session: SessionId, said: Sequence[HookSaid]) -> None:
        if not said:
            return
        parameters = {
            "session": session,
            "organization": said[0].organization,
            "said": Jsonb(kept_verdicts([one for one in said if one.word is not HookWord.SILENCE])),
            "silences": Jsonb(kept_verdicts([one for one in said if one.word is HookWord.SILENCE])),
            "lifetime": VERDICT_LIFETIME,
        }
        await self._statements.tell(_KEEP, parameters)

    async def keep_refusals(self, refused: LoginEventId, said: Sequence[HookSaid]) -> None:
        await self._statements.tell(_KEEP_REFUSALS, {"id": refused, "said": Jsonb(kept_verdicts(said))})

    async def said_of(self, door: AskingDoor, counts_as: UUID) -> Sequence[HookSaid]:
        parameters = {
            "session": door.session,
            "person": door.person,
            "name": f"{counts_as}/{door.organization}",
            "lifetime": VERDICT_LIFETIME,
        }
        rows = await self._statements.ask(_Kept, _SAID_OF, parameters)
        return [row.said(counts_as, door) for row in rows]

    async def end_with_silence(
        self, session: SessionId, opened_by: SessionId, person: UserId, organization: OrganizationId, service: ServiceId | None
    ) -> None:
        parameters = {
            "session": session,
            "opened_by": opened_by,
            "person": person,
            "organization": organization,
            "service": service,
            "lifetime": VERDICT_LIFETIME,
        }
        await self._statements.tell(_END_WITH_SILENCE, parameters)

    async def times(self) -> Sequence[HookTimes]:
        return await self._statements.ask(HookTimes, _TIMES, {})

    async def ask_in_flow(self, flow: FlowId, most: int) -> bool:
        return bool(await self._statements.ask(IdRow, _ASK_IN_FLOW, {"flow": flow, "most": most}))


def _people(standing: _SnapshotRow) -> HookPeople:
    if standing.role:
        return HookPeople.MEMBERS
    return HookPeople.KNOWN if standing.is_known else HookPeople.OTHERS


CONSOLE: Final = "console"
"""Stands in a key where a verdict is about no application. `hooks_said` says it, too."""


def kept_verdicts(said: Sequence[HookSaid]) -> dict[str, Any]:
    """The document of the columns `hook_verdicts`. A no has the name of the hook and the organization for its key, as it closes all of it;
    a yes or a demand the application, too; and a silence stands beside them. `no` is for a process of the release before.
    """
    return {_key(one): _kept(one) for one in said}


def _kept(one: HookSaid) -> dict[str, Any]:
    kept = {"hook": str(one.hook), "at": one.at.timestamp(), "no": one.word is HookWord.NO, "said": one.word.value}
    if one.reason is not None:
        kept["reason"] = one.reason.value
    if one.owes is not None:
        kept["owes"] = one.owes.value
    return kept


def _key(one: HookSaid) -> str:
    organization = f"{one.counts_as}/{one.organization}"
    if one.word is HookWord.NO:
        return organization
    about = f"{organization}/{CONSOLE if one.service is None else one.service}"
    return f"{about}/silence" if one.word is HookWord.SILENCE else about


class _Kept(Frozen, kw_only=True):
    key: str
    value: Mapping[str, Any]
    is_own: bool

    def said(self, counts_as: UUID, door: AskingDoor) -> HookSaid:
        kept, about = self.value, self.key.split("/")[2:3]
        # A release before kept one verdict for an organization: its yes was about every application.
        word = HookWord(kept.get("said", HookWord.NO if kept.get("no") else HookWord.YES))
        service = door.service if not about else None if about[0] == CONSOLE else ServiceId(UUID(about[0]))
        return HookSaid(
            hook=HookId(UUID(kept["hook"])),
            counts_as=counts_as,
            organization=door.organization,
            service=service,
            at=datetime.fromtimestamp(kept["at"], UTC),
            word=word,
            reason=None if "reason" not in kept else HookReason(kept["reason"]),
            owes=None if "owes" not in kept else HookFactor(kept["owes"]),
            is_own=self.is_own,
        )


# While work is held after a restore, as `HELD_SINCE` says. Only hooks that count are asked then.
HELD: Final[LiteralString] = f"'{HELD_UNTIL}'::timestamptz"

_OF: Final[dict[bool, LiteralString]] = {True: "org_id is null", False: "org_id = %(organization)s"}

_FIND: Final[dict[bool, LiteralString]] = {
    installation: f"select {HOOK.names} from hooks where {which} and point = 'sign_in'" for installation, which in _OF.items()
}
_HOLD: Final[dict[bool, LiteralString]] = {installation: f"{found} for no key update" for installation, found in _FIND.items()}

_SECRETS: Final = """
           hooks.sealed_secret,
           case when hooks.previous_until > now() then hooks.previous_sealed_secret end as previous_sealed_secret"""

_SEALED: Final[dict[bool, LiteralString]] = {
    installation: f"select {HOOK.names}, {_SECRETS} from hooks where {which} and point = 'sign_in' and sealed_secret is not null"
    for installation, which in _OF.items()
}

# The key of the lock is a number of its own.
_HOLD_INSTALLATION: Final = "select pg_advisory_xact_lock(hashtext('hooks of the installation'))"

_ADD: Final[LiteralString] = f"""
    insert into hooks ({HOOK.into("sealed_secret")}) values ({HOOK.inserted("sealed_secret")})
        on conflict do nothing
 returning id
"""

_SAVE: Final[LiteralString] = f"""
    update hooks
       set {HOOK.changes("id", "organization", "created_at")},
           asked = case when since = %(since)s then asked else 0 end,
           silent = case when since = %(since)s then silent else 0 end,
           refused = case when since = %(since)s then refused else 0 end,
           factors = case when since = %(since)s then factors else 0 end,
           milliseconds = case when since = %(since)s then milliseconds else 0 end,
           slowest = case when since = %(since)s then slowest else 0 end
     where id = %(id)s
"""

_ROTATE: Final = """
    update hooks
       set sealed_secret = %(sealed)s, previous_sealed_secret = %(previous)s, previous_until = %(until)s
     where id = %(id)s
"""

_REPORT: Final = "select asked, silent, refused, factors, milliseconds, slowest from hooks where id = %(id)s"

_EXCHANGES: Final[LiteralString] = f"""
    select {EXCHANGE.names} from hook_exchanges where hook_id = %(hook)s order by at desc, id desc limit %(most)s
"""

_UNASKED: Final = """
    select (
               select count(*)
                 from memberships
                where org_id = %(organization)s and own_since is null
           )::int as listed_members,
           (
               select count(*)
                 from services
                 join user_keys on user_keys.service_id = services.id
                where services.org_id = %(organization)s and coalesce(user_keys.expires_at > now(), true)
           )::int as user_keys
"""

# The rule about owners stands in `hooks_keep_out`, too: a test compares the two.
_TO_ASK: Final[LiteralString] = f"""
    select organizations.slug,
           (
               select jsonb_build_object('client_id', services.oauth_client_id, 'slug', services.slug, 'name', services.name)
                 from services
                where services.id = %(service)s
           ) as application,
           users.email, {is_verified_for("organizations.id")} as email_is_verified,
           coalesce((select role from memberships where org_id = organizations.id and user_id = users.id), '') as role,
           {PROFILE} as profile,
           hooks_let_in_owner(%(person)s, %(organization)s) as is_owner,
           exists (
               select from service_users
                where service_users.user_id = users.id and service_users.org_id = organizations.id
                  and service_users.own_since < now() - %(known_after)s::interval
               offset 0
           ) as is_known,
           {has_second_factor("%(person)s::uuid")} as has_second_factor,
           exists (select from passkeys where passkeys.user_id = %(person)s) as has_passkey,
           not exists (
               select
                 from devices
                 join login_events on login_events.user_id = devices.user_id and login_events.device_id = devices.id
                where devices.token_digest = %(device)s and devices.user_id = %(person)s and devices.revoked_at is null
                  and login_events.organization_id = %(organization)s and login_events.success
                  and login_events.created_at < coalesce(%(before)s::timestamptz, now())
           ) as is_new_device,
           {HOOK.names}, {_SECRETS}
      from hooks
      join organizations on organizations.id = %(organization)s
      join users on users.id = %(person)s
     where (hooks.org_id = %(organization)s or hooks.org_id is null) and hooks.point = 'sign_in'
       and hooks.sealed_secret is not null
       and (hooks.counts_as is not null or hooks.since <> {HELD})
       and (%(consents)s or hooks_hear_of(%(person)s, %(organization)s, %(service)s))
     order by hooks.org_id nulls first
"""

_TIMES: Final[LiteralString] = f"""
    select organizations.slug as organization, hooks.point, hooks.counts_as is not null as enforced, hooks.since = {HELD} as held,
           hooks.seconds,
           last.questions, last.median, last.p90, last.silent, hooks.silence, last.last_asked_at
      from hooks
      left join all_organizations as organizations on organizations.id = hooks.org_id
     cross join lateral (
               select count(*)::int as questions, count(*) filter (where outcome = 'silent')::int as silent, max(at) as last_asked_at,
                      percentile_disc(0.5) within group (order by milliseconds) as median,
                      percentile_disc(0.9) within group (order by milliseconds) as p90
                 from hook_exchanges
                where hook_exchanges.hook_id = hooks.id and not is_test
           ) as last
     order by last.p90 desc nulls last, organizations.slug nulls first
"""

_AGAINST: Final = "select hooks_keep_out(%(session)s, %(person)s, %(organization)s, %(service)s, true) is not null as yes"

_RECORD: Final[LiteralString] = f"""
    with asked as (select id from hooks where id = %(hook)s for key share),
         counted as (
             update hooks
                set asked = asked + 1,
                    silent = silent + (%(outcome)s = 'silent')::integer,
                    refused = refused + (%(outcome)s = 'no')::integer,
                    factors = factors + (%(outcome)s in ('second_factor', 'passkey'))::integer,
                    milliseconds = hooks.milliseconds + %(milliseconds)s,
                    slowest = greatest(slowest, %(milliseconds)s)
              where id = %(hook)s and not %(is_test)s and (since <= %(at)s or since = {HELD})
          returning id
         ),
         added as (
             insert into hook_exchanges ({EXCHANGE.into()})
             select {EXCHANGE.inserted()} from asked
          returning id
         )
  delete from hook_exchanges
   where hook_id = %(hook)s
     and id in (select id from hook_exchanges where hook_id = %(hook)s order by at desc, id desc offset %(most)s - 1)
"""

# A session of the same device in the organization was opened from a sign-in in this browser, perhaps without an end in common. What is
# older than its life opens nothing more, and a no stands until the hook says something else: so does the yes that has taken it back
# somewhere. Of two about one thing the later stands, in whatever order the hook has answered.
_KEEP: Final = """
    with held as (
             select sessions.id, sessions.id = asked.id as is_asked
               from sessions as asked
               join sessions on sessions.user_id = asked.user_id and sessions.revoked_at is null
                and (sessions.id = asked.id
                     or sessions.organization_id = %(organization)s and sessions.device_id = asked.device_id
                        and sessions.impersonator_id is null)
              where asked.id = %(session)s
              order by sessions.id                     -- the same order everywhere, against deadlocks
                for no key update of sessions
         )
  update sessions
     set hook_verdicts = nullif((
             select coalesce(jsonb_object_agg(kept.key, kept.value), '{}')
               from (
                        select distinct on (every.key) every.key, every.value
                          from (
                                   select key, value, false as is_new from jsonb_each(coalesce(sessions.hook_verdicts, '{}'))
                                    union all
                                   select key, value, true
                                     from jsonb_each(
                                              %(said)s::jsonb || case when held.is_asked then %(silences)s::jsonb else '{}' end
                                          )
                               ) as every
                         order by every.key, (every.value ->> 'at')::double precision desc, every.is_new desc
                    ) as kept
              where (kept.value ->> 'no')::boolean
                 or to_timestamp((kept.value ->> 'at')::double precision) > now() - %(lifetime)s
                 or kept.value ->> 'said' = 'yes'
                and coalesce(sessions.hook_verdicts, '{}') || %(said)s::jsonb
                    ? (split_part(kept.key, '/', 1) || '/' || split_part(kept.key, '/', 2))
         ), '{}')
    from held
   where sessions.id = held.id
"""

_KEEP_REFUSALS: Final = "update login_events set hook_verdicts = %(said)s where id = %(id)s"

_SAID_OF: Final = """
    with recursive line as (
             select id, parent_id from sessions where id = %(session)s
              union all
             select above.id, above.parent_id from line join sessions as above on above.id = line.parent_id
         )
    select kept.key, kept.value, sessions.id in (select id from line) as is_own
      from sessions
     cross join lateral jsonb_each(sessions.hook_verdicts) as kept
     where sessions.user_id = %(person)s and sessions.hook_verdicts is not null and starts_with(kept.key, %(name)s)
     union all
    select kept.key, kept.value, false
      from login_events
     cross join lateral jsonb_each(login_events.hook_verdicts) as kept
     where login_events.user_id = %(person)s and login_events.id >= first_id_of(now() - %(lifetime)s::interval)
       and login_events.hook_verdicts is not null and starts_with(kept.key, %(name)s)
"""

_END_WITH_SILENCE: Final = """
    update sessions
       set ends_at = least(sessions.ends_at, silence.ends_at),
           expires_at = least(sessions.expires_at, silence.ends_at),
           expires_day = (least(sessions.expires_at, silence.ends_at) at time zone 'UTC')::date
      from (select hooks_silent_since(%(opened_by)s, %(person)s, %(organization)s, %(service)s) + %(lifetime)s as ends_at) as silence
     where sessions.id = %(session)s and silence.ends_at is not null
"""

_ASK_IN_FLOW: Final = """
    update flows set hooks_asked = hooks_asked + 1 where id = %(flow)s and hooks_asked < %(most)s returning id
"""

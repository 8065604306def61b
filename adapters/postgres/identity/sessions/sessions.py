"""Sessions in PostgreSQL: of applications, browsers and impersonators."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.columns import AnswerRow, Columns, IdRow, array, array_of_texts, storable_text
from adapters.postgres.identity.accounts import ACCOUNT
from adapters.postgres.identity.factors.mfa import second_factor_due
from adapters.postgres.identity.proofs.sign_in import DESTINATION, destination_of
from adapters.postgres.identity.sessions.parts import (
    IDLE,
    LINE,
    RENEWED,
    SESSION_LIVES,
    SUBSCRIPTION_STATE,
    door_parameters,
    ending_codes,
    kept_audiences,
    noticing,
    proof_parameters,
    revoking,
    subscription_state,
    tells_more,
)
from adapters.postgres.identity.terms import terms_due
from adapters.postgres.presence import mark
from adapters.postgres.statements import OnPool, OnTransaction, ask, first, only
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from core.domain.identifiers import BoundKeyId, DeviceId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.browser_sessions import Chosen, FrameAddress
from core.domain.identity.callers import Impersonation
from core.domain.identity.devices import located
from core.domain.identity.proofs import UNPROVED, Proved
from core.domain.identity.session_limits import DisplacedPerson, Displacement, SessionLimits, SessionReach
from core.domain.identity.sessions import IDLE_LIFETIME, Doors, OwnSession, OwnSessionList, Parent, Session, minutes_kept
from core.domain.identity.upstream.directory_visits import DirectoryFactor
from core.domain.identity.upstream.sign_in import FEDERATED
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.requests import MOST_ROWS_COUNTED, Page
from core.domain.tokens import TokenAudience
from core.frozen import Frozen
from ports.identity.sessions import Impersonable, MembershipHeld, Opener

PARENT: Final = Columns(Parent, "sessions", apart=("proved", "factor"), prefix="parent_")
FACTOR: Final = Columns(DirectoryFactor, "sessions", named={"provider": "factor_through", "stated": "factor_stated"}, prefix="shown_")
PROVED: Final = Columns(Proved, "sessions", named={"at": "proved_at"}, prefix="proved_")


class _Ended(Frozen):
    id: UUID
    frame: list[str] | None

    def shown(self) -> FrameAddress | None:
        """None when its application hears of sign-outs in no frame, or nobody signed in to one."""
        if self.frame is None:
            return None
        address, names_session, organization = self.frame
        return FrameAddress(SessionId(self.id), address, names_session == "true", OrganizationId(UUID(organization)))


class _InOrganization(Frozen):
    organization_id: UUID | None


def _opener(**columns: Any) -> Opener:
    """The account's session is the one from which another session is opened."""
    return Opener(ACCOUNT.taken(columns), PARENT.row(proved=PROVED.taken(columns), factor=FACTOR.taken_or_none(columns), **columns))


def _displaced(*, email: str, language: str | None, country: str | None, city: str | None, **columns: Any) -> DisplacedPerson:
    return DisplacedPerson(email=Email(email), language=Language.of(language), location=located(country, city), **columns)


def _of_displacement(displacement: Displacement) -> Mapping[str, Any]:
    return {"by": displacement.by, "ended": array([one.hex for one in displacement.sessions])}


class SessionRows(OnTransaction):
    """Implements `ports.identity.sessions.SessionStore` in one transaction."""

    async def hold_opener(self, session: SessionId, user: UserId) -> Opener | None:
        await self._transaction.tell(_HOLD_ACCOUNT, {"user": user})
        await self._transaction.tell(_HOLD_DEVICE, {"session": session})
        return first(await self._transaction.ask(_opener, _HOLD_OPENER, {"session": session, "user": user}))

    async def lives(self, session: SessionId) -> bool:
        return only(await self._transaction.ask(AnswerRow, _LIVES, {"session": session})).yes

    async def add(self, session: Session) -> None:
        context, impersonated = session.context, session.impersonated
        await self._transaction.tell_along(
            _ADD[_Bound(session.is_own, session.parent is not None, context.organization is not None, context.service is not None)],
            {
                "id": session.id,
                "user": session.user,
                "device": session.device,
                "organization": context.organization,
                "service": context.service,
                "created_at": session.created_at,
                "last_seen_at": session.last_seen_at,
                "expires_at": session.expires_at,
                "ends_at": session.ends_at,
                "authenticated_by": array_of_texts(session.authenticated_by),
                "impersonator": None if impersonated is None else impersonated.by,
                "impersonation": None if impersonated is None else impersonated.id,
                "parent": session.parent,
                "depth": session.depth,
                "proved_at": session.proved.at,
                "second_factor_at": session.proved.second_factor_at,
                "stated_at": session.proved.stated_at,
                "refuses_applications": session.proved.refuses_applications,
                "scopes": None if session.scopes is None else array_of_texts(session.scopes),
                "opened_through": session.opened_through,
                "minutes_idle": minutes_kept(session.idle),
                "most": session.most,
                "is_impersonated": impersonated is not None,
                "key": session.key,
                **door_parameters(session.doors),
            },
        )

    async def issue(self, session: SessionId, token_digest: bytes, at: datetime) -> None:
        await self._transaction.tell_along(_ISSUE, {"digest": token_digest, "session": session, "at": at})

    async def grant(self, session: SessionId, granted: Sequence[TokenAudience]) -> None:
        await self._transaction.tell(_GRANT, {"session": session, "audiences": kept_audiences(granted)})

    async def prove(self, session: SessionId, user: UserId, proved: Proved) -> None:
        parameters = {"id": session, "user": user, **proof_parameters(proved)}
        await self._transaction.tell(_PROVE, parameters)

    async def keep_factor(self, session: SessionId, factor: DirectoryFactor) -> None:
        await self._transaction.tell(_KEEP_FACTOR, {"session": session, **FACTOR.values(factor)})

    async def end_by(self, session: SessionId, at: datetime) -> None:
        await self._transaction.tell(_END_BY, {"id": session, "at": at})

    async def revoke(self, session: SessionId, user: UserId) -> bool:
        return bool(await self._transaction.ask(IdRow, _REVOKE, {"id": session, "user": user}))

    async def end(self, session: SessionId, user: UserId) -> Sequence[FrameAddress] | None:
        ended = await self._transaction.ask(_Ended, _END, {"id": session, "user": user})
        return [frame for one in ended if (frame := one.shown()) is not None] if ended else None

    async def organization(self, session: SessionId) -> OrganizationId | None:
        rows = await self._transaction.ask(_InOrganization, _ORGANIZATION, {"id": session})
        return None if not rows or rows[0].organization_id is None else OrganizationId(rows[0].organization_id)

    async def revoke_all(self, user: UserId, *, but: SessionId | None) -> int:
        return len(await self._transaction.ask(IdRow, _REVOKE_ALL, {"user": user, "but": but}))

    async def end_all(self, user: UserId, *, but: SessionId | None) -> None:
        await self._transaction.tell(_REVOKE_ALL, {"user": user, "but": but})

    async def end_codes(self, user: UserId) -> None:
        await self._transaction.tell(_END_CODES, {"user": user})

    async def end_federated(self, user: UserId) -> None:
        await self._transaction.tell(_END_FEDERATED, {"user": user, "federated": FEDERATED})

    async def find_displaced(self, displacement: Displacement) -> DisplacedPerson | None:
        return first(await self._transaction.ask(_displaced, _FIND_DISPLACED, _of_displacement(displacement)))

    async def notice_displaced(self, displacement: Displacement) -> None:
        await self._transaction.tell(_NOTICE_DISPLACED, _of_displacement(displacement))

    async def revoke_impersonations(self, impersonator: UserId) -> int:
        return len(await self._transaction.ask(IdRow, _REVOKE_IMPERSONATIONS, {"impersonator": impersonator}))

    async def revoke_of_device(self, device: DeviceId) -> int:
        return len(await self._transaction.ask(IdRow, _REVOKE_OF_DEVICE, {"device": device}))


# The oldest is the one that the others were opened from.
_FIND_DISPLACED: Final = """
    select users.id as "user", users.email, users.language, users.deactivated_at is null as is_active,
           arrived.organization_id as organization, coalesce(organizations.name, '') as organization_name,
           coalesce(services.name, '') as service_name, coalesce(devices.name, '') as device_name,
           devices.last_country as country, devices.last_city as city, oldest.last_seen_at
      from sessions as arrived
      join users on users.id = arrived.user_id
     cross join lateral (
               select sessions.*
                 from sessions
                where sessions.id = any (%(ended)s::uuid[]) and sessions.user_id = arrived.user_id
                order by sessions.depth, sessions.created_at
                limit 1
           ) as oldest
      left join organizations on organizations.id = arrived.organization_id
      left join services on services.id = oldest.service_id and oldest.organization_id = arrived.organization_id
      left join devices on devices.id = oldest.device_id
     where arrived.id = %(by)s
"""

_NOTICE_DISPLACED: Final[LiteralString] = f"""
    with ended as (select id, user_id, service_id from sessions where id = any (%(ended)s::uuid[]))
    {noticing("ended")}
"""

_ORGANIZATION: Final = "select organization_id from sessions where id = %(id)s"

# The lock is a statement of its own, so that the next statement sees everything that was committed while the lock was awaited.
_HOLD_ACCOUNT: Final = "select from users where id = %(user)s for no key update"

# A request that revokes the device ends the device's sessions. The lock makes that request wait, and so find the session that is being
# opened on the device.
_HOLD_DEVICE: Final = "select from devices where id = (select device_id from sessions where id = %(session)s) for share"

_HOLD_OPENER: Final[LiteralString] = f"""
    select {ACCOUNT.names},
           {PARENT.names}, {PROVED.names}, {FACTOR.names}
      from sessions
      join users on users.id = sessions.user_id
     where sessions.id = %(session)s and users.id = %(user)s and users.deactivated_at is null
       and sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()
       for share of sessions
"""

_LIVES: Final[LiteralString] = f"select {SESSION_LIVES} as yes"


class _Bound(NamedTuple):
    """What binds a new session: the rules of the person's own organizations, the session that it was opened from, the organization and the
    service that it is of.
    """

    is_own: bool
    has_parent: bool
    in_organization: bool
    in_service: bool

    def statement(self) -> LiteralString:
        # Who writes `expires_at` writes its day, too: otherwise a trigger does, at the price of a call. Where a number says how many there
        # may be, a trigger ends the oldest.
        return f"""
    insert into sessions (id, user_id, device_id, organization_id, service_id, created_at, last_seen_at, expires_at, ends_at,
                          authenticated_by, impersonator_id, impersonation_id, parent_id, depth, proved_at, second_factor_at, stated_at,
                          refuses_applications, scopes, opened_through, let_in_by, kept_out_by, expires_day, minutes_idle, most,
                          most_in_service, key_thumbprint)
    select %(id)s, %(user)s, %(device)s, %(organization)s, %(service)s, %(created_at)s, %(last_seen_at)s, until.expires_at, %(ends_at)s,
           %(authenticated_by)s::text[], %(impersonator)s, %(impersonation)s, %(parent)s, %(depth)s, %(proved_at)s, %(second_factor_at)s,
           %(stated_at)s, %(refuses_applications)s, %(scopes)s::text[], %(opened_through)s,
           %(let_in_by)s::uuid[], %(kept_out_by)s::uuid[],
           (until.expires_at at time zone 'UTC')::date, rules.minutes_idle, rules.most, rules.most_in_service, %(key)s
      from ({self._rules()}) as rules
     cross join lateral (
               select least(%(expires_at)s, %(created_at)s + rules.minutes_idle * interval '1 minute') as expires_at
           ) as until
"""

    def _rules(self) -> LiteralString:
        """What ends a session without a use, and how many of its kind may be open. Outside organizations, the rules of own memberships
        bind: what merely lists a person says nothing about their own sessions. A session rests no longer than the one that it was opened
        from. There are statements without the look-ups of what a session has not, because PostgreSQL sets up every part of a statement.
        """
        own, parent = (", own.minutes_idle" if self.is_own else ""), (f", {_IDLE_OF_PARENT}" if self.has_parent else "")
        most = "least(%(most)s::smallint, own.most)" if self.is_own else _MOST_THERE if self.in_organization else "null::smallint"
        return f"""
               select least(%(minutes_idle)s::integer{own}{parent}) as minutes_idle,
                      {most} as most,
                      {_MOST_IN_SERVICE if self.in_service else "null::smallint"} as most_in_service
                 {_FROM_OWN if self.is_own else ""}
"""


_IDLE_OF_PARENT: Final = "(select parents.minutes_idle from sessions as parents where parents.id = %(parent)s)"
_MOST_THERE: Final = """case
                          when not %(is_impersonated)s::boolean
                          then (select most_sessions from organizations where organizations.id = %(organization)s)
                      end"""
_MOST_IN_SERVICE: Final = """case
                          when not %(is_impersonated)s::boolean
                          then (select most_sessions from services where services.id = %(service)s)
                      end"""
_FROM_OWN: Final[LiteralString] = f"""from (
                          select min(organizations.session_idle_minutes) as minutes_idle, min(organizations.most_sessions) as most
                            from memberships
                            join organizations on organizations.id = memberships.org_id
                           where memberships.user_id = %(user)s and {IS_OWN_MEMBERSHIP} and organizations.status = 'active'
                      ) as own"""

_ADD: Final[Mapping[_Bound, LiteralString]] = {bound: bound.statement() for bound in map(_Bound._make, product((False, True), repeat=4))}

_KEEP_FACTOR: Final = "update sessions set factor_through = %(provider)s, factor_stated = %(stated)s where id = %(session)s"

_GRANT: Final = "update sessions set audiences = %(audiences)s where id = %(session)s"

_ISSUE: Final = "insert into refresh_tokens (digest, session_id, created_at) values (%(digest)s, %(session)s, %(at)s)"

_PROVE: Final[LiteralString] = f"""
    update sessions
       set {RENEWED}
     where id = %(id)s and user_id = %(user)s
"""

# The sessions that hang on it end as well. Sessions of their own, such as those with `offline_access`, stay.
_END_BY: Final = """
    with recursive hanging as (
             select id from sessions where id = %(id)s
          union all
             select sessions.id from hanging join sessions on sessions.parent_id = hanging.id
         ),
         held as (
             select sessions.id
               from sessions
              where sessions.id = any (array(select hanging.id from hanging)) and sessions.revoked_at is null
              order by sessions.id                     -- the same order everywhere, against deadlocks
                for no key update
         )
  update sessions
     set ends_at = least(sessions.ends_at, %(at)s), expires_at = least(sessions.expires_at, %(at)s)
    from held
   where sessions.id = held.id
"""

_REVOKE: Final[LiteralString] = f"""
{revoking("id = %(id)s and user_id = %(user)s")}
returning sessions.id
"""

# As with the notices, nobody signed in for an exchange, and an organization that is suspended tells nobody anything.
_END: Final[LiteralString] = f"""
{revoking("id = %(id)s and user_id = %(user)s")}
returning sessions.id,
          (
              select array[told.frontchannel_logout_uri, told.frontchannel_logout_session_required::text, told.org_id::text]
                from services as told
                join organizations on organizations.id = told.org_id and organizations.status = 'active'
               where told.id = living.service_id and told.frontchannel_logout_uri is not null and sessions.exchanged_from is null
          ) as frame
"""

# The statement includes the sessions that the person opened in other people's names, from any session: a thief of a platform owner's
# account may have opened such sessions.
_REVOKE_ALL: Final[LiteralString] = f"""
{revoking(f"(impersonator_id = %(user)s or user_id = %(user)s and id <> all (array({LINE})))")}
returning sessions.id
"""

_END_CODES: Final[LiteralString] = ending_codes("user_id = %(user)s")

_END_FEDERATED: Final[LiteralString] = revoking("user_id = %(user)s and %(federated)s = any (authenticated_by)")

_REVOKE_IMPERSONATIONS: Final[LiteralString] = f"""
{revoking("impersonator_id = %(impersonator)s")}
returning sessions.id
"""

# The statement includes the sessions that the device's owner opened in other people's names: such a session does not say from which device
# it was opened, and a thief's session must not go on.
_REVOKE_OF_DEVICE: Final[LiteralString] = f"""
{revoking("(device_id = %(device)s or impersonator_id = (select user_id from devices where id = %(device)s))")}
returning sessions.id
"""


class BrowserSessionRows(OnTransaction):
    """Implements `ports.identity.sessions.BrowserSessionStore` in one transaction."""

    async def add(self, digest: bytes, session: SessionId, bound: BoundKeyId | None = None) -> None:
        statement = _BROWSER_SESSION_ADD if bound is None else _ADD_BOUND
        await self._transaction.tell_along(statement, {"digest": digest, "session": session, "bound": bound})

    async def renew(
        self,
        digest: bytes,
        session: SessionId,
        user: UserId,
        proved: Proved,
        methods: Sequence[str],
        *,
        opened_through: UUID | None,
        doors: Doors,
        bound: BoundKeyId | None = None,
    ) -> bool:
        parameters = {
            "digest": digest,
            "session": session,
            "user": user,
            **proof_parameters(proved),
            "methods": list(methods),
            "opened_through": opened_through,
            **door_parameters(doors),
            "bound": bound,
        }
        return bool(await self._transaction.ask(IdRow, _RENEW, parameters))

    async def choose(self, session: SessionId, user: UserId, slug: str) -> Chosen | None:
        parameters = {"session": session, "user": user, "slug": storable_text(slug)}
        return first(await self._transaction.ask(Chosen, _CHOOSE, parameters))


_BROWSER_SESSION_ADD: Final = "insert into browser_sessions (digest, session_id) values (%(digest)s, %(session)s)"

# The browser may have been offered a key that it has not registered: then the session is bound to nothing.
_OFFERED: Final = "(select id from bound_keys where id = %(bound)s::uuid)"
_ADD_BOUND: Final[LiteralString] = f"""
    insert into browser_sessions (digest, session_id, bound_to) values (%(digest)s, %(session)s, {_OFFERED})
"""

# A method that the person has once used stays.
_RENEW: Final[LiteralString] = f"""
    with proved as (
             update sessions
                set {RENEWED},
                    opened_through = coalesce(%(opened_through)s::uuid, opened_through),
                    let_in_by = case
                        when %(let_in_by)s::uuid[] is null then let_in_by
                        else array(
                                 select unnest(let_in_by || %(let_in_by)s::uuid[]) except select unnest(%(kept_out_by)s::uuid[])
                             )
                    end,
                    kept_out_by = case
                        when %(let_in_by)s::uuid[] is null then kept_out_by
                        else array(
                                 select unnest(kept_out_by || %(kept_out_by)s::uuid[]) except select unnest(%(let_in_by)s::uuid[])
                             )
                    end,
                    authenticated_by = authenticated_by || array(
                        select method
                          from unnest(%(methods)s::text[]) with ordinality as shown (method, place)
                         where method <> all (authenticated_by)
                         order by place
                    )
              where id = %(session)s and user_id = %(user)s and revoked_at is null and expires_at > now() and ends_at > now()
          returning id
         )
  update browser_sessions
     set digest = %(digest)s, bound_to = coalesce(bound_to, {_OFFERED})
    from proved
   where browser_sessions.session_id = proved.id
returning proved.id
"""

_CHOOSE: Final[LiteralString] = f"""
    with chosen as (
             select organizations.id, {second_factor_due("memberships.user_id", "sessions")} as second_factor_due,
                    {terms_due("memberships.user_id")} as terms_due
               from organizations
               join memberships on memberships.org_id = organizations.id and memberships.user_id = %(user)s
               join sessions on sessions.id = %(session)s
              where organizations.slug = %(slug)s::text
          union all
             select null::uuid, null::timestamptz, null::timestamptz where %(slug)s::text = ''
         )
  update browser_sessions
     set chosen_organization = chosen.id
    from chosen, sessions
   where browser_sessions.session_id = %(session)s and sessions.id = browser_sessions.session_id and sessions.user_id = %(user)s
returning chosen.second_factor_due, chosen.terms_due
"""


def _session(
    *,
    device_name: str | None,
    country: str | None,
    city: str | None,
    organization: str | None,
    service: str | None,
    **columns: Any,
) -> OwnSession:
    return OwnSession(
        device_name=device_name or "",
        location=located(country, city),
        organization=organization or "",
        service=service or "",
        **columns,
    )


def _listed(*, total: int, others: int, **columns: Any) -> tuple[int, int, OwnSession]:
    return total, others, _session(**columns)


class PostgresOwnSessions(OnPool):
    """Implements `ports.identity.sessions.OwnSessionLookup`."""

    async def list(self, user: UserId, of: SessionId, now: datetime, page: Page) -> OwnSessionList:
        parameters = {"user": user, "but": of, "now": now, "limit": page.limit, "offset": page.offset}
        rows = await ask(self._pool, _listed, _LIST, parameters)
        total, others, _ = rows[0] if rows else (0, 0, None)
        return OwnSessionList(tuple(session for *_, session in rows), total, others)

    async def tree(self, user: UserId, session: SessionId, of: SessionId, now: datetime) -> Sequence[OwnSession]:
        return await ask(self._pool, _session, _TREE, {"user": user, "id": session, "but": of, "now": now})

    async def was_there(self, user: UserId, session: SessionId) -> bool:
        return bool(await ask(self._pool, IdRow, _WAS_THERE, {"user": user, "id": session}))


# The condition need not look at a session's parent: a session's `expires_at` and `ends_at` are never later than its parent's.
_LIVING: Final = """
    sessions.user_id = %(user)s and sessions.revoked_at is null and sessions.expires_at > %(now)s and sessions.ends_at > %(now)s
    and sessions.exchanged_from is null
"""

_COLUMNS: Final = f"""
    sessions.id, sessions.created_at, sessions.last_seen_at, least(sessions.expires_at, sessions.ends_at) as ends_at,
    devices.id as device, devices.name as device_name, devices.last_country as country, devices.last_city as city,
    organizations.name as organization, services.name as service, sessions.impersonator_id is not null as impersonated,
    sessions.id = any (array({LINE})) as opened_here,
    exists (select from browser_sessions where session_id = sessions.id and bound_to is not null) as is_bound
"""

_NAMES: Final = """
      left join devices on devices.id = sessions.device_id
      left join organizations on organizations.id = sessions.organization_id
      left join services on services.id = sessions.service_id
"""

# The statement counts all live sessions, and joins names only for the sessions of the page. A person has hundreds of sessions at most.
_LIST: Final[LiteralString] = f"""
    with living as (
             select sessions.*,
                    count(*) over () as total,
                    count(*) filter (where sessions.id <> all (array({LINE}))) over () as others
               from sessions
              where {_LIVING}
              order by sessions.id = %(but)s desc, sessions.last_seen_at desc, sessions.id desc
              limit %(limit)s offset %(offset)s
         )
  select {_COLUMNS}, sessions.total, sessions.others
    from living as sessions
    {_NAMES}
   order by sessions.id = %(but)s desc, sessions.last_seen_at desc, sessions.id desc
"""

_TREE: Final[LiteralString] = f"""
    with recursive ending as (
             select sessions.id from sessions where sessions.id = %(id)s and {_LIVING}
          union all
             select sessions.id from sessions join ending on sessions.parent_id = ending.id where {_LIVING}
         )
  select {_COLUMNS}
    from sessions
    {_NAMES}
   where sessions.id in (select id from ending)
   order by sessions.depth, sessions.last_seen_at desc, sessions.id
"""

_WAS_THERE: Final = "select id from sessions where id = %(id)s and user_id = %(user)s"


class PostgresPresence(OnPool):
    """Implements `ports.system.PresenceStore` for sessions.

    The times are written many at a time. A use of a session counts as a use of its parent sessions, too.
    """

    async def mark_seen(self, times: Mapping[SessionId, datetime]) -> None:
        await mark(self._pool, _MARK_SEEN, times, {"idle": IDLE_LIFETIME})


_MARK_SEEN: Final[LiteralString] = f"""
    with recursive line as (
             select sessions.id, sessions.parent_id, seen.at
               from unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) as seen (id, at)
               join sessions on sessions.id = seen.id
          union
             select sessions.id, sessions.parent_id, line.at
               from line
               join sessions on sessions.id = line.parent_id
         ),
         used as (
             select id, max(at) as at from line group by id
         ),
         due as (
             select sessions.id, used.at, browser_sessions.session_id is not null as is_browser
               from sessions
               join used on used.id = sessions.id
               left join browser_sessions on browser_sessions.session_id = sessions.id
              where sessions.last_seen_at < used.at
              order by sessions.id
                for no key update of sessions      -- in one order everywhere: two processes that mark the same sessions cannot deadlock
         )
  update sessions
     set last_seen_at = due.at,
         -- A browser has no refresh that would move its expiry.
         expires_at = case
             when due.is_browser then greatest(sessions.expires_at, least(due.at + {IDLE}, sessions.ends_at))
             else sessions.expires_at
         end
    from due
   where sessions.id = due.id
"""


class PostgresSessionReach(OnPool):
    """Implements `ports.identity.sessions.SessionReachLookup`."""

    async def reach(
        self,
        organization: OrganizationId,
        service: ServiceId | None,
        before: SessionLimits,
        after: SessionLimits,
        *,
        asker: SessionId | None,
    ) -> SessionReach:
        parameters = {
            "organization": organization,
            "service": service,
            "asker": asker,
            "hours": after.hours,
            "minutes_idle": after.minutes_idle,
            "most": after.most,
            "hours_before": before.hours,
            "minutes_idle_before": before.minutes_idle,
            "limit": MOST_ROWS_COUNTED,
        }
        return only(await ask(self._pool, SessionReach, _REACH, parameters))


_IS_OPEN: Final = "sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()"
_COUNTS: Final = "sessions.impersonator_id is null and sessions.exchanged_from is null"

# A sign-in is the session that the others were opened from. The limits are within, so that the statement reads no more rows than it counts.
_REACH: Final[LiteralString] = f"""
    with here as (
             select sessions.id, sessions.user_id, coalesce(sessions.parent_id, sessions.id) as sign_in, {_COUNTS} as counts,
                    coalesce(sessions.proved_at, sessions.created_at) as proved_at, sessions.last_seen_at
               from sessions
              where sessions.organization_id = %(organization)s
                and (%(service)s::uuid is null or sessions.service_id = %(service)s::uuid)
                and {_IS_OPEN}
              limit %(limit)s
         ),
         judged as (
             select here.*,
                    coalesce(proved_at + %(hours_before)s::int * interval '1 hour' > now(), true)
                and coalesce(last_seen_at + %(minutes_idle_before)s::int * interval '1 minute' > now(), true) as works,
                    coalesce(proved_at + %(hours)s::int * interval '1 hour' > now(), true)
                and coalesce(last_seen_at + %(minutes_idle)s::int * interval '1 minute' > now(), true) as would_work
               from here
         ),
         own as (
             select sessions.user_id, sessions.id
               from memberships
               join sessions on sessions.user_id = memberships.user_id
              where memberships.org_id = %(organization)s and {IS_OWN_MEMBERSHIP} and %(service)s::uuid is null
                and %(most)s::int is not null
                and sessions.organization_id is null and sessions.parent_id is null and {_IS_OPEN} and {_COUNTS}
              limit %(limit)s
         ),
         beyond as (
             select user_id from judged where would_work and counts group by user_id having count(distinct sign_in) > %(most)s::int
              union
             select user_id from own group by user_id having count(*) > %(most)s::int
         ),
         asker as (select sessions.user_id from sessions where sessions.id = %(asker)s::uuid)
  select (select count(*) from judged where works and not would_work)::int as outlasted_sessions,
         (select count(*) from beyond)::int as people_beyond,
         exists (select from judged join asker using (user_id) where works and not would_work)
      or exists (select from beyond join asker using (user_id)) as includes_you
"""


def _impersonable(
    *,
    joined_id: UUID | None,
    joined_slug: str | None,
    joined_is_active: bool | None,
    subscription: Mapping[str, Any] | None,
    tells_more: bool,
    **columns: Any,
) -> Impersonable:
    """The platform owner's proofs do not count for the new session: they gave these for their own account, not for the user's."""
    return Impersonable(
        ACCOUNT.taken(columns),
        None if joined_id is None else MembershipHeld(OrganizationId(joined_id), joined_slug or "", bool(joined_is_active)),
        service=destination_of(columns),
        opener=PARENT.found(**columns, proved=UNPROVED),
        subscription=subscription_state(subscription),
        tells_more=tells_more,
    )


class ImpersonationRows(OnTransaction):
    """Implements `ports.identity.sessions.ImpersonationStore` in one transaction."""

    async def find_user(
        self, user: UserId, organization_slug: str, service_slug: str, *, by: UserId, session: SessionId
    ) -> Impersonable | None:
        await self._transaction.tell(_HOLD, {"users": [user, by]})
        slugs = {"slug": storable_text(organization_slug), "service_slug": storable_text(service_slug)}
        parameters = {"user": user, **slugs, "by": by, "session": session}
        return first(await self._transaction.ask(_impersonable, _FIND_USER, parameters))

    async def add(self, impersonation: Impersonation) -> None:
        await self._transaction.tell(
            _IMPERSONATION_ADD,
            {
                "id": impersonation.id,
                "impersonator": impersonation.impersonator,
                "user": impersonation.user,
                "reason": storable_text(impersonation.reason),
                "session": impersonation.session,
                "created_at": impersonation.created_at,
                "expires_at": impersonation.expires_at,
            },
        )

    async def end_all(self, user: UserId) -> None:
        await self._transaction.tell(_END_ALL, {"user": user})


# A request that deactivates one of the two accounts, or ends the account's sessions, locks the account first. Either that request waits
# until the new session exists, and ends the new session, too, or we see the changes of that request. The locks are taken in the order of
# the ids, so that two platform owners who impersonate each other do not deadlock. The lock is a statement of its own, so that the next
# statement sees everything that was committed while the lock was awaited.
_HOLD: Final = "select from users where id = any(%(users)s) order by id for share"

# The lock on the service is the one that a foreign key takes: the service's rows stay until the session is there.
_FIND_USER: Final[LiteralString] = f"""
    with services as (
             select {DESTINATION}, services.id
               from service_users
               join services on services.id = service_users.service_id
               join organizations on organizations.id = services.org_id
              where service_users.user_id = %(user)s and organizations.slug = %(slug)s and services.slug = %(service_slug)s
                for key share
         )
    select {ACCOUNT.names},
           joined.id as joined_id, joined.slug as joined_slug, joined.status = 'active' as joined_is_active,
           services.service_id, services.service_slug, services.organization_id, services.organization_slug,
           services.organization_is_active, services.is_agent, services.binds_tokens,
           {SUBSCRIPTION_STATE} as subscription,
           {tells_more("services.id", "services.organization_id", "users.id")} as tells_more,
           {PARENT.names_in("opener")}
      from users
      left join sessions as opener on opener.id = %(session)s and opener.user_id = %(by)s and opener.revoked_at is null
                                  and opener.expires_at > now() and opener.ends_at > now()
      left join services on true
      left join (memberships join organizations as joined on joined.id = memberships.org_id and joined.slug = %(slug)s)
             on memberships.user_id = users.id
     where users.id = %(user)s
"""

_IMPERSONATION_ADD: Final = """
    insert into impersonations (id, impersonator_id, user_id, reason, session_id, created_at, expires_at)
    values (%(id)s, %(impersonator)s, %(user)s, %(reason)s, %(session)s, %(created_at)s, %(expires_at)s)
"""

_END_ALL: Final = revoking("user_id = %(user)s and impersonator_id is not null")

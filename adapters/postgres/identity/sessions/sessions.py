"""Sessions in PostgreSQL: the statements that open and end sessions."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.arrays import array, array_of_texts
from adapters.postgres.columns import Columns
from adapters.postgres.identity.accounts import ACCOUNT
from adapters.postgres.identity.sessions.audiences import kept_audiences
from adapters.postgres.identity.sessions.doors import door_parameters
from adapters.postgres.identity.sessions.liveness import SESSION_LIVES
from adapters.postgres.identity.sessions.renewed_proofs import RENEWED, proof_parameters
from adapters.postgres.identity.sessions.revoking import LINE, ending_codes, noticing, revoking
from adapters.postgres.rows import AnswerRow, IdRow
from adapters.postgres.statements import first, only
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from adapters.postgres.transaction import OnTransaction
from core.domain.identifiers import DeviceId, OrganizationId, SessionId, UserId
from core.domain.identity.browser_sessions import FrameAddress
from core.domain.identity.devices import located
from core.domain.identity.proofs import Proved
from core.domain.identity.session_limits import DisplacedPerson, Displacement
from core.domain.identity.sessions import Parent, Session, minutes_kept
from core.domain.identity.upstream.directory_visits import DirectoryFactor
from core.domain.identity.upstream.sign_in import FEDERATED
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.tokens import TokenAudience
from core.frozen import Frozen
from ports.identity.sessions import Opener

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
        impersonated = session.impersonated
        await self._transaction.tell_along(
            _ADD,
            {
                "id": session.id,
                "user": session.user,
                "device": session.device,
                "organization": session.context.organization,
                "service": session.context.service,
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
                "is_own": session.is_own,
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

# What ends a session without a use, and how many of its kind may be open. Outside organizations, the rules of own memberships bind: what
# merely lists a person says nothing about their own sessions. A session rests no longer than the one that it was opened from.
_RULES: Final[LiteralString] = f"""
               select least(
                          %(minutes_idle)s::integer,
                          case when %(is_own)s::boolean then own.minutes_idle end,
                          (select parents.minutes_idle from sessions as parents where parents.id = %(parent)s)
                      ) as minutes_idle,
                      case
                          when %(is_own)s::boolean then least(%(most)s::smallint, own.most)
                          when not %(is_impersonated)s::boolean
                          then (select most_sessions from organizations where organizations.id = %(organization)s)
                      end as most,
                      case
                          when not %(is_impersonated)s::boolean
                          then (select most_sessions from services where services.id = %(service)s)
                      end as most_in_service
                 from (
                          select min(organizations.session_idle_minutes) as minutes_idle, min(organizations.most_sessions) as most
                            from memberships
                            join organizations on organizations.id = memberships.org_id
                           where %(is_own)s::boolean and memberships.user_id = %(user)s and {IS_OWN_MEMBERSHIP}
                             and organizations.status = 'active'
                      ) as own
"""

# Who writes `expires_at` writes its day, too: otherwise a trigger does, at the price of a call. Where a number says how many there may be,
# a trigger ends the oldest.
_ADD: Final[LiteralString] = f"""
    insert into sessions (id, user_id, device_id, organization_id, service_id, created_at, last_seen_at, expires_at, ends_at,
                          authenticated_by, impersonator_id, impersonation_id, parent_id, depth, proved_at, second_factor_at, stated_at,
                          refuses_applications, scopes, opened_through, let_in_by, kept_out_by, expires_day, minutes_idle, most,
                          most_in_service, key_thumbprint)
    select %(id)s, %(user)s, %(device)s, %(organization)s, %(service)s, %(created_at)s, %(last_seen_at)s, until.expires_at, %(ends_at)s,
           %(authenticated_by)s::text[], %(impersonator)s, %(impersonation)s, %(parent)s, %(depth)s, %(proved_at)s, %(second_factor_at)s,
           %(stated_at)s, %(refuses_applications)s, %(scopes)s::text[], %(opened_through)s,
           %(let_in_by)s::uuid[], %(kept_out_by)s::uuid[],
           (until.expires_at at time zone 'UTC')::date, rules.minutes_idle, rules.most, rules.most_in_service, %(key)s
      from ({_RULES}) as rules
     cross join lateral (
               select least(%(expires_at)s, %(created_at)s + rules.minutes_idle * interval '1 minute') as expires_at
           ) as until
"""

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

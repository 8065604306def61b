"""The look-up of the caller in PostgreSQL, which every authenticated request makes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.columns import array, array_of_texts
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.accounts import AS_JSON, profile_of
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.factors.mfa import ACTING, OWES_SECOND_FACTOR, second_factor_due
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.parts import IS_LIVE, SAID_BY_HOOKS, hooks_against, is_kept_out, open_audiences, tells_more
from adapters.postgres.identity.terms import OWES_TERMS, terms_due, time_is_over
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import ask_in_order
from adapters.postgres.tenancy.roles import RELATIONS_OF_MEMBER
from adapters.postgres.ties import counts_for, is_listed
from core.domain.identifiers import BoundKeyId, DeviceId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.proofs import Proved
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.tenancy.members import OrganizationStanding
from core.domain.tenancy.sign_in_rules import session_lifetime
from core.frozen import replace

# Requests whose look-ups share a round trip also resume together, in one turn of the event loop. In this turn, a page takes a tenth of a
# millisecond, much longer than an answer of the API. So fewer look-ups of browsers share a round trip, and other requests wait less.
_MOST_BROWSERS: Final = 10

_Presented = tuple[SessionId, UserId]
_Visit = tuple[SessionId, UserId, str]
_ShownCookie = tuple[bytes, BoundKeyId | None]
_BrowserVisit = tuple[bytes, BoundKeyId | None, str]


class _Caller(NamedTuple):
    """`place` is the position of the question among the questions that shared the round trip, from 1."""

    place: int
    email: str
    is_platform_owner: bool
    device_id: UUID | None
    impersonator_id: UUID | None
    organization_id: UUID | None
    organization_slug: str | None
    organization_is_active: bool | None
    service_slug: str | None
    role: str | None
    email_is_verified: bool
    is_admitted: bool
    owes_terms: bool
    language: str | None
    told: list[Any] | None

    def caller(self, session: SessionId, user: UserId) -> Caller:
        return Caller(
            user=user,
            email=Email(self.email),
            session=session,
            is_platform_owner=self.is_platform_owner,
            organization=self.organization_slug or "",
            service=self.service_slug or "",
            impersonator=None if self.impersonator_id is None else UserId(self.impersonator_id),
            device=None if self.device_id is None else DeviceId(self.device_id),
            organization_id=None if self.organization_id is None else OrganizationId(self.organization_id),
            role=self.role or "",
            organization_is_active=self.organization_is_active or False,
            email_is_verified=self.email_is_verified,
            is_admitted=self.is_admitted,
            owes_terms=self.owes_terms,
            language=Language.of(self.language),
            profile=profile_of(self.told),
        )


class _Standing(NamedTuple):
    wanted_id: UUID | None
    wanted_is_active: bool | None
    wanted_role: str | None
    second_factor_due: datetime | None
    outlasted_hours: int | None
    is_kept_out: bool | None
    terms_due: datetime | None
    hooks_against: str | None
    relations: list[str]

    def standing(self, slug: str) -> OrganizationStanding | None:
        if self.wanted_id is None:
            return None
        return OrganizationStanding(
            OrganizationId(self.wanted_id),
            slug,
            bool(self.wanted_is_active),
            self.wanted_role or "",
            frozenset(self.relations),
            self.second_factor_due,
            session_lifetime(self.outlasted_hours),
            is_kept_out=bool(self.is_kept_out),
            terms_due=self.terms_due,
            is_unheard=self.hooks_against is not None,
        )


class _Browser(NamedTuple):
    session_id: UUID
    user_id: UUID
    authenticated_by: list[str]
    proved_at: datetime | None
    second_factor_at: datetime | None
    stated_at: datetime | None
    refuses_applications: bool
    chosen_slug: str | None
    is_listed: bool

    def of(self, row: _Caller) -> Caller:
        return replace(
            row.caller(SessionId(self.session_id), UserId(self.user_id)),
            authentication_methods=tuple(self.authenticated_by),
            proved=Proved(self.proved_at, self.second_factor_at, self.stated_at, self.refuses_applications),
            chosen_organization=self.chosen_slug or "",
            is_listed=self.is_listed,
        )


def _in_service(*columns: Any) -> tuple[_Caller, bool]:
    return _Caller(*columns[:-1]), columns[-1]


def _for_userinfo(*columns: Any) -> tuple[_Caller, bool, ServiceId | None, list[str] | None]:
    return _Caller(*columns[:-3]), *columns[-3:]


def _browser(*columns: Any) -> tuple[_Caller, _Browser]:
    return _Caller(*columns[: len(_Caller._fields)]), _Browser(*columns[len(_Caller._fields) :])


def _member(*columns: Any) -> tuple[_Caller, _Standing]:
    return _Caller(*columns[: len(_Caller._fields)]), _Standing(*columns[len(_Caller._fields) :])


def _browser_member(*columns: Any) -> tuple[_Caller, _Browser, _Standing, str]:
    row, browser = _browser(*columns[:BROWSER_COLUMNS])
    return row, browser, _Standing(*columns[BROWSER_COLUMNS:-1]), columns[-1]


class PostgresCallers:
    """Implements `ports.tenancy.members.CallerLookup`. Questions that come at once share a round trip."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._callers = SharedLookups(self._find)
        self._in_services = SharedLookups(self._find_in_services)
        self._for_userinfo = SharedLookups(self._find_for_userinfo)
        self._members = SharedLookups(self._find_members)
        self._browsers = SharedLookups(self._find_browsers, most=_MOST_BROWSERS)
        self._browser_members = SharedLookups(self._find_browser_members, most=_MOST_BROWSERS)

    async def find(self, session: SessionId, user: UserId) -> Caller | None:
        return await self._callers.find((session, user))

    async def find_in_service(self, session: SessionId, user: UserId) -> Caller | None:
        return await self._in_services.find((session, user))

    async def find_for_userinfo(self, session: SessionId, user: UserId) -> Caller | None:
        return await self._for_userinfo.find((session, user))

    async def find_member(self, session: SessionId, user: UserId, slug: str) -> tuple[Caller, OrganizationStanding | None] | None:
        return await self._members.find((session, user, slug))

    async def find_browser(self, digest: bytes, bound: BoundKeyId | None) -> Caller | None:
        return await self._browsers.find((digest, bound))

    async def find_browsers(self, asked: Sequence[bytes], bound: BoundKeyId | None) -> Mapping[bytes, Caller]:
        found = await self._find_browsers([(digest, bound) for digest in asked])
        return {digest: caller for (digest, _), caller in found.items()}

    async def find_browser_member(
        self, digest: bytes, slug: str, bound: BoundKeyId | None
    ) -> tuple[Caller, OrganizationStanding | None] | None:
        return await self._browser_members.find((digest, bound, slug))

    async def find_acting(self, digest: bytes, opener: bytes, bound: BoundKeyId | None) -> Caller | None:
        parameters = {**shown_cookies([(digest, bound)]), "openers": _digests([opener])}
        rows = await ask_in_order(self._pool, _browser, FIND_ACTING, parameters)
        return next((browser.of(row) for row, browser in rows), None)

    async def find_acting_member(
        self, digest: bytes, opener: bytes, slug: str, bound: BoundKeyId | None
    ) -> tuple[Caller, OrganizationStanding | None] | None:
        parameters = {**shown_cookies([(digest, bound)]), "openers": _digests([opener]), "slugs": array_of_texts([slug])}
        for row, browser, standing, name in await ask_in_order(self._pool, _browser_member, FIND_ACTING_MEMBER, parameters):
            stands = standing.standing(slug)
            return browser.of(row), None if stands is None else replace(stands, organization_name=name)
        return None

    async def _find(self, asked: Sequence[_Presented]) -> Mapping[_Presented, Caller]:
        found = {}
        for row in await ask_in_order(self._pool, _Caller, FIND, _presented(asked)):
            key = session, user = asked[row.place - 1]
            found[key] = row.caller(session, user)
        return found

    async def _find_in_services(self, asked: Sequence[_Presented]) -> Mapping[_Presented, Caller]:
        found = {}
        for row, owes_second_factor in await ask_in_order(self._pool, _in_service, FIND_IN_SERVICE, _presented(asked)):
            key = session, user = asked[row.place - 1]
            found[key] = replace(row.caller(session, user), owes_second_factor=owes_second_factor)
        return found

    async def _find_for_userinfo(self, asked: Sequence[_Presented]) -> Mapping[_Presented, Caller]:
        found = {}
        for row, owes_second_factor, facts_of, scopes in await ask_in_order(
            self._pool, _for_userinfo, FIND_FOR_USERINFO, _presented(asked)
        ):
            key = session, user = asked[row.place - 1]
            caller = row.caller(session, user)
            granted = None if scopes is None else tuple(scopes)
            found[key] = replace(caller, owes_second_factor=owes_second_factor, facts_of=facts_of, scopes=granted)
        return found

    async def _find_members(self, asked: Sequence[_Visit]) -> Mapping[_Visit, tuple[Caller, OrganizationStanding | None]]:
        parameters = {
            "sessions": array([session.hex for session, _, _ in asked]),
            "users": array([user.hex for _, user, _ in asked]),
            "slugs": array_of_texts([slug for _, _, slug in asked]),
        }
        found = {}
        for row, standing in await ask_in_order(self._pool, _member, FIND_MEMBER, parameters):
            key = session, user, slug = asked[row.place - 1]
            found[key] = (row.caller(session, user), standing.standing(slug))
        return found

    async def _find_browsers(self, asked: Sequence[_ShownCookie]) -> Mapping[_ShownCookie, Caller]:
        found = {}
        for row, browser in await ask_in_order(self._pool, _browser, FIND_BROWSER, shown_cookies(asked)):
            found[asked[row.place - 1]] = browser.of(row)
        return found

    async def _find_browser_members(
        self, asked: Sequence[_BrowserVisit]
    ) -> Mapping[_BrowserVisit, tuple[Caller, OrganizationStanding | None]]:
        cookies = shown_cookies([(digest, bound) for digest, bound, _ in asked])
        parameters = {**cookies, "slugs": array_of_texts([slug for _, _, slug in asked])}
        found = {}
        for row, browser, standing, name in await ask_in_order(self._pool, _browser_member, FIND_BROWSER_MEMBER, parameters):
            key = _, _, slug = asked[row.place - 1]
            stands = standing.standing(slug)
            found[key] = (browser.of(row), None if stands is None else replace(stands, organization_name=name))
        return found


def shown_cookies(asked: Iterable[_ShownCookie]) -> Mapping[str, Any]:
    """The parameters of `FIND_BROWSER`: the digest of each cookie, and the key that the browser has shown beside it."""
    asked = list(asked)
    bound = array(["NULL" if key is None else key.hex for _, key in asked])
    return {"digests": _digests(digest for digest, _ in asked), "bound": bound}


def _digests(asked: Iterable[bytes]) -> str:
    return array_of_texts([f"\\x{digest.hex()}" for digest in asked])


BROWSER_COLUMNS: Final = len(_Caller._fields) + len(_Browser._fields)


def browser_caller(columns: Sequence[Any]) -> Caller | None:
    """The caller in a row of `BROWSER`. None when all columns are null, because the statement found nobody."""
    if columns[0] is None:
        return None
    row, browser = _browser(*columns)
    return browser.of(row)


def _presented(asked: Sequence[_Presented]) -> Mapping[str, Any]:
    return {"sessions": array([session.hex for session, _ in asked]), "users": array([user.hex for _, user in asked])}


# The statement looks into each index once for each question, whether there is one question or a hundred. The planner plans a subquery
# with a limit separately, as a look-up of one given value. A plain join it may turn into reading a whole table, when that seems cheaper.
# Arrays come out of a subquery, because the planner then assumes the same length for every array: PostgreSQL keeps one plan for all
# lengths instead of planning each length again.
# What an agent has opens nothing of ours. What its service had before it became an agent, or stopped being one, has ended.
_IS_NO_AGENT: Final = "and not services.is_agent and coalesce(sessions.created_at >= services.agent_since, true)"
# A client that describes itself in a document comes in by the APIs that let it in, and is told nothing when none does any more.
_IS_LET_IN: Final[LiteralString] = f"""{_IS_NO_AGENT}
                   and case when services.service_type = 'metadata' then {open_audiences("sessions")} is not null else true end"""


def _its_person(of_membership: LiteralString = "", which_services: LiteralString = _IS_NO_AGENT) -> LiteralString:
    """To callers, a service that these do not describe is as one that is gone."""
    return f"""
     cross join lateral (select * from users where id = sessions.user_id limit 1) as users
      left join lateral (
                select organizations.id, organizations.slug, organizations.status, organizations.session_hours,
                       organizations.session_idle_minutes, organizations.asks_terms, memberships.role {of_membership}
                  from organizations
                  left join memberships on memberships.org_id = organizations.id and memberships.user_id = sessions.user_id
                        and {counts_for()}
                 where sessions.organization_id is not null and organizations.id = sessions.organization_id
                 limit 1
           ) as organizations on true
      left join lateral (
                select id, slug, org_id, sign_in_policy, is_agent, agent_since, session_lifetime_hours, session_idle_minutes
                  from services
                 where sessions.service_id is not null and services.id = sessions.service_id {which_services}
                 limit 1
           ) as services on true
"""


ITS_PERSON: Final[LiteralString] = _its_person()
# `owes_second_factor` decides about admission only in a service. `ITS_PERSON` leaves the column out, because PostgreSQL sets up every part
# of a statement, even a part that then reads no row.
ITS_PERSON_IN_SERVICE: Final[LiteralString] = _its_person(f", {OWES_SECOND_FACTOR} as owes_second_factor")
_ITS_PERSON_FOR_USERINFO: Final[LiteralString] = _its_person(f", {OWES_SECOND_FACTOR} as owes_second_factor", _IS_LET_IN)
# For those who ask about the sessions of applications.
ITS_PERSON_AND_AGENT: Final[LiteralString] = _its_person(f", {OWES_SECOND_FACTOR} or {OWES_TERMS} as owes_something", "")

_SESSION: Final = """
     cross join lateral (select * from sessions where id = asked.session and user_id = asked.person limit 1) as sessions
"""
_LIVE_SESSION: Final[LiteralString] = f"{_SESSION}{ITS_PERSON}"

# Whether the person of the session may go no further without accepting terms: in a service, its organization's or the installation's, and
# elsewhere, of platform owners, the installation's. A platform owner who acts in somebody's name goes on: nobody accepts for another.
_OWES_TERMS: Final[LiteralString] = time_is_over(
    f"""case
               when sessions.impersonator_id is not null then null
               when sessions.service_id is not null then {terms_due("sessions.user_id")}
               when users.is_platform_owner then terms_due(sessions.user_id, null)
           end"""
)

_CALLER: Final[LiteralString] = f"""
           asked.place, users.email, users.is_platform_owner, sessions.device_id, sessions.impersonator_id, sessions.organization_id,
           organizations.slug as organization_slug, organizations.status = 'active' as organization_is_active,
           services.slug as service_slug, organizations.role, {is_verified_for("organizations.id")},
           services.id is null or {admits("organizations.role is not null", "sessions.user_id")},
           {_OWES_TERMS},
           users.language, {AS_JSON}
"""

FIND: Final[LiteralString] = f"""
    select {_CALLER}
      from unnest((select %(sessions)s::uuid[]), (select %(users)s::uuid[])) with ordinality as asked (session, person, place)
           {_LIVE_SESSION}
     where {IS_LIVE}
"""

FIND_IN_SERVICE: Final[LiteralString] = f"""
    select {_CALLER}, coalesce(organizations.owes_second_factor, false)
      from unnest((select %(sessions)s::uuid[]), (select %(users)s::uuid[])) with ordinality as asked (session, person, place)
           {_SESSION}{ITS_PERSON_IN_SERVICE}
     where {IS_LIVE}
"""

FIND_FOR_USERINFO: Final[LiteralString] = f"""
    select {_CALLER}, coalesce(organizations.owes_second_factor, false),
           case when {tells_more("sessions.service_id", "sessions.organization_id", "sessions.user_id")} then sessions.service_id end,
           sessions.scopes
      from unnest((select %(sessions)s::uuid[]), (select %(users)s::uuid[])) with ordinality as asked (session, person, place)
           {_SESSION}{_ITS_PERSON_FOR_USERINFO}
     where {IS_LIVE}
       and {SAID_BY_HOOKS} is null
"""

# How the caller stands to the organization with the slug `asked.slug`.
_STANDING: Final[LiteralString] = f"""
           wanted.id as wanted_id, wanted.status = 'active' as wanted_is_active, wanted.role as wanted_role,
           wanted.second_factor_due, wanted.outlasted_hours, wanted.is_kept_out, wanted.terms_due, wanted.hooks_against,
           case when wanted.role is null then '{{}}'::text[] else {RELATIONS_OF_MEMBER} end as relations
"""
_WANTED: Final[LiteralString] = f"""
      left join lateral (
                select organizations.id, organizations.name, organizations.status, memberships.role,
                       {second_factor_due(ACTING, "sessions")} as second_factor_due,
                       case
                           when coalesce(sessions.proved_at, sessions.created_at) + organizations.session_hours * interval '1 hour' <= now()
                           then organizations.session_hours
                       end as outlasted_hours,
                       {is_kept_out()} as is_kept_out,
                       {hooks_against("organizations.id", "users.id")} as hooks_against,
                       case when sessions.impersonator_id is null then {terms_due("users.id")} end as terms_due
                  from organizations
                  left join memberships on memberships.org_id = organizations.id and memberships.user_id = users.id and {counts_for()}
                 where organizations.slug = asked.slug
                 limit 1
           ) as wanted on true
"""

FIND_MEMBER: Final[LiteralString] = f"""
    select {_CALLER}, {_STANDING}
      from unnest((select %(sessions)s::uuid[]), (select %(users)s::uuid[]), (select %(slugs)s::text[])) with ordinality
        as asked (session, person, slug, place)
           {_LIVE_SESSION}
{_WANTED}
     where {IS_LIVE}
"""

# A session that is bound to a key counts in the browser that has just proved the key, and nowhere else.
_IN_ITS_BROWSER: Final = "(bound_to is null or bound_to = asked.bound)"

# Finds the sessions that belong to cookies of browsers.
_BROWSER: Final[LiteralString] = f"""
           sessions.id as session_id, sessions.user_id, sessions.authenticated_by, sessions.proved_at, sessions.second_factor_at,
           sessions.stated_at, sessions.refuses_applications, chosen.slug as chosen_slug, {is_listed("sessions.user_id")} as is_listed
"""
_BROWSER_SESSION: Final[LiteralString] = f"""
     cross join lateral (
               select session_id, chosen_organization
                 from browser_sessions
                where digest = asked.digest and {_IN_ITS_BROWSER}
                limit 1
           ) as browsers
     cross join lateral (select * from sessions where id = browsers.session_id limit 1) as sessions
{ITS_PERSON}
      left join lateral (
                select mine.slug
                  from organizations as mine
                  join memberships on memberships.org_id = mine.id and memberships.user_id = sessions.user_id
                 where browsers.chosen_organization is not null and mine.id = browsers.chosen_organization
                 limit 1
           ) as chosen on true
"""

# A platform owner who acts in somebody's name has a cookie of its own for this. No other cookie finds such a session: flows would sign the
# platform owner in to applications in the person's name.
_OF_ITS_PERSON: Final[LiteralString] = "sessions.impersonator_id is null"
# The session counts only in the browser that also has the cookie of the session that it was opened from.
_OF_THIS_BROWSER: Final[LiteralString] = f"""
           sessions.impersonator_id is not null
       and exists (
               select from browser_sessions as openers
                where openers.digest = asked.opener and openers.session_id = sessions.parent_id and {_IN_ITS_BROWSER}
                offset 0
           )
"""

FIND_BROWSER: Final[LiteralString] = f"""
    select {_CALLER}, {_BROWSER}
      from unnest((select %(digests)s::bytea[]), (select %(bound)s::uuid[])) with ordinality as asked (digest, bound, place)
{_BROWSER_SESSION}
     where {IS_LIVE} and {_OF_ITS_PERSON}
"""

FIND_ACTING: Final[LiteralString] = f"""
    select {_CALLER}, {_BROWSER}
      from unnest((select %(digests)s::bytea[]), (select %(bound)s::uuid[]), (select %(openers)s::bytea[])) with ordinality
        as asked (digest, bound, opener, place)
{_BROWSER_SESSION}
     where {IS_LIVE} and {_OF_THIS_BROWSER}
"""

FIND_BROWSER_MEMBER: Final[LiteralString] = f"""
    select {_CALLER}, {_BROWSER}, {_STANDING}, coalesce(wanted.name, '')
      from unnest((select %(digests)s::bytea[]), (select %(bound)s::uuid[]), (select %(slugs)s::text[])) with ordinality
        as asked (digest, bound, slug, place)
{_BROWSER_SESSION}
{_WANTED}
     where {IS_LIVE} and {_OF_ITS_PERSON}
"""

FIND_ACTING_MEMBER: Final[LiteralString] = f"""
    select {_CALLER}, {_BROWSER}, {_STANDING}, coalesce(wanted.name, '')
      from unnest((select %(digests)s::bytea[]), (select %(bound)s::uuid[]), (select %(openers)s::bytea[]), (select %(slugs)s::text[]))
           with ordinality as asked (digest, bound, opener, slug, place)
{_BROWSER_SESSION}
{_WANTED}
     where {IS_LIVE} and {_OF_THIS_BROWSER}
"""

# `FIND_BROWSER` as the common table expression `browser`, for a statement that also reads other rows. `browser_caller` reads its columns.
BROWSER: Final[LiteralString] = f"""
         browser (place, email, is_platform_owner, device_id, impersonator_id, organization_id, organization_slug, organization_is_active,
                  service_slug, role, email_is_verified, is_admitted, owes_terms, language, told,
                  session_id, user_id, authenticated_by, proved_at, second_factor_at, stated_at, refuses_applications,
                  chosen_slug,
                  is_listed) as materialized ({FIND_BROWSER})
"""

"""Rules for risk in PostgreSQL: columns of the organization, as sign-in rules are, or the only row of the installation's, and the sign-ins
that reports judge.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import storable
from adapters.postgres.identity.proofs.login_events import LOGIN, risk_policies, spot_of
from adapters.postgres.statements import OnStatements, first
from adapters.postgres.tenancy.members import MOST_ADDRESSEES, owners
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from core.domain.identifiers import LoginEventId, OrganizationId, UserId, first_id
from core.domain.identity.devices import located
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.risk_policies.owner_mails import NoticedSignIn
from core.domain.identity.risk_policies.policies import (
    NO_ROLE,
    PLATFORM_OWNER_ROLE,
    RiskPolicies,
    kept_policy,
    restored_decision,
    stored_exception,
)
from core.domain.identity.risk_policies.shadow import PastPerson, PastSignIn
from core.domain.identity.sign_in import SESSION_PROVIDER
from core.domain.languages import Language
from core.domain.mail import Email
from core.frozen import Frozen
from ports.tenancy.organizations import MetSignIn
from ports.tenancy.receivers import Owner


class _Person(Frozen):
    user_id: UUID
    role: str | None
    is_own: bool
    teams: list[UUID]

    def person(self) -> PastPerson:
        return PastPerson(self.role or NO_ROLE, self.is_own, frozenset(self.teams))


class _Address(Frozen):
    id: UUID
    email: str


def _past(*, spot: list[int] | None, **columns: Any) -> PastSignIn:
    return PastSignIn(spot=spot_of(spot), **columns)


def _met(*, risk_score: float, email: str | None, decided: Mapping[str, Any], **login: Any) -> MetSignIn:
    return MetSignIn(LOGIN.row(risk_score=round(risk_score, 2), **login), email, restored_decision(decided))


def _id(*, id: UUID) -> UUID:  # noqa: A002 - the column's own name
    return id


def _owner(*, user: UUID, email: str, language: str | None) -> Owner:
    return Owner(UserId(user), Email(email), Language.of(language))


def _noticed(*, email: str, country: str | None, city: str | None, **columns: Any) -> NoticedSignIn:
    return NoticedSignIn(email=Email(email), location=located(country, city), **columns)


class RiskPolicyRows(OnStatements):
    """Implements `ports.tenancy.organizations.RiskPolicyStore`."""

    async def find(self, organization: OrganizationId | None) -> RiskPolicies | None:
        statement = _FIND_OF_INSTALLATION if organization is None else _FIND
        return first(await self._statements.ask(risk_policies, statement, {"id": organization}))

    async def lock_installation(self) -> None:
        await self._statements.tell(_HOLD_INSTALLATION, {})

    async def save(self, organization: OrganizationId | None, rules: RiskPolicies) -> None:
        parameters = {
            "id": organization,
            "policies": Jsonb(storable([kept_policy(one) for one in rules.policies])),
            "exceptions": Jsonb(storable([stored_exception(one) for one in rules.exceptions])),
            "count_since": rules.count_since,
        }
        await self._statements.tell(_SAVE_OF_INSTALLATION if organization is None else _SAVE, parameters)

    async def people(self, organization: OrganizationId | None) -> Mapping[UserId, PastPerson]:
        statement = _PLATFORM_OWNERS if organization is None else _PEOPLE
        rows = await self._statements.ask(_Person, statement, {"organization": organization, "role": PLATFORM_OWNER_ROLE})
        return {UserId(one.user_id): one.person() for one in rows}

    async def older(self, organization: OrganizationId | None, since: datetime, most: int) -> UUID | None:
        parameters = {"organization": organization, "first": first_id(since), "since": since, "most": most}
        return first(await self._statements.ask(_id, _OLDER[organization is None], parameters))

    async def sign_ins(self, organization: OrganizationId | None, since: datetime, after: UUID | None, limit: int) -> Sequence[PastSignIn]:
        parameters = {"organization": organization, "since": since, "after": after or first_id(since), "limit": limit}
        return await self._statements.ask(_past, _SIGN_INS[organization is None], parameters)

    async def addresses(self, users: Sequence[UserId]) -> Mapping[UserId, str]:
        rows = await self._statements.ask(_Address, _ADDRESSES, {"users": list(users)})
        return {UserId(one.id): one.email for one in rows}

    async def excepted(self, organization: OrganizationId, users: Sequence[UserId]) -> Mapping[UserId, str]:
        rows = await self._statements.ask(_Address, _EXCEPTED, {"organization": organization, "users": list(users)})
        return {UserId(one.id): one.email for one in rows}

    async def met(self, organization: OrganizationId | None, before: LoginEventId | None, limit: int) -> Sequence[MetSignIn]:
        parameters = {"organization": organization, "before": before, "limit": limit}
        return await self._statements.ask(_met, _MET[organization is None], parameters)

    async def noticed(self, login: LoginEventId) -> NoticedSignIn | None:
        return first(await self._statements.ask(_noticed, _NOTICED, {"login": login}))

    async def owners(self, organization: OrganizationId | None) -> Sequence[Owner]:
        if organization is None:
            return await self._statements.ask(_owner, _OWNERS_OF_INSTALLATION, {"most": MOST_ADDRESSEES})
        return await owners(self._statements, organization)


_FIND: Final = """
    select risk_policies as policies, risk_exceptions as exceptions, risk_counts_since as since from organizations where id = %(id)s
"""

_FIND_OF_INSTALLATION: Final = """
    select coalesce(policies, '[]') as policies, coalesce(exceptions, '[]') as exceptions, counts_since as since
      from (values (true)) as this (installation)
      left join installation_risk_policies on this.installation
"""

_HOLD_INSTALLATION: Final = "insert into installation_risk_policies default values on conflict (is_only) do update set is_only = true"

_SAVE_OF_INSTALLATION: Final = """
    update installation_risk_policies set policies = %(policies)s, exceptions = %(exceptions)s, counts_since = %(count_since)s
"""

_PLATFORM_OWNERS: Final = """
    select id as user_id, %(role)s::text as role, true as is_own, '{}'::uuid[] as teams from users where is_platform_owner
"""

_OWNERS_OF_INSTALLATION: Final = """
    select id as user, email, language from users where is_platform_owner and deactivated_at is null order by id limit %(most)s
"""

_SAVE: Final = """
    update organizations
       set risk_policies = %(policies)s, risk_exceptions = %(exceptions)s, risk_counts_since = %(count_since)s
     where id = %(id)s
"""

_PEOPLE: Final[LiteralString] = f"""
    select memberships.user_id, memberships.role, {IS_OWN_MEMBERSHIP} as is_own,
           array(
               select team_id
                 from team_members
                where team_members.org_id = memberships.org_id and team_members.user_id = memberships.user_id
           ) as teams
      from memberships
     where memberships.org_id = %(organization)s
"""

_OF_ORGANIZATION: Final = "organization_id = %(organization)s and "


_JUDGED: Final[LiteralString] = f"(success or reason = '{LoginFailure.REFUSED_BY_RULE.value}')"
# Whoever redeems a code has no browser at hand: a sign-in that its application logs so has neither address nor program.
_GOES_ON: Final[LiteralString] = f"(provider = '{SESSION_PROVIDER}' or address is null and user_agent is null)"


def _sign_ins(place: LiteralString) -> LiteralString:
    return f"""
    select id, user_id as user, created_at as at, provider, country, host(address) as address, device_id as device,
           'new_device' = any (risk_factors) as new_device, round(risk_score::numeric, 2)::float8 as score, service_id as service, spot,
           {_GOES_ON} as goes_on, not success as is_refused
      from login_events
     where {place}id > %(after)s and {_JUDGED} and user_id is not null and created_at >= %(since)s
     order by id
     limit %(limit)s
"""


def _older(place: LiteralString) -> LiteralString:
    return f"""
    select id
      from login_events
     where {place}id > %(first)s and {_JUDGED} and user_id is not null and created_at >= %(since)s
     order by id desc
    offset %(most)s
     limit 1
"""


# By whether they are of the installation.
_SIGN_INS: Final = {False: _sign_ins(_OF_ORGANIZATION), True: _sign_ins("")}
_OLDER: Final = {False: _older(_OF_ORGANIZATION), True: _older("")}

_ADDRESSES: Final = "select id, email from users where id = any (%(users)s)"

_EXCEPTED: Final = """
    select users.id, users.email
      from memberships
      join users on users.id = memberships.user_id
     where memberships.org_id = %(organization)s and memberships.user_id = any (%(users)s)
"""


def _decided(place: LiteralString) -> LiteralString:
    return f"""
    select {LOGIN.names}, host(address) as address, risk_score, latest.decided, people.email
      from (
               select risk_decisions.login_event_id, risk_decisions.decided
                 from risk_decisions
                where {place} and (%(before)s::uuid is null or risk_decisions.login_event_id < %(before)s)
                order by risk_decisions.login_event_id desc
                limit %(limit)s
           ) as latest
      join login_events on login_events.id = latest.login_event_id
      left join (select users.id as person, users.email from users) as people on people.person = login_events.user_id
     order by latest.login_event_id desc
"""


_MET: Final = {
    False: _decided("risk_decisions.organization_id = %(organization)s"),
    True: _decided("risk_decisions.organization_id is null"),
}

_NOTICED: Final = """
    select users.email, login_events.created_at as at, host(login_events.address) as address, login_events.user_agent,
           login_events.country, login_events.city
      from login_events
      join users on users.id = login_events.user_id and users.anonymized_at is null
     where login_events.id = %(login)s and login_events.success
"""

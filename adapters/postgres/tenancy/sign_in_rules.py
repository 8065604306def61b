"""The sign-in rules of organizations in PostgreSQL: columns of the organization, so that a statement that reads an
organization needs no join for them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres.identity.factors.mfa import ADMINISTERS, has_passkey, has_second_factor
from adapters.postgres.rows import AnswerRow
from adapters.postgres.statements import first_made, only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.passwords import BreachRule
from core.domain.identity.registering import RegistrationPolicy
from core.domain.outbound import MetadataClients, RegisteredClients
from core.domain.requests import MOST_ROWS_COUNTED
from core.domain.tenancy.sign_in_rules import AdminFactor, AgentRule, AllFactor, RulesAsked, SignInRules
from core.frozen import Frozen
from ports.tenancy.organizations import HeldRules, RulesReach


class _Rules(Frozen, kw_only=True):
    mfa_required_since: datetime | None
    mfa_grace_days: int
    device_trust_days: int
    session_hours: int | None
    session_idle_minutes: int | None
    most_sessions: int | None
    invitation_domains: list[str]
    sign_in_links: bool
    admin_factor: str | None
    admin_required_since: datetime | None
    all_factor: str | None
    all_factor_role: str | None
    all_required_since: datetime | None
    passkey_offers: bool
    metadata_clients: str
    metadata_hosts: list[str]
    registered_clients: str
    agents: str
    agents_since: datetime | None
    afar_since: datetime | None
    shortest_password: int | None
    breached_at_sign_in: str | None
    registration_policy: str
    registration_domains: list[str]

    def rules(self) -> SignInRules:
        return SignInRules(
            mfa_required_since=self.mfa_required_since,
            mfa_grace_days=self.mfa_grace_days,
            device_trust_days=self.device_trust_days,
            session_hours=self.session_hours,
            session_idle_minutes=self.session_idle_minutes,
            most_sessions=self.most_sessions,
            invitation_domains=tuple(self.invitation_domains),
            sign_in_links=self.sign_in_links,
            admin_factor=AdminFactor.OPTIONAL if self.admin_factor is None else AdminFactor(self.admin_factor),
            admin_required_since=self.admin_required_since,
            all_factor=AllFactor.OPTIONAL if self.all_factor is None else AllFactor(self.all_factor),
            all_factor_role=self.all_factor_role,
            all_required_since=self.all_required_since,
            passkey_offers=self.passkey_offers,
            metadata_clients=MetadataClients(self.metadata_clients),
            metadata_hosts=tuple(self.metadata_hosts),
            registered_clients=RegisteredClients(self.registered_clients),
            agents=AgentRule(self.agents),
            agents_since=self.agents_since,
            afar_since=self.afar_since,
            shortest_password=self.shortest_password,
            breached_at_sign_in=None if self.breached_at_sign_in is None else BreachRule(self.breached_at_sign_in),
            registration_policy=RegistrationPolicy(self.registration_policy),
            registration_domains=tuple(self.registration_domains),
        )


class _Held(_Rules, kw_only=True):
    has_second_factor: bool
    has_passkey: bool


class SignInRulesRows(OnStatements):
    """Implements `ports.tenancy.organizations.SignInRulesStore`."""

    async def find(self, organization: OrganizationId) -> SignInRules | None:
        return first_made(await self._statements.ask(_Rules, _GET, {"id": organization}), _Rules.rules)

    async def reach(self, organization: OrganizationId, asked: RulesAsked) -> RulesReach:
        parameters = {
            "id": organization,
            "factor": asked.factor,
            "domains": None if asked.domains is None else [storable_text(domain) for domain in asked.domains],
            "admin_factor": asked.admin_factor,
            "all_factor": asked.all_factor,
            **_role(asked.all_factor_role),
            "most": MOST_ROWS_COUNTED,
        }
        return only(await self._statements.ask(RulesReach, _REACH, parameters))

    async def knows_role(self, organization: OrganizationId, role: str) -> bool:
        return only(await self._statements.ask(AnswerRow, _KNOWS_ROLE, {"id": organization, **_role(role)})).yes

    async def get(self, organization: OrganizationId, user: UserId) -> HeldRules:
        (row,) = await self._statements.ask(_Held, _FIND_HELD, {"id": organization, "user": user})
        return HeldRules(row.rules(), row.has_second_factor, row.has_passkey)

    async def save(self, organization: OrganizationId, rules: SignInRules) -> None:
        parameters = {
            "id": organization,
            "mfa_required_since": rules.mfa_required_since,
            "mfa_grace_days": rules.mfa_grace_days,
            "device_trust_days": rules.device_trust_days,
            "session_hours": rules.session_hours,
            "session_idle_minutes": rules.session_idle_minutes,
            "most_sessions": rules.most_sessions,
            "invitation_domains": [storable_text(domain) for domain in rules.invitation_domains],
            "sign_in_links": rules.sign_in_links,
            "admin_factor": None if rules.admin_factor is AdminFactor.OPTIONAL else rules.admin_factor.value,
            "admin_required_since": rules.admin_required_since,
            "all_factor": None if rules.all_factor is AllFactor.OPTIONAL else rules.all_factor.value,
            **_role(rules.all_factor_role),
            "all_required_since": rules.all_required_since,
            "passkey_offers": rules.passkey_offers,
            "metadata_clients": rules.metadata_clients.value,
            "metadata_hosts": list(rules.metadata_hosts),
            "registered_clients": rules.registered_clients.value,
            "agents": rules.agents.value,
            "agents_since": rules.agents_since,
            "afar_since": rules.afar_since,
            "shortest_password": rules.shortest_password,
            "breached_at_sign_in": rules.breached_at_sign_in,
            "registration_policy": rules.registration_policy.value,
            "registration_domains": [storable_text(domain) for domain in rules.registration_domains],
        }
        await self._statements.tell(_SAVE, parameters)


def _role(role: str | None) -> Mapping[str, str | None]:
    service, _, slug = ("" if role is None else storable_text(role)).partition("/")
    return {"role_service": service or None, "role": slug or None}


# The id of the role of these slugs, in an organization's applications.
_ROLE: Final = """(
               select service_roles.id
                 from services
                 join service_roles on service_roles.service_id = services.id
                where services.org_id = %(id)s and services.slug = %(role_service)s and service_roles.slug = %(role)s
           )"""

_KNOWS_ROLE: Final[LiteralString] = f"select {_ROLE} is not null as yes"

_COLUMNS: Final = """
           mfa_required_since, mfa_grace_days, device_trust_days, session_hours, invitation_domains, sign_in_links, admin_factor,
           admin_required_since, metadata_clients, metadata_hosts, registered_clients, agents, agents_since, afar_since,
           shortest_password, breached_at_sign_in, session_idle_minutes, most_sessions,
           registration_policy, registration_domains, all_factor, all_required_since, passkey_offers, (
               select services.slug || '/' || service_roles.slug
                 from service_roles
                 join services on services.id = service_roles.service_id
                where service_roles.id = organizations.all_factor_role_id and services.org_id = organizations.id
           ) as all_factor_role"""

_FIND_HELD: Final[LiteralString] = f"""
    select {_COLUMNS},
           {has_second_factor("%(user)s")} as has_second_factor, {has_passkey("%(user)s")} as has_passkey
      from organizations
     where id = %(id)s
"""

_GET: Final[LiteralString] = f"select {_COLUMNS} from organizations where id = %(id)s"

_SAVE: Final[LiteralString] = f"""
    update organizations
       set mfa_required_since = %(mfa_required_since)s, mfa_grace_days = %(mfa_grace_days)s, device_trust_days = %(device_trust_days)s,
           session_hours = %(session_hours)s, invitation_domains = %(invitation_domains)s,
           sign_in_links = %(sign_in_links)s, admin_factor = %(admin_factor)s, admin_required_since = %(admin_required_since)s,
           metadata_clients = %(metadata_clients)s, metadata_hosts = %(metadata_hosts)s,
           registered_clients = %(registered_clients)s,
           agents = %(agents)s, agents_since = %(agents_since)s, afar_since = %(afar_since)s, shortest_password = %(shortest_password)s,
           breached_at_sign_in = %(breached_at_sign_in)s,
           session_idle_minutes = %(session_idle_minutes)s, most_sessions = %(most_sessions)s,
           registration_policy = %(registration_policy)s, registration_domains = %(registration_domains)s,
           all_factor = %(all_factor)s, all_factor_role_id = {_ROLE}, all_required_since = %(all_required_since)s,
           passkey_offers = %(passkey_offers)s
     where id = %(id)s
"""

# The limits are within, so that the statement reads no more rows than it may count.
_REACH: Final[LiteralString] = f"""
    select (select count(*)
              from (select user_id from memberships where org_id = %(id)s and %(factor)s limit %(most)s) as members
             where not {has_second_factor("members.user_id")})::int as without_second_factor,
           (select count(*)
              from (
                       select email_key
                         from invitations
                        where org_id = %(id)s and %(domains)s::text[] is not null and status = 'pending' and expires_at > now()
                        limit %(most)s
                   ) as pending
             where substring(pending.email_key from '[^@]*$') <> all (%(domains)s::text[]))::int as uninvitable,
           (select count(*)
              from (
                       select user_id
                         from memberships
                        where org_id = %(id)s and %(admin_factor)s::text is not null and {ADMINISTERS}
                        limit %(most)s
                   ) as administrators
             where not {has_second_factor("administrators.user_id")}
                or %(admin_factor)s::text = 'passkey' and not {has_passkey("administrators.user_id")}
           )::int as administrators_without,
           (select count(*)
              from (
                       select user_id from memberships where org_id = %(id)s and %(all_factor)s::text is not null limit %(most)s
                   ) as members
             where owes_passkey(%(all_factor)s::text, {_ROLE}, %(id)s, members.user_id, members.user_id)
           )::int as members_without
"""

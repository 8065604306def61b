"""The rules of registration of organizations, as the pages ask for them."""

from typing import Final

from adapters.postgres.statements import ask, first_made, only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import OrganizationId
from core.domain.identity.registering import RegistrationPolicy, RegistrationRule
from core.domain.mail import Email
from core.frozen import Frozen
from ports.identity.accounts import ArrivalAtRule


class _Rule(Frozen, kw_only=True):
    registration_policy: str
    registration_domains: list[str]

    def rule(self) -> RegistrationRule:
        return RegistrationRule(policy=RegistrationPolicy(self.registration_policy), domains=tuple(self.registration_domains))


class _Arrival(Frozen, kw_only=True):
    registration_policy: str | None
    registration_domains: list[str] | None
    invited: bool
    invited_here: bool

    def arrival(self) -> ArrivalAtRule:
        rule = None
        if self.registration_policy is not None and self.registration_domains is not None:
            rule = _Rule(registration_policy=self.registration_policy, registration_domains=self.registration_domains).rule()
        return ArrivalAtRule(rule=rule, invited=self.invited, invited_here=self.invited_here)


class PostgresRegistrationRules(OnPool):
    """Implements `ports.identity.accounts.RegistrationRules`."""

    async def find(self, organization: str) -> RegistrationRule | None:
        return first_made(await ask(self._pool, _Rule, _FIND, {"slug": storable_text(organization)}), _Rule.rule)

    async def of_arrival(self, organization: OrganizationId | None, email: Email) -> ArrivalAtRule:
        parameters = {"organization": organization, "email_key": storable_text(email.key)}
        return only(await ask(self._pool, _Arrival, _OF_ARRIVAL, parameters)).arrival()


_FIND: Final = "select registration_policy, registration_domains from organizations where slug = %(slug)s"

_OF_ARRIVAL: Final = """
    select organizations.registration_policy, organizations.registration_domains,
           count(invitations.org_id) > 0 as invited,
           count(invitations.org_id) filter (where invitations.org_id = wanted.id) > 0 as invited_here
      from (select %(organization)s::uuid as id) as wanted
      left join organizations on organizations.id = wanted.id
      left join (
               invitations
               join organizations as inviting on inviting.id = invitations.org_id and inviting.status = 'active'
           )
        on invitations.email_key = %(email_key)s and invitations.status = 'pending' and invitations.expires_at > now()
     group by wanted.id, organizations.registration_policy, organizations.registration_domains
"""

"""Everything that a preview of a token is made of, in one statement."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.facts import FACTS, FactsRow
from adapters.postgres.federation.saml.rows import CONFIGURATION, configuration
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.factors.mfa import grace_is_over, second_factor_due_in
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.profile_columns import PROFILE, profile
from adapters.postgres.identity.sessions.subscription_state import subscription_state
from adapters.postgres.identity.terms.demands import terms_due, time_is_over
from adapters.postgres.statements import ask_in_order, first
from adapters.postgres.storable import storable_text
from adapters.postgres.ties import IS_OWN_MEMBERSHIP, IS_OWN_USE
from core.domain.federation.oauth.authorization_steps import RequestingApplication
from core.domain.federation.oauth.authorizations import Registered
from core.domain.federation.token_preview import PreviewedPerson
from core.domain.identifiers import ClientId, OrganizationId, ServiceId, UserId
from core.domain.mail import Email
from core.domain.services.clients import shown
from core.domain.services.services import ServiceType, SignInPolicy


class _Previewed(NamedTuple):
    user_id: UUID
    email: str
    email_is_verified: bool
    is_platform_owner: bool
    is_deactivated: bool
    client_id: str
    service_id: UUID
    service_slug: str
    service_name: str
    service_type: str
    sign_in_policy: str
    trusted: bool
    is_agent: bool
    organization_id: UUID
    organization_slug: str
    organization_is_active: bool
    is_own_member: bool
    is_own_user: bool
    is_admitted: bool
    owes_second_factor: bool
    owes_terms: bool
    consented: list[str] | None
    saml_entity_id: str | None
    saml_scopes: list[str] | None
    profile: Mapping[str, Any] | None
    configuration: str | None

    def person(self, facts: FactsRow) -> PreviewedPerson:
        service_type = ServiceType(self.service_type)
        return PreviewedPerson(
            application=RequestingApplication(
                service=ServiceId(self.service_id),
                organization=OrganizationId(self.organization_id),
                organization_slug=self.organization_slug,
                organization_name=facts.organization_name,
                organization_is_active=self.organization_is_active,
                slug=self.service_slug,
                name=self.service_name,
                # A preview redirects nobody and authenticates nobody.
                registered=Registered(
                    ClientId(self.client_id),
                    (),
                    is_native=not service_type.is_confidential,
                    authenticates=False,
                    may_be_public=service_type.may_be_public,
                ),
                sign_in_policy=SignInPolicy(self.sign_in_policy),
                trusted=self.trusted,
                is_agent=self.is_agent,
            ),
            client=shown(ClientId(self.client_id)),
            user=UserId(self.user_id),
            email=Email(self.email),
            email_is_verified=self.email_is_verified,
            is_platform_owner=self.is_platform_owner,
            is_deactivated=self.is_deactivated,
            is_own_member=self.is_own_member,
            is_own_user=self.is_own_user,
            is_admitted=self.is_admitted,
            owes_second_factor=self.owes_second_factor,
            owes_terms=self.owes_terms,
            consented=self.consented,
            profile=profile(self.profile),
            facts=facts.facts(),
            subscription=subscription_state(facts.subscription),
            configuration=configuration(self.configuration),
            saml_allowed=self.saml_entity_id,
            saml_scopes=self.saml_scopes or (),
        )


def _previewed(*columns: Any) -> PreviewedPerson:
    own = len(_Previewed._fields)
    return _Previewed(*columns[:own]).person(FactsRow(*columns[own:]))


class PostgresTokenPreviews:
    """Implements `ports.federation.oauth.PreviewLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, organization: OrganizationId, service_slug: str, user: UserId) -> PreviewedPerson | None:
        parameters = {"organization": organization, "service": storable_text(service_slug), "user": user}
        return first(await ask_in_order(self._pool, _previewed, _FIND, parameters))

    async def find_all(self, organization: OrganizationId, user: UserId, limit: int) -> Sequence[PreviewedPerson]:
        parameters = {"organization": organization, "user": user, "limit": limit}
        return await ask_in_order(self._pool, _previewed, _FIND_ALL, parameters)

    async def find_named(self, organization_slug: str, service_slug: str, email: Email) -> PreviewedPerson | None:
        parameters = {"organization": storable_text(organization_slug), "service": storable_text(service_slug), "email_key": email.key}
        return first(await ask_in_order(self._pool, _previewed, _FIND_NAMED, parameters))


# The columns of `_Previewed`, and then those of `FactsRow`. People without a tie to the service or its organization are not found.
_PREVIEWED: Final[LiteralString] = f"""
    select users.id, users.email, {is_verified_for("services.org_id")}, users.is_platform_owner, users.deactivated_at is not null,
           services.oauth_client_id as client_id, services.id, services.slug, services.name, services.service_type,
           services.sign_in_policy, services.trusted, services.is_agent, organizations.id, organizations.slug,
           organizations.status = 'active',
           coalesce({IS_OWN_MEMBERSHIP}, false),
           coalesce({IS_OWN_USE}, false),
           {admits("memberships.role is not null", "users.id")},
           {grace_is_over(second_factor_due_in("services.org_id", "users.id"))},
           {time_is_over(terms_due("users.id"))},
           consents.scopes, consents.saml_entity_id, consents.saml_scopes,
           {PROFILE},
           {CONFIGURATION},
           {FACTS}
      from services
      join organizations on organizations.id = services.org_id
     cross join users
      left join memberships on memberships.org_id = services.org_id and memberships.user_id = users.id
      left join service_users on service_users.service_id = services.id and service_users.user_id = users.id
      left join consents on consents.service_id = services.id and consents.user_id = users.id
      left join saml_configurations as saml on saml.service_id = services.id
     where (memberships.user_id is not null or service_users.user_id is not null)
"""

_FIND: Final[LiteralString] = f"""
    {_PREVIEWED}
       and services.org_id = %(organization)s and services.slug = %(service)s and users.id = %(user)s
"""

_FIND_ALL: Final[LiteralString] = f"""
    {_PREVIEWED}
       and services.org_id = %(organization)s and users.id = %(user)s
     order by services.name, services.id
     limit %(limit)s
"""

_FIND_NAMED: Final[LiteralString] = f"""
    {_PREVIEWED}
       and organizations.slug = %(organization)s and services.slug = %(service)s and users.email_key = %(email_key)s
"""

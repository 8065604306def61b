"""Services: the applications of organizations, their plans and users, and the API keys of their own servers."""

from actors.billing import BillingTurns
from actors.foundation import Mailbox
from actors.recorders import PresenceWriter
from adapters.limits import FairTurns
from adapters.postgres.identity.sessions.sessions import PostgresSessionReach
from adapters.postgres.services.api_keys import API_KEYS, PostgresApiKeys
from adapters.postgres.services.billing import PostgresBillingInbox
from adapters.postgres.services.service_roles import RightsRows
from adapters.postgres.services.services import PostgresServiceAnalytics, PostgresServiceRegister
from adapters.postgres.services.user_keys import USER_KEYS, PostgresUserKeys
from adapters.postgres.statements import Statements
from adapters.postgres.tenancy.management_keys import PostgresKeyUse
from core.domain.identifiers import ApiKeyId, UserKeyId
from core.domain.services.billing_news import BILLING_TOPIC
from core.frozen import Frozen
from core.usecases.services.api_keys import ApiKeys, ClientSecrets
from core.usecases.services.billing import Billing
from core.usecases.services.billing_checkouts import Checkouts
from core.usecases.services.billing_reconciliation import BillingReconciliation
from core.usecases.services.plans import Plans, Subscriptions
from core.usecases.services.proxies import ServiceProxies
from core.usecases.services.resource_servers import ResourceApprovals, ResourceServers
from core.usecases.services.service_claims import ServiceClaims
from core.usecases.services.service_info import PeoplesRights, ServiceAnalysis, ServiceInfo
from core.usecases.services.service_roles import Assignments, ServicePermissions, ServiceRoles
from core.usecases.services.service_users import EndUsers, ServiceUsers
from core.usecases.services.services import KeptClientIds, MadeByKeys, OrganizationServices, RegisteredServices
from core.usecases.services.user_keys import UserKeys
from core.usecases.tenancy.domains import DomainProofs
from core.usecases.tenancy.ownerships import Ownerships
from core.usecases.tenancy.profile_fields import ProfileValues
from entrypoints.assembly.accounts import account_locks
from entrypoints.assembly.configured import payment_provider, receiving
from entrypoints.assembly.foundation import Foundation
from entrypoints.settings import Settings
from ports.services.billing import BillingInbox, PaymentProvider


class Services(Frozen, kw_only=True):
    services: OrganizationServices
    registered_services: RegisteredServices
    kept_client_ids: KeptClientIds
    assignments: Assignments
    client_secrets: ClientSecrets
    permissions: ServicePermissions
    resource_servers: ResourceServers
    resource_approvals: ResourceApprovals
    rights: PeoplesRights
    service_roles: ServiceRoles
    api_keys: ApiKeys
    key_presence: PresenceWriter[ApiKeyId]
    user_keys: UserKeys
    user_key_presence: PresenceWriter[UserKeyId]
    made_by_keys: MadeByKeys
    service_claims: ServiceClaims
    plans: Plans
    proxies: ServiceProxies
    subscriptions: Subscriptions
    payment_provider: PaymentProvider | None
    billing_inbox: BillingInbox
    billing: Billing
    billing_mailbox: Mailbox
    billing_turns: BillingTurns
    billing_reconciliation: BillingReconciliation
    checkouts: Checkouts
    service_users: ServiceUsers
    service_info: ServiceInfo
    service_analytics: ServiceAnalysis
    end_users: EndUsers


def assemble_services(settings: Settings, foundation: Foundation, ownerships: Ownerships, proofs: DomainProofs) -> Services:
    new_unit_of_work, pool, stores = foundation.unit_of_work, foundation.pool, foundation.stores
    system, clock = foundation.system, foundation.clock
    key_presence: PresenceWriter[ApiKeyId] = PresenceWriter(
        PostgresKeyUse(pool, API_KEYS), foundation.metrics, spread=foundation.secrets.spread, name="key_presence"
    )
    user_key_presence: PresenceWriter[UserKeyId] = PresenceWriter(
        PostgresKeyUse(pool, USER_KEYS), foundation.metrics, spread=foundation.secrets.spread, name="user_key_presence"
    )
    provider, inbox = payment_provider(settings, foundation.operators_outbound), PostgresBillingInbox(pool)
    billing = Billing(
        new_unit_of_work,
        inbox,
        receiving(settings),
        templates=foundation.mail_templates,
        metrics=foundation.metrics,
        system=system,
    )
    billing_mailbox = Mailbox.rung_by(foundation.doorbell, BILLING_TOPIC)
    return Services(
        services=OrganizationServices(
            new_unit_of_work, stores.services, PostgresSessionReach(pool), foundation.outbound, foundation.key_sets, system=system
        ),
        registered_services=RegisteredServices(PostgresServiceRegister(pool)),
        kept_client_ids=KeptClientIds(new_unit_of_work, system.clock),
        assignments=Assignments(new_unit_of_work, stores.assignments, system),
        permissions=ServicePermissions(new_unit_of_work, stores.permissions, system),
        resource_servers=ResourceServers(new_unit_of_work, stores.resource_servers, proofs, system),
        resource_approvals=ResourceApprovals(new_unit_of_work, stores.resource_servers, system),
        rights=PeoplesRights(RightsRows(Statements(pool))),
        service_roles=ServiceRoles(new_unit_of_work, stores.service_roles, system),
        client_secrets=ClientSecrets(new_unit_of_work, stores.client_secrets, system),
        api_keys=ApiKeys(new_unit_of_work, PostgresApiKeys(pool), stores.user_keys, key_presence, system=system),
        key_presence=key_presence,
        user_keys=UserKeys(
            new_unit_of_work,
            stores.user_keys,
            PostgresUserKeys(pool),
            api_key_presence=key_presence,
            presence=user_key_presence,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            system=system,
        ),
        user_key_presence=user_key_presence,
        made_by_keys=MadeByKeys(new_unit_of_work, foundation.clock),
        service_claims=ServiceClaims(new_unit_of_work, stores.service_claims, system),
        plans=Plans(new_unit_of_work, stores.plans, system),
        proxies=ServiceProxies(new_unit_of_work, stores.proxies, system),
        subscriptions=Subscriptions(new_unit_of_work, stores.subscriptions, system),
        payment_provider=provider,
        billing_inbox=inbox,
        billing=billing,
        billing_mailbox=billing_mailbox,
        billing_turns=BillingTurns(billing, billing_mailbox),
        billing_reconciliation=BillingReconciliation(billing, inbox, provider, clock=clock, metrics=foundation.metrics),
        checkouts=Checkouts(new_unit_of_work, provider, (settings.public_url, settings.public_frontend_url), system=system),
        service_users=ServiceUsers(
            new_unit_of_work,
            stores.service_users,
            buckets=foundation.shared_buckets,
            templates=foundation.mail_templates,
            values=ProfileValues(new_unit_of_work, stores.profile_values, clock),
            ownerships=ownerships,
            system=system,
        ),
        service_info=ServiceInfo(new_unit_of_work, stores.services, clock),
        service_analytics=ServiceAnalysis(PostgresServiceAnalytics(pool), clock),
        end_users=EndUsers(new_unit_of_work, stores.end_users, account_locks(foundation), FairTurns(), clock),
    )

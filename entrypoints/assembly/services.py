"""Services: the applications of organizations, their plans and users, and the API keys of their own servers."""

from collections.abc import Mapping
from typing import Final

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
from entrypoints.assembly.by_name import PartsByName, assembled
from entrypoints.assembly.configured import payment_provider, receiving
from entrypoints.assembly.foundation import Foundation, shared_parts
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


# Members that others take by another name.
_ALSO_CALLED: Final = {"api_key_presence": "key_presence", "inbox": "billing_inbox", "provider": "payment_provider"}


def assemble_services(settings: Settings, foundation: Foundation, ownerships: Ownerships, proofs: DomainProofs) -> Services:
    """`own` is the table of what one use case takes; what it does not say is in `shared_parts`, a store, or another member."""
    pool, stores, clock = foundation.pool, foundation.stores, foundation.clock
    key_presence: PresenceWriter[ApiKeyId] = PresenceWriter(
        PostgresKeyUse(pool, API_KEYS), foundation.metrics, spread=foundation.secrets.spread, name="key_presence"
    )
    user_key_presence: PresenceWriter[UserKeyId] = PresenceWriter(
        PostgresKeyUse(pool, USER_KEYS), foundation.metrics, spread=foundation.secrets.spread, name="user_key_presence"
    )
    inbox, mailbox = PostgresBillingInbox(pool), Mailbox.rung_by(foundation.doorbell, BILLING_TOPIC)
    billing = Billing(
        foundation.unit_of_work,
        inbox,
        receiving(settings),
        templates=foundation.mail_templates,
        metrics=foundation.metrics,
        system=foundation.system,
    )
    made: Mapping[str, object] = {
        "key_presence": key_presence,
        "user_key_presence": user_key_presence,
        "payment_provider": payment_provider(settings, foundation.operators_outbound),
        "billing_inbox": inbox,
        "billing": billing,
        "billing_mailbox": mailbox,
        "billing_turns": BillingTurns(billing, mailbox),
    }
    own: Mapping[str, PartsByName] = {
        "services": {"session_reach": PostgresSessionReach(pool), "key_sets": foundation.key_sets},
        "registered_services": {"register": PostgresServiceRegister(pool)},
        "resource_servers": {"proofs": proofs},
        "resource_approvals": {"lookup": stores.resource_servers},
        "rights": {"lookup": RightsRows(Statements(pool))},
        "api_keys": {"lookup": PostgresApiKeys(pool), "user_keys": stores.user_keys, "presence": key_presence},
        "user_keys": {"checks": PostgresUserKeys(pool), "presence": user_key_presence},
        "checkouts": {"pages": (settings.public_url, settings.public_frontend_url)},
        "service_users": {
            "values": ProfileValues(foundation.unit_of_work, stores.profile_values, clock),
            "ownerships": ownerships,
        },
        "service_info": {"lookup": stores.services},
        "service_analytics": {"lookup": PostgresServiceAnalytics(pool)},
        "end_users": {"locks": account_locks(foundation), "turns": FairTurns()},
    }
    return assembled(Services, stores, shared_parts(settings, foundation), own, made=made, also_called=_ALSO_CALLED)

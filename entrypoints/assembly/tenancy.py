"""Tenancy: organizations, their members, and what each member may do."""

from dataclasses import dataclass

from adapters.postgres.tenancy.callers import PostgresCallers
from adapters.postgres.tenancy.invitations import PostgresInvitations
from adapters.postgres.tenancy.members import PostgresMembers
from adapters.postgres.tenancy.organizations import PostgresOrganizations
from adapters.postgres.tenancy.relations import PostgresRelations
from adapters.postgres.tenancy.roles import PostgresRoles
from adapters.postgres.tenancy.sign_in_rules import PostgresSignInRules
from adapters.postgres.tenancy.webhook_deliveries import PostgresWebhookDeliveries
from adapters.postgres.tenancy.webhook_queue import PostgresWebhookQueue
from adapters.postgres.tenancy.webhooks import PostgresWebhooks
from core.usecases.tenancy.access import Access
from core.usecases.tenancy.callers import Callers
from core.usecases.tenancy.invitations import Invitations
from core.usecases.tenancy.members import Members
from core.usecases.tenancy.organizations import Organizations
from core.usecases.tenancy.roles import Roles
from core.usecases.tenancy.sign_in_rules import OrganizationSignInRules
from core.usecases.tenancy.webhook_deliveries import WebhookDeliveries
from core.usecases.tenancy.webhooks import Webhooks
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.identity import Identity
from entrypoints.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    callers: Callers
    organizations: Organizations
    members: Members
    invitations: Invitations
    roles: Roles
    sign_in_rules: OrganizationSignInRules
    access: Access
    webhooks: Webhooks
    webhook_deliveries: WebhookDeliveries


def assemble_tenancy(settings: Settings, foundation: Foundation, identity: Identity) -> Tenancy:
    new_unit_of_work, pool = foundation.unit_of_work, foundation.pool
    clock, ids, sessions = foundation.clock, foundation.ids, identity.sessions
    return Tenancy(
        callers=Callers(foundation.token_verifier, PostgresCallers(pool), identity.presence, clock),
        organizations=Organizations(
            new_unit_of_work, PostgresOrganizations(pool), sessions, auto_approve=settings.org_auto_approve, clock=clock, ids=ids
        ),
        members=Members(new_unit_of_work, PostgresMembers(pool), sessions, clock),
        invitations=Invitations(
            new_unit_of_work,
            PostgresInvitations(pool),
            accounts=identity.accounts,
            templates=foundation.mail_templates,
            links=foundation.links,
            server_secrets=foundation.server_secrets,
            clock=clock,
            ids=ids,
            secrets=foundation.secrets,
        ),
        roles=Roles(new_unit_of_work, PostgresRoles(pool), clock, ids),
        sign_in_rules=OrganizationSignInRules(new_unit_of_work, PostgresSignInRules(pool), foundation.email_syntax, clock),
        access=Access(PostgresRelations(pool)),
        webhooks=Webhooks(
            new_unit_of_work,
            PostgresWebhooks(pool),
            foundation.outbound,
            foundation.keyring,
            clock=clock,
            ids=ids,
            secrets=foundation.secrets,
        ),
        webhook_deliveries=WebhookDeliveries(
            new_unit_of_work,
            PostgresWebhookDeliveries(pool),
            PostgresWebhookQueue(pool),
            foundation.outbound,
            keyring=foundation.keyring,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            clock=clock,
            spread=foundation.secrets.spread,
        ),
    )

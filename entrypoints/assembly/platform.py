"""The platform: platform owners govern organizations and help people with their accounts."""

from collections.abc import Sequence

from adapters.limits import FairTurns
from adapters.postgres.federation.directory_runs import DIRECTORY_STEPS_COUNTED
from adapters.postgres.identity.proofs.login_events import PostgresSuspiciousActivity
from adapters.postgres.identity.sessions.sessions import PostgresOwnSessions
from adapters.postgres.platform.analytics import PostgresAnalytics, PostgresLoginCounter
from adapters.postgres.platform.configuration import PostgresConfigurations, PostgresManagedMarks
from adapters.postgres.platform.gauges import PostgresGauges
from adapters.postgres.platform.governance import PostgresInstallation, PostgresOrganizationRegister, PostgresStorageSamples
from adapters.postgres.platform.platform_users import PostgresAccountOverviews, PostgresUserDirectory
from adapters.postgres.platform.todos import PostgresExpiries, PostgresFrames, PostgresThings, PostgresTodos
from adapters.postgres.tenancy.organizations import PostgresTiers
from adapters.postgres.upkeep.housekeeping import partitions
from adapters.upstream.presets import ShippedPresets
from core.domain.identity.upstream.providers import Provider
from core.domain.platform.imports.decisions import KnownProvider
from core.frozen import Frozen
from core.usecases.platform.account_administration import AccountAdministration, PlatformUsers
from core.usecases.platform.analytics import Analytics, Installation
from core.usecases.platform.configurations import Configurations, Proposals
from core.usecases.platform.further_providers import FurtherProviders
from core.usecases.platform.governance import Governance, TextApprovals
from core.usecases.platform.imports import Imports
from core.usecases.platform.platform_owners import PlatformOwners
from core.usecases.platform.searches import Searches
from core.usecases.platform.todos import Expiries, Frames, OpenTodos
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.identity import Identity
from entrypoints.settings import Settings
from ports.database import Partitions
from ports.platform import GaugeReader, LoginCounter, StorageSamples


class Platform(Frozen, kw_only=True):
    months: Sequence[Partitions]
    """The tables that are cut by month."""
    imports: Imports
    governance: Governance
    platform_users: PlatformUsers
    platform_owners: PlatformOwners
    account_administration: AccountAdministration
    analytics: Analytics
    login_counter: LoginCounter
    storage: StorageSamples
    gauges: GaugeReader
    todos: OpenTodos
    frames: Frames
    expiries: Expiries
    searches: Searches
    installation: Installation
    configurations: Configurations
    further_providers: FurtherProviders
    proposals: Proposals
    text_approvals: TextApprovals


def assemble_platform(settings: Settings, foundation: Foundation, identity: Identity) -> Platform:
    new_unit_of_work, pool, system, clock = foundation.unit_of_work, foundation.pool, foundation.system, foundation.clock
    searches_of_platform = FairTurns()
    return Platform(
        months=partitions(
            pool,
            clock,
            login_event_retention=settings.login_event_retention,
            delivery_retention=settings.delivery_retention,
            event_retention=settings.event_retention,
        ),
        imports=Imports(
            unit_of_work=new_unit_of_work,
            lookup=foundation.stores.imports,
            server_secrets=foundation.server_secrets,
            passwords=identity.passwords,
            authenticators=identity.passkeys.authenticators,
            keyring=foundation.keyring,
            email_syntax=foundation.email_syntax,
            relying_party=identity.passkeys.relying_party,
            providers=[
                KnownProvider(Provider.CODEHOST.value, settings.codehost_issuer, "", is_shared=True),
                KnownProvider(Provider.WEBSUITE.value, settings.websuite_issuer, "", is_shared=True),
            ],
            system=system,
        ),
        governance=Governance(new_unit_of_work, PostgresOrganizationRegister(pool), PostgresTiers(pool), clock),
        platform_users=PlatformUsers(
            PostgresUserDirectory(pool), PostgresSuspiciousActivity(pool), identity.mfa, searches_of_platform, clock
        ),
        platform_owners=PlatformOwners(new_unit_of_work, identity.passwords, identity.account_passwords.rules, system),
        account_administration=AccountAdministration(
            unit_of_work=new_unit_of_work,
            overviews=PostgresAccountOverviews(pool),
            session_lookup=PostgresOwnSessions(pool),
            mfa=identity.mfa,
            locks=identity.account_locks,
            realms=identity.realms,
            templates=foundation.mail_templates,
            links=foundation.links,
            system=system,
        ),
        analytics=Analytics(PostgresAnalytics(pool), FairTurns(), clock),
        login_counter=PostgresLoginCounter(pool),
        storage=PostgresStorageSamples(pool),
        gauges=PostgresGauges(pool, DIRECTORY_STEPS_COUNTED),
        text_approvals=TextApprovals(new_unit_of_work, foundation.stores.text_approvals, foundation.shipped_words, foundation.metrics),
        todos=OpenTodos(PostgresTodos(pool), clock),
        frames=Frames(PostgresFrames(pool), clock),
        expiries=Expiries(PostgresExpiries(pool), clock),
        searches=Searches(PostgresThings(pool), searches_of_platform),
        installation=Installation(PostgresInstallation(pool)),
        configurations=Configurations(PostgresConfigurations(pool), PostgresManagedMarks(pool), new_unit_of_work, clock),
        further_providers=FurtherProviders(
            new_unit_of_work,
            foundation.stores.further_providers,
            ShippedPresets(),
            foundation.upstreams,
            identity.further_offers,
            foundation.keyring,
            system,
        ),
        proposals=Proposals(new_unit_of_work, foundation.stores.proposals, foundation.keyring, system),
    )

"""The platform: platform owners govern organizations and help people with their accounts."""

from collections.abc import Mapping, Sequence

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
from entrypoints.assembly.by_name import PartsByName, assembled
from entrypoints.assembly.foundation import Foundation, shared_parts
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
    """`own` is the table of what one use case takes; what it does not say is in `shared_parts`, or a store."""
    pool, searches_of_platform = foundation.pool, FairTurns()
    made: Mapping[str, object] = {
        "months": partitions(
            pool,
            foundation.clock,
            login_event_retention=settings.login_event_retention,
            delivery_retention=settings.delivery_retention,
            event_retention=settings.event_retention,
        ),
        "login_counter": PostgresLoginCounter(pool),
        "storage": PostgresStorageSamples(pool),
        "gauges": PostgresGauges(pool, DIRECTORY_STEPS_COUNTED),
    }
    own: Mapping[str, PartsByName] = {
        "imports": {
            "passwords": identity.passwords,
            "authenticators": identity.passkeys.authenticators,
            "email_syntax": foundation.email_syntax,
            "relying_party": identity.passkeys.relying_party,
            "providers": [
                KnownProvider(Provider.CODEHOST.value, settings.codehost_issuer, "", is_shared=True),
                KnownProvider(Provider.WEBSUITE.value, settings.websuite_issuer, "", is_shared=True),
            ],
        },
        "governance": {"register": PostgresOrganizationRegister(pool), "tier_lookup": PostgresTiers(pool)},
        "platform_users": {
            "directory": PostgresUserDirectory(pool),
            "activity": PostgresSuspiciousActivity(pool),
            "second_factors": identity.mfa,
            "turns": searches_of_platform,
        },
        "platform_owners": {"passwords": identity.passwords, "rules": identity.account_passwords.rules},
        "account_administration": {
            "overviews": PostgresAccountOverviews(pool),
            "session_lookup": PostgresOwnSessions(pool),
            "mfa": identity.mfa,
            "locks": identity.account_locks,
            "sign_in_domains": identity.sign_in_domains,
        },
        "analytics": {"lookup": PostgresAnalytics(pool), "turns": FairTurns()},
        "todos": {"lookup": PostgresTodos(pool)},
        "frames": {"lookup": PostgresFrames(pool)},
        "expiries": {"lookup": PostgresExpiries(pool)},
        "searches": {"lookup": PostgresThings(pool), "turns": searches_of_platform, "names": FairTurns()},
        "installation": {"lookup": PostgresInstallation(pool)},
        "configurations": {"reader": PostgresConfigurations(pool), "marks": PostgresManagedMarks(pool)},
        "further_providers": {"presets": ShippedPresets(), "offers": identity.further_offers},
        "text_approvals": {"shipped": foundation.shipped_words},
    }
    return assembled(Platform, foundation.stores, shared_parts(settings, foundation), own, made=made, also_called={})

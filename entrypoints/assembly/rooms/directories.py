"""Directories: by SCIM, with people, groups and teams, their tokens and their exchanges; and keeping in step with those by LDAP."""

from actors.recorders import PresenceWriter, ScimExchangeWriter
from adapters.limits import FairTurns
from adapters.postgres.federation.scim.tokens import SCIM_TOKENS, PostgresScimExchanges, PostgresScimTokens
from adapters.postgres.tenancy.management_keys import PostgresKeyUse
from core.domain.federation.scim.resources import users_address
from core.domain.identifiers import ScimTokenId
from core.frozen import Frozen
from core.usecases.federation.directory_runs.applying import RunChanges, RunTeams
from core.usecases.federation.directory_runs.keeping import DirectoryKeeping
from core.usecases.federation.directory_runs.runs import DirectoryRuns
from core.usecases.federation.scim.enrolment import Changes as ScimChanges
from core.usecases.federation.scim.groups import ScimGroups, ScimSettings, ScimTeams
from core.usecases.federation.scim.tokens import ScimExchanges, ScimTokens
from core.usecases.federation.scim.users import ScimUsers
from core.usecases.tenancy.connections.trials import DirectorySurveys
from core.usecases.tenancy.ownerships import Ownerships
from core.usecases.tenancy.profile_fields import ProfileValues
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.identity import Identity
from entrypoints.settings import Settings


class Directories(Frozen, kw_only=True):
    tokens: ScimTokens
    token_presence: PresenceWriter[ScimTokenId]
    users: ScimUsers
    groups: ScimGroups
    teams: ScimTeams
    settings: ScimSettings
    exchanges: ScimExchanges
    recorder: ScimExchangeWriter
    runs: DirectoryRuns
    keeping: DirectoryKeeping


def assemble_directories(settings: Settings, foundation: Foundation, identity: Identity, ownerships: Ownerships) -> Directories:
    new_unit_of_work, pool, stores = foundation.unit_of_work, foundation.pool, foundation.stores
    system, clock, spread = foundation.system, foundation.clock, foundation.secrets.spread
    exchanges = PostgresScimExchanges(pool)
    # A directory may send many changes at once, and each change is short.
    changes = ScimChanges(new_unit_of_work, FairTurns(most_waiting=100, patience=20.0))
    token_presence: PresenceWriter[ScimTokenId] = PresenceWriter(
        PostgresKeyUse(pool, SCIM_TOKENS), foundation.metrics, spread=spread, name="scim_token_presence"
    )
    members_address = users_address(settings.public_url)
    values = ProfileValues(new_unit_of_work, stores.profile_values, clock)
    reading = foundation.ldap_reading
    return Directories(
        tokens=ScimTokens(new_unit_of_work, PostgresScimTokens(pool), stores.setup_links, token_presence, system=system),
        token_presence=token_presence,
        users=ScimUsers(
            changes,
            stores.provisioned_users,
            identity.accounts,
            syntax=foundation.email_syntax,
            buckets=foundation.shared_buckets,
            turns=FairTurns(),
            templates=foundation.mail_templates,
            links=foundation.links,
            values=values,
            ownerships=ownerships,
            system=system,
        ),
        groups=ScimGroups(changes, stores.provisioned_users, members_address=members_address, system=system),
        teams=ScimTeams(changes, stores.directory_teams, members_address=members_address, system=system),
        settings=ScimSettings(new_unit_of_work, stores.directory_teams, clock),
        exchanges=ScimExchanges(exchanges),
        recorder=ScimExchangeWriter(exchanges, foundation.metrics, spread=spread),
        runs=DirectoryRuns(new_unit_of_work, stores.directory_runs, stores.directory_people, stores.upstream_providers, system),
        keeping=DirectoryKeeping(
            new_unit_of_work,
            stores.directory_runs,
            stores.directory_people,
            identity.connection_lookup,
            DirectorySurveys(identity.connection_lookup, foundation.ldap_directories, foundation.keyring),
            reading,
            RunChanges(new_unit_of_work, identity.accounts, values, foundation.mail_templates, system),
            RunTeams(new_unit_of_work, stores.directory_people, stores.directory_teams, reading, system),
            syntax=foundation.email_syntax,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            system=system,
            base_url=settings.public_url,
        ),
    )

"""The record: the audit log, in which an alteration is noticed."""

from adapters.postgres.record.audit import PostgresAuditLog
from adapters.postgres.record.audit_chains import PostgresAuditChains
from adapters.postgres.record.changed_settings import PostgresChangedSettings
from adapters.postgres.record.stories import PostgresStories
from core.frozen import Frozen
from core.usecases.record import Audit, RecentChanges
from entrypoints.assembly.foundation import Foundation
from ports.record import Stories


class Record(Frozen, kw_only=True):
    audit: Audit
    stories: Stories
    changes: RecentChanges


def assemble_record(foundation: Foundation) -> Record:
    pool = foundation.pool
    return Record(
        audit=Audit(PostgresAuditLog(pool), PostgresAuditChains(pool), foundation.server_secrets),
        stories=PostgresStories(pool, foundation.keyring),
        changes=RecentChanges(PostgresChangedSettings(pool), foundation.clock),
    )

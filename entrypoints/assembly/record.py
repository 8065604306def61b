"""The record: the audit log, in which an alteration is noticed."""

from datetime import timedelta

from adapters.postgres.record.audit import PostgresAuditChains, PostgresAuditLog
from adapters.postgres.record.entry_receivers import PostgresEntryReceivers
from adapters.postgres.record.events import PostgresChangedSettings, PostgresStories
from adapters.postgres.record.failing_receivers import PostgresFailingReceivers
from core.frozen import Frozen
from core.usecases.record import Audit, EntryReceivers, RecentChanges
from entrypoints.assembly.foundation import Foundation
from ports.record import ReceiversInNeed, Stories


class Record(Frozen, kw_only=True):
    audit: Audit
    entry_receivers: EntryReceivers
    stories: Stories
    changes: RecentChanges
    receivers: ReceiversInNeed


def assemble_record(foundation: Foundation, deliveries_kept: timedelta) -> Record:
    pool = foundation.pool
    return Record(
        audit=Audit(PostgresAuditLog(pool), PostgresAuditChains(pool), foundation.server_secrets),
        entry_receivers=EntryReceivers(PostgresEntryReceivers(pool), foundation.clock, deliveries_kept),
        stories=PostgresStories(pool, foundation.keyring),
        changes=RecentChanges(PostgresChangedSettings(pool), foundation.clock),
        receivers=PostgresFailingReceivers(pool),
    )

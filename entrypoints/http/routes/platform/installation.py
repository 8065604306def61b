"""The installation, for platform owners alone: its audit log, work that was given up, its keys, and its settings, secrets masked."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import AuditEntryId, JobId
from core.domain.identity.callers import Caller
from core.domain.identity.proofs import StepUp
from core.domain.record.audit import PLATFORM_CHAIN, AuditEntry
from core.domain.tenancy.management_keys import ManagementKeyHolder, PlatformCapability
from core.domain.tokens import KeyPurpose, KeyState
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, OrganizationUuid, example, page_of
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.routes.record.audit import (
    AuditLogQuery,
    DetailedPagination,
    LoggedAnywhere,
    filter_of,
    parts_of,
    subject_of,
    whole_pagination,
)
from entrypoints.settings import in_force_by_group

_TAGS = ("installation",)
_LOG = "/api/platform/audit-log"


class PlatformEntryPath(msgspec.Struct, frozen=True):
    entry_id: UUID
    """The entry's ID."""


class PlatformAuditEntryRecord(LoggedAnywhere, frozen=True, kw_only=True):
    """One entry of the installation's audit log."""

    org_id: OrganizationUuid | None = None
    """Always null: what concerns an organization is in the log of that organization."""


class PlatformAuditLogPage(msgspec.Struct, frozen=True):
    """One page of the installation's audit log."""

    logs: Sequence[PlatformAuditEntryRecord]
    """The entries on this page, the newest first."""
    pagination: DetailedPagination
    """The position of this page in the list."""


@endpoint.get(_LOG, caller=PLATFORM_OWNER, keys=PlatformCapability.AUDIT_LOGS_VIEW, refuses=(BadRequest,), tags=_TAGS)
async def list_platform_audit_log(call: Call[None, AuditLogQuery], postern: Postern) -> PlatformAuditLogPage:
    """List what was done in the installation, the newest first

    Acts of platform owners, operators and the system, and people's own affairs, as far as they concern no organization. `target_id` needs a
    `target_type`. With a filter the list ends after the newest 10 000 matches: to see older ones, use `since` and `until`.
    """
    query = call.query
    found = await postern.record.audit.list(PLATFORM_CHAIN, filter_of(query), page_of(query))
    return PlatformAuditLogPage([_logged(call.caller, entry) for entry in found.items], whole_pagination(query, found))


@endpoint.get(f"{_LOG}/{{entry_id}}", caller=PLATFORM_OWNER, keys=PlatformCapability.AUDIT_LOGS_VIEW, tags=_TAGS)
async def get_platform_audit_entry(call: Call[None, None, PlatformEntryPath], postern: Postern) -> PlatformAuditEntryRecord:
    """Get one entry of the installation's audit log

    An entry of an organization's own log is not found here.
    """
    return _logged(call.caller, await postern.record.audit.get(PLATFORM_CHAIN, AuditEntryId(call.path.entry_id)))


def _logged(reader: Caller | ManagementKeyHolder, entry: AuditEntry) -> PlatformAuditEntryRecord:
    return PlatformAuditEntryRecord(subject=subject_of(entry), **parts_of(reader, entry))


_JOBS = "/api/platform/jobs"
_Kind = Annotated[str, example("mail")]


class DeadJobPath(msgspec.Struct, frozen=True):
    job_id: UUID
    """The job's ID."""


class DeadJobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was given up. What it was about stays closed: it may hold a link or a token."""

    id: Id
    kind: _Kind
    """The kind of work."""
    attempts: Annotated[int, example(7)]
    """How often it was tried."""
    last_error: Annotated[str, example("The mail server answered 550")] | None
    """What went wrong the last time; null if nothing was told."""
    created_at: CreatedAt
    died_at: datetime
    """When it was given up."""


class DeadJobList(msgspec.Struct, frozen=True):
    """Background jobs that were given up."""

    jobs: Sequence[DeadJobRecord]
    """The last fifty, the newest first."""


class RetriedJob(msgspec.Struct, frozen=True):
    """A job that waits again."""

    id: Id
    kind: _Kind
    """The kind of work."""


@endpoint.get(_JOBS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_dead_jobs(_call: Call, postern: Postern) -> DeadJobList:
    """List the background jobs that were given up

    A job that fails is tried again by itself for hours or days, and is in this list only after that. It stays for thirty days.
    """
    return DeadJobList(
        [
            DeadJobRecord(
                id=job.id, kind=job.kind, attempts=job.attempts, last_error=job.last_error, created_at=job.created_at, died_at=job.died_at
            )
            for job in await postern.foundation.dead_jobs.list()
        ]
    )


@endpoint.post(f"{_JOBS}/{{job_id}}/retry", caller=PLATFORM_OWNER, tags=_TAGS)
async def retry_job(call: Call[None, None, DeadJobPath], postern: Postern) -> RetriedJob:
    """Try a background job again that was given up

    Do this once its cause is gone. The job waits again as if it were new; 404 if it already does.
    """
    job = JobId(call.path.job_id)
    return RetriedJob(job, await postern.foundation.dead_jobs.revive(job, call.actor))


_KEYS = "/api/platform/signing-keys"
_KeyName = Annotated[str, example("9f2c1a7e")]


class SigningKeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A key that signs, has signed, or will sign."""

    id: _KeyName
    """The key's ID: `kid` in the header of what it signs."""
    purpose: KeyPurpose
    """What the key signs: access tokens, ID tokens with RS256, or ID tokens with ES256."""
    state: KeyState
    """`current` signs. `next` is published and signs after the next rotation. `outgoing` only verifies what it has signed."""
    algorithm: Annotated[str, example("ES256")]
    """The algorithm."""
    created_at: CreatedAt
    activated_at: datetime | None
    """Since when the key signs; null if it has not yet signed."""
    retires_at: datetime | None
    """Until when the key verifies; null if no end is set."""


class EncryptionKeyRecord(msgspec.Struct, frozen=True):
    """A key of the ring that encrypts what is stored."""

    id: Annotated[str, example("2026-03-04-a1b2c3")]
    """The key's ID."""
    encrypts: bool
    """Whether it encrypts what is stored from now on. The others only decrypt."""


class SigningKeyList(msgspec.Struct, frozen=True):
    """The keys of the installation."""

    signing_keys: Sequence[SigningKeyRecord]
    """The keys that verify, by purpose and state."""
    encryption_keys: Sequence[EncryptionKeyRecord]
    """The ring of keys that encrypt what is stored, the one that encrypts first."""
    reencryption_finished: bool
    """Whether everything stored is encrypted with the first key of the ring."""


class RotatedKeys(msgspec.Struct, frozen=True):
    """What a rotation did for one purpose."""

    purpose: KeyPurpose
    """What the keys sign."""
    activated: _KeyName
    """The key that signs from now on."""
    outgoing: _KeyName
    """The key that signed before. It verifies for two more days."""
    added: _KeyName
    """The next key, published from now on."""
    is_hasty: bool
    """Whether the activated key was published so lately that applications may not know it yet."""


class KeyRotation(msgspec.Struct, frozen=True):
    """The result of a rotation."""

    rotated: Sequence[RotatedKeys]
    """One for each purpose."""


@endpoint.get(_KEYS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_signing_keys(_call: Call, postern: Postern) -> SigningKeyList:
    """List the keys that sign tokens, and those that encrypt what is stored

    Public facts alone: no one can read a private key.
    """
    foundation = postern.foundation
    now = foundation.clock.now()
    keys = [key for key in await foundation.signing_keys.list() if key.verifies(now)]
    return SigningKeyList(
        [
            SigningKeyRecord(
                id=key.id,
                purpose=key.purpose,
                state=key.state,
                algorithm=key.purpose.algorithm,
                created_at=key.created_at,
                activated_at=key.activated_at,
                retires_at=key.retires_at,
            )
            for key in sorted(keys, key=lambda key: (key.purpose, key.state))
        ],
        [EncryptionKeyRecord(name, number == 0) for number, name in enumerate(foundation.keyring.key_ids())],
        await foundation.reencryption.is_finished(),
    )


@endpoint.post(f"{_KEYS}/rotate", caller=PLATFORM_OWNER, step_up=StepUp.ACCOUNT, limit=CREDENTIALS, refuses=(Conflict,), tags=_TAGS)
async def rotate_signing_keys(call: Call, postern: Postern) -> KeyRotation:
    """Rotate the keys that sign tokens

    The next keys sign from now on, and new next keys are published. Tokens that were signed before stay valid. Wait ten minutes between two
    rotations, so that applications know the key that signs next. Requires a recent sign-in or reauthentication.
    """
    return KeyRotation(
        [
            RotatedKeys(one.purpose, one.activated, one.outgoing, one.added, one.is_hasty)
            for one in await postern.foundation.signing_keys.rotate(call.actor)
        ]
    )


class SettingRecord(msgspec.Struct, frozen=True):
    """A setting, and its value in force."""

    name: Annotated[str, example("POSTERN_POOL_SIZE")]
    """The setting's name."""
    group: Annotated[str, example("Database")]
    """The chapter of the documentation that describes the setting."""
    value: Annotated[str, example("10")]
    """The value, as text; empty if none is set, and `***` for a secret."""


class SettingList(msgspec.Struct, frozen=True):
    """The settings of the process that answers."""

    settings: Sequence[SettingRecord]
    """All settings, in the order of the documentation."""


@endpoint.get("/api/platform/settings", caller=PLATFORM_OWNER, tags=("installation",))
def list_settings(_call: Call, postern: Postern) -> SettingList:
    """List the settings in force, without secrets

    The operator sets them, where the process is started.
    """
    return SettingList(
        [SettingRecord(one.name, group, value) for group, settings in in_force_by_group(postern.settings) for one, value in settings]
    )

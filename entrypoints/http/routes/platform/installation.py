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
    """Always null: entries about an organization are in the log of that organization."""


class PlatformAuditLogPage(msgspec.Struct, frozen=True):
    """One page of the installation's audit log."""

    logs: Sequence[PlatformAuditEntryRecord]
    """The entries on this page, the newest first."""
    pagination: DetailedPagination
    """The position of this page in the list."""


@endpoint.get(_LOG, caller=PLATFORM_OWNER, keys=PlatformCapability.AUDIT_LOGS_VIEW, refuses=(BadRequest,), tags=_TAGS)
async def list_platform_audit_log(call: Call[None, AuditLogQuery], postern: Postern) -> PlatformAuditLogPage:
    """List the audit log of the installation

    Return the entries that concern no organization, the newest first: actions of platform owners, operators and the system, and of people
    in their own accounts. `target_id` requires `target_type`. With a filter, the list ends after the newest 10 000 matches: to see older
    matches, use `since` and `until`.
    """
    query = call.query
    found = await postern.record.audit.list(PLATFORM_CHAIN, filter_of(query), page_of(query))
    return PlatformAuditLogPage([_logged(call.caller, entry) for entry in found.items], whole_pagination(query, found))


@endpoint.get(f"{_LOG}/{{entry_id}}", caller=PLATFORM_OWNER, keys=PlatformCapability.AUDIT_LOGS_VIEW, tags=_TAGS)
async def get_platform_audit_entry(call: Call[None, None, PlatformEntryPath], postern: Postern) -> PlatformAuditEntryRecord:
    """Get an entry of the installation's audit log

    Entries of an organization's own log are not found.
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
    """A failed job that Postern no longer retries. Its contents are not shown, because they can include a link or a token."""

    id: Id
    kind: _Kind
    """The type of the job."""
    attempts: Annotated[int, example(7)]
    """The number of attempts."""
    last_error: Annotated[str, example("The mail server answered 550")] | None
    """The error of the last attempt; null if none was reported."""
    created_at: CreatedAt
    died_at: datetime
    """When Postern stopped retrying the job."""


class DeadJobList(msgspec.Struct, frozen=True):
    """The failed background jobs."""

    jobs: Sequence[DeadJobRecord]
    """The last 50 jobs, the newest first."""


class RetriedJob(msgspec.Struct, frozen=True):
    """A job that is queued again."""

    id: Id
    kind: _Kind
    """The type of the job."""


@endpoint.get(_JOBS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_dead_jobs(_call: Call, postern: Postern) -> DeadJobList:
    """List the failed background jobs

    Return the jobs that Postern no longer retries. Before, Postern retries a failing job for hours or days. Jobs are listed for 30 days.
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
    """Retry a failed background job

    Call this endpoint once the cause of the failure is fixed. The job is queued as if it were new. If the job is already queued, the
    response is 404.
    """
    job = JobId(call.path.job_id)
    return RetriedJob(job, await postern.foundation.dead_jobs.revive(job, call.actor))


_KEYS = "/api/platform/signing-keys"
_KeyName = Annotated[str, example("9f2c1a7e")]


class SigningKeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A current, next or former signing key."""

    id: _KeyName
    """The key's ID, which is `kid` in the header of tokens that it signs."""
    purpose: KeyPurpose
    """What the key signs: access tokens, ID tokens with RS256, or ID tokens with ES256."""
    state: KeyState
    """`current` signs. `next` is published, and signs after the next rotation. `outgoing` only verifies what it has signed."""
    algorithm: Annotated[str, example("ES256")]
    """The signature algorithm."""
    created_at: CreatedAt
    activated_at: datetime | None
    """When the key started to sign; null if it has not signed yet."""
    retires_at: datetime | None
    """When the key stops verifying signatures; null if no time is set."""


class EncryptionKeyRecord(msgspec.Struct, frozen=True):
    """A key that encrypts stored data."""

    id: Annotated[str, example("2026-03-04-a1b2c3")]
    """The key's ID."""
    encrypts: bool
    """Whether the key encrypts new data. All other keys only decrypt."""


class SigningKeyList(msgspec.Struct, frozen=True):
    """The keys of the installation."""

    signing_keys: Sequence[SigningKeyRecord]
    """The signing keys, sorted by purpose and state."""
    encryption_keys: Sequence[EncryptionKeyRecord]
    """The encryption keys. The first one encrypts new data."""
    reencryption_finished: bool
    """Whether all stored data is encrypted with the first key."""


class RotatedKeys(msgspec.Struct, frozen=True):
    """The result of a rotation for one purpose."""

    purpose: KeyPurpose
    """What the keys sign."""
    activated: _KeyName
    """The key that now signs."""
    outgoing: _KeyName
    """The key that signed before. It verifies signatures for 2 more days."""
    added: _KeyName
    """The new next key, which is now published."""
    is_hasty: bool
    """Whether the activated key was published so recently that applications may not know it yet."""


class KeyRotation(msgspec.Struct, frozen=True):
    """The result of a rotation."""

    rotated: Sequence[RotatedKeys]
    """The result for each purpose."""


@endpoint.get(_KEYS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_signing_keys(_call: Call, postern: Postern) -> SigningKeyList:
    """List the signing keys and the encryption keys

    The response contains only public data. No one can read a private key.
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
    """Rotate the signing keys

    The next keys sign from now on, and new next keys are published. Tokens that were signed before stay valid. Wait 10 minutes between 2
    rotations, so that applications know the key that signs next. Requires a recent sign-in or reauthentication.
    """
    return KeyRotation(
        [
            RotatedKeys(one.purpose, one.activated, one.outgoing, one.added, one.is_hasty)
            for one in await postern.foundation.signing_keys.rotate(call.actor)
        ]
    )


class SettingRecord(msgspec.Struct, frozen=True):
    """A setting and its current value."""

    name: Annotated[str, example("POSTERN_POOL_SIZE")]
    """The setting's name."""
    group: Annotated[str, example("Database")]
    """The chapter of the documentation that describes the setting."""
    value: Annotated[str, example("10")]
    """The value, as text; empty if none is set, and `***` for a secret."""


class SettingList(msgspec.Struct, frozen=True):
    """The settings of the process that responds."""

    settings: Sequence[SettingRecord]
    """All settings, in the order of the documentation."""


@endpoint.get("/api/platform/settings", caller=PLATFORM_OWNER, tags=("installation",))
def list_settings(_call: Call, postern: Postern) -> SettingList:
    """List the settings of the installation

    Return the current values, without secrets. The operator sets them where the process is started.
    """
    return SettingList(
        [SettingRecord(one.name, group, value) for group, settings in in_force_by_group(postern.settings) for one, value in settings]
    )

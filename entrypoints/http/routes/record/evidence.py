"""Evidence to hand over: who has heard of the end of a person's access."""

from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.identifiers import UserId
from core.domain.identity.proofs import StepUp
from core.domain.record.evidence import OffboardingEvidence
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import PRIVACY
from entrypoints.http.routes.record.entry_receivers import OffboardingPath


class OffboardingEvidenceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A signed file about the end of a person's access."""

    id: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The ID of the file, its `jti`."""
    file: Annotated[str, example("eyJhbGciOiJFUzI1NiIs…")]
    """The file: a JWS of the type `postern-evidence+jwt`. To verify it, use the script of the guide on verifying the audit log offline."""
    entries: Annotated[int, example(2)]
    """The number of entries of the audit log in the file."""


# It outlasts whoever acts for somebody, and a member answers for it.
@endpoint.post(
    "/api/organizations/{org_slug}/users/{user_id}/offboarding/evidence",
    caller=able(Capability.AUDIT_LOGS_VIEW, impersonated=False),
    limit=PRIVACY,
    step_up=StepUp.ACCOUNT,
    verb="audit-entry evidence",
    tags=("audit",),
)
async def create_offboarding_evidence(call: Call[None, None, OffboardingPath, Member], postern: Postern) -> OffboardingEvidenceRecord:
    """Create signed evidence of who received the end of a person's access

    Return a file with what `GET …/offboarding` returns now, without URLs and responses: it is what this installation states at this time.
    For each entry, it contains the position in the audit log and, if a SIEM is set up, the position in the export and whether the SIEM has
    confirmed it, to compare with the SIEM's copy. It contains IDs in place of names and addresses of people. The audit log records who
    created the file, and its SHA-256. For a person whom the audit log does not name, the file has no entries. Requires a recent sign-in or
    reauthentication.
    """
    return _record(await postern.tenancy.offboarding_evidences.make(call.caller, UserId(call.path.user_id), call.actor))


_record = shown(OffboardingEvidence, OffboardingEvidenceRecord)

"""Platform owners' approvals of the texts that organizations put in place of ours."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import OrganizationId
from core.domain.identity.proofs import StepUp
from core.domain.platform.governance import ComparedText, ComparedTexts
from core.domain.texts.own_texts import ApprovalRules
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Id, Word, example
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.platform.governance import GovernedPath

_TAGS = ("installation-texts",)
_RULES = "/api/platform/text-rules"
_APPROVALS = "/api/platform/text-approvals"
_APPROVAL = "/api/platform/organizations/{org_id}/texts/approval"

_Version = Annotated[
    Word,
    msgspec.Meta(
        extra_json_schema={"pattern": "^[0-9a-f]{64}$"}, examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
    ),
]


class ComparedTextRecord(msgspec.Struct, frozen=True):
    """A custom text and the default text."""

    language: Annotated[str, example("de")]
    """The language of both texts."""
    key: Annotated[str, example("mail_invitation.subject")]
    """The key of the text."""
    ours: Annotated[str, example("Invitation to {organization}")]
    """The default text; empty if there is none."""
    own: Annotated[str, example("Welcome to {organization}")]
    """The organization's custom text."""


class TextApprovalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The custom texts of an organization."""

    org_id: Id
    """The organization's ID."""
    org_slug: Annotated[str, example("acme")]
    """The organization's slug."""
    org_name: Annotated[str, example("Acme")]
    """The organization's name."""
    version: _Version
    """The version, which identifies exactly these texts. Send it with an approval."""
    approved: bool
    """Whether a platform owner has approved these texts."""
    changed_at: datetime | None
    """When one of the texts was last changed."""
    texts: Sequence[ComparedTextRecord]
    """The texts, sorted by language and key."""


class TextApproval(msgspec.Struct, frozen=True):
    """The custom texts to approve."""

    version: _Version
    """The version of the texts that you have read. If the texts have changed since, the response is 409."""


class TextRulesBody(msgspec.Struct, frozen=True, kw_only=True):
    """Where custom texts of organizations require approval."""

    mails: bool = True
    """Whether approval is required in emails that the installation's server sends to people who are not confirmed members. Until the
    approval, such emails use the default text.
    """
    pages: bool = False
    """Whether approval is required on pages. Until the approval, pages use the default text."""


@endpoint.get(_APPROVALS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_text_approvals(_call: Call, postern: Postern) -> Sequence[TextApprovalRecord]:
    """List the custom texts of organizations

    Return each custom text with the default text. Texts without an approval come first, the longest waiting at the top. The list has at
    most 100 organizations, and ends after 5000 texts.
    """
    return [_record(one) for one in await postern.platform.text_approvals.list()]


@endpoint.post(_APPROVAL, caller=PLATFORM_OWNER, limit=UNLIMITED, refuses=(BadRequest, NotFound, Conflict), status=204, tags=_TAGS)
async def approve_texts(call: Call[TextApproval, None, GovernedPath], postern: Postern) -> NoBody:
    """Approve the custom texts of an organization

    The approval applies only to this version. From now on, emails that the installation's server sends use the texts. If the organization
    changes a text, its texts need approval again.
    """
    await postern.platform.text_approvals.approve(call.caller, OrganizationId(call.path.org_id), call.body.version, call.actor)
    return NO_BODY


@endpoint.delete(_APPROVAL, caller=PLATFORM_OWNER, limit=UNLIMITED, refuses=(NotFound,), status=204, tags=_TAGS)
async def end_text_approval(call: Call[None, None, GovernedPath], postern: Postern) -> NoBody:
    """Revoke the approval of an organization's custom texts

    Emails that are being sent do not change. The approval of earlier texts is revoked, too.
    """
    await postern.platform.text_approvals.withdraw(call.caller, OrganizationId(call.path.org_id), call.actor)
    return NO_BODY


@endpoint.get(_RULES, caller=PLATFORM_OWNER, tags=_TAGS)
async def get_text_rules(_call: Call, postern: Postern) -> TextRulesBody:
    """Get the approval rules for custom texts

    Return where custom texts of organizations require approval. By default, approval is required in emails, and not on pages.
    """
    return _rules(await postern.platform.text_approvals.rules())


@endpoint.put(_RULES, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, tags=_TAGS)
async def set_text_rules(call: Call[TextRulesBody], postern: Postern) -> TextRulesBody:
    """Set the approval rules for custom texts

    Set where custom texts of organizations require approval. All processes of the installation apply the rules within seconds.
    """
    rules = ApprovalRules(mails=call.body.mails, pages=call.body.pages)
    return _rules(await postern.platform.text_approvals.set_rules(call.caller, rules, call.actor))


_rules = shown(ApprovalRules, TextRulesBody)
_text = shown(ComparedText, ComparedTextRecord)


def _record(one: ComparedTexts) -> TextApprovalRecord:
    return TextApprovalRecord(
        org_id=one.of.organization,
        org_slug=one.of.slug,
        org_name=one.of.name,
        version=one.of.version,
        approved=one.of.approved,
        changed_at=one.of.changed_at,
        texts=[_text(text) for text in one.texts],
    )

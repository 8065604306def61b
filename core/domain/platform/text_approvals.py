"""A platform owner's yes to the own texts of an organization. It counts for exactly the texts that the owner has seen: other texts have
another digest.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import OrganizationId
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.domain.texts.own_texts import ApprovalRules
from core.frozen import Frozen

MOST_LISTED: Final = 100
# An organization can have 174 texts in each language. A hundred such ones would be a hundred megabytes.
MOST_LISTED_TEXTS: Final = 5000


class ApprovalOutcome(StrEnum):
    """How an answer of a platform owner ended, for the metrics."""

    APPROVED = "approved"
    STALE = "stale"
    """The organization had other texts by then."""
    WITHDRAWN = "withdrawn"


class StoredText(Frozen):
    language: str
    key: str
    text: str


class OrganizationTexts(Frozen, kw_only=True):
    """The texts of an organization, for those who say yes to them."""

    organization: OrganizationId
    slug: str
    name: str
    version: str
    """Their digest; empty where there are none any more."""
    approved_version: str | None
    """The digest of the texts that have a yes. The organization may have others now, and these again later."""
    changed_at: datetime | None
    texts: Sequence[StoredText] = ()

    @property
    def approved(self) -> bool:
        return self.approved_version == self.version


class ComparedText(Frozen):
    language: str
    key: str
    ours: str
    own: str


class ComparedTexts(Frozen):
    """The texts of an organization, each beside ours."""

    of: OrganizationTexts
    texts: Sequence[ComparedText]


def require_seen(held: OrganizationTexts, version: str) -> None:
    """Raises `Conflict` when the texts are not those that the platform owner has seen, and `BadRequest` when they have a yes already."""
    if held.version != version:
        raise Conflict("version: the organization has other texts now; read them again", words="text_approval_stale")
    if held.approved:
        raise BadRequest("These texts are approved already", words="text_approval_done")


def texts_approved(held: OrganizationTexts, actor: Actor) -> Event:
    return _event("texts.approved", held, held.version, actor)


def approval_withdrawn(held: OrganizationTexts, actor: Actor) -> Event:
    return _event("texts.approval_withdrawn", held, held.approved_version, actor)


def _event(name: str, held: OrganizationTexts, version: str | None, actor: Actor) -> Event:
    return Event(name, actor, Target("organization", str(held.organization)), held.organization, {"version": version})


def rules_changed(before: ApprovalRules, after: ApprovalRules, actor: Actor) -> Event:
    details = {"before": _facts(before), "after": _facts(after)}
    return Event("platform.text_rules.updated", actor, Target("texts", "installation"), None, details)


def _facts(rules: ApprovalRules) -> Json:
    return {"mails": rules.mails, "pages": rules.pages}

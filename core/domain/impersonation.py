"""Impersonation: a platform owner acts in a user's name, for a stated reason, for an hour at most."""

from dataclasses import dataclass
from datetime import datetime

from core.domain.branding import LONGEST_TYPED, one_line
from core.domain.errors import BadRequest
from core.domain.events import Actor, Event, Target
from core.domain.identifiers import ImpersonationId, OrganizationId, SessionId, UserId
from core.domain.sessions import Context

LONGEST_REASON = 500
# Ours are well below; what is cut off names nothing that exists.
LONGEST_PATH = 500


@dataclass(frozen=True, slots=True)
class Impersonation:
    id: ImpersonationId
    impersonator: UserId
    user: UserId
    reason: str
    session: SessionId
    created_at: datetime
    expires_at: datetime

    def started(self, context: Context, actor: Actor) -> Event:
        details = {"impersonation_session": str(self.id), "expires_at": self.expires_at.isoformat()}
        if context.service is not None:
            details["service_id"] = str(context.service)
        # What somebody wrote about a person must be possible to forget.
        personal = {"reason": self.reason}
        target = Target("user", str(self.user))
        return Event("security.impersonation.started", actor, target, context.organization, details, personal=personal)


def request_made(user: UserId, organization: OrganizationId | None, method: str, path: str, actor: Actor) -> Event:
    """One request in the user's name. A webhook hears of the start; hundreds of these would tell it nothing more."""
    details = {"method": method, "path": path[:LONGEST_PATH]}
    return Event("security.impersonation.request", actor, Target("user", str(user)), organization, details, published=False)


def reason_of(text: str) -> str:
    """Whoever reads the audit log later has only this to go by. Raises `BadRequest`."""
    reason = reason_given(text)
    if reason is None:
        raise BadRequest("A reason is required")
    return reason


def reason_given(text: str) -> str | None:
    """As it is kept. None when there is nothing of it to be seen. Raises `BadRequest` for one that is too long."""
    reason = one_line(text) if len(text) <= LONGEST_TYPED else text
    if len(reason) > LONGEST_REASON:
        raise BadRequest(f"The reason must have at most {LONGEST_REASON} characters")
    return reason or None

"""Impersonation: a platform owner acts in a user's name, for a stated reason, for an hour at most."""

from datetime import datetime

from core.domain.errors import BadRequest
from core.domain.identifiers import ImpersonationId, OrganizationId, SessionId, UserId
from core.domain.identity.sessions import Context
from core.domain.json import timestamp
from core.domain.lines import LONGEST_TYPED, one_line
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

LONGEST_REASON = 500
# Our own paths are well below this length; a path that is cut off names nothing that exists.
LONGEST_PATH = 500


class Impersonation(Frozen):
    id: ImpersonationId
    impersonator: UserId
    user: UserId
    reason: str
    session: SessionId
    created_at: datetime
    expires_at: datetime

    def started(self, context: Context, actor: Actor) -> Event:
        details = {"impersonation_session": str(self.id), "expires_at": timestamp(self.expires_at)}
        if context.service is not None:
            details["service_id"] = str(context.service)
        # It must be possible to forget the reason: it is a text that somebody wrote about a person.
        personal = {"reason": self.reason}
        target = Target("user", str(self.user))
        return Event("security.impersonation.started", actor, target, context.organization, details, personal=personal)


def request_made(user: UserId, organization: OrganizationId | None, method: str, path: str, actor: Actor) -> Event:
    """One request in the user's name. Webhooks get only the start of an impersonation; hundreds of these events would tell them nothing
    more.
    """
    details = {"method": method, "path": path[:LONGEST_PATH]}
    return Event("security.impersonation.request", actor, Target("user", str(user)), organization, details)


def reason_of(text: str) -> str:
    """The reason, which is all that a later reader of the audit log has. Raises `BadRequest`."""
    reason = reason_given(text)
    if reason is None:
        raise BadRequest("reason: must not be empty")
    return reason


def reason_given(text: str) -> str | None:
    """The reason as it is stored. None when nothing of it would be visible. Raises `BadRequest` when it is too long."""
    reason = one_line(text) if len(text) <= LONGEST_TYPED else text
    if len(reason) > LONGEST_REASON:
        raise BadRequest(f"reason: at most {LONGEST_REASON} characters")
    return reason or None

"""Accounts that a directory, an API key or an enterprise connection has created, and whether their creator still decides about them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, UserId
from core.domain.record.events import SYSTEM, Event, Target
from core.frozen import Frozen


class MadeAccount(Frozen):
    """What decides about the ownership of a created account. Whoever registers on a page creates their own account.

    As long as nobody else holds a created account, its creator decides about it, however often its password was reset: the creator's
    directory blocks it, and the creator deletes it. By their own act the user lets somebody else hold it: by a confirmed membership in
    another organization, by a session at another organization's application that they open with an authenticator of theirs, by accepting a
    role on the platform. The act is stored when it happens, and no later act takes it back. "Leave" on the creator's page, and a link that
    somebody requests after a deactivation, end the creator's hold: then the account belongs to no organization.

    What another organization does alone, such as listing the user, never counts: otherwise a hostile organization could take a company's
    users away from it.
    """

    made_by: OrganizationId | None
    """The organization whose directory, key or own provider has made the account. None: nobody has, or has it still."""
    held_since: datetime | None
    """When the person first let somebody else hold the account."""
    is_platform_owner: bool
    deactivated_at: datetime | None
    deactivated_by: OrganizationId | None
    locked_at: datetime | None = None

    def is_the_makers(self, organization: OrganizationId) -> bool:
        """Whether this organization decides about the account. Not about one that the platform has deactivated: it could undo that, by
        deleting and making the account again. A lock says nothing about whose account it is. `is_the_makers`, in PostgreSQL, is the same
        rule.
        """
        if self.made_by != organization or self.held_since is not None or self.is_platform_owner:
            return False
        return self.deactivated_at in {None, self.locked_at} or self.deactivated_by == organization


class Elsewhere(Frozen):
    """What other organizations have of a made account that nobody else holds."""

    members_of: frozenset[OrganizationId]
    """Those that list the person as a member. Also organizations that are being deleted."""
    known_to: Sequence[OrganizationId]
    """Those that list the person in any way: as a member, in a directory, or as a user of a service."""
    is_subscribed: bool
    """A subscription at a service of another organization lives."""

    def require_deletable(self) -> None:
        """Raises `BadRequest`: a subscription may be paid for, and ends only where it began."""
        if self.is_subscribed:
            raise BadRequest("The person has a subscription at another organization. It must end first")


DELETED: Final = "deleted"


def removed_with_account(user: UserId, organization: OrganizationId) -> Event:
    """What an organization hears that had listed the person. It does not hear who has deleted the account."""
    return Event("user.removed", SYSTEM, Target("user", str(user)), organization, {"account": DELETED})

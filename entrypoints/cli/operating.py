"""An operator does what an organization's owner may do. The log names the operator."""

from typing import Final
from uuid import UUID

from core.domain.identifiers import SessionId
from core.domain.identity.callers import Caller
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import BuiltInRole, Capability
from entrypoints.bootstrap import Postern
from entrypoints.cli.user import operator
from entrypoints.failures import StartFailed

_NO_SESSION: Final = SessionId(UUID(int=0))


def acting() -> Actor:
    return Actor(operator=operator())


async def for_owner(postern: Postern, slug: str) -> Member:
    """What is made belongs to the owner, who answers for it. Raises `NotFound`, and `StartFailed` if the organization has no owner."""
    found = await postern.platform.governance.show(slug)
    if found.owner is None:
        raise StartFailed(f"{slug} has no owner, because that account was deleted: no one would be responsible for what you create")
    organization = found.organization
    owner = Caller(found.owner.id, Email(found.owner.email), _NO_SESSION, is_platform_owner=False)
    return Member(
        owner,
        organization.id,
        organization.slug,
        organization.is_active,
        BuiltInRole.OWNER.value,
        frozenset(Capability),
        is_operators=True,
    )

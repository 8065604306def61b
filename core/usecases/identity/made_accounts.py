"""The end of an account that an organization has made for somebody, and that nobody else holds."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.domain.errors import Unavailable
from core.domain.identifiers import OrganizationId, PrivacyRequestId, UserId
from core.domain.identity.makers.made_accounts import removed_with_account
from core.domain.identity.privacy import forget_job
from core.domain.record.events import Event
from core.usecases.identity.privacy import Declining
from ports.unit_of_work import UnitOfWork


async def delete_made_account(
    uow: UnitOfWork,
    user: UserId,
    maker: OrganizationId,
    held: frozenset[OrganizationId],
    decline: Declining,
    *,
    request: PrivacyRequestId,
    at: datetime,
) -> Sequence[Event]:
    """Deletes the account, which the caller holds for this, and which is its maker's. `held` are the organizations that
    `ServiceUserStore.hold_organizations` has locked. An ownership that others have given holds nothing against the maker: it goes back, as
    if the person had declined it. Returns what the other organizations hear that had listed the person. Raises
    `BadRequest` while the person has a subscription at one of them, and `Unavailable` when one lists the person at this very moment.
    """
    elsewhere = await uow.service_users.elsewhere(user, maker)
    elsewhere.require_deletable()
    if not elsewhere.members_of <= held:
        raise Unavailable(retry_after=_SOON, detail="another organization has listed the person meanwhile")
    for organization in sorted(held - {maker}):
        await decline(uow, organization, user)
    await uow.service_users.delete_account(user, request, at)
    await uow.jobs.add(forget_job(request))
    return [removed_with_account(user, organization) for organization in elsewhere.known_to]


_SOON: Final = 1.0

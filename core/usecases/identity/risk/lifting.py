"""Putting the rules that refuse back in shadow, as whoever has a way back does: an owner at their organization, or a platform owner."""

from datetime import datetime

from core.domain.identifiers import OrganizationId
from core.domain.identity.mailed_tokens import LinkRefused, LinkUnknown
from core.domain.identity.risk_policies.policies import RiskPolicies, lifted, refusing, risk_policies_updated
from core.domain.identity.risk_policies.ways_back import NotAWayBack, WayBack
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.usecases.sealed_texts import opened_text
from ports.encryption import CannotOpen, KeyRing
from ports.unit_of_work import UnitOfWork


def opened_way_back(keyring: KeyRing, token: Token, context: str) -> WayBack:
    """Raises `LinkUnknown`."""
    try:
        return WayBack.unpacked(opened_text(keyring, token.reveal(), context))
    except (CannotOpen, NotAWayBack):
        raise LinkUnknown("This link is not valid", words="link_invalid") from None


def require_in_time(way: WayBack, now: datetime) -> None:
    """Raises `LinkRefused`."""
    if way.is_over(now):
        raise LinkRefused("This link has expired", words="link_expired")


async def lift_refusing(uow: UnitOfWork, organization: OrganizationId | None, before: RiskPolicies, actor: Actor, now: datetime) -> int:
    """Puts the rules that refuse back in shadow, and returns their number. None is the installation. Commits if there are any."""
    refused = refusing(before)
    if refused:
        after = lifted(before, now)
        await uow.risk_policies.save(organization, after)
        await uow.record(risk_policies_updated(organization, before, after, actor))
        await uow.commit()
    return len(refused)

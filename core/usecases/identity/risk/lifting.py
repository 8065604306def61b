"""Putting the rules that refuse back in shadow, as whoever has a way back does: an owner at their organization, or a platform owner.

A link is asked the same for its page and for its button: whether it is one of ours and in time, whether its account may still use it, and
whether it has anything left to lift.
"""

from collections.abc import Sequence
from datetime import datetime

from core.domain.identifiers import OrganizationId
from core.domain.identity.accounts import Account
from core.domain.identity.endings.sealed import Sealed
from core.domain.identity.mailed_tokens import LinkRefused, LinkUnknown, link_used
from core.domain.identity.risk_policies.policies import RiskPolicies, RiskPolicy, risk_policies_updated
from core.domain.identity.risk_policies.ways_back import NotAWayBack, WayBack
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.usecases.identity.guards.sealed_texts import opened_text
from ports.encryption import CannotOpen, KeyRing
from ports.unit_of_work import UnitOfWork


def opened_way_back(keyring: KeyRing, token: Token, kind: Sealed, now: datetime) -> WayBack:
    """Raises `LinkUnknown`, and `LinkRefused` for a link that is too old."""
    try:
        way = WayBack.unpacked(opened_text(keyring, token.reveal(), kind))
    except (CannotOpen, NotAWayBack):
        raise LinkUnknown("This link is not valid", words="link_invalid") from None
    if way.is_over(now):
        raise LinkRefused("This link has expired", words="link_expired")
    return way


def lifted_by(way: WayBack, owner: Account, rules: RiskPolicies) -> Sequence[RiskPolicy]:
    """What the link lifts. Raises `LinkRefused` when this is nothing any more."""
    found = way.lifts(rules) if way.is_good_for(owner) else ()
    if not found:
        raise link_used()
    return found


async def keep_changed(
    uow: UnitOfWork, organization: OrganizationId | None, before: RiskPolicies, after: RiskPolicies, actor: Actor
) -> None:
    """Commits, if anything has changed. None is the installation. The rules are held: of two requests, the second finds what the first has
    kept.
    """
    if after != before:
        await uow.risk_policies.save(organization, after)
        await uow.record(risk_policies_updated(organization, before, after, actor))
        await uow.commit()

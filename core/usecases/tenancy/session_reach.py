"""Asks what a change of the limits of sessions would reach."""

from core.domain.identifiers import ServiceId
from core.domain.identity.session_limits.reach import NOBODY_REACHED, SessionLimits, SessionReach, reaches_anybody
from core.domain.tenancy.members import Member
from ports.identity.session_limits.session_reach import SessionReachLookup


async def reached_sessions(
    lookup: SessionReachLookup, member: Member, service: ServiceId | None, before: SessionLimits, after: SessionLimits
) -> SessionReach:
    """Without a round trip if nothing becomes stricter."""
    if not reaches_anybody(before, after):
        return NOBODY_REACHED
    asker = None if member.signed_in is None else member.signed_in.session
    return await lookup.reach(member.organization, service, before, after, asker=asker)

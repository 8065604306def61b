"""Ends everything that rested on an account: its sessions, the trust in its devices, the links mailed to it, and unfinished sign-ins, also
of devices that its owner has just let in. Every change of the owner of an account, or of what the owner proves it with, ends all of these.
"""

from datetime import datetime

from core.domain.errors import Unauthorized
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.record.events import Actor, Event, Target
from ports.unit_of_work import UnitOfWork


async def require_living(uow: UnitOfWork, session: SessionId) -> None:
    """For whatever gives the account another way in or another proof, or takes one away: who has ended the session since the request came
    in wanted an end to this, too. Called with the account held. Raises `Unauthorized`.
    """
    if not await uow.sessions.lives(session):
        raise Unauthorized("The session has ended", words="session_ended")


async def end_access(uow: UnitOfWork, user: UserId, at: datetime, *, but: SessionId | None = None) -> None:
    """Needs no round trip of its own. `but` is the caller's session. It goes on, and so do the sessions that it was opened from and those
    that were opened from it.

    The order of locks is fixed: the account, its connected accounts if they end, the mailed links and unfinished sign-ins, devices,
    sessions. A sign-in, the revocation of a device and the deletion of an account take them in this order too, so no two of them wait for
    each other.
    """
    await _end_all_but_sessions(uow, user, at)
    await uow.sessions.end_all(user, but=but)


async def hand_over(uow: UnitOfWork, user: UserId, at: datetime) -> None:
    """For an account that goes to somebody else, who proves its address: besides, every way in that its earlier holder may have added, and
    what they have allowed applications, which nobody would ask the new one for. The password is the caller's affair.
    """
    await _end_what_was_added(uow, user)
    await end_access(uow, user, at)


async def leave_to_another(uow: UnitOfWork, user: UserId, actor: Actor, organization: OrganizationId) -> None:
    """For an account that this organization moves to somebody else's address, after it is held for that: nothing of its earlier holder
    stays, not even their second factor, which would lock the new one out, nor what tells of them. The password goes with the address. No
    other organization has a tie to it, or it could not be moved.
    """
    await end_second_factor(uow, user, actor, organization)
    await uow.accounts.forget_holder(user)


async def end_second_factor(uow: UnitOfWork, user: UserId, actor: Actor, organization: OrganizationId | None = None) -> None:
    """Of an account that somebody else had: with an event and without a mail, since it is not the new holder's. After it is held."""
    if not await uow.mfa.disable(user):
        return
    # The act itself, and the entry of the logs.
    for name in ("user.mfa.disabled", "security.mfa.disabled"):
        event = Event(name, actor, Target("user", str(user)), organization, {"forced": True})
        await (uow.record_in_every_log(event, user) if organization is None else uow.record(event))


async def end_access_counting(uow: UnitOfWork, user: UserId, at: datetime) -> int:
    """The same, for callers that wait for the number of ended sessions."""
    await _end_all_but_sessions(uow, user, at)
    return await uow.sessions.revoke_all(user, but=None)


async def hand_over_counting(uow: UnitOfWork, user: UserId, at: datetime) -> int:
    """The same, for callers that wait for the number of ended sessions."""
    await _end_what_was_added(uow, user)
    return await end_access_counting(uow, user, at)


async def _end_what_was_added(uow: UnitOfWork, user: UserId) -> None:
    """Before the rest: with a connected account goes what awaits a second factor after it, also where its provider is deleted."""
    await uow.accounts.hold(user)
    await uow.passkeys.remove_all(user)
    await uow.identities.remove_all(user)
    await uow.consents.remove_all(user)


async def _end_all_but_sessions(uow: UnitOfWork, user: UserId, at: datetime) -> None:
    await uow.accounts.hold(user)
    await uow.mailed_tokens.end_all(user, at)
    await uow.mfa.end_preauthentications(user, at)
    await uow.sessions.end_codes(user)
    await uow.devices.end_trust(user)

"""Ends everything that rests on an account: its sessions, the trust in its devices, the links mailed to it, and unfinished sign-ins, also
on devices that the owner has just approved. Every change of an account's owner, or of the proofs that the owner signs in with, ends all of
these.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from core.domain.errors import Unauthorized
from core.domain.identifiers import OrganizationId, PasskeyId, SessionId, UserId, UserKeyId
from core.domain.identity.passkeys import passkey_removed
from core.domain.identity.upstream.identities import identity_unlinked
from core.domain.identity.upstream.vouching import AddedKind, AddedWay
from core.domain.record.events import Actor, Event, Target
from core.domain.services.user_keys import PlacedUserKey, user_key_revoked
from ports.unit_of_work import UnitOfWork


async def require_living(uow: UnitOfWork, session: SessionId) -> None:
    """Checks that the session has not ended since the request came in. Every change that adds or removes a way into the account, or a
    proof, calls this function: a person who ends the session wants to end such a change, too. The caller holds the account. Raises
    `Unauthorized`.
    """
    if not await uow.sessions.lives(session):
        raise Unauthorized("The session has ended", words="session_ended")


async def end_access(uow: UnitOfWork, user: UserId, at: datetime, *, but: SessionId | None = None, forgets_devices: bool = False) -> None:
    """Ends all access, without a round trip of its own. `but` is the caller's session: it goes on, and so do the sessions that it was
    opened from and the sessions that were opened from it. `forgets_devices`: somebody else may have signed in before, whose browsers must
    not be known ones, which guess more often and whose sign-ins no mail tells of.

    The order of locks is fixed: the account, its connected accounts if they end, the mailed links and unfinished sign-ins, devices,
    sessions. A sign-in, the revocation of a device and the deletion of an account take them in this order too, so no two of them wait for
    each other.
    """
    await _end_all_but_sessions(uow, user, at)
    if forgets_devices:
        await uow.devices.revoke_all(user, at, but=but)
    await uow.sessions.end_all(user, but=but)


async def hand_over(uow: UnitOfWork, user: UserId, at: datetime, *, keeps_profile: bool = False) -> None:
    """Does what `end_access` does, for an account that goes to another person, who proves its address. Also ends every way in that the
    earlier holder may have added, keys for the APIs of applications among them, the consents that the earlier holder gave to applications,
    and the terms that they accepted, because nobody would ask the new holder for them. The caller takes care of the password.
    `keeps_profile`: name and picture stay, because a directory has vouched that the account is the person's.
    """
    await _end_what_was_added(uow, user, keeps_profile=keeps_profile)
    await end_access(uow, user, at, forgets_devices=True)


async def end_user_keys(
    uow: UnitOfWork,
    user: UserId,
    at: datetime,
    actor: Actor,
    *,
    but: Collection[UserKeyId] | None,
    organization: OrganizationId | None = None,
) -> Sequence[PlacedUserKey]:
    """Ends the person's keys for the APIs of applications, except for these, and returns the ended ones. `but` is None: those that the
    applications made stay. With an `organization`, only keys at its applications. Unlike keys that go with an account, each is recorded,
    because the account goes on. Comes after `end_access`, and the caller holds the account.
    """
    ended = await uow.user_keys.end_held(user, at, but=but, organization=organization)
    await uow.record_all([user_key_revoked(one.key, one.service_slug, one.organization, actor) for one in ended])
    return ended


async def leave_to_another(uow: UnitOfWork, user: UserId, actor: Actor, organization: OrganizationId) -> None:
    """Clears an account that this organization moves to another person's address. The caller has held the account for the move. Nothing of
    the earlier holder stays: neither the second factor, which would lock the new holder out, nor personal data. The password goes with the
    address. No other organization has a tie to the account, or it could not be moved.
    """
    await end_second_factor(uow, user, actor, organization)
    await uow.accounts.forget_holder(user)


async def end_second_factor(uow: UnitOfWork, user: UserId, actor: Actor, organization: OrganizationId | None = None) -> None:
    """Ends the second factor of an account's earlier holder. It is recorded, but no mail goes out, because the second factor is not the new
    holder's. The caller holds the account.
    """
    if not await uow.mfa.disable(user):
        return
    # The first event is the act itself, the second the entry of the security logs.
    for name in ("user.mfa.disabled", "security.mfa.disabled"):
        event = Event(name, actor, Target("user", str(user)), organization, {"forced": True})
        await (uow.record_in_every_log(event, user) if organization is None else uow.record(event))


async def end_added_way(uow: UnitOfWork, one: AddedWay, user: UserId, actor: Actor) -> None:
    """Ends a passkey or a connected identity that is not the person's, and records it. The caller holds the account."""
    if one.kind is AddedKind.PASSKEY:
        passkey = await uow.passkeys.find_held(user, PasskeyId(one.id))
        if passkey is not None:
            await uow.passkeys.remove(user, passkey.passkey.id)
            await uow.record(passkey_removed(passkey.passkey, actor))
        return
    identity = next((known for known in await uow.identities.list(user) if known.id == one.id), None)
    if identity is not None:
        await uow.identities.remove(identity.id)
        await uow.record(identity_unlinked(identity, actor, service=None))


async def end_access_counting(uow: UnitOfWork, user: UserId, at: datetime) -> int:
    """Does what `end_access` does, and returns the number of ended sessions."""
    await _end_all_but_sessions(uow, user, at)
    return await uow.sessions.revoke_all(user, but=None)


async def hand_over_counting(uow: UnitOfWork, user: UserId, at: datetime) -> int:
    """Does what `hand_over` does, and returns the number of ended sessions."""
    await _end_what_was_added(uow, user)
    return await end_access_counting(uow, user, at)


async def _end_what_was_added(uow: UnitOfWork, user: UserId, *, keeps_profile: bool = False) -> None:
    """Removes the profile, passkeys, connected identities, consents, accepted terms and user keys, before the rest ends. Together with an
    identity go the sign-ins by it that await a second factor, just as when a provider is deleted.
    """
    await uow.accounts.hold(user)
    if not keeps_profile:
        await uow.profiles.forget(user)
    await uow.passkeys.remove_all(user)
    await uow.identities.remove_all(user)
    await uow.consents.remove_all(user)
    await uow.terms.remove_all(user)
    await uow.user_keys.remove_all(user)


async def _end_all_but_sessions(uow: UnitOfWork, user: UserId, at: datetime) -> None:
    await uow.accounts.hold(user)
    await uow.mailed_tokens.end_all(user, at)
    await uow.mfa.end_preauthentications(user, at)
    await uow.sessions.end_codes(user)
    await uow.devices.end_trust(user)

"""A person locks their own account, because somebody else may be in it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest
from core.domain.identity.account_locks import LockedAccount
from core.domain.identity.upstream.claims import AddedKind
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import OWN_USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Id, example
from entrypoints.http.machinery.limits import UNLIMITED


class RecentWay(msgspec.Struct, frozen=True):
    """Something that was added to the account in the 30 days before the lock, and may be somebody else's."""

    kind: AddedKind
    """What it is."""
    id: Id
    """Its id; for an authenticator app, the account's."""
    name: Annotated[str, example("Laptop")]
    """The person's name for it, or the provider's; empty for an authenticator app."""
    added_at: datetime | None
    """When it was added."""


class LockEnded(msgspec.Struct, frozen=True):
    """What a lock ended. Nothing, if the account was locked already."""

    password: Annotated[bool, example(True)]
    """Whether the account had a password."""
    sessions: Annotated[int, example(3)]
    """How many sessions ended, those of applications among them."""
    devices: Annotated[int, example(1)]
    """How many devices were not asked for the second factor, and are now."""
    consents: Annotated[int, example(2)]
    """How many applications may no longer act for the person."""
    keys: Annotated[Sequence[str], example(["Laptop (Wiki)"])]
    """The keys for applications that ended, by their names."""
    recent: Sequence[RecentWay]
    """What was added in the 30 days before, the oldest first."""


@endpoint.post("/api/user/lock", caller=OWN_USER, limit=UNLIMITED, refuses=(BadRequest,), tags=("account",))
async def lock_own_account(call: Call, postern: Postern) -> LockEnded:
    """Lock your account, because somebody else may be in it

    Everything ends that lets anybody in: your sessions, this one too, and those of applications, their consents, your keys for them,
    trusted devices, mailed links, the password. You get a mail with a link for a new password, which opens the account. There you say
    which passkeys and connected accounts of the last 30 days are yours. The second factor stays.
    """
    return locked_record(await postern.identity.account_locks.lock_own(call.caller, call.actor))


def locked_record(done: LockedAccount) -> LockEnded:
    recent = [RecentWay(one.kind, one.id, one.name, one.at) for one in done.recent]
    return LockEnded(done.had_password, done.sessions, done.devices, done.consents, done.keys, recent)

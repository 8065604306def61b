"""The store of hooks, of what they said, and of whom they are asked about."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.claims import DescribedPerson
from core.domain.formats import Json
from core.domain.identifiers import FlowId, HookId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.guards.hook_verdicts import AskingDoor, HookSaid
from core.domain.tenancy.hooks import Hook, HookExchange, HookReport
from core.frozen import Frozen


class SealedHook(Frozen):
    hook: Hook
    sealed_secret: bytes
    previous_sealed_secret: bytes | None
    """None once it signs no more."""


class UnaskedAccess(Frozen, kw_only=True):
    """What an organization's hook says nothing of, however it answers."""

    listed_members: int = 0
    """They come in without a question, until they confirm their membership or allow an application."""
    user_keys: int = 0
    """Keys that people have at the organization's applications: they stay valid after a no."""


class HookTimes(Frozen, kw_only=True):
    """How a hook of the installation stands, and how quick its last answers were: the last fifty, of a week at most. `organization` is the
    slug; None for the installation's own. Times are milliseconds; None where nothing was asked.
    """

    organization: str | None
    point: str
    enforced: bool
    held: bool
    """Work is held after a restore: unless it is enforced, it is not asked."""
    seconds: int
    """How long a sign-in waits for it at most."""
    questions: int
    median: int | None
    p90: int | None
    silent: int
    silence: str
    """What a silence does: go on or refuse."""
    last_asked_at: datetime | None


class AskedHooks(Frozen):
    """The hooks at a door of an organization, the installation's first, and how the person stands there."""

    hooks: Sequence[SealedHook]
    organization_slug: str
    application: Mapping[str, Json] | None
    """How the application at the door is called. None where none is named."""
    person: DescribedPerson
    """Without what its service may learn besides the account."""
    has_second_factor: bool
    has_passkey: bool
    is_new_device: bool
    """The organization has seen no sign-in of the person from the device."""
    is_owner: bool
    """Of the organization or of the platform: an owner gets in whatever a hook says."""


class HookStore(Protocol):
    """`None` for an organization means the installation. Outside a unit of work, `find`, `report`, `exchanges`, `unasked`, `sealed`,
    `to_ask`, `times` and `against` may be called, each as one statement and one round trip. The other methods need a unit of work, and
    those that change a hook one in which the caller holds the organization, or has called `hold_installation`. Only PostgreSQL does it.
    """

    async def find(self, organization: OrganizationId | None) -> Hook | None: ...

    async def hold_installation(self) -> None:
        """Changes of the installation's hook come one after the other."""

    async def hold(self, organization: OrganizationId | None) -> Hook | None:
        """The hook stays as it is until the unit of work ends."""

    async def add(self, hook: Hook, sealed_secret: bytes) -> bool:
        """False when there is one already."""

    async def save(self, hook: Hook) -> None:
        """After `hold`. The report begins anew if `since` is another."""

    async def sealed_secret(self, hook: HookId) -> bytes | None:
        """After `hold`."""

    async def replace_secret(self, hook: Hook, sealed: bytes, previous_sealed: bytes | None, previous_until: datetime) -> None:
        """After `hold`. `hook` is as it stands with the new secret: it is saved, too."""

    async def delete(self, hook: HookId) -> None: ...

    async def report(self, hook: HookId) -> HookReport: ...

    async def exchanges(self, hook: HookId) -> Sequence[HookExchange]:
        """The newest first, fifty at most."""

    async def unasked(self, organization: OrganizationId) -> UnaskedAccess: ...

    async def sealed(self, organization: OrganizationId | None) -> SealedHook | None:
        """The hook with what signs, to try it out. None for one without a secret, too."""

    async def to_ask(self, door: AskingDoor) -> AskedHooks | None:
        """None where nothing is to be asked: no hook, or a person who is neither a member nor a user of the application by an act of their
        own.
        """

    async def against(self, session: SessionId, person: UserId, organization: OrganizationId, service: ServiceId | None) -> bool:
        """Whether hooks that count keep the session out of a door that gives something new: by a no, or as none has let it in lately."""

    async def record(self, exchange: HookExchange) -> None:
        """Keeps the exchange and the newest fifty, and counts it in the report unless it is a test. What belongs to a hook that is gone
        meanwhile, or that was changed since `exchange.at`, counts nowhere.
        """

    async def keep_verdicts(self, session: SessionId, said: Sequence[HookSaid], withdrawn: Sequence[HookSaid] = ()) -> None:
        """The verdicts about this session, and about those of the same device of the person in the organization, so that a refresh token
        meets a no. `withdrawn` are hooks that have asked for more meanwhile: their yes no longer stands, and they have said no no.
        """

    async def times(self) -> Sequence[HookTimes]:
        """Of all hooks, the slowest first."""

    async def ask_in_flow(self, flow: FlowId, most: int) -> bool:
        """Counts a question of this flow. False after `most`."""

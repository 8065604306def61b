"""The store of hooks, of their decisions, and of the users that they are called about."""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.claims import DescribedPerson
from core.domain.formats import Json
from core.domain.identifiers import FlowId, HookId, LoginEventId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.guards.hook_verdicts import AskingDoor, HookSaid, HookVerdict
from core.domain.tenancy.hooks import Hook, HookExchange, HookPeople, HookReport
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
    people: HookPeople


class HookStore(Protocol):
    """`None` for an organization means the installation. Outside a unit of work, `find`, `report`, `exchanges`, `unasked`, `sealed`,
    `to_ask`, `said_of`, `times` and `against` may be called, each as one statement and one round trip. The other methods need a unit of
    work, and those that change a hook one in which the caller holds the organization, or has called `hold_installation`. Only PostgreSQL
    does it.
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

    async def keep_verdicts(self, session: SessionId, said: Sequence[HookSaid]) -> None:
        """The verdicts about this session, and about those of the same device of the person in the organization, so that a refresh token
        meets a no. A silence is about this session alone. What is older than what is kept changes nothing.
        """

    async def keep_refusals(self, refused: LoginEventId, said: Sequence[HookSaid]) -> None:
        """What the hooks said of a sign-in that they refused, beside its row in the log of sign-ins."""

    async def said_of(self, door: AskingDoor, counts_as: UUID) -> Sequence[HookSaid]:
        """What the hook has said of the person in this organization: in every session of theirs, and in the log of sign-ins of the last
        twelve hours. It is read where the hook is silent, and nowhere else.
        """

    async def end_with_silence(
        self, session: SessionId, opened_by: SessionId, person: UserId, organization: OrganizationId, service: ServiceId | None
    ) -> None:
        """A session that only a silence lets in ends twelve hours after it. `opened_by` keeps what the hooks said. Nothing happens where
        none was silent.
        """

    async def times(self) -> Sequence[HookTimes]:
        """Of all hooks, the slowest first."""

    async def ask_in_flow(self, flow: FlowId, most: int) -> bool:
        """Counts a question of this flow. False after `most`."""


class WaitingQuestion(Frozen, kw_only=True):
    """A question on its way, as far as the places for questions look at it."""

    organization: OrganizationId
    people: HookPeople
    person: UserId
    seconds: float
    """How long it waits for a place."""


class HookPlaces(Protocol):
    """Who may ask now, in the memory of one process. The outbound client's neighbour implements it."""

    async def join(self, thing: Hashable | None, question: WaitingQuestion, ask: Callable[[], Awaitable[HookVerdict]]) -> HookVerdict:
        """Questions about one thing are one: whoever comes later waits for its answer. `thing`: None for a question of its own. Raises
        `HooksBusy` at once when too many requests of one person in this organization wait, and what `ask` raises.
        """

    def place(self, question: WaitingQuestion) -> AbstractAsyncContextManager[None]:
        """A place for one question. A free place goes to the organization, kind and person with the fewest, in turn. Raises `HooksBusy`
        where none is free in time.
        """


class HooksBeside(Protocol):
    """Questions that no sign-in waits for. An actor implements it."""

    def post(self, organization: OrganizationId, ask: Callable[[], Awaitable[None]]) -> None:
        """Never waits and never fails. What finds no place is not asked."""

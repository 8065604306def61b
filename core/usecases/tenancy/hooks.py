"""Manages hooks: their settings, report-only mode and enforcement, test requests, and deletion."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import BadRequest, found
from core.domain.identifiers import HookId, OrganizationId
from core.domain.identity.callers import Caller
from core.domain.record.events import Actor
from core.domain.secrets import Secret
from core.domain.tenancy.hooks import (
    Hook,
    HookDraft,
    HookExchange,
    HookReport,
    HookSeenDiffers,
    HookStands,
    HookWithoutSecret,
    changed,
    checked_draft,
    hook_context,
    hook_counts,
    hook_created,
    hook_deleted,
    hook_destination,
    hook_in_shadow,
    hook_secret_rotated,
    hook_tested,
    hook_updated,
    in_shadow,
    let_count,
    may_count,
    previous_hook_context,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.webhooks import OVERLAP, SECRET_BYTES, secret_of
from core.frozen import Frozen, replace, values_of
from core.usecases.tenancy.hook_asking import HookAsking
from core.usecases.tenancy.rights import hold_members, hold_office, require_owner
from ports.crypto import KeyRing
from ports.outbound import Outbound
from ports.system import System
from ports.tenancy.hooks import HookStore, UnaskedAccess
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

NO_HOOK: Final = "There is no hook"
SEEN_TOGETHER: Final = "."
"""Stands between the digest of the settings and that of the report, which an owner says yes to together."""

HookKeeper = Member | Caller | None
"""A member, who has to be an owner of their organization; or, for the installation, whoever calls, who has to be a platform owner. Both are
looked at once more within the transaction of each change. None: the operator of the installation, by a command.
"""


class ShownHook(Frozen):
    """A hook with what it has said since it stands as it is."""

    hook: Hook
    report: HookReport
    may_count: bool
    """Whether an owner may let it count by now."""
    unasked: UnaskedAccess
    """Zeros for the installation's."""

    @property
    def seen(self) -> str:
        """What an owner who lets the hook count says yes to: the settings, and what the report shows."""
        return f"{self.hook.digest}{SEEN_TOGETHER}{self.report.digest}"


class HookWithSecret(Frozen):
    """A hook, and its secret if it has a new one. No later answer shows the secret."""

    shown: ShownHook
    secret: Secret | None


class Hooks(Frozen):
    """A hook belongs to an organization, whose owners manage it, or to the installation, whose platform owners do. Each change locks the
    owner of the hook, so that no two people change a hook at once, and nobody who has just lost the role changes one.

    Where an organization may be None, this means the installation.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: HookStore
    hook_asking: HookAsking
    outbound: Outbound
    keyring: KeyRing
    system: System

    async def get(self, organization: OrganizationId | None) -> ShownHook | None:
        """None while there is no hook."""
        hook = await self.lookup.find(organization)
        return None if hook is None else await self._shown(hook)

    async def unasked(self, organization: OrganizationId) -> UnaskedAccess:
        """What a hook would say nothing of. The page says it before there is a hook."""
        return await self.lookup.unasked(organization)

    async def exchanges(self, organization: OrganizationId | None) -> Sequence[HookExchange]:
        """The newest first. Raises `NotFound`."""
        hook = found(await self.lookup.find(organization), NO_HOOK)
        return await self.lookup.exchanges(hook.id)

    async def put(self, keeper: HookKeeper, draft: HookDraft, actor: Actor, *, seen: str | None) -> HookWithSecret:
        """Makes the hook, or changes it, and puts it in shadow. `seen`: the digest of the settings that the owner has seen; None for no
        hook. Raises `BadRequest`, `Forbidden` for anybody but an owner, and `HookSeenDiffers`.
        """
        wanted, now, secret = checked_draft(draft), self.system.clock.now(), None
        if not self.outbound.may_call(hook_destination(wanted.address)):
            raise BadRequest(
                "address: this address is not public, and the operator of this installation has not allowed it", words="address_not_public"
            )
        async with self.unit_of_work() as uow:
            organization = await self._hold_keeper(uow, keeper)
            before = await uow.hooks.hold(organization)
            if seen != (None if before is None else before.digest):
                raise HookSeenDiffers
            if before is None:
                after, secret = self._new(organization, wanted), secret_of(self.system.secrets.key_bytes(SECRET_BYTES))
                await uow.hooks.add(after, self.keyring.seal(secret.reveal().encode(), hook_context(after.id)))
                await uow.record(hook_created(after, actor))
            else:
                after = changed(before, wanted, now)
                if after != before:
                    await uow.hooks.save(after)
                    await uow.record(hook_updated(before, after, actor))
            await uow.commit()
        return HookWithSecret(await self._shown(after), secret)

    async def rotate_secret(self, keeper: HookKeeper, actor: Actor) -> HookWithSecret:
        """The replaced secret signs for one more day. Raises `NotFound`, `Forbidden`."""
        secret = secret_of(self.system.secrets.key_bytes(SECRET_BYTES))
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            before = await self._held(uow, keeper)
            sealed = await uow.hooks.sealed_secret(before.id)
            # One that has arrived without a secret begins to be asked, so its report and its time in shadow begin, too.
            since = now if before.secret_made_at is None else before.since
            after = replace(before, since=since, secret_made_at=now, updated_at=now)
            await uow.hooks.replace_secret(
                after,
                self.keyring.seal(secret.reveal().encode(), hook_context(before.id)),
                None if sealed is None else self._as_previous(before.id, sealed),
                now + OVERLAP,
            )
            await uow.record(hook_secret_rotated(after, actor))
            await uow.commit()
        return HookWithSecret(await self._shown(after), secret)

    async def let_count(self, keeper: HookKeeper, actor: Actor, *, seen: str) -> ShownHook:
        """The owner's word, about the settings and the report that the owner has seen (docs/decisions/0109-the-owners-word.md). Raises
        `NotFound`, `Forbidden`, `HookSeenDiffers` and `HookTooNew`.
        """
        settings, _, shown = seen.partition(SEEN_TOGETHER)
        async with self.unit_of_work() as uow:
            before = await self._held(uow, keeper)
            report = await uow.hooks.report(before.id)
            now = self.system.clock.now()
            after = let_count(before, report, seen=settings, seen_report=shown, counts_as=self.system.ids.new(), now=now)
            if after != before:
                await uow.hooks.save(after)
                await uow.record(hook_counts(after, report, actor))
            await uow.commit()
        return await self._shown(after)

    async def put_in_shadow(self, keeper: HookKeeper, actor: Actor) -> ShownHook:
        """May be repeated. Raises `NotFound`, `Forbidden`."""
        async with self.unit_of_work() as uow:
            before = await self._held(uow, keeper)
            after = before
            if before.stands is HookStands.COUNTS:
                after = in_shadow(before, self.system.clock.now())
                await uow.hooks.save(after)
                await uow.record(hook_in_shadow(after, actor))
            await uow.commit()
        return await self._shown(after)

    async def test(self, keeper: HookKeeper, actor: Actor) -> HookExchange:
        """Asks the hook once about nobody. The exchange is kept, and counts nowhere; a silence is an outcome, too. Raises `NotFound`,
        `Forbidden`, and `HookWithoutSecret`.
        """
        async with self.unit_of_work() as uow:
            tested = await self._held(uow, keeper)
            if tested.secret_made_at is None:
                raise HookWithoutSecret
            await uow.record(hook_tested(tested, actor))
            await uow.commit()
        # No transaction is open while the receiver is asked.
        return await self.hook_asking.try_out(found(await self.lookup.sealed(tested.organization), NO_HOOK))

    async def delete(self, keeper: HookKeeper, actor: Actor) -> None:
        """Its verdicts and exchanges go with it. Raises `NotFound`, `Forbidden`."""
        async with self.unit_of_work() as uow:
            before = await self._held(uow, keeper)
            await uow.hooks.delete(before.id)
            await uow.record(hook_deleted(before, actor))
            await uow.commit()

    async def _hold_keeper(self, uow: UnitOfWork, keeper: HookKeeper) -> OrganizationId | None:
        if isinstance(keeper, Member):
            acting, _ = await hold_members(uow, keeper)
            await require_owner(uow, acting, self.system.clock.now())
            return keeper.organization
        if keeper is not None:
            await hold_office(uow, keeper)
        await uow.hooks.hold_installation()
        return None

    async def _held(self, uow: UnitOfWork, keeper: HookKeeper) -> Hook:
        return found(await uow.hooks.hold(await self._hold_keeper(uow, keeper)), NO_HOOK)

    async def _shown(self, hook: Hook) -> ShownHook:
        unasked = UnaskedAccess() if hook.organization is None else await self.lookup.unasked(hook.organization)
        report = await self.lookup.report(hook.id)
        return ShownHook(hook, report, may_count(hook, report, self.system.clock.now()), unasked)

    def _new(self, organization: OrganizationId | None, wanted: HookDraft) -> Hook:
        now = self.system.clock.now()
        return Hook(
            id=HookId(self.system.ids.new()),
            organization=organization,
            **values_of(wanted),
            since=now,
            secret_made_at=now,
            created_at=now,
            updated_at=now,
        )

    def _as_previous(self, hook: HookId, sealed: bytes) -> bytes:
        return self.keyring.seal(self.keyring.open(sealed, hook_context(hook)), previous_hook_context(hook))

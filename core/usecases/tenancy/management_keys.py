"""Management API keys: creating, adopting and revoking them, and the access tokens that carry a key's rights."""

from collections.abc import Awaitable, Callable, Sequence

from core.domain.errors import OrganizationNotActive, Unauthorized, found
from core.domain.identifiers import ManagementKeyId, OrganizationId, UserId
from core.domain.identity.callers import Caller
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.tenancy.management_keys import (
    FORMER_LIFE,
    KEY_TOKEN_LIFETIME,
    OF_ORGANIZATION,
    OF_PLATFORM,
    OF_WORKLOAD,
    Key,
    MadeByKey,
    ManagementKey,
    ManagementKeyHolder,
    NewMachineKey,
    PlatformCapability,
    end_of_life,
    holder_of,
    key_claims,
    key_name,
    key_token,
    management_key_adopted,
    management_key_created,
    management_key_ended,
    prefix_of,
    require_keys_room,
    wanted_capabilities,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.trusted_issuers import TrustedIssuer
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import hold_members, hold_office, require_capability, require_may_grant, require_owner
from ports.crypto import TokenSigner, TokenVerifier
from ports.system import Presence, System
from ports.tenancy.members import ManagementKeyLookup
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


async def add_key(
    add: Callable[[Key, bytes], Awaitable[int | None]], draw: Callable[[], Token], key_of: Callable[[str], Key]
) -> tuple[NewMachineKey[Key], int]:
    """Draws a new machine key of any kind and stores it. `key_of` makes the stored record for a prefix, and `add` stores the record unless
    another key has the prefix. Returns the new key and the number of keys before it.
    """
    while True:
        text = draw()
        key = key_of(prefix_of(text))
        count = await add(key, text.digest())
        if count is not None:
            return NewMachineKey(key, text), count
        # Another key has this prefix: draw again. The probability is one in two thousand million for each existing key.


NO_SUCH_MANAGEMENT_KEY = "There is no such management key"


class ManagementKeys(Frozen):
    """Creates, lists, adopts and revokes management API keys. Members create keys of their organization and owners adopt them; platform
    owners manage the keys of the platform. Scripts present a key on every request.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: ManagementKeyLookup
    presence: Presence[ManagementKeyId]
    system: System

    async def resolve(self, key: Token) -> ManagementKeyHolder:
        """The key's holder. Raises `Unauthorized` when there is no such key, or it has ended or expired, and `OrganizationNotActive`."""
        now = self.system.clock.now()
        holder = holder_of(await self.lookup.find(key.digest()), key, now, "The management key is not valid")
        self.presence.seen(holder.key, now)
        return holder

    async def create(
        self, member: Member, actor: Actor, *, name: str, capabilities: Sequence[Capability], expires_in_days: int
    ) -> NewMachineKey[ManagementKey]:
        """Raises `BadRequest`, and `Forbidden` for a capability that the member may not give."""
        wanted = wanted_capabilities(capabilities)
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            require_capability(acting, Capability.INTEGRATIONS_MANAGE)
            await require_may_grant(uow, acting, wanted, self.system.clock.now())
            made = await self._add(uow, member.organization, member.user, (name, wanted, expires_in_days))
            await uow.record(management_key_created(made.key, actor))
            await uow.commit()
        return made

    async def create_for_platform(
        self, owner: Caller, actor: Actor, *, name: str, capabilities: Sequence[PlatformCapability], expires_in_days: int
    ) -> NewMachineKey[ManagementKey]:
        """Raises `BadRequest`, and `Forbidden` when the caller is no longer a platform owner."""
        wanted = wanted_capabilities(capabilities)
        async with self.unit_of_work() as uow:
            await hold_office(uow, owner)
            made = await self._add(uow, None, owner.user, (name, wanted, expires_in_days))
            await uow.record(management_key_created(made.key, actor))
            await uow.commit()
        return made

    async def list(self, organization: OrganizationId | None) -> Sequence[ManagementKey]:
        """Newest first, expired keys included. The keys of the platform for None."""
        return await self.lookup.list(organization)

    async def get(self, organization: OrganizationId | None, key: ManagementKeyId) -> tuple[ManagementKey, MadeByKey]:
        """The key, and what it has made that lasts. Raises `NotFound`."""
        return found(await self.lookup.find_with_made(organization, key), NO_SUCH_MANAGEMENT_KEY)

    async def adopt(self, member: Member, key: ManagementKeyId, actor: Actor) -> tuple[ManagementKey, Token | None]:
        """From now on the key no longer depends on its maker, and has a new secret. May be repeated: then there is no secret in the answer.
        Raises `NotFound`, and `Forbidden` when the caller is no longer the owner.
        """
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            await require_owner(uow, acting, self.system.clock.now())
            return await self._adopt(uow, member.organization, key, member.user, actor)

    async def adopt_for_platform(self, owner: Caller, key: ManagementKeyId, actor: Actor) -> tuple[ManagementKey, Token | None]:
        """As `adopt`, for a key of the platform."""
        async with self.unit_of_work() as uow:
            await hold_office(uow, owner)
            return await self._adopt(uow, None, key, owner.user, actor)

    async def end_for_platform(self, owner: Caller, key: ManagementKeyId, actor: Actor) -> None:
        """The key is refused from the next request on. It has made nothing that lasts. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            await hold_office(uow, owner)
            ended = found(await uow.management_keys.end(None, key), NO_SUCH_MANAGEMENT_KEY)
            await uow.record(management_key_ended(ended, actor, MadeByKey(), ended_made=False))
            await uow.commit()

    async def _add(
        self, uow: UnitOfWork, organization: OrganizationId | None, maker: UserId, wanted: tuple[str, Sequence[str], int]
    ) -> NewMachineKey[ManagementKey]:
        name, now = key_name(wanted[0]), self.system.clock.now()
        expires_at = end_of_life(wanted[2], now)
        made, count = await add_key(
            uow.management_keys.add,
            lambda: self.system.secrets.key(OF_PLATFORM if organization is None else OF_ORGANIZATION),
            lambda prefix: ManagementKey(
                id=ManagementKeyId(self.system.ids.new()),
                organization=organization,
                name=name,
                prefix=prefix,
                capabilities=tuple(wanted[1]),
                expires_at=expires_at,
                created_by=maker,
                created_at=now,
            ),
        )
        require_keys_room(count)
        return made

    async def _adopt(
        self, uow: UnitOfWork, organization: OrganizationId | None, key: ManagementKeyId, owner: UserId, actor: Actor
    ) -> tuple[ManagementKey, Token | None]:
        known = found(await uow.management_keys.find(organization, key), NO_SUCH_MANAGEMENT_KEY)
        if known.adopted_by == owner:
            return known, None
        now = self.system.clock.now()
        while True:
            text = self.system.secrets.key(OF_PLATFORM if organization is None else OF_ORGANIZATION)
            renewed = replace(known, prefix=prefix_of(text))
            adopted = await uow.management_keys.adopt(renewed, text.digest(), owner, now, now + FORMER_LIFE)
            if adopted is not None:
                await uow.record(management_key_adopted(adopted, actor))
                await uow.commit()
                return adopted, text


_REFUSED = "The management key is not valid"


class KeyTokens(Frozen):
    """Issues access tokens with the rights of a management API key to workloads, and resolves them on every request."""

    lookup: ManagementKeyLookup
    signer: TokenSigner
    verifier: TokenVerifier
    presence: Presence[ManagementKeyId]
    system: System
    issuer: str

    async def issue(self, rule: TrustedIssuer) -> tuple[Token, int]:
        """A token, and the seconds that it lives. Raises `Unauthorized` when the key has ended or expired, and `OrganizationNotActive`."""
        assert rule.key is not None  # noqa: S101 - for the type checker: the caller has found the rule by its key
        now = self.system.clock.now()
        known = await self.lookup.find_trusting(rule.key, rule.id, rule.updated_at)
        if known is None or known.expires_at is None or known.is_expired(now):
            raise Unauthorized(_REFUSED)
        if not known.organization_is_active:
            raise OrganizationNotActive
        expires_at = min(now + KEY_TOKEN_LIFETIME, known.expires_at)
        token_id = str(self.system.ids.new())
        claims = key_claims(known.holder, rule, issuer=self.issuer, token_id=token_id, now=now, expires_at=expires_at)
        return Token(f"{OF_WORKLOAD}_{await self.signer.sign_access(claims)}"), int((expires_at - now).total_seconds())

    async def resolve(self, token: str) -> ManagementKeyHolder:
        """The holder of the key behind the token. Raises `TokenExpired`, `TokenInvalid`, `OrganizationNotActive`, and `Unauthorized` when
        the key has ended or expired, or the trusted issuer is gone or has changed.
        """
        claimed = key_token(await self.verifier.verify_issued(token.removeprefix(f"{OF_WORKLOAD}_")))
        known = await self.lookup.find_trusting(claimed.key, claimed.rule, claimed.rule_of)
        now = self.system.clock.now()
        if known is None or known.is_expired(now):
            raise Unauthorized(_REFUSED)
        if not known.organization_is_active:
            raise OrganizationNotActive
        self.presence.seen(claimed.key, now)
        return known.holder

"""A person's devices: recognised at each sign-in, and listed, named and revoked by their owner."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest, Forbidden, NotFound
from core.domain.identifiers import DeviceId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client, Device, Remembered, device_name, device_renamed, device_revoked, trust_period
from core.domain.identity.risk import Approach, Knowledge, Sighting, judge
from core.domain.record.events import Actor
from core.frozen import Frozen, replace
from ports.identity.sign_in import DeviceStore, Locations, Proxies, UserAgents
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Devices(Frozen):
    """Recognizes the devices of users.

    A sign-in calls `observe` before it looks the account up, `judge` with the result of the look-up, and `remember` when it succeeds.

        approach = await devices.observe(client)                      # no database
        ...                                                           # the look-up brings `Knowledge`
        sighting = devices.judge(approach, knowledge)                 # plain computation
        if mfa_enabled and not sighting.may_skip_second_factor: ...
        remembered = await devices.remember(unit, user, sighting)     # no round trip of its own
    """

    unit_of_work: UnitOfWorkFactory
    lookup: DeviceStore
    agents: UserAgents
    locations: Locations
    proxies: Proxies
    system: System

    async def observe(self, client: Client) -> Approach:
        """Collects what a request tells about the device and its location. Does not ask the database and never refuses."""
        return Approach(
            client=client,
            agent=await self.agents.parse(client.user_agent),
            location=await self.locations.find(client.address),
            through_proxy=self.proxies.contain(client.address),
        )

    async def called(self, user_agent: str | None) -> str:
        """Returns a readable name for a user agent. Empty when the client sent none, or a meaningless one."""
        agent = await self.agents.parse(user_agent or "")
        return agent.name if agent.browser or agent.os else ""

    def judge(self, approach: Approach, known: Knowledge) -> Sighting:
        """Recognises the device and scores the risk.

        `sighting.may_skip_second_factor`: the device is trusted, and nothing about the request is too unusual.
        `sighting.risk.demands_more`: the caller flags the login event, and mails a notice to a person without a second factor.
        `sighting.is_proven`: wrong guesses by a stranger must not lock this device out. The login event takes `risk.score`, `risk.factors`
        and `approach.location`.
        """
        return judge(approach, known, self.system.clock.now())

    async def remember(self, uow: UnitOfWork, user: UserId, sighting: Sighting, *, trust: bool = False) -> Remembered:
        """Records a sign-in that succeeded with all its factors on its device, and adds a new device. Runs within the caller's unit of
        work, without a round trip of its own. Call it before the session is added.

        Set `trust` when the person gave a second factor and asked for trust: the client gets a trust token, unless one of the person's
        organizations trusts no device. The client keeps the tokens in the answer. The answer has a device token even when the request
        brought one, so that the cookie lasts longer.
        """
        now = self.system.clock.now()
        period = trust_period(sighting.trust_days) if trust else None
        if sighting.device is None:
            device, token = DeviceId(self.system.ids.new()), self.system.secrets.token()
            await uow.devices.add(_first_seen(device, user, sighting, now), token.digest())
            remembered = Remembered(device, is_new=True, device_token=token)
        else:
            device = sighting.device
            # Trust is bound to the token. A device that was recognised only by its looks has no token yet.
            replacement = self.system.secrets.token() if sighting.needs_token or (period and not sighting.is_proven) else None
            await uow.devices.used(device, user, sighting, None if replacement is None else replacement.digest(), now)
            brought = sighting.approach.client.device_token if sighting.is_proven else None
            remembered = Remembered(device, is_new=False, device_token=replacement or brought)
        if not period:
            return remembered
        trust_token = self.system.secrets.token()
        await uow.devices.trust(device, trust_token.digest(), now, now + period)
        return replace(remembered, trust_token=trust_token, trusted_for=period)

    async def list(self, user: UserId) -> Sequence[Device]:
        """Returns the person's devices; the last used comes first."""
        return await self.lookup.list(user)

    async def get(self, user: UserId, device: DeviceId) -> Device:
        """Raises `NotFound`, or `Forbidden` when the device is another person's."""
        return _own(await self.lookup.find(device), user)

    async def rename(self, user: UserId, device: DeviceId, name: str, actor: Actor) -> Device:
        """Raises `BadRequest`, `NotFound`, or `Forbidden` when the device is another person's."""
        name = device_name(name)
        async with self.unit_of_work() as uow:
            held = _own(await uow.devices.hold(device), user)
            if held.revoked_at is not None:
                raise NotFound(_UNKNOWN, words="device_unknown")
            if held.name == name:
                return held
            now = self.system.clock.now()
            await uow.devices.rename(device, name, now)
            await uow.record(device_renamed(held, name, actor))
            await uow.commit()
        return replace(held, name=name, updated_at=now)

    async def revoke(self, caller: Caller, device: DeviceId, actor: Actor) -> None:
        """Ends the device's sessions; they and their tokens are refused from the next request on. May be repeated. Raises `BadRequest` for
        the device that the caller is using, `NotFound`, or `Forbidden` when the device is another person's.
        """
        if caller.device == device:
            raise BadRequest("The current device cannot be revoked: sign out instead", words="device_in_use")
        async with self.unit_of_work() as uow:
            # The account is held before the device, as everywhere. A request that opens a session from one of the device's sessions holds
            # the account, too.
            await uow.accounts.hold(caller.user)
            held = _own(await uow.devices.hold(device), caller.user)
            if held.revoked_at is None:
                # The device is held: a simultaneous sign-in with the device has added its session already, or waits for this unit of work.
                await uow.devices.revoke(device, self.system.clock.now())
                sessions = await uow.sessions.revoke_of_device(device)
                await uow.record(device_revoked(held, sessions, actor))
                await uow.commit()


_UNKNOWN: Final = "The device does not exist"


def _own(device: Device | None, user: UserId) -> Device:
    if device is None:
        raise NotFound(_UNKNOWN, words="device_unknown")
    if device.user != user:
        raise Forbidden("The device belongs to another user", words="device_unknown")
    return device


def _first_seen(device: DeviceId, user: UserId, sighting: Sighting, now: datetime) -> Device:
    approach = sighting.approach
    return Device(
        id=device,
        user=user,
        name=approach.agent.name,
        agent=approach.agent,
        last_used_at=now,
        last_address=approach.client.address,
        last_location=approach.location,
        risk_score=sighting.risk.score,
        trusted_until=None,
        created_at=now,
        updated_at=now,
        risk_factors=tuple(factor.value for factor in sighting.risk.factors),
    )

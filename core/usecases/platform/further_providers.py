"""Custom providers of the installation, which platform owners add, change and remove."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from core.domain.errors import BadRequest, Conflict, NotFound, found
from core.domain.identifiers import FurtherProviderId
from core.domain.identity.upstream.further import (
    FurtherChange,
    FurtherProvider,
    FurtherState,
    ProviderPreset,
    activated,
    after_test,
    client_secret,
    further_activated,
    further_created,
    further_deleted,
    further_tested,
    further_updated,
    renamed,
    require_room,
    sealing_context,
    short_name,
)
from core.domain.identity.upstream.providers import ClientAtProvider, FurtherKind, FurtherSettings
from core.domain.record.events import Actor
from core.domain.requests import UNCHANGED
from core.domain.secrets import Secret
from core.domain.tenancy.branding import LOGO_BOUNDS, Logo, look_picture
from core.domain.tenancy.upstream_providers import require_seen
from core.frozen import Frozen, replace
from core.usecases.identity.upstream.providers import FurtherOffers
from ports.crypto import CannotOpen, KeyRing
from ports.identity.upstream import FurtherProviderStore, ProviderPresets, UpstreamProtocols
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

NO_SUCH_PROVIDER = "There is no such provider"


class NewFurther(Frozen, kw_only=True):
    """A provider to add. What the preset says counts where the change says nothing."""

    key: str
    preset: str = ""
    kind: FurtherKind | None = None
    secret: str
    change: FurtherChange


class FurtherProviders(Frozen):
    """The caller has checked that the request comes from a platform owner with a recent authentication, or from the operator."""

    unit_of_work: UnitOfWorkFactory
    lookup: FurtherProviderStore
    presets: ProviderPresets
    protocols: UpstreamProtocols
    offers: FurtherOffers
    keyring: KeyRing
    system: System

    def known_presets(self) -> Sequence[ProviderPreset]:
        return self.presets.all()

    async def list(self) -> Sequence[FurtherProvider]:
        return await self.lookup.list()

    async def looks(self) -> Sequence[tuple[str, Callable[[], Awaitable[None]]]]:
        """For each provider that is on, its short name, and what looks whether people can sign in through it. That raises `BadRequest`."""
        return [(one.key, partial(self._look, one, sealed)) for one, sealed in await self.lookup.kept()]

    async def get(self, key: str) -> FurtherProvider:
        """Raises `NotFound`."""
        return found(await self.lookup.find(key), NO_SUCH_PROVIDER)

    async def people(self, providers: Sequence[FurtherProvider]) -> Mapping[str, int]:
        """How many people are connected to each, by its short name. Those of an issuer of before are none of them."""
        counted = await self.lookup.people([one.key for one in providers])
        return {one.key: counted.get((one.key, one.settings.identity_issuer), 0) for one in providers}

    async def add(self, new: NewFurther, actor: Actor) -> FurtherProvider:
        """Adds a draft, whatever the change says of `enabled`, unless it says `active`. Raises `BadRequest`, also when an issuer does not
        answer as one, and `Conflict` when the short name is taken.
        """
        preset = None if not new.preset else self.presets.find(new.preset)
        if new.preset and preset is None:
            raise BadRequest("preset: there is no such preset", words="provider_preset_unknown")
        now = self.system.clock.now()
        settings = preset.settings if preset is not None else FurtherSettings(kind=new.kind or FurtherKind.OPENID)
        if preset is None and settings.kind is FurtherKind.OPENID and "scopes" not in new.change.said:
            settings = replace(settings, scopes=("openid", "email", "profile"))
        begun = FurtherProvider(
            id=FurtherProviderId(self.system.ids.new()),
            key=short_name(new.key or (preset.key if preset is not None else "")),
            preset=new.preset,
            name=preset.name if preset is not None else "",
            settings=settings,
            client_id="",
            state=FurtherState.DRAFT,
            enabled=False,
            position=0,
            secret_set_at=now,
            created_at=now,
            updated_at=now,
        )
        secret = client_secret(new.secret)
        # The secret is new, wherever it goes to.
        change = replace(new.change, client_secret=secret)
        provider = (change if change.active is True else replace(change, enabled=UNCHANGED)).applied(begun, now)
        _require_named(provider)
        await self.protocols.check_further(provider.settings, ClientAtProvider(provider.client_id, Secret(secret)))
        async with self.unit_of_work() as uow:
            await uow.further_providers.hold_all()
            known = await uow.further_providers.list()
            require_room(len(known))
            if any(one.key == provider.key for one in known):
                raise Conflict("key: another provider has this short name", words="provider_key_taken")
            await self._require_organizations(uow, provider)
            await uow.further_providers.save(provider, self.keyring.seal(secret.encode(), sealing_context(provider.id)))
            await uow.record(further_created(provider, actor))
            if provider.state is FurtherState.ACTIVE:
                await uow.record(further_activated(provider, actor, by_request=True))
            await uow.commit()
        self.offers.forget()
        return provider

    async def change(self, key: str, change: FurtherChange, actor: Actor) -> FurtherProvider:
        """Raises `NotFound`, `BadRequest`, also when an issuer does not answer as one, and `Conflict` when ids of people who are connected
        would mean other people.
        """
        said: dict[str, Any] = dict(change.said)
        if isinstance(change.client_secret, str):
            said["client_secret"] = client_secret(change.client_secret)
        change, now = FurtherChange(**said), self.system.clock.now()
        before = await self.get(key)
        after = change.applied(before, now)
        if after.settings != before.settings or "client_secret" in said:
            await self._check(before, after, said.get("client_secret"))
        async with self.unit_of_work() as uow:
            before, sealed = await self._held(uow, key)
            after = change.applied(before, now)
            if after == before:
                return before
            await self._require_organizations(uow, after)
            if after.settings.naming != before.settings.naming:
                # Whoever is being connected is counted already, or is not connected: adding an identity waits for this row, and looks
                # at what it says then.
                counted = await uow.further_providers.people([key])
                after = renamed(before, after, {issuer: people for (_, issuer), people in counted.items()})
            if "client_secret" in said:
                sealed = self.keyring.seal(said["client_secret"].encode(), sealing_context(after.id))
            await uow.further_providers.save(after, sealed)
            await uow.record(further_updated(before, after, actor))
            if after.state is FurtherState.ACTIVE and before.state is FurtherState.DRAFT:
                await uow.record(further_activated(after, actor, by_request=True))
            await uow.commit()
        self.offers.forget()
        return after

    async def activate(self, key: str, seen: str, actor: Actor) -> FurtherProvider:
        """Lets people sign in through a draft. `seen` is the digest of the settings that the platform owner has seen. Raises `NotFound`,
        `Conflict` when they are others by now, and `BadRequest` unless they were tested successfully.
        """
        async with self.unit_of_work() as uow:
            before, sealed = await self._held(uow, key)
            require_seen(seen, before.digest)
            after = activated(before, self.system.clock.now())
            if after == before:
                return before
            await uow.further_providers.save(after, sealed)
            await uow.record(further_activated(after, actor, by_request=False))
            await uow.commit()
        self.offers.forget()
        return after

    async def note_test(self, key: str, digest: bytes, actor: Actor, *, succeeded: bool) -> FurtherProvider:
        """Keeps that a test of the settings with this digest has succeeded, or failed. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            before, sealed = await self._held(uow, key)
            after = after_test(before, digest, self.system.clock.now()) if succeeded else before
            if after != before:
                await uow.further_providers.save(after, sealed)
            await uow.record(further_tested(after, actor, succeeded=succeeded))
            await uow.commit()
        return after

    async def _held(self, uow: UnitOfWork, key: str) -> tuple[FurtherProvider, bytes]:
        held = await uow.further_providers.hold(key)
        if held is None:
            raise NotFound(NO_SUCH_PROVIDER)
        return held

    async def put_logo(self, key: str, content: bytes, actor: Actor, *, declared: str = "") -> FurtherProvider:
        """Sets an uploaded picture as the logo. Raises `BadRequest`, `PayloadTooLarge` and `NotFound`."""
        return await self._replace_logo(key, look_picture(content, LOGO_BOUNDS, declared), actor)

    async def remove_logo(self, key: str, actor: Actor) -> None:
        """Does nothing when there is no logo. Raises `NotFound`."""
        await self._replace_logo(key, None, actor)

    async def _replace_logo(self, key: str, logo: Logo | None, actor: Actor) -> FurtherProvider:
        async with self.unit_of_work() as uow:
            before, _ = await self._held(uow, key)
            after = before.with_logo(None if logo is None else logo.digest, self.system.clock.now())
            if after == before:
                return before
            await uow.further_providers.save_logo(after, logo)
            await uow.record(further_updated(before, after, actor))
            await uow.commit()
        self.offers.forget()
        return after

    async def remove(self, key: str, actor: Actor) -> None:
        """Removes the provider, and disconnects everybody from it. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            provider, _ = await self._held(uow, key)
            people = await uow.further_providers.remove(provider)
            await uow.record(further_deleted(provider, people, actor))
            await uow.commit()
        self.offers.forget()

    async def _look(self, provider: FurtherProvider, sealed: bytes) -> None:
        try:
            secret = self.keyring.open(sealed, sealing_context(provider.id)).decode()
        except CannotOpen:
            raise BadRequest(
                "client_secret: no current encryption key decrypts it, so send it again", words="provider_secret_unreadable"
            ) from None
        await self.protocols.check_further(provider.settings, ClientAtProvider(provider.client_id, Secret(secret)))

    async def _check(self, before: FurtherProvider, after: FurtherProvider, given: str | None) -> None:
        secret = given
        if secret is None:
            async with self.unit_of_work() as uow:
                _, sealed = await self._held(uow, before.key)
            secret = self.keyring.open(sealed, sealing_context(before.id)).decode()
        await self.protocols.check_further(after.settings, ClientAtProvider(after.client_id, Secret(secret)))

    async def _require_organizations(self, uow: UnitOfWork, provider: FurtherProvider) -> None:
        named: Sequence[str] = provider.organizations or ()
        if named and await uow.further_providers.unknown_organizations(named):
            raise BadRequest("organizations: there is no such organization", words="provider_organization_unknown")


def _require_named(provider: FurtherProvider) -> None:
    for field, value in (("name", provider.name), ("client_id", provider.client_id)):
        if not value:
            raise BadRequest(f"{field}: needed", words="provider_setting_missing")

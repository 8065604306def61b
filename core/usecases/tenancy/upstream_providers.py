"""Manages an organization's enterprise connections, and its own OAuth clients at the social providers."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, Protocol

from core.domain.errors import BadRequest, Conflict, found
from core.domain.identifiers import OAuthCredentialId, OrganizationId, UpstreamProviderId
from core.domain.identity.upstream.connections import NO_CHANGE, NOTHING_SET, ConnectionState, ProviderKind, SamlChange
from core.domain.identity.upstream.directory_visits import second_factor_values
from core.domain.identity.upstream.identity_assertions import AssertionSettings
from core.domain.identity.upstream.ldap.filters import require_no_credential
from core.domain.identity.upstream.ldap.settings import (
    LONGEST_AUTHORITIES,
    NO_LDAP_CHANGE,
    NOTHING_DESCRIBED,
    LdapChange,
    LdapSettings,
    authorities_in,
    bind_password_context,
    bound_password,
    ldap_issuer,
)
from core.domain.identity.upstream.providers import Provider
from core.domain.identity.upstream.saml.assertions import MOST_CERTIFICATES
from core.domain.record.events import Actor
from core.domain.requests import Unchanged
from core.domain.saml import entity_id
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.setup import IN_HAND
from core.domain.tenancy.upstream_providers import (
    OAuthCredentials,
    UpstreamProvider,
    UpstreamProviderChange,
    after_change,
    as_made,
    client_id,
    client_secret,
    credentials_removed,
    credentials_updated,
    issuer,
    oauth_credential_context,
    people_released,
    profile_mapping,
    provider_assertions_changed,
    provider_created,
    provider_deleted,
    provider_name,
    provider_updated,
    require_room,
    scopes,
    sealing_context,
    turned,
    with_assertions,
    with_description,
    with_issuer,
    with_secret,
    with_settings,
)
from core.frozen import Frozen, replace
from core.usecases.identity.upstream.providers import ConnectionKeys
from core.usecases.tenancy.rights import Acting, acted_as_owner, hold_members, hold_rights, require_capability, require_owner
from ports.crypto import KeyRing
from ports.identity.upstream import ServiceProviderDocuments, UpstreamProtocols
from ports.system import System
from ports.tenancy.connections import OAuthCredentialStore, UpstreamProviderStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

NO_FACTOR_BY_LDAP: Final = "second_factor_values: a directory by LDAP states no second factor"
NO_SUCH_PROVIDER: Final = "There is no such upstream provider"


class OrganizationUpstreamProviders(Frozen):
    """Creates, changes and deletes an organization's enterprise connections, for members who may manage its settings."""

    unit_of_work: UnitOfWorkFactory
    lookup: UpstreamProviderStore
    protocols: UpstreamProtocols
    documents: ServiceProviderDocuments
    keys: ConnectionKeys
    keyring: KeyRing
    system: System
    own_issuer: str

    async def list(self, member: Member) -> Sequence[UpstreamProvider]:
        return await self.lookup.list(member.organization)

    async def create(
        self,
        member: Member,
        actor: Actor,
        *,
        name: str,
        issued_by: str,
        client: str,
        secret: str,
        asked: Sequence[str],
        enabled: bool,
        mapping: Mapping[str, str],
        factors: Sequence[str] = (),
    ) -> UpstreamProvider:
        """Create a provider of OpenID Connect: active at once if an owner makes it, otherwise a draft. Raises `BadRequest`, also when the
        issuer does not answer as such.
        """
        made = await self.prepared(
            member.organization,
            name=name,
            issued_by=issued_by,
            client=client,
            secret=secret,
            asked=asked,
            enabled=enabled,
            mapping=mapping,
            factors=factors,
        )
        return await self._create(member, actor, made)

    async def create_saml(
        self,
        member: Member,
        actor: Actor,
        *,
        name: str,
        issued_by: str,
        settings: SamlChange,
        mapping: Mapping[str, str],
        factors: Sequence[str] = (),
        certificates: Sequence[str] | None = None,
    ) -> UpstreamProvider:
        """Create the draft of a provider of SAML, with a key pair of our own. `certificates` are the provider's, in PEM. Raises
        `BadRequest`, `CertificateNotMade` and `Overloaded`.
        """
        settings = await self._with_certificates(settings, certificates)
        made = await self.prepared_saml(
            member.organization, name=name, issued_by=issued_by, settings=settings, mapping=mapping, factors=factors
        )
        return await self._create(member, actor, made)

    async def create_ldap(
        self, member: Member, actor: Actor, *, name: str, settings: LdapChange, password: str, mapping: Mapping[str, str]
    ) -> UpstreamProvider:
        """Create the draft of a directory that speaks LDAP. Raises `BadRequest` and `Overloaded`."""
        made = await self.prepared_ldap(member.organization, name=name, settings=settings, password=password, mapping=mapping)
        return await self._create(member, actor, made)

    async def prepared_ldap(
        self, organization: OrganizationId, *, name: str, settings: LdapChange, password: str, mapping: Mapping[str, str]
    ) -> "NewProvider":
        """Returns the draft of a directory that `add` stores. Raises the errors of `create_ldap`."""
        require_no_credential("profile_mapping", mapping)
        described = (await self.with_authorities(settings)).applied(NOTHING_DESCRIBED)
        now, identifier = self.system.clock.now(), UpstreamProviderId(self.system.ids.new())
        provider = UpstreamProvider(
            id=identifier,
            organization=organization,
            kind=ProviderKind.LDAP,
            state=ConnectionState.DRAFT,
            name=provider_name(name),
            issuer=ldap_issuer(identifier),
            client_id="",
            scopes=(),
            enabled=False,
            profile_mapping=profile_mapping(mapping),
            ldap=described,
            created_at=now,
            updated_at=now,
        )
        if not password:
            return NewProvider(provider)
        return NewProvider(with_secret(provider, now), sealed_secret=self.sealed_bind_password(identifier, described, password))

    async def with_authorities(self, change: LdapChange) -> LdapChange:
        """The change with its authorities as we keep them. Raises `BadRequest` and `Overloaded`."""
        if not change.ca_certificates:
            return change
        if len(change.ca_certificates) > LONGEST_AUTHORITIES:
            raise BadRequest("ca_certificates: too long", words="ldap_authority")
        try:
            read = [await self.documents.read_certificate(one) for one in authorities_in(change.ca_certificates)]
        except BadRequest as refusal:
            raise BadRequest(f"ca_certificates: {refusal.message}", words="ldap_authority") from None
        return replace(change, ca_certificates="".join(one.pem for one in read))

    def sealed_bind_password(self, provider: UpstreamProviderId, settings: LdapSettings, password: str) -> bytes:
        """Raises `BadRequest`."""
        return self.keyring.seal(bound_password(settings, password), bind_password_context(provider))

    async def prepared(
        self,
        organization: OrganizationId,
        *,
        name: str,
        issued_by: str,
        client: str,
        secret: str,
        asked: Sequence[str],
        enabled: bool,
        mapping: Mapping[str, str],
        factors: Sequence[str] = (),
        draft: bool = False,
        identifier: UpstreamProviderId | None = None,
    ) -> "NewProvider":
        """Returns a provider of OpenID Connect that `add` stores. `identifier` is for one whose address somebody knows already. Raises the
        errors of `create`.
        """
        now = self.system.clock.now()
        provider = UpstreamProvider(
            id=identifier or UpstreamProviderId(self.system.ids.new()),
            organization=organization,
            state=ConnectionState.DRAFT if draft else ConnectionState.ACTIVE,
            name=provider_name(name),
            issuer=issuer(issued_by),
            client_id=client_id(client),
            scopes=scopes(asked),
            enabled=enabled and not draft,
            profile_mapping=profile_mapping(mapping),
            second_factor_values=second_factor_values(factors),
            created_at=now,
            updated_at=now,
        )
        sealed = self._sealed(provider.id, secret)
        await self.protocols.check(provider.issuer)
        return NewProvider(with_secret(provider, now), sealed_secret=sealed)

    async def prepared_saml(
        self,
        organization: OrganizationId,
        *,
        name: str,
        issued_by: str,
        settings: SamlChange,
        mapping: Mapping[str, str],
        factors: Sequence[str] = (),
    ) -> "NewProvider":
        """Returns the draft of a provider of SAML that `add` stores. Raises the errors of `create_saml`."""
        now = self.system.clock.now()
        provider = UpstreamProvider(
            id=UpstreamProviderId(self.system.ids.new()),
            organization=organization,
            kind=ProviderKind.SAML,
            state=ConnectionState.DRAFT,
            name=provider_name(name),
            issuer=entity_id(issued_by) if issued_by else "",
            client_id="",
            scopes=(),
            enabled=False,
            profile_mapping=profile_mapping(mapping),
            second_factor_values=second_factor_values(factors),
            saml=settings.applied(NOTHING_SET, now),
            created_at=now,
            updated_at=now,
        )
        pair = await self.keys.make(provider.id)
        return NewProvider(replace(provider, certificate=pair.certificate), sealed_key=pair.sealed_key)

    async def _create(self, member: Member, actor: Actor, made: "NewProvider") -> UpstreamProvider:
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            require_capability(acting, Capability.SETTINGS_MANAGE)
            by_word = partial(as_made, made.provider)
            made = replace(made, provider=await as_word_counts(uow, acting, by_word, self.system.clock.now()))
            await add(uow, made, actor)
            await uow.commit()
        return made.provider

    async def change(
        self,
        member: Member,
        provider: UpstreamProviderId,
        actor: Actor,
        change: UpstreamProviderChange,
        *,
        settings: SamlChange = NO_CHANGE,
        certificates: Sequence[str] | None = None,
        description: LdapChange = NO_LDAP_CHANGE,
        password: str | None = None,
    ) -> UpstreamProvider:
        """A change of what was tested makes a provider a draft again, unless it speaks OpenID Connect, is active, and an owner changes it
        or the client stays. `certificates` are the provider's that are given by hand, in PEM. `password` is the bind password of a
        directory by LDAP: it goes with a change of what it belongs to, unless the same change gives it anew. Raises `BadRequest`, also for
        another issuer than people are known by, `NotFound`, `Overloaded`, and `Conflict` while a set-up link that activates by itself has
        the provider in hand.
        """
        settings = await self._with_certificates(settings, certificates)
        description = await self.with_authorities(description)
        if not change.said and settings.is_empty and description.is_empty and password is None:
            raise BadRequest(
                "Send at least one of name, client_id, client_secret, scopes, enabled, profile_mapping and second_factor_values",
                words="nothing_to_change",
            )
        wanted, secret = change.stored, change.client_secret
        sealed = None if isinstance(secret, Unchanged) else self._sealed(provider, secret)
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            acting, before = await held(uow, member, provider)
            _require_kind(before, change, settings, describes=not description.is_empty or password is not None)
            after = with_issuer(before, change.said.get("issuer"))
            if before.ldap is not None:
                require_no_credential("profile_mapping", wanted.get("profile_mapping", ()))
                after = with_description(after, description)
            if after.ldap is not None and password is not None:
                sealed = self.sealed_bind_password(provider, after.ldap, password)
            after = replace(
                after,
                **wanted,
                saml=None if before.saml is None else with_settings(before, settings, now),
            )
            after = after if sealed is None else with_secret(after, now)
            after = await changed(
                uow, acting, before, partial(after_change, before, turned(after, enabled=change.said.get("enabled"))), now
            )
            if after == before:
                return before
            after = replace(after, updated_at=now)
            if not await uow.upstream_providers.save(after, sealed):
                raise BadRequest(_NAME_TAKEN, words="name_taken")
            await uow.record(provider_updated(before, after, actor, secret=sealed is not None))
            if before.keeps_in_step and not after.keeps_in_step:
                await _release(uow, after, actor)
            await uow.commit()
        return after

    async def issue_assertions(
        self, member: Member, provider: UpstreamProviderId, actor: Actor, settings: AssertionSettings
    ) -> UpstreamProvider:
        """Decides whether the provider issues assertions for its people, and how they are read. May be repeated. Raises `NotFound`,
        `Forbidden` for anybody but an owner, `BadRequest`, and `Conflict` when another provider issues with this issuer.
        """
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            acting, before = await held(uow, member, provider)
            await require_owner(uow, acting, now)
            after = with_assertions(before, settings, now, own_issuer=self.own_issuer)
            if after == before:
                return before
            if after.assertions.issues and await uow.upstream_providers.is_issuing(after):
                raise Conflict("Another provider of the organization issues assertions with this issuer", words="assertions_twice")
            await uow.upstream_providers.save_assertions(after)
            await uow.record(provider_assertions_changed(before, after, actor))
            await uow.commit()
        return after

    async def delete(self, member: Member, provider: UpstreamProviderId, actor: Actor) -> None:
        """Delete a provider and the identities that people have there. Whom it lists stays a member, and nobody lists them. Raises
        `NotFound`, and `Conflict` while a domain route leads to the provider.
        """
        async with self.unit_of_work() as uow:
            _, deleted = await held(uow, member, provider)
            if await uow.upstream_providers.is_named(provider):
                raise Conflict("A domain route leads to this provider: change the route first", words="route_leads_here")
            if deleted.keeps_in_step:
                await _release(uow, deleted, actor)
            await uow.upstream_providers.delete(provider)
            await uow.record(provider_deleted(deleted, actor))
            await uow.commit()

    async def _with_certificates(self, settings: SamlChange, certificates: Sequence[str] | None) -> SamlChange:
        if certificates is None:
            return settings
        if len(certificates) > MOST_CERTIFICATES:
            raise BadRequest(f"certificates: at most {MOST_CERTIFICATES}", words="certificates_most", values={"most": MOST_CERTIFICATES})
        return replace(settings, by_hand=tuple([await self.documents.read_certificate(one) for one in certificates]))

    def _sealed(self, provider: UpstreamProviderId, secret: str) -> bytes:
        return self.keyring.seal(client_secret(secret).reveal().encode(), sealing_context(provider))


async def _release(uow: UnitOfWork, provider: UpstreamProvider, actor: Actor) -> None:
    """Nobody ends people whom their directory names no more: from now on an administrator does, or whoever lists them next."""
    released = await uow.directory_people.release(provider.id)
    if released:
        await uow.record(people_released(provider, released, actor))


class NewProvider(Frozen):
    """A provider that is not stored yet, with its secret or our private key."""

    provider: UpstreamProvider
    sealed_secret: bytes | None = None
    sealed_key: bytes | None = None


async def add(uow: UnitOfWork, made: NewProvider, actor: Actor) -> None:
    """Stores a new provider. The caller has locked the organization. Raises `BadRequest`."""
    require_room(await uow.upstream_providers.count(made.provider.organization))
    if not await uow.upstream_providers.add(made.provider, made.sealed_secret, made.sealed_key):
        raise BadRequest(_NAME_TAKEN, words="name_taken")
    await uow.record(provider_created(made.provider, actor))


class _Outcome(Protocol):
    def __call__(self, *, by_owner: bool) -> UpstreamProvider: ...


async def as_word_counts(uow: UnitOfWork, acting: Acting, outcome: _Outcome, at: datetime) -> UpstreamProvider:
    """What the caller's change makes of a provider. Where an owner's word makes a difference, the change is an act that needs an owner."""
    of_others = outcome(by_owner=False)
    if not acting.is_owner:
        return of_others
    of_owner = outcome(by_owner=True)
    if of_owner != of_others:
        await acted_as_owner(uow, acting, at)
    return of_owner


async def changed(uow: UnitOfWork, acting: Acting, before: UpstreamProvider, outcome: _Outcome, at: datetime) -> UpstreamProvider:
    """What the caller's change makes of a provider that is there. What a set-up link will activate, as an owner has let it, nobody but its
    holder and an owner changes meanwhile. Raises `Conflict`.
    """
    after = await as_word_counts(uow, acting, outcome, at)
    if after.digest != before.digest and not acting.is_owner and await uow.setup_links.will_activate(before.id, at):
        raise Conflict(IN_HAND, words="setup_in_hand")
    return after


async def held(uow: UnitOfWork, member: Member, provider: UpstreamProviderId) -> tuple[Acting, UpstreamProvider]:
    acting, _ = await hold_members(uow, member)
    require_capability(acting, Capability.SETTINGS_MANAGE)
    return acting, found(await uow.upstream_providers.hold(member.organization, provider), NO_SUCH_PROVIDER)


def _require_kind(before: UpstreamProvider, change: UpstreamProviderChange, settings: SamlChange, *, describes: bool) -> None:
    kind = before.kind
    if kind is not ProviderKind.OIDC and change.is_of_openid_connect:
        raise BadRequest(f"client_id, client_secret, scopes: a provider of the kind {kind.value} has none", words="provider_kind")
    if kind is not ProviderKind.SAML and not settings.is_empty:
        raise BadRequest(f"A provider of the kind {kind.value} has no settings of SAML", words="provider_kind")
    if kind is ProviderKind.LDAP and change.said.get("second_factor_values"):
        raise BadRequest(NO_FACTOR_BY_LDAP, words="provider_kind")
    if kind is not ProviderKind.LDAP and describes:
        raise BadRequest(f"A provider of the kind {kind.value} has no settings of LDAP", words="provider_kind")


_NAME_TAKEN: Final = "name: the organization has an upstream provider of this name"


class OrganizationOAuthCredentials(Frozen):
    """Sets and removes an organization's own OAuth clients at the social providers, for members who may manage its settings."""

    unit_of_work: UnitOfWorkFactory
    lookup: OAuthCredentialStore
    keyring: KeyRing
    system: System

    async def get(self, member: Member, provider: Provider) -> OAuthCredentials | None:
        return await self.lookup.find(member.organization, provider)

    async def configure(self, member: Member, actor: Actor, provider: Provider, *, client: str, secret: str) -> OAuthCredentials:
        """Replace the organization's credentials at this provider. Raises `BadRequest`, and `Forbidden` when the caller may no longer
        change the settings.
        """
        now = self.system.clock.now()
        credentials = OAuthCredentials(
            id=OAuthCredentialId(self.system.ids.new()),
            organization=member.organization,
            provider=provider,
            client_id=client_id(client),
            created_at=now,
            updated_at=now,
        )
        sealed = self.keyring.seal(client_secret(secret).reveal().encode(), oauth_credential_context(credentials.id))
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            await uow.oauth_credentials.save(credentials, sealed)
            await uow.record(credentials_updated(credentials, actor))
            await uow.commit()
        return credentials

    async def remove(self, member: Member, actor: Actor, provider: Provider) -> None:
        """Remove the credentials; nothing happens when there are none. Raises `Forbidden` when the caller may no longer change the
        settings.
        """
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            removed = await uow.oauth_credentials.remove(member.organization, provider)
            if removed is not None:
                await uow.record(credentials_removed(removed, actor))
                await uow.commit()

"""Drafts of an enterprise connection behind a setup link: the identity provider, our values for it, its metadata, and the test."""

from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest, Conflict, found
from core.domain.identifiers import SetupDraftId, UpstreamProviderId
from core.domain.identity.upstream.connection_tests import TestStarter
from core.domain.identity.upstream.connections import ConnectionState, ProviderKind, SamlChange
from core.domain.identity.upstream.ldap.settings import LdapChange
from core.domain.record.events import Actor
from core.domain.saml import entity_id
from core.domain.tenancy.setup import (
    DirectoryProduct,
    KnownSetupLink,
    SetupDraft,
    SetupDraftState,
    SetupPurpose,
    product_named,
    require_changeable,
    settings_of,
    source_named,
    words_for,
)
from core.domain.tenancy.upstream_providers import (
    UpstreamProvider,
    after_change,
    provider_name,
    provider_updated,
    with_description,
    with_issuer,
    with_secret,
    with_settings,
)
from core.frozen import Frozen, replace
from core.usecases.tenancy.connections.lifecycle import Connections, from_metadata
from core.usecases.tenancy.connections.trials import ConnectionTests
from core.usecases.tenancy.setup.setup_links import drop_connection, held_draft, held_link
from core.usecases.tenancy.upstream_providers import NO_SUCH_PROVIDER, NewProvider, OrganizationUpstreamProviders, add
from ports.system import System
from ports.tenancy.connections import SetupLinkStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_TYPED_AT: Final = "bind_password_typed_at"
"""In a draft: when this link has typed the bind password."""


class ConnectionDrafts(Frozen):
    """The connection has a row of its own, which is a draft like any other that is not active."""

    unit_of_work: UnitOfWorkFactory
    lookup: SetupLinkStore
    providers: OrganizationUpstreamProviders
    connections: Connections
    tests: ConnectionTests
    system: System

    async def connection(self, draft: SetupDraft) -> UpstreamProvider | None:
        """None while a connection by OpenID Connect has no client yet."""
        listed = await self.providers.lookup.list(draft.organization)
        return next((one for one in listed if one.id == draft.provider), None)

    async def choose(self, known: KnownSetupLink, actor: Actor, *, directory: str, kind: ProviderKind, name: str) -> SetupDraft:
        """Begin with this directory; what was begun with another one goes. Raises `BadRequest`, `Conflict` once the connection is active,
        `CertificateNotMade`, and `SetupLinkRefused`.
        """
        product, called, now = product_named(directory), provider_name(name), self.system.clock.now()
        organization = known.link.organization
        made = None
        if kind is ProviderKind.SAML:
            made = await self.providers.prepared_saml(organization, name=called, issued_by="", settings=settings_of(product), mapping={})
        if kind is ProviderKind.LDAP:
            made = await self.providers.prepared_ldap(organization, name=called, settings=LdapChange(), password="", mapping={})
        identifier = SetupDraftId(self.system.ids.new())
        async with self.unit_of_work() as uow:
            held = await held_link(uow, known, SetupPurpose.CONNECTION, self.system.clock)
            before = next((one for one in await uow.setup_links.drafts(held.link.id) if one.purpose is SetupPurpose.CONNECTION), None)
            if before is not None:
                require_changeable(before)
                await drop_connection(uow, before, actor)
                await uow.setup_links.remove_draft(before.id)
            if made is not None:
                await _add(uow, made, actor)
            draft = SetupDraft(
                id=identifier,
                link=held.link.id,
                organization=organization,
                purpose=SetupPurpose.CONNECTION,
                subject=called,
                settings={"directory": product.value, "kind": kind.value},
                provider=None if made is None else made.provider.id,
                created_at=now,
                updated_at=now,
            )
            await uow.setup_links.save_draft(draft)
            await uow.commit()
        return draft

    async def fill(
        self, known: KnownSetupLink, draft: SetupDraftId, actor: Actor, *, document: bytes = b"", address: str = ""
    ) -> UpstreamProvider:
        """Take the directory's metadata, from the document or from where the address leads. Raises `BadRequest`, whose words say what came
        instead, `NotFound`, `Conflict` and `SetupLinkRefused`.
        """
        if address:
            document = await self.connections.fetch(address)
        try:
            metadata = await self.connections.documents.read_directory(document)
            # A document takes the place of an address that was given before: nobody reads that one any more.
            change = replace(from_metadata(metadata), metadata_url=address)
        except BadRequest as refusal:
            raise BadRequest(refusal.message, words=words_for(document), detail=refusal.detail) from None
        return await self._change(known, draft, actor, change, metadata.entity_id)

    async def fill_in(
        self, known: KnownSetupLink, draft: SetupDraftId, actor: Actor, *, issuer: str, sso_url: str, certificate: str
    ) -> UpstreamProvider:
        """Take single values in place of metadata. Raises the errors of `fill`."""
        try:
            named = entity_id(issuer)
        except BadRequest as refusal:
            raise BadRequest(f"issuer: {refusal.message}", words="web_address") from None
        try:
            read = await self.connections.documents.read_certificate(certificate)
        except BadRequest as refusal:
            raise BadRequest(refusal.message, words="setup_certificate_wrong", detail=refusal.detail) from None
        return await self._change(known, draft, actor, SamlChange(sso_url=sso_url, certificates=(read,), metadata_url=""), named)

    async def name_address(self, known: KnownSetupLink, draft: SetupDraftId, actor: Actor, attribute: str) -> UpstreamProvider:
        """Take the address from this attribute of the directory. Raises the errors of `fill`."""
        return await self._change(known, draft, actor, SamlChange(email_sources=(source_named(attribute),)))

    async def sign_up(
        self, known: KnownSetupLink, draft: SetupDraftId, actor: Actor, *, issuer: str, client: str, secret: str
    ) -> UpstreamProvider:
        """Take issuer and client of a connection by OpenID Connect. Raises the errors of `fill`."""
        async with self.unit_of_work() as uow:
            _, seen = await held_draft(uow, known, draft, self.system.clock)
        require_changeable(seen)
        if seen.settings["kind"] != ProviderKind.OIDC.value:
            raise BadRequest("The connection is not of the kind oidc", words="connection_incomplete")
        made = await self.providers.prepared(
            seen.organization,
            name=seen.subject,
            issued_by=issuer,
            client=client,
            secret=secret,
            asked=(),
            enabled=False,
            mapping={},
            draft=True,
            identifier=client_id_of(draft),
        )
        async with self.unit_of_work() as uow:
            _, held = await held_draft(uow, known, draft, self.system.clock)
            require_changeable(held)
            await drop_connection(uow, held, actor)
            await _add(uow, made, actor)
            await uow.setup_links.save_draft(_anew(replace(held, provider=made.provider.id), self.system.clock.now()))
            await uow.commit()
        return made.provider

    async def describe(
        self, known: KnownSetupLink, draft: SetupDraftId, actor: Actor, *, change: LdapChange, password: str
    ) -> UpstreamProvider:
        """Take the settings of a directory by LDAP. An empty password keeps the one that this link has typed, as long as it belongs to
        these hosts. Raises the errors of `fill`.
        """
        change, now = await self.providers.with_authorities(change), self.system.clock.now()
        async with self.unit_of_work() as uow:
            _, held = await held_draft(uow, known, draft, self.system.clock)
            require_changeable(held)
            before = None if held.provider is None else await uow.upstream_providers.hold(held.organization, held.provider)
            if before is None or before.kind is not ProviderKind.LDAP:
                raise BadRequest("The connection is not of the kind ldap", words="ldap_incomplete")
            after, sealed = with_description(before, change), None
            if after.ldap is not None and password:
                sealed = self.providers.sealed_bind_password(before.id, after.ldap, password)
                after = with_secret(after, now)
            after = after_change(before, replace(after, updated_at=now), by_owner=False)
            await uow.upstream_providers.save(after, sealed)
            typed = held if sealed is None else replace(held, settings={**held.settings, _TYPED_AT: now.isoformat()})
            if after.digest != before.digest:
                await uow.setup_links.save_draft(_anew(typed, now))
            await uow.record(provider_updated(before, after, actor, secret=sealed is not None))
            await uow.commit()
        return after

    async def begin_test(self, known: KnownSetupLink, draft: SetupDraftId) -> str:
        """Returns the address of the test, which this browser goes to. Raises `BadRequest` while settings are missing, `NotFound`,
        `Conflict` and `SetupLinkRefused`.
        """
        async with self.unit_of_work() as uow:
            _, held = await held_draft(uow, known, draft, self.system.clock)
            require_changeable(held)
            if held.provider is None:
                raise BadRequest("Settings are missing", words="connection_incomplete")
            tried = found(await uow.upstream_providers.hold(held.organization, held.provider), NO_SUCH_PROVIDER)
            require_own_password(held, tried)
            started = await self.tests.add(uow, tried, TestStarter(link=known.link.id))
            await uow.commit()
        return started.url

    async def _change(
        self, known: KnownSetupLink, draft: SetupDraftId, actor: Actor, change: SamlChange, issuer: str | None = None
    ) -> UpstreamProvider:
        async with self.unit_of_work() as uow:
            _, held = await held_draft(uow, known, draft, self.system.clock)
            require_changeable(held)
            if held.provider is None:
                raise BadRequest("The connection is not of the kind saml", words="connection_incomplete")
            before = found(await uow.upstream_providers.hold(held.organization, held.provider), NO_SUCH_PROVIDER)
            if before.kind is not ProviderKind.SAML:
                raise BadRequest("The connection is not of the kind saml", words="connection_incomplete")
            now = self.system.clock.now()
            after = replace(with_issuer(before, issuer), saml=with_settings(before, change, now), updated_at=now)
            after = after_change(before, after, by_owner=False)
            await uow.upstream_providers.save(after, None)
            if after.digest != before.digest:
                await uow.setup_links.save_draft(_anew(held, now))
            await uow.record(provider_updated(before, after, actor, secret=False))
            await uow.commit()
        return after


def has_typed_password(draft: SetupDraft, connection: UpstreamProvider) -> bool:
    """Whether the link has typed the bind password that the connection has now."""
    at = connection.secret_set_at
    return at is not None and draft.settings.get(_TYPED_AT) == at.isoformat()


def require_own_password(draft: SetupDraft, connection: UpstreamProvider) -> None:
    """A link never uses a bind password that somebody else has typed. Raises `BadRequest`."""
    if connection.kind is ProviderKind.LDAP and not has_typed_password(draft, connection):
        raise BadRequest("bind_password: type it here", words="ldap_incomplete")


def _anew(draft: SetupDraft, now: datetime) -> SetupDraft:
    """What waited for an owner were other settings."""
    return replace(draft, state=SetupDraftState.DRAFT, waiting_since=None, updated_at=now)


def client_id_of(draft: SetupDraftId) -> UpstreamProviderId:
    """The id that the connection of a draft gets when its client is known. People have to enter our address, which has it, before."""
    return UpstreamProviderId(draft)


async def _add(uow: UnitOfWork, made: NewProvider, actor: Actor) -> None:
    assert made.provider.state is ConnectionState.DRAFT  # noqa: S101 - a link makes nothing else
    try:
        await add(uow, made, actor)
    except BadRequest as refusal:
        named = refusal.message.startswith("name:")
        raise Conflict(refusal.message, words="setup_name_taken" if named else "setup_too_many_connections") from None


def product_of(draft: SetupDraft) -> DirectoryProduct:
    return product_named(str(draft.settings["directory"]))

"""An organization's own provider from draft to active: its metadata, also fetched anew, certificates, the owner's word, the recorder."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from urllib.parse import urljoin

from core.domain.errors import BadRequest, Conflict, NotFound, found
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.connection_tests import ConnectionExchange
from core.domain.identity.upstream.connections import (
    CertificateSource,
    ProviderKind,
    SamlChange,
    SamlSettings,
    SeenMetadata,
    addresses,
    as_given,
    former_private_key_context,
    next_private_key_context,
    private_key_context,
)
from core.domain.identity.upstream.directories import SealedKey
from core.domain.identity.upstream.refreshes import MOST_REDIRECTS, READ_WITHIN, Read, RefreshFault, way_taken
from core.domain.identity.upstream.saml.assertions import DirectoryMetadata, ServiceProviderMetadata
from core.domain.outbound import NotADestination, OutboundDestination, destination
from core.domain.record.events import Actor
from core.domain.saml import LONGEST_METADATA, SamlBinding
from core.domain.tenancy.members import Member
from core.domain.tenancy.setup import NOT_HANDED_OVER
from core.domain.tenancy.upstream_providers import (
    UpstreamProvider,
    activated,
    after_change,
    key_changed,
    provider_activated,
    provider_succeeded,
    provider_updated,
    require_seen,
    succeeding,
    vouched_by_owner,
    with_issuer,
    with_settings,
)
from core.frozen import Frozen, replace
from core.usecases.identity.upstream.providers import ConnectionKeys
from core.usecases.tenancy.rights import require_owner
from core.usecases.tenancy.upstream_providers import NO_SUCH_PROVIDER, changed, held
from ports.crypto import KeyRing
from ports.identity.upstream import ConnectionLookup, ServiceProviderDocuments
from ports.outbound import Failure, Outbound, OutboundAnswer, OutboundFailed
from ports.system import Clock
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

FETCHED_WITHIN: Final = timedelta(seconds=8)
_METADATA: Final = {"accept": "application/samlmetadata+xml, application/xml, text/xml", "user-agent": "Postern"}


class Connections(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ConnectionLookup
    documents: ServiceProviderDocuments
    outbound: Outbound
    keys: ConnectionKeys
    keyring: KeyRing
    clock: Clock
    base_url: str

    async def activate(self, member: Member, provider: UpstreamProviderId, actor: Actor, *, seen: str) -> UpstreamProvider:
        """Lets people sign in through the provider. `seen` is the digest of the settings that the owner has seen. May be repeated. Raises
        `NotFound`, `Forbidden` for anybody but an owner, `BadRequest` when the settings as they are now were not tested successfully, and
        `Conflict` when they are others than those seen, or somebody with a set-up link has not handed them over.
        """
        async with self.unit_of_work() as uow:
            acting, before = await held(uow, member, provider)
            await require_owner(uow, acting, self.clock.now())
            require_seen(seen, before.digest)
            if await uow.setup_links.is_being_set_up(provider, self.clock.now()):
                raise Conflict(NOT_HANDED_OVER, words="setup_not_handed_over")
            after = activated(before, self.clock.now())
            if after != before:
                await uow.upstream_providers.save(after, None)
                await uow.record(provider_activated(after, actor))
                await uow.commit()
        return after

    async def succeed(self, member: Member, provider: UpstreamProviderId, former: UpstreamProviderId, actor: Actor) -> UpstreamProvider:
        """Names the provider the successor of a former one: then its word about people for whom the former one has vouched ends nothing in
        their accounts. The former one may be deleted. May be repeated. Raises `NotFound`, `Forbidden` for anybody but an owner, and
        `BadRequest`.
        """
        async with self.unit_of_work() as uow:
            acting, before = await held(uow, member, provider)
            await require_owner(uow, acting, self.clock.now())
            inherited = found(await uow.upstream_providers.succeeded_by(member.organization, former), "Identity provider not found")
            after = succeeding(before, former, inherited, self.clock.now())
            if after != before:
                await uow.upstream_providers.succeed(after)
                await uow.record(provider_succeeded(before, after, actor))
                await uow.commit()
        return after

    async def exchanges(self, member: Member, provider: UpstreamProviderId) -> Sequence[ConnectionExchange]:
        """The last fifty, newest first. Raises `NotFound`."""
        return found(await self.lookup.exchanges(member.organization, provider), NO_SUCH_PROVIDER)

    async def fill(
        self, member: Member, provider: UpstreamProviderId, actor: Actor, *, document: bytes = b"", address: str = ""
    ) -> UpstreamProvider:
        """Fills the settings from the directory's metadata: from the document, or from where the address leads. Raises `NotFound`,
        `Forbidden`, `Overloaded`, `BadRequest`, which says what is missing, and `Conflict` while a set-up link that activates by itself has
        the provider in hand.
        """
        if bool(document) == bool(address):
            raise BadRequest("Send either url or document", words="url_or_document")
        fetched = document or await self.fetch(address)
        known = await self.lookup.directory(provider)
        settings = None if known is None or known.organization != member.organization else known.settings
        metadata = await self.documents.read_directory(fetched, () if settings is None else settings.trusted)
        change = from_metadata(metadata, address)
        return await self.change(member, provider, actor, change, issuer=metadata.entity_id)

    async def fetch(self, address: str) -> bytes:
        """Raises `BadRequest`."""
        try:
            to = destination(address)
            if to.scheme != "https" or not self.outbound.may_call(to):
                raise BadRequest("url: must be an allowed https URL", words="metadata_address")
            answer = await self.outbound.get(to, FETCHED_WITHIN, most=LONGEST_METADATA + 1, headers=_METADATA)
        except NotADestination as refusal:
            raise BadRequest(f"url: {refusal}", words="metadata_address") from None
        except OutboundFailed as failed:
            raise BadRequest(f"url: the metadata could not be fetched ({failed.failure.value})", words="metadata_unreachable") from None
        if answer.status != 200:
            message = f"url: the answer has the status {answer.status}, and no metadata"
            raise BadRequest(message, words="metadata_status", values={"status": answer.status})
        if len(answer.body) > LONGEST_METADATA:
            raise BadRequest("url: the metadata is too long", words="metadata_too_long")
        return answer.body

    async def trust(self, member: Member, provider: UpstreamProviderId, actor: Actor, text: str) -> UpstreamProvider:
        """Adds a certificate of the directory. It counts at once if an owner adds it; otherwise the provider becomes a draft again. Raises
        the errors of `fill`.
        """
        added = await self.documents.read_certificate(text)
        async with self.unit_of_work() as uow:
            acting, before = await held(uow, member, provider)
            present = _saml(before)
            if any(one.fingerprint == added.fingerprint for one in present.certificates):
                return before
            kept = [as_given(one) for one in present.certificates]
            after = self._changed(before, SamlChange(certificates=(*kept, added)))
            after = await changed(uow, acting, before, partial(_with_certificate, before, after), self.clock.now())
            await _save(uow, before, after, actor)
        return after

    async def follow(self, member: Member, provider: UpstreamProviderId, actor: Actor) -> UpstreamProvider:
        """Makes our next key pair, which our metadata show from now on. Raises `NotFound`, `Forbidden` and `CertificateNotMade`."""
        pair = await self.keys.make(provider, follows=True)
        async with self.unit_of_work() as uow:
            _, before = await held(uow, member, provider)
            _saml(before)
            await uow.upstream_providers.follow(provider, pair.certificate, pair.sealed_key, self.clock.now())
            await uow.record(key_changed(before, actor, "made"))
            await uow.commit()
        return replace(before, next_certificate=pair.certificate)

    async def advance(self, member: Member, provider: UpstreamProviderId, actor: Actor) -> UpstreamProvider:
        """Lets our next key pair sign. The present one still opens what a directory encrypts for it, until it is dropped or this is done
        again. Raises `Conflict` when there is no next one, or when somebody else was quicker, and the errors of `follow`.
        """
        directory = await self.lookup.directory(provider)
        own = None if directory is None or directory.organization != member.organization else directory
        following, present = (None, None) if own is None else (own.next_key, own.key)
        async with self.unit_of_work() as uow:
            _, before = await held(uow, member, provider)
            _saml(before)
            if following is None or present is None or before.next_certificate != following.certificate:
                raise Conflict("There is no next certificate: create one first", words="next_certificate_missing")
            sealed = self._sealed_again(following, next_private_key_context(provider), private_key_context(provider))
            former = self._sealed_again(present, private_key_context(provider), former_private_key_context(provider))
            await uow.upstream_providers.advance(provider, following.certificate, sealed, former, self.clock.now())
            await uow.record(key_changed(before, actor, "activated"))
            await uow.commit()
        return replace(before, certificate=following.certificate, next_certificate="", former_certificate=present.certificate)

    def _sealed_again(self, key: SealedKey, before: str, after: str) -> bytes:
        return self.keyring.seal(self.keyring.open(key.sealed_key, before), after)

    async def drop_former(self, member: Member, provider: UpstreamProviderId, actor: Actor) -> UpstreamProvider:
        """Deletes our former key pair: from then on nothing opens what is encrypted for it. Raises the errors of `follow`."""
        async with self.unit_of_work() as uow:
            _, before = await held(uow, member, provider)
            if before.former_certificate:
                await uow.upstream_providers.drop_former(provider, self.clock.now())
                await uow.record(key_changed(before, actor, "dropped"))
                await uow.commit()
        return replace(before, former_certificate="")

    async def change(
        self, member: Member, provider: UpstreamProviderId, actor: Actor, change: SamlChange, *, issuer: str | None = None
    ) -> UpstreamProvider:
        """Changes the settings of a directory. A change of what was tested makes a draft again."""
        async with self.unit_of_work() as uow:
            acting, before = await held(uow, member, provider)
            _saml(before)
            wanted = self._changed(with_issuer(before, issuer), change)
            after = await changed(uow, acting, before, partial(after_change, before, wanted), self.clock.now())
            if after != before:
                await _save(uow, before, after, actor)
        return after

    def _changed(self, before: UpstreamProvider, change: SamlChange) -> UpstreamProvider:
        now = self.clock.now()
        after = replace(before, saml=with_settings(before, change, now))
        return after if after == before else replace(after, updated_at=now)

    async def has_proved_domain(self, member: Member) -> bool:
        """Whether the organization has proved a mail domain, without which nobody signs in through a directory by LDAP."""
        return bool(await self.lookup.proved_domains(member.organization))

    async def organization_of(self, provider: UpstreamProviderId) -> str:
        """The slug of the organization. Raises `NotFound` unless people can sign in through the provider."""
        directory = await self.lookup.directory(provider)
        if directory is None or not directory.enabled or not directory.is_active_organization:
            raise NotFound("Identity provider not found", words="connection_unknown")
        return directory.organization_slug

    async def metadata(self, provider: UpstreamProviderId) -> bytes:
        """Our metadata for the directory. Raises `NotFound`."""
        directory = await self.lookup.directory(provider)
        if directory is None or directory.key is None or not directory.is_active_organization:
            raise NotFound("Identity provider not found", words="connection_unknown")
        ours = addresses(self.base_url, provider)
        certificates = [one.certificate for one in (directory.key, directory.next_key) if one is not None]
        return await self.documents.write_service_provider(
            ServiceProviderMetadata(
                id=f"_{provider.hex}",
                entity_id=ours.entity_id,
                acs_url=ours.acs,
                slo_url=ours.slo,
                signing_certificates=certificates,
                encryption_certificates=certificates if directory.settings is None or directory.settings.publishes_encryption_key else (),
            ),
            None,
        )


def from_metadata(metadata: DirectoryMetadata, address: str = "") -> SamlChange:
    """Raises `BadRequest`."""
    sso = found(
        metadata.address(SamlBinding.REDIRECT),
        "metadata: a SingleSignOnService with the binding HTTP-Redirect is missing",
        words="metadata_no_redirect",
        refusal=BadRequest,
    )
    slo = next(iter(sorted(metadata.sign_out, key=lambda one: one.binding is not SamlBinding.REDIRECT)), None)
    return SamlChange(
        sso_url=sso,
        slo_url="" if slo is None else slo.url,
        slo_response_url="" if slo is None else slo.response_url or "",
        slo_binding=SamlBinding.REDIRECT if slo is None else slo.binding,
        certificates=tuple(metadata.signing_certificates),
        certificate_source=CertificateSource.METADATA,
        metadata_url=address or None,
        metadata=SeenMetadata(valid_until=metadata.valid_until, was_signed=metadata.signed_by is not None),
    )


def _with_certificate(before: UpstreamProvider, after: UpstreamProvider, *, by_owner: bool) -> UpstreamProvider:
    return vouched_by_owner(before, after) if by_owner else after_change(before, after, by_owner=False)


async def _save(uow: UnitOfWork, before: UpstreamProvider, after: UpstreamProvider, actor: Actor) -> None:
    await uow.upstream_providers.save(after, None)
    await uow.record(provider_updated(before, after, actor, secret=False))
    await uow.commit()


def _saml(provider: UpstreamProvider) -> SamlSettings:
    if provider.kind is not ProviderKind.SAML or provider.saml is None:
        raise BadRequest("The provider is not of the kind saml", words="provider_kind")
    return provider.saml


_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SUCCEEDED: Final = 200


class NotRead(Exception):
    """The metadata do not count. `detail` is for the log."""

    def __init__(self, fault: RefreshFault, detail: str = "") -> None:
        self.fault = fault
        self.detail = detail[:_LONGEST_DETAIL]
        super().__init__(fault.value)


_LONGEST_DETAIL: Final = 300


class DirectoryMetadataReader(Frozen):
    outbound: Outbound
    documents: ServiceProviderDocuments
    within: timedelta = READ_WITHIN

    async def read(self, settings: SamlSettings) -> Read:
        """Raises `NotRead`, and `Overloaded`."""
        stations, answer = await self._fetched(settings.metadata_url)
        if answer.status != _SUCCEEDED:
            raise NotRead(RefreshFault.STATUS, str(answer.status))
        if len(answer.body) > LONGEST_METADATA:
            raise NotRead(RefreshFault.TOO_LONG)
        try:
            metadata = await self.documents.read_directory(answer.body, settings.trusted)
        except BadRequest as refusal:
            raise NotRead(RefreshFault.NOT_METADATA, refusal.message) from None
        return Read(metadata=metadata, because=way_taken(stations))

    async def _fetched(self, address: str) -> tuple[list[OutboundDestination], OutboundAnswer]:
        """The addresses on the way, and the last answer."""
        stations: list[OutboundDestination] = []
        while True:
            stations.append(self._permitted(address))
            try:
                answer = await self.outbound.get(stations[-1], self.within, most=LONGEST_METADATA, headers=_METADATA)
            except OutboundFailed as failed:
                fault = RefreshFault.REFUSED if failed.failure is Failure.REFUSED else RefreshFault.UNREACHABLE
                raise NotRead(fault, failed.failure.value) from None
            onward = answer.headers.get("location")
            if answer.status not in _REDIRECTS or onward is None or len(stations) > MOST_REDIRECTS:
                return stations, answer
            try:
                address = urljoin(address, onward)
            except ValueError:
                raise NotRead(RefreshFault.REFUSED, "the redirect leads to no address") from None

    def _permitted(self, address: str) -> OutboundDestination:
        try:
            to = destination(address)
        except NotADestination as refusal:
            raise NotRead(RefreshFault.REFUSED, str(refusal)) from None
        if not self.outbound.may_call(to):
            raise NotRead(RefreshFault.REFUSED)
        return to

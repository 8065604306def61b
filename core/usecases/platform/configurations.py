"""Configurations: what is set in an installation, by the places of documents, and which objects documents manage."""

import hmac
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog

from core.domain.identifiers import MailServerId, ManagementKeyId, OAuthCredentialId, SiemId, UpstreamProviderId, UserId
from core.domain.platform.configuration.marks import ManagedMark, digest_of
from core.domain.platform.configuration.places import ObjectPlace
from core.domain.platform.configuration.planning import Change, PlannedAct, Present
from core.domain.secrets import Secret
from core.domain.tenancy import mail_servers, oauth_credentials, siem, upstream_providers
from core.domain.tenancy.siem import SiemCredentials
from core.frozen import Frozen
from ports.clock import Clock
from ports.encryption import CannotOpen, KeyRing
from ports.platform.configurations import ConfigurationReader, ManagedMarks, StoredObject

log = structlog.get_logger()

LATELY: Final = timedelta(days=7)


class Digests:
    """Keyed digests of secrets. The key lives as long as one plan, so a digest says nothing outside it."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, secret: Secret | None) -> str:
        """Empty for no secret."""
        return "" if secret is None else hmac.digest(self._key, secret.reveal().encode(), "sha256").hex()


class Loss(Frozen):
    """Something that a change ends."""

    place: ObjectPlace
    what: str
    """Empty for the object itself. Otherwise the value that goes: a redirect URI."""
    people: int
    """How many people use or hold it. Of a redirect URI: how many signed in to its service in the last seven days."""


class Configurations(Frozen):
    reader: ConfigurationReader
    marks: ManagedMarks
    keyring: KeyRing
    clock: Clock

    async def slugs(self) -> Sequence[str]:
        return await self.reader.slugs()

    async def stored(self, kinds: Sequence[str], organizations: Collection[str] | None) -> Sequence[StoredObject]:
        """The objects of these kinds, in these organizations or in all."""
        return [one for kind in kinds for one in await self.reader.objects(kind, organizations)]

    def present(self, stored: Sequence[StoredObject], digests: Digests) -> Mapping[ObjectPlace, Present]:
        """The objects as a plan knows them. Opens the sealed secrets: heavy work for thousands of them."""
        return {
            one.place: Present(
                fields=one.fields,
                secrets=self._secrets(one, digests),
                id=one.id,
                people=one.people,
                is_directorys=one.is_directorys,
            )
            for one in stored
        }

    async def losses(self, changes: Sequence[Change]) -> Sequence[Loss]:
        """What the changes would end, and for how many people."""
        found = []
        for change in changes:
            if change.act is PlannedAct.END:
                found.append(Loss(change.place, "", change.people))
            for gone in removed_addresses(change):
                since = self.clock.now() - LATELY
                found.append(Loss(change.place, gone, await self.reader.lately(change.place.organization, change.place.name, since)))
        return found

    async def mark(
        self,
        organization: str,
        kinds: Sequence[str],
        named: Mapping[ObjectPlace, Sequence[str]],
        present: Mapping[ObjectPlace, Present],
        document: str,
        *,
        person: UserId | None,
        key: ManagementKeyId | None,
    ) -> None:
        """From now on, the document manages these objects of the organization, and no others of these kinds there. `named` has the fields
        that it sets.
        """
        now = self.clock.now()
        marks = [
            ManagedMark(
                place=place,
                id=present[place].id,
                document=document,
                fields=digest_of({name: present[place].fields.get(name) for name in names}),
                named=tuple(names),
                at=now,
                by="",
            )
            for place, names in named.items()
            if place in present and place.kind in kinds
        ]
        await self.marks.replace(organization, kinds, marks, person, key)

    async def managed(self, organization: str, service: str, kind: str, id: str) -> ManagedMark | None:  # noqa: A002 - the noun's own word
        """None if no document manages the object."""
        return await self.marks.find(organization, service, kind, id)

    async def all_managed(self, organization: str) -> Sequence[ManagedMark]:
        """The marks of an organization, or of the installation for an empty slug."""
        return await self.marks.list(organization)

    def _secrets(self, one: StoredObject, digests: Digests) -> Mapping[str, str]:
        opening = _SEALED.get(one.place.kind)
        if opening is None or one.sealed is None:
            return {}
        try:
            opened = self.keyring.open(one.sealed, opening.context(UUID(one.sealed_in)))
        except CannotOpen as error:
            # A document that names the secret sets it anew.
            log.error("configured_secret_unreadable", place=str(one.place), error=str(error))  # noqa: TRY400 - says it all
            return {}
        return {name: digests.of(secret) for name, secret in opening.read(opened).items()}


class _Sealed(Frozen):
    context: Callable[[UUID], str]
    read: Callable[[bytes], Mapping[str, Secret | None]]


def _alone(name: str) -> Callable[[bytes], Mapping[str, Secret | None]]:
    return lambda text: {name: Secret(text.decode())}


def _of_siem(text: bytes) -> Mapping[str, Secret | None]:
    credentials = SiemCredentials.read(text)
    return {"api_key": credentials.api_key, "auth_header": credentials.auth_header}


_SEALED: Final[Mapping[str, _Sealed]] = {
    "mail_server": _Sealed(lambda row: mail_servers.sealing_context(MailServerId(row)), _alone("password")),
    "siem": _Sealed(lambda row: siem.sealing_context(SiemId(row)), _of_siem),
    "upstream_providers": _Sealed(lambda row: upstream_providers.sealing_context(UpstreamProviderId(row)), _alone("client_secret")),
    "oauth_credentials": _Sealed(lambda row: oauth_credentials.sealing_context(OAuthCredentialId(row)), _alone("client_secret")),
}


def removed_addresses(change: Change) -> Sequence[str]:
    """The redirect URIs that a change of a service takes away."""
    for one in change.fields if change.act is PlannedAct.CHANGE else ():
        if one.name == "redirect_uris" and isinstance(one.before, Sequence) and isinstance(one.after, Sequence):
            kept = set(map(str, one.after))
            return [str(uri) for uri in one.before if str(uri) not in kept]
    return ()

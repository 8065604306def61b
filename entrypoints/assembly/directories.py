"""Directories that speak LDAP, by an adapter that is imported on the first use: most installations have no such connection."""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.ldap.answers import LdapAnswer, LdapSite
from core.domain.identity.upstream.ldap.surveys import LdapGroup, LdapMarks, LdapPerson, LdapSurvey
from core.domain.secrets import Secret
from ports.identity.upstream import LdapDirectories, LdapFound, LdapReading


class LdapOnFirstUse:
    """Implements `ports.identity.upstream.LdapDirectories`."""

    def __init__(
        self, dial: Callable[[str, int], Awaitable[tuple[socket.socket, bool]]], trust: Callable[[], Awaitable[ssl.SSLContext]]
    ) -> None:
        self._dial = dial
        self._trust = trust
        self._made: LdapDirectories | None = None

    async def look(self, site: LdapSite) -> None:
        await self._adapter().look(site)

    async def search(self, site: LdapSite, name: str, attributes: Sequence[str]) -> LdapFound:
        return await self._adapter().search(site, name, attributes)

    async def prove(self, site: LdapSite, host: str, dn: str, password: Secret) -> LdapAnswer:
        return await self._adapter().prove(site, host, dn, password)

    async def survey(self, provider: UpstreamProviderId, site: LdapSite, attributes: Sequence[str]) -> LdapSurvey:
        return await self._adapter().survey(provider, site, attributes)

    def _adapter(self) -> LdapDirectories:
        if self._made is None:
            from adapters.ldap.directories import TrioLdapDirectories  # noqa: PLC0415 - on first use

            self._made = TrioLdapDirectories(self._dial, self._trust)
        return self._made


class LdapReadingOnFirstUse:
    """Implements `ports.identity.upstream.LdapReading`."""

    def __init__(
        self, dial: Callable[[str, int], Awaitable[tuple[socket.socket, bool]]], trust: Callable[[], Awaitable[ssl.SSLContext]]
    ) -> None:
        self._dial = dial
        self._trust = trust
        self._made: LdapReading | None = None

    async def marks(self, site: LdapSite) -> LdapMarks:
        return await self._adapter().marks(site)

    def identities(self, site: LdapSite) -> AsyncIterator[Sequence[bytes]]:
        return self._adapter().identities(site)

    def people(self, site: LdapSite, attributes: Sequence[str], since: LdapMarks | None) -> AsyncIterator[Sequence[LdapPerson]]:
        return self._adapter().people(site, attributes, since)

    async def groups(self, site: LdapSite) -> Sequence[LdapGroup]:
        return await self._adapter().groups(site)

    def _adapter(self) -> LdapReading:
        if self._made is None:
            from adapters.ldap.directories import TrioLdapDirectories  # noqa: PLC0415 - on first use
            from adapters.ldap.reading import TrioLdapReading  # noqa: PLC0415 - on first use

            self._made = TrioLdapReading(TrioLdapDirectories(self._dial, self._trust))
        return self._made

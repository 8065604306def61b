"""Implements `ports.identity.upstream.LdapReading`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Generic, Self, TypeVar
from uuid import UUID

import trio

from adapters.ldap.connection import LdapConnection, PagedSearch
from adapters.ldap.directories import ANYBODY, SCOPES, TALKED_WITHIN, TrioLdapDirectories, base_of, entry_of, in_time, number_in
from adapters.ldap.groups import GroupReader
from adapters.ldap.messages import SearchScope
from core.domain.identity.upstream.ldap.answers import LdapEntry, LdapFailed, LdapFault, LdapSite, LdapStep
from core.domain.identity.upstream.ldap.entries import STANDING, changed_since, later_modified, person_of, readable_names
from core.domain.identity.upstream.ldap.filters import read_filter
from core.domain.identity.upstream.ldap.settings import LdapPreset
from core.domain.identity.upstream.ldap.surveys import LdapGroup, LdapMarks, LdapPerson

T = TypeVar("T")

# In seconds, of a piece and of all pieces. The time that the reader's caller takes between pieces does not count.
_PIECE_WITHIN: Final = 30.0
_READ_WITHIN: Final = 600.0
_GUID_BYTES: Final = 16


class OpenedSearch:
    """A search on a connection of its own, and the time that is left for it."""

    def __init__(self, search: PagedSearch, host: str) -> None:
        self._search = search
        self._host = host
        self._left = _READ_WITHIN
        self._is_closed = False

    def __del__(self) -> None:
        if not self._is_closed:
            self._search.connection.drop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def next(self) -> Sequence[LdapEntry]:
        """Empty when all have come. Raises `LdapFailed`."""
        began = trio.current_time()
        try:
            with in_time(LdapStep.FILTER, min(_PIECE_WITHIN, self._left), self._host):
                return [entry_of(one) for one in await self._search.next()]
        except LdapFailed as failed:
            failed.host = failed.host or self._host
            raise
        finally:
            self._left -= trio.current_time() - began

    async def close(self) -> None:
        self._is_closed = True
        await self._search.connection.abandon()


class LdapPieces(AsyncIterator[Sequence[T]], Generic[T]):
    """Opens the search with the first piece. Whoever stops early needs to close nothing: the connection goes with the iterator."""

    def __init__(self, opened: Callable[[], Awaitable[OpenedSearch]], shaped: Callable[[LdapEntry], T | None]) -> None:
        self._opened = opened
        self._shaped = shaped
        self._search: OpenedSearch | None = None
        self._seen = self._recognised = 0
        self._is_over = False

    async def __anext__(self) -> Sequence[T]:
        if self._is_over:
            raise StopAsyncIteration
        if self._search is None:
            self._search = await self._opened()
        try:
            while entries := await self._search.next():
                found = [one for one in map(self._shaped, entries) if one is not None]
                self._seen += len(entries)
                self._recognised += len(found)
                if found:
                    return found
        except BaseException:
            await self._end()
            raise
        await self._end()
        if self._seen and not self._recognised:
            # The bind account may not read the attribute any more, or it is another one: that does not mean that everybody is gone.
            raise LdapFailed(LdapStep.IDENTITY, LdapFault.NO_IDENTITY)
        raise StopAsyncIteration

    async def _end(self) -> None:
        self._is_over = True
        if self._search is not None:
            await self._search.close()


class TrioLdapReading:
    def __init__(self, directories: TrioLdapDirectories) -> None:
        self._directories = directories

    async def marks(self, site: LdapSite) -> LdapMarks:
        if site.settings.ldap_preset is LdapPreset.LLDAP:
            # It compares nothing by order, and refuses such a filter: each run reads everybody.
            return LdapMarks(None, None, None)
        connection, host = await self._directories.let_in(site)
        async with connection:
            with in_time(LdapStep.BASE, TALKED_WITHIN, host.name):
                controller, usn = await _controller(connection)
        if controller is not None:
            return LdapMarks(controller, usn, None)
        modified = None
        async with await self._everybody(site, ("modifyTimestamp",)) as search:
            while entries := await search.next():
                for one in entries:
                    modified = later_modified(modified, one)
        return LdapMarks(None, None, modified)

    def identities(self, site: LdapSite) -> AsyncIterator[Sequence[bytes]]:
        attribute = site.settings.identity_attribute

        def shaped(entry: LdapEntry) -> bytes | None:
            person = person_of(entry, attribute, ())
            return None if person is None else person.identity

        return LdapPieces(lambda: self._everybody(site, (attribute.value,)), shaped)

    def people(self, site: LdapSite, attributes: Sequence[str], since: LdapMarks | None) -> AsyncIterator[Sequence[LdapPerson]]:
        identity, names = site.settings.identity_attribute, readable_names(attributes)
        asked = list(dict.fromkeys((identity.value, *STANDING, *names)))
        return LdapPieces(lambda: self._everybody(site, asked, since), lambda entry: person_of(entry, identity, names))

    async def groups(self, site: LdapSite) -> Sequence[LdapGroup]:
        if not site.settings.groups_attribute:
            return []
        connection, host = await self._directories.let_in(site)
        async with connection:
            try:
                with in_time(LdapStep.GROUPS, _READ_WITHIN, host.name):
                    return await GroupReader(connection, site.settings, _PIECE_WITHIN).read()
            except LdapFailed as failed:
                failed.host = failed.host or host.name
                raise

    async def _everybody(self, site: LdapSite, attributes: Sequence[str], since: LdapMarks | None = None) -> OpenedSearch:
        settings = site.settings
        connection, host = await self._directories.let_in(site)
        try:
            with in_time(LdapStep.BASE, TALKED_WITHIN, host.name):
                base = await base_of(connection, settings)
                controller = None if since is None else (await _controller(connection))[0]
        except BaseException:
            await connection.abandon()
            raise
        wanted = changed_since(read_filter(settings.person_filter), since, controller)
        search = PagedSearch(connection, base, SCOPES[settings.search_scope], wanted, attributes)
        return OpenedSearch(search, host.name)


async def _controller(connection: LdapConnection) -> tuple[str | None, int | None]:
    """The controller of Active Directory that answers here, and the number of its last change. Its `invocationId` changes when it is
    restored, so that numbers that it has given out twice are never compared.
    """
    found = await connection.search("", SearchScope.BASE, ANYBODY, ("dsServiceName", "highestCommittedUSN"), most=1, step=LdapStep.BASE)
    root = found.entries[0] if found.entries else None
    usn = None if root is None else number_in(root, "highestcommittedusn")
    names = [] if root is None else entry_of(root).texts("dsServiceName")
    if usn is None or len(names) != 1 or not names[0]:
        return None, None
    try:
        service = await connection.search(names[0], SearchScope.BASE, ANYBODY, ("invocationId",), most=1, step=LdapStep.BASE)
    except LdapFailed as failed:
        if failed.fault in {LdapFault.NO_BASE, LdapFault.SEARCH_REFUSED}:
            return None, None
        raise
    values = service.entries[0].attributes.get("invocationid", ()) if service.entries else ()
    if len(values) != 1 or len(values[0]) != _GUID_BYTES:
        return None, None
    return str(UUID(bytes_le=bytes(values[0]))), usn

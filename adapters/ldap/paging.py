"""A search that is read piece by piece, however many entries it finds: in pages, and as it comes where a directory knows no pages. Memory
holds one piece.
"""

from collections.abc import Sequence
from typing import Final

import trio

from adapters.ldap import messages
from adapters.ldap.connection import LdapConnection, page_cookie, refused
from adapters.ldap.messages import ORDINARY, LdapOperation, LdapResult, LdapResultCode, MessageBounds, ReceivedEntry, SearchScope
from core.domain.identity.upstream.ldap.answers import LdapFailed, LdapFault, LdapStep
from core.domain.identity.upstream.ldap.filters import LdapFilter
from core.domain.identity.upstream.ldap.surveys import MOST_PEOPLE

MOST_BYTES: Final = 256 << 20
_PAGE: Final = 500
# What is read before others have their turn, and what whoever reads gets at once: few enough that nobody else waits for it.
_PIECE: Final = 50
_PIECE_BYTES: Final = 1 << 20
# Of each reference that a directory sends in place of an entry, besides its own.
_AN_ENTRY_TAKES: Final = 32
# Directories may send smaller pages than those asked for, and empty ones.
_MOST_PAGES: Final = 4 * MOST_PEOPLE // _PAGE
_LONGEST_COOKIE: Final = 64 << 10
_SECONDS: Final = 30
# RFC 4511, appendix A.1: the time limit, the size limit, and the administrator's limit.
_CUT_SHORT: Final = frozenset({LdapResultCode.TIME_LIMIT, LdapResultCode.SIZE_LIMIT, 11})


class PagedSearch:
    def __init__(
        self,
        connection: LdapConnection,
        base: str,
        scope: SearchScope,
        wanted: LdapFilter,
        attributes: Sequence[str],
        *,
        step: LdapStep = LdapStep.FILTER,
        bounds: MessageBounds = ORDINARY,
    ) -> None:
        self.connection = connection
        self._asked = messages.search(base, scope, wanted, attributes, most=0, seconds=_SECONDS)
        self._step = step
        self._bounds = bounds
        self._left, self._left_bytes, self._left_pages = MOST_PEOPLE, MOST_BYTES, _MOST_PAGES
        self._is_under_way = False
        self._is_over = False
        self._cookie = b""

    async def next(self) -> Sequence[ReceivedEntry]:
        """The next entries, at least one. Empty when all have come. Raises `LdapFailed`, also when the directory ends before all have
        come: a part of the people is never taken for all of them.
        """
        found: list[ReceivedEntry] = []
        piece = 0
        while not self._is_over and len(found) < _PIECE and piece < _PIECE_BYTES:
            if not self._is_under_way:
                await self.connection.ask(self._asked, [messages.paged(_PAGE, self._cookie)], self._step)
                self._is_under_way = True
            came, size = await self.connection.receive(self._step, self._bounds)
            self._left_bytes -= size + _AN_ENTRY_TAKES
            if self._left_bytes < 0:
                raise LdapFailed(self._step, LdapFault.TOO_LONG)
            if came.entry is not None:
                self._left -= 1
                if self._left < 0:
                    raise LdapFailed(self._step, LdapFault.TOO_LONG)
                piece += size
                found.append(came.entry)
            elif came.result is not None and came.operation == LdapOperation.DONE:
                self._end_of_page(came.result)
            elif came.operation != LdapOperation.REFERENCE:
                raise LdapFailed(self._step, LdapFault.MALFORMED)
        await trio.lowlevel.checkpoint()
        return found

    def _end_of_page(self, result: LdapResult) -> None:
        if result.code == LdapResultCode.NO_SUCH_OBJECT:
            raise LdapFailed(LdapStep.BASE, LdapFault.NO_BASE, result.said)
        if result.code == LdapResultCode.REFERRAL:
            raise LdapFailed(LdapStep.BASE, LdapFault.REFERRED, result.said)
        if result.code in _CUT_SHORT:
            raise LdapFailed(self._step, LdapFault.CUT_SHORT, f"{result.code}: {result.said}")
        if result.code != LdapResultCode.SUCCESS:
            raise LdapFailed(self._step, refused(result, LdapFault.SEARCH_REFUSED), f"{result.code}: {result.said}")
        self._cookie = page_cookie(result, self._step)
        self._left_pages -= 1
        if self._left_pages < 0 or len(self._cookie) > _LONGEST_COOKIE:
            raise LdapFailed(self._step, LdapFault.TOO_LONG)
        self._is_under_way, self._is_over = False, self._cookie == b""

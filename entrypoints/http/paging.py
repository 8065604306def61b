"""Pages of a list on the wire."""

from typing import Annotated

import msgspec

from core.domain.pages import DEFAULT_LIMIT, LARGEST_LIMIT, Page

# Beyond it nobody reads a list, and its offset is still a number that PostgreSQL knows.
_LAST_PAGE = 10_000_000
_LARGEST_OFFSET = 1_000_000_000


class Paging(msgspec.Struct, frozen=True, kw_only=True):
    page: Annotated[int, msgspec.Meta(ge=1, le=_LAST_PAGE)] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_LIMIT)] = DEFAULT_LIMIT


class OffsetPaging(msgspec.Struct, frozen=True, kw_only=True):
    """Where the interface counts rows instead of pages."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_LIMIT)] = DEFAULT_LIMIT
    offset: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_OFFSET)] = 0


class Pagination(msgspec.Struct, frozen=True):
    page: int
    limit: int
    total: int


def page_of(asked: Paging) -> Page:
    return Page(asked.page, asked.limit)

"""Paged lists in requests and answers."""

from typing import Annotated

import msgspec

from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT, Page
from entrypoints.http.machinery.fields import Total, example

# Nobody reads a list beyond this page, and PostgreSQL can still hold the offset of this page in a bigint.
_LAST_PAGE = 10_000_000
_LARGEST_OFFSET = 1_000_000_000


class Paging(msgspec.Struct, frozen=True, kw_only=True):
    """The requested page of a list."""

    page: Annotated[int, msgspec.Meta(ge=1, le=_LAST_PAGE)] = 1
    """The number of the requested page. The first page is 1."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The number of entries on a page. A number above the maximum is refused."""


class OffsetPaging(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of a list, in entries instead of pages."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The largest number of entries in the answer. A number above the maximum is refused."""
    offset: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_OFFSET)] = 0
    """The number of entries to skip."""


class Pagination(msgspec.Struct, frozen=True):
    """The position of this page in the list."""

    page: Annotated[int, example(1)]
    """The number of this page. The first page is 1."""
    limit: Annotated[int, example(50)]
    """The number of entries on a page."""
    total: Total


def page_of(asked: Paging) -> Page:
    return Page(asked.page, asked.limit)

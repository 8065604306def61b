"""Paged lists in requests and answers."""

from typing import Annotated

import msgspec

from core.domain.pages import DEFAULT_LIMIT, LARGEST_LIMIT, Page
from entrypoints.http.machinery.fields import Total, example

# Nobody reads a list beyond this, and its offset is still a number that PostgreSQL can hold.
_LAST_PAGE = 10_000_000
_LARGEST_OFFSET = 1_000_000_000


class Paging(msgspec.Struct, frozen=True, kw_only=True):
    """Which page of a list to answer with."""

    page: Annotated[int, msgspec.Meta(ge=1, le=_LAST_PAGE)] = 1
    """Which page to answer with; the first is 1."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_LIMIT)] = DEFAULT_LIMIT
    """How many to answer with on a page. More than the maximum is refused."""


class OffsetPaging(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list to answer with, in rows instead of pages."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_LIMIT)] = DEFAULT_LIMIT
    """How many to answer with at most. More than the maximum is refused."""
    offset: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_OFFSET)] = 0
    """How many to skip."""


class Pagination(msgspec.Struct, frozen=True):
    """Where this page stands in the list."""

    page: Annotated[int, example(1)]
    """Which page this is; the first is 1."""
    limit: Annotated[int, example(50)]
    """How many stand on a page."""
    total: Total


def page_of(asked: Paging) -> Page:
    return Page(asked.page, asked.limit)

"""How far a verification came: nobody without the key can say so, and nothing counts for ever."""

import hmac
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.record.audit import PROGRESS_COUNTS_FOR, ChainHead, Reached, opened_progress, sealed_progress

KEY = b"k" * 32
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
ACME = OrganizationId(UUID(int=7))


NOTED = ChainHead(3, b"n" * 32)


def reached(only: OrganizationId | None = None, noted: ChainHead | None = None) -> Reached:
    return Reached(NOW, only, ACME, ChainHead(5, b"d" * 32), 5, 1, 3, 40, {"acme": 2}, noted)


@pytest.mark.parametrize("only", [None, ACME])
def test_a_run_goes_on_where_one_before_stopped(only: OrganizationId | None) -> None:
    for noted in (None, NOTED):
        assert opened_progress(KEY, sealed_progress(KEY, reached(only, noted)), only, noted, NOW + PROGRESS_COUNTS_FOR) == reached(
            only, noted
        )


@pytest.mark.parametrize(("before", "now"), [(None, NOTED), (NOTED, None), (NOTED, ChainHead(3, b"m" * 32))])
def test_progress_that_compared_another_head_is_refused(before: ChainHead | None, now: ChainHead | None) -> None:
    with pytest.raises(BadRequest, match="another head"):
        opened_progress(KEY, sealed_progress(KEY, reached(ACME, before)), ACME, now, NOW)


def test_a_link_of_a_chain_is_no_code() -> None:
    text, _, code = sealed_progress(KEY, reached()).partition("\n")
    assert hmac.digest(KEY, b"progress of a verification" + text.encode(), sha256).hex() != code.strip()
    assert hmac.digest(KEY, text.encode(), sha256).hex() != code.strip()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"links": 5', '"links": 6'),
        lambda text: text.replace("5:64", "6:64"),
        lambda text: text[:-10],
        lambda _text: "",
        lambda _text: "é\né",
        lambda text: text.partition("\n")[0],
    ],
)
def test_a_text_that_was_touched_counts_for_nothing(change: object) -> None:
    text = change(sealed_progress(KEY, reached()))  # type: ignore[operator]
    with pytest.raises(BadRequest):
        opened_progress(KEY, text, None, None, NOW)


def test_another_installations_progress_counts_for_nothing() -> None:
    with pytest.raises(BadRequest, match="with these keys"):
        opened_progress(b"x" * 32, sealed_progress(KEY, reached()), None, None, NOW)


def test_the_progress_of_other_chains_is_refused() -> None:
    with pytest.raises(BadRequest, match="other chains"):
        opened_progress(KEY, sealed_progress(KEY, reached(ACME)), None, None, NOW)


@pytest.mark.parametrize("later", [PROGRESS_COUNTS_FOR + timedelta(seconds=1), timedelta(seconds=-1)])
def test_a_run_that_began_long_ago_is_begun_anew(later: timedelta) -> None:
    with pytest.raises(BadRequest, match="a week ago"):
        opened_progress(KEY, sealed_progress(KEY, reached()), None, None, NOW + later)

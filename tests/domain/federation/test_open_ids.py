"""Ids of programs that have registered themselves."""

import pytest

from core.domain.federation.open_registrations import described_by_id


@pytest.mark.parametrize("length", [41, 45, 49])
def test_a_text_that_no_bytes_have_is_no_id(length: int) -> None:
    assert described_by_id("open:" + "A" * length, ()) is None

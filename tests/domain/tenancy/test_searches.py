"""The text that members are searched by."""

import pytest

from core.domain.errors import BadRequest
from core.domain.tenancy.members import LONGEST_SEARCH, sought


def test_a_text_is_found_in_any_case_and_has_an_end() -> None:
    assert sought("  ADA@ ") == "ada@"
    assert sought("a" * LONGEST_SEARCH) == "a" * LONGEST_SEARCH
    with pytest.raises(BadRequest, match="at most"):
        sought("a" * (LONGEST_SEARCH + 1))

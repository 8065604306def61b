"""Texts that are client ids, and texts that are none."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import BadRequest
from core.domain.services.clients import kept_client_id, read_client_id

OWN = "0199d3a0-0000-7000-8000-000000000001"


@pytest.mark.parametrize("text", [OWN, "shop-frontend", "a.b_c~d-", "x" * 8, "x" * 80, "0199d3a0-0000-7000-8000-00000000000"])
def test_a_client_id_is_read_as_it_is(text: str) -> None:
    assert read_client_id(text) == text


@pytest.mark.parametrize(
    "text", ["", "short-1", "x" * 81, "a:b:c:d:e", "a/b/c/d/e", OWN.upper(), OWN.replace("-", ""), f"{{{OWN}}}", f"{OWN}\n"]
)
def test_another_text_is_none(text: str) -> None:
    assert read_client_id(text) is None


@given(st.uuids(), st.sampled_from([str, lambda one: one.hex, lambda one: str(one).upper(), lambda one: f"-{one.hex}-"]))
def test_nobody_keeps_the_id_that_a_service_has_or_will_have(one: UUID, spelled: object) -> None:
    assert callable(spelled)
    with pytest.raises(BadRequest, match="and be no UUID"):
        kept_client_id(spelled(one))

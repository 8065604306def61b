"""What a provider that knows only texts means, for each kind of field."""

import pytest

from core.domain.formats import Json
from core.domain.tenancy.profile_fields import FieldKind, FieldShape, meant_by_texts


@pytest.mark.parametrize(
    ("kind", "given", "meant"),
    [
        (FieldKind.NUMBER, "42", 42),
        (FieldKind.NUMBER, "-1.5", -1.5),
        (FieldKind.NUMBER, "1e9", "1e9"),
        (FieldKind.NUMBER, "9" * 400, "9" * 400),
        (FieldKind.NUMBER, "٤٢", "٤٢"),
        (FieldKind.NUMBER, 7, 7),
        (FieldKind.BOOLEAN, "TRUE", True),
        (FieldKind.BOOLEAN, "false", False),
        (FieldKind.BOOLEAN, "1", True),
        (FieldKind.BOOLEAN, "yes", "yes"),
        (FieldKind.LIST, "Sales", ["Sales"]),
        (FieldKind.LIST, "", []),
        (FieldKind.LIST, ["a", "b"], ["a", "b"]),
        (FieldKind.TEXT, "42", "42"),
        (FieldKind.TEXT, ["42"], ["42"]),
        (FieldKind.CHOICE, "a", "a"),
        (FieldKind.DATE, "2026-07-31", "2026-07-31"),
    ],
)
def test_a_text_is_what_its_field_takes_or_stays_a_text(kind: FieldKind, given: Json, meant: Json) -> None:
    found = meant_by_texts(FieldShape(key="key", kind=kind), given)
    assert (found, type(found)) == (meant, type(meant))

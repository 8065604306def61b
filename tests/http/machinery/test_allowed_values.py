"""If a field allows only some values, the refusal names these: for each such field of each endpoint, also in lists."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from entrypoints.http.machinery.decoding import BodyReader, QueryReader
from entrypoints.http.machinery.errors import NotAsDeclared
from entrypoints.http.routes import ROUTES


def within(kind: inspect.Type) -> tuple[list[str], bool]:
    """The values of an enumeration, and whether a list of them is wanted."""
    if isinstance(kind, inspect.Metadata):
        return within(kind.type)
    if isinstance(kind, inspect.UnionType):
        return next((found for found in map(within, kind.types) if found[0]), ([], False))
    if isinstance(kind, inspect.EnumType):
        return [str(one.value) for one in kind.cls], False
    if isinstance(kind, inspect.CollectionType | inspect.VarTupleType):
        return within(kind.item_type)[0], True
    return [], False


def enumerated() -> Iterator[tuple[str, type, str, list[str], bool, bool]]:
    for one in ROUTES:
        for kind, in_body in ((one.body_type, True), (one.query_type, False)):
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                for field in inspect.type_info(kind).fields:  # type: ignore[attr-defined]  # of a struct
                    values, many = within(field.type)
                    if values:
                        yield f"{one} {field.encode_name}", kind, field.encode_name, values, many, in_body


def test_every_field_names_its_values() -> None:
    walked = list(enumerated())
    assert any(name.endswith("/services service_type") for name, *_ in walked)
    assert len(walked) >= 10
    for name, kind, field, values, many, in_body in walked:
        sent = msgspec.json.encode({field: ["no such value"] if many else "no such value"}) if in_body else f"{field}=no-such".encode()
        read = BodyReader(kind, 1 << 16).decode if in_body else QueryReader(kind).read
        with pytest.raises(NotAsDeclared) as refused:
            read(sent)
        place = f"{field}[0]" if many else field
        told = refused.value.message
        assert told.startswith(f"{place}: must be one of "), (name, told)
        assert [one for one in values if one not in told.partition("one of ")[2].split(", ")] == [], name
        assert "no such" not in told


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct):
    colours: dict[str, list[Colour]] = {}


class Outer(msgspec.Struct):
    inner: list[Inner] = []
    one: Colour | None = None


@pytest.mark.parametrize(
    ("body", "place"),
    [({"one": "x"}, "one"), ({"inner": [{"colours": {"a": ["x"]}}]}, "inner[0].colours")],
)
def test_also_below_others(body: Any, place: str) -> None:
    with pytest.raises(NotAsDeclared) as refused:
        BodyReader(Outer, 1 << 16).decode(msgspec.json.encode(body))
    told = refused.value.message
    assert told.startswith(place)
    assert told.endswith(": must be one of red, blue")

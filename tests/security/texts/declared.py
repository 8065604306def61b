"""Every text that a request can bring, by the declarations: where it stands, its bound, and a request in which it stands."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from msgspec import NODEFAULT, inspect

from core.domain.secrets import Secret
from entrypoints.http.application import METRICS_ROUTES, PAGES
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.routes import ROUTES

ALL: Final = (*ROUTES, *PAGES, *METRICS_ROUTES)
SOME_ID: Final = "0199d3a0-0000-7000-8000-000000000001"
# A step to an element of a list, to the key of an object without declared names, and to a value of it.
ELEMENT, KEY, VALUE = "[]", "{key}", "{}"
Steps = tuple[str, ...]


class DeclaredText(NamedTuple):
    endpoint: Endpoint
    part: str
    """`body`, `query` or `path`."""
    steps: Steps
    """The way to the text: names of fields, `[]`, `{key}` and `{}`."""
    longest: int | None
    """In characters. None: the declaration has no bound."""
    is_any: bool = False
    """Whether the declaration takes any JSON here, within the limit of the body."""
    is_secret: bool = False
    """Whether the decoder makes a secret of it. Of a password or a token that is too long, it keeps one character too many."""

    def __str__(self) -> str:
        return f"{self.endpoint} {self.part} {'.'.join(self.steps)}"


@cache
def declared_texts() -> Sequence[DeclaredText]:
    return [text for one in ALL for text in texts_of(one)]


def texts_of(one: Endpoint) -> Iterator[DeclaredText]:
    for part, kind in (("path", one.path_type), ("query", one.query_type), ("body", one.body_type)):
        if kind is None or kind is bytes:
            continue
        for steps, longest, leaf in _texts(described(kind), (), ()):
            yield DeclaredText(one, part, steps, longest, leaf is Any, leaf is Secret)


@cache
def described(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _texts(  # noqa: C901, PLR0912 - one line a type
    kind: inspect.Type, steps: Steps, above: tuple[type, ...]
) -> Iterator[tuple[Steps, int | None, Any]]:
    match kind:
        case inspect.Metadata():
            yield from _texts(kind.type, steps, above)
        case inspect.StrType():
            yield steps, kind.max_length, str
        case inspect.CustomType() if issubclass(kind.cls, Secret):
            yield steps, kind.cls.longest, Secret
        case inspect.AnyType() | inspect.RawType():
            yield steps, None, Any
        case inspect.UnionType():
            for one in kind.types:
                yield from _texts(one, steps, above)
        case inspect.StructType() if kind.cls not in above:
            for field in kind.fields:
                yield from _texts(field.type, (*steps, field.encode_name), (*above, kind.cls))
        case inspect.DictType():
            yield from _texts(kind.key_type, (*steps, KEY), above)
            yield from _texts(kind.value_type, (*steps, VALUE), above)
        case inspect.CollectionType() | inspect.VarTupleType():
            yield from _texts(kind.item_type, (*steps, ELEMENT), above)
        case inspect.TupleType():
            for one in kind.item_types:
                yield from _texts(one, (*steps, ELEMENT), above)
        case _:
            # Numbers, times, ids, literals, enumerations and files.
            assert isinstance(kind, _OTHERS), kind


_OTHERS: Final = (
    *(inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.NoneType, inspect.BytesType, inspect.DateTimeType, inspect.DateType),
    *(inspect.UUIDType, inspect.LiteralType, inspect.EnumType, inspect.StructType),
)


def built(kind: Any, steps: Steps, text: str) -> Any:
    """The least value of the type in which the text stands at the end of the steps."""
    return _built(described(kind), steps, text)


def _built(kind: inspect.Type, steps: Steps, text: str) -> Any:  # noqa: C901, PLR0911, PLR0912 - one line a type
    match kind:
        case inspect.Metadata():
            return _built(kind.type, steps, text)
        case inspect.UnionType():
            fitting = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
            return _built(next((one for one in fitting if _leads(one, steps)), fitting[0]), steps, text)
        case inspect.StructType():
            wanted = steps[0] if steps else None
            return {
                field.encode_name: _built(field.type, steps[1:], text) if field.encode_name == wanted else _built(field.type, (), "x")
                for field in kind.fields
                if field.encode_name == wanted or (field.default is NODEFAULT and field.default_factory is NODEFAULT)
            }
        case inspect.DictType():
            if steps and steps[0] == KEY:
                return {text: _built(kind.value_type, (), "x")}
            return {"x": _built(kind.value_type, steps[1:], text)} if steps else {}
        case inspect.CollectionType() | inspect.VarTupleType():
            least = getattr(kind, "min_length", None) or 0
            return [_built(kind.item_type, steps[1:], text)] if steps or least else []
        case inspect.TupleType():
            return [_built(one, steps[1:], text) for one in kind.item_types]
        case inspect.StrType() | inspect.CustomType() | inspect.AnyType() | inspect.RawType():
            return text
        case inspect.EnumType():
            return next(iter(kind.cls)).value
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.IntType() | inspect.FloatType():
            return kind.ge or kind.gt or 1
        case inspect.BoolType():
            return False
        case inspect.UUIDType():
            return SOME_ID
        case inspect.DateTimeType():
            return "2026-03-01T09:30:00Z"
        case inspect.DateType():
            return "2026-03-01"
        case _:
            return ""


def _leads(kind: inspect.Type, steps: Steps) -> bool:
    return any(found == steps for found, _, _ in _texts(kind, (), ()))


def of_path(path: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    return path

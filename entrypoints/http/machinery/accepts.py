"""The kinds of request body: JSON, a form, or raw bytes. A declaration names the kind in `accepts`, with a size limit when the general
limit does not fit.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import inspect

from core.frozen import Frozen
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.decoding import BodyReader, FieldsReader, Receive, convert, explained, media_type_of
from entrypoints.http.machinery.errors import NotAsDeclared

_FORM: Final = "application/x-www-form-urlencoded"
_FORM_SENT: Final = _FORM.encode()
_JSON: Final = "application/json"
LONGEST_FORM: Final = 8 << 10
"""In bytes: twice the size of a token and two passwords of the greatest length, with every byte percent-encoded."""
_MOST_FORM_FIELDS: Final = 20
_LONGEST_PART_HEAD: Final = 1000
_FIELD_NAME: Final = re.compile(rb'(?i)^content-disposition:[ \t]*form-data;[^\r\n]*?[ ;]name="([^"\r\n]*)"', re.MULTILINE)
_FILE_NAME: Final = re.compile(rb'(?i)^content-disposition:[^\r\n]*[ ;]filename="', re.MULTILINE)


class Accepts(Protocol):
    @property
    def media_type(self) -> str: ...
    def suits(self, kind: Any) -> bool:
        """Whether this kind of body can be decoded into the type `kind`."""

    def reader(self, kind: Any, general_limit: int) -> BodyReader: ...


class Json(Frozen):
    """JSON. `limit` is in bytes; None means the general limit. `only_known`: fields that are not declared are refused by their names."""

    limit: int | None = None
    only_known: bool = False

    @property
    def media_type(self) -> str:
        return BodyReader.media_type

    def suits(self, kind: Any) -> bool:
        return kind is not bytes

    def reader(self, kind: Any, general_limit: int) -> BodyReader:
        return BodyReader(kind, self.limit or general_limit, only_known=self.only_known)


class Form(Frozen):
    """A form, urlencoded as browsers send forms, into a Struct. Each field is given at most once. Without `limit`, the limit is 8 KiB, or
    the general limit if the general limit is less.
    """

    limit: int | None = None
    most_fields: int = _MOST_FORM_FIELDS

    @property
    def media_type(self) -> str:
        return _FORM

    def suits(self, kind: Any) -> bool:
        return isinstance(kind, type) and issubclass(kind, msgspec.Struct)

    def reader(self, kind: Any, general_limit: int) -> BodyReader:
        return _FormReader(kind, self.limit or min(LONGEST_FORM, general_limit), self.most_fields)


class FormOrJson(Frozen):
    """Decodes one Struct from a form, as OAuth sends it, or from JSON, as the content type says. `limit` is 16 KiB by default."""

    limit: int = 16 << 10

    @property
    def media_type(self) -> str:
        return _FORM

    @property
    def media_types(self) -> Sequence[str]:
        return _FORM, _JSON

    def suits(self, kind: Any) -> bool:
        return Form().suits(kind)

    def reader(self, kind: Any, _general_limit: int) -> BodyReader:
        return _FormOrJsonReader(kind, self.limit)


class Raw(Frozen):
    """Raw bytes of this media type, for a handler that must see the unparsed bytes, for instance to check a signature."""

    media_type: str
    limit: int | None = None

    def suits(self, kind: Any) -> bool:
        return kind is bytes

    def reader(self, _kind: Any, general_limit: int) -> BodyReader:
        return _RawReader(self.media_type, self.limit or general_limit)


class RawOfTypes(Frozen):
    """Raw bytes of one of several media types. The handler learns from the header which type the sender states."""

    media_types: tuple[str, ...]
    limit: int

    @property
    def media_type(self) -> str:
        return self.media_types[0]

    def suits(self, kind: Any) -> bool:
        return kind is bytes

    def reader(self, _kind: Any, _general_limit: int) -> BodyReader:
        return _RawOfTypesReader(self.media_types, self.limit)


class FormWithFile(Frozen):
    """A form with a file, as browsers send it (RFC 7578), into a Struct: the fields that the form calls files are bytes. `limit` is in
    bytes, for the whole form.
    """

    limit: int
    media_type: str = "multipart/form-data"

    def suits(self, kind: Any) -> bool:
        return Form().suits(kind)

    def reader(self, kind: Any, _general_limit: int) -> BodyReader:
        return _FormWithFileReader(kind, self.limit)


class ScimJson(Frozen):
    """JSON of SCIM. The names of attributes may come in any case (RFC 7643 section 2.1), and some directories send booleans as strings: the
    reader corrects both. The reader leaves the `value` of an operation as it is.
    """

    limit: int | None = None

    @property
    def media_type(self) -> str:
        return _ScimReader.media_type

    def suits(self, kind: Any) -> bool:
        return isinstance(kind, type) and issubclass(kind, msgspec.Struct)

    def reader(self, kind: Any, general_limit: int) -> BodyReader:
        return _ScimReader(kind, self.limit or general_limit)


class _ScimReader(BodyReader):
    media_type = "application/scim+json"

    def __init__(self, kind: type[msgspec.Struct], limit: int) -> None:
        super().__init__(dict[str, Any], limit)
        self._kind = kind
        self._names: dict[str, str] = {name.lower(): name for name in _names(kind)}

    def decode(self, body: bytes) -> Any:
        value = self._named(super().decode(body))
        try:
            return msgspec.convert(value, self._kind)
        except msgspec.ValidationError as error:
            raise NotAsDeclared(explained(error, self._kind)) from None

    def _named(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._with_names(value)
        return [self._named(one) for one in value] if isinstance(value, list) else value

    def _with_names(self, value: dict[str, Any]) -> dict[str, Any]:
        named: dict[str, Any] = {}
        for given, inner in value.items():
            name = self._names.get(given.lower(), given)
            if name in named:
                raise NotAsDeclared(f"{name}: send it only once")
            named[name] = inner if name == _OF_OPERATION else _truth(inner) if name in _TRUTHS else self._named(inner)
        return named


# The boolean attributes.
_TRUTHS: Final = frozenset({"active", "primary"})
_OF_OPERATION: Final = "value"


def _truth(value: Any) -> Any:
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def _names(kind: type[msgspec.Struct]) -> Iterator[str]:
    """The names of the fields of a Struct, and of all Structs inside."""
    pending: list[inspect.Type] = [inspect.type_info(kind)]
    while pending:
        one = pending.pop()
        if isinstance(one, inspect.StructType):
            yield from (str(field.encode_name) for field in one.fields)
            pending += [field.type for field in one.fields]
        elif isinstance(one, inspect.UnionType):
            pending += one.types
        elif isinstance(one, inspect.CollectionType | inspect.Metadata):
            pending.append(one.item_type if isinstance(one, inspect.CollectionType) else one.type)


class RawXml(Frozen):
    """The raw bytes of an XML document: under the media type for SAML metadata, or under `application/xml` or `text/xml`."""

    limit: int
    media_type: str = "application/samlmetadata+xml"

    def suits(self, kind: Any) -> bool:
        return kind is bytes

    def reader(self, _kind: Any, _general_limit: int) -> BodyReader:
        return _XmlReader(self.media_type, self.limit)


class _FormReader(BodyReader):
    media_type = _FORM
    empty = b""

    def __init__(self, kind: type[msgspec.Struct], limit: int, most_fields: int) -> None:
        self._fields = FieldsReader(kind, "The form", most_fields)
        self._limit = limit

    def takes(self, content_type: bytes) -> bool:
        return media_type_of(content_type) == _FORM_SENT

    def decode(self, body: bytes) -> Any:
        return self._fields.read(body)


class _Json(bytes):
    """The bytes of a JSON body, which `_FormOrJsonReader.decode` thereby tells from a form."""

    __slots__ = ()


class _FormOrJsonReader(_FormReader):
    media_type = f"{_FORM} or application/json"

    def __init__(self, kind: type[msgspec.Struct], limit: int) -> None:
        super().__init__(kind, limit, _MOST_FORM_FIELDS)
        self._json = BodyReader(kind, limit)

    def takes(self, content_type: bytes) -> bool:
        return super().takes(content_type) or self._json.takes(content_type)

    async def read(self, request: Request, receive: Receive) -> bytes:
        body = await super().read(request, receive)
        return _Json(body) if body and not super().takes(request.header(b"content-type") or b"") else body

    def decode(self, body: bytes) -> Any:
        return self._json.decode(body) if isinstance(body, _Json) else super().decode(body)


class _RawReader(BodyReader):
    empty = b""

    def __init__(self, media_type: str, limit: int) -> None:
        self.media_type = media_type
        self._limit = limit

    def takes(self, content_type: bytes) -> bool:
        return media_type_of(content_type) == self.media_type.encode()

    def decode(self, body: bytes) -> bytes:
        return body


class _RawOfTypesReader(_RawReader):
    def __init__(self, media_types: tuple[str, ...], limit: int) -> None:
        super().__init__(", ".join(media_types[:-1]) + f" or {media_types[-1]}", limit)
        self._taken = frozenset(one.encode() for one in media_types)

    def takes(self, content_type: bytes) -> bool:
        return media_type_of(content_type) in self._taken


class _FormWithFileReader(BodyReader):
    media_type = "multipart/form-data"
    empty = b""

    def __init__(self, kind: type[msgspec.Struct], limit: int) -> None:
        self._kind = kind
        self._limit = limit

    def takes(self, content_type: bytes) -> bool:
        return media_type_of(content_type) == self.media_type.encode()

    def decode(self, body: bytes) -> Any:
        values: dict[str, Any] = {}
        for name, content, is_file in _parts_of(body):
            if name in values:
                raise NotAsDeclared(f"{name}: send it only once")
            values[name] = content if is_file else _text_of(name, content)
        return convert(values, self._kind)


def _parts_of(body: bytes) -> Iterator[tuple[str, bytes, bool]]:
    """The name and the content of each part, and whether the part is a file. Browsers write nothing before the first boundary, so the first
    line is the boundary.
    """
    if not body:
        return
    boundary, _, _ = body.partition(b"\r\n")
    parts = body[len(boundary) :].split(b"\r\n" + boundary, _MOST_FORM_FIELDS) if boundary.startswith(b"--") else ()
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise NotAsDeclared("The form is not multipart/form-data, or has too many fields")
    for part in parts[:-1]:
        head, found, content = part.partition(b"\r\n\r\n")
        named = _FIELD_NAME.search(head) if len(head) <= _LONGEST_PART_HEAD else None
        if not found or named is None:
            raise NotAsDeclared("The form has a part without a name")
        yield named[1].decode("utf-8", "replace"), content, _FILE_NAME.search(head) is not None


def _text_of(name: str, content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise NotAsDeclared(f"{name}: is not valid UTF-8") from None
    if "\x00" in text:
        raise NotAsDeclared(f"{name}: must not contain NUL characters")
    return text


class _XmlReader(_RawReader):
    def takes(self, content_type: bytes) -> bool:
        return media_type_of(content_type) in {self.media_type.encode(), b"application/xml", b"text/xml"}

"""Decodes body, query and path into declared types. Every fault becomes a 400 that names the field."""

import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence, Sized
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
import trio
from msgspec import inspect

from core.domain.errors import PayloadTooLarge, UnsupportedMediaType
from core.domain.far_numbers import MOST_FAR_NUMBERS, has_many_far_numbers, outside_of_texts
from core.domain.secrets import Password, Secret, Token
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.errors import NotAsDeclared

T = TypeVar("T")

_LARGE: Final = 16 << 10
_THREADS: Final = 2
_LIMITER: Final = trio.CapacityLimiter(_THREADS)


async def beside_the_loop(work: Callable[[], T], body: Sized) -> T:
    """Decodes or encodes a large body in one of a few threads. On the event loop, this work would make all other requests wait.

    The result of `work`. For a small body, `work` runs at once, without a thread. Raises the errors of `work`.
    """
    return work() if len(body) < _LARGE else await trio.to_thread.run_sync(work, limiter=_LIMITER)


Receive = Callable[[], Awaitable[Any]]

# Every declared body is shallower. The parsers give up by themselves only at a much greater depth.
_DEEPEST = 100
_MOST_QUERY_FIELDS = 100
# Links of Postern have one field. Programs that check the links in a mail may add fields of their own.
_MOST_LINK_FIELDS = 100
# In bytes. To name the field of a bad character, Python searches the whole body on the event loop's thread, and other requests wait.
# The refusal of a longer body does not name the field.
_LONGEST_SEARCHED: Final = 8192
# Whatever is declared has one for more bytes than these. To make the 50 000 lists of 100 KB takes 5 ms, and nobody can interrupt it.
_BYTES_A_BRACKET: Final = 8
_MOST_BRACKETS: Final = 1000
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
# In bytes: what is counted before other threads get their turn.
_COUNTED: Final = 8 << 10
# An opening bracket becomes 1, and a closing bracket becomes -1, as signed bytes.
_DEPTH_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
# Of a field that a caller made up, in characters.
_LONGEST_NAME: Final = 100
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NUL: Final = re.compile("\x00")
_WHOLE: Final = "The request body"

# The messages of msgspec contain Python's names of types. Callers know JSON's names.
_JSON_WORDS: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_PLACE: Final = re.compile(r" - at `(?P<key>key in )?\$(?P<place>.*)`$")
# A step in a place: a field such as `.tags`, or an element such as `[0]` or `[...]`.
_STEP: Final = re.compile(r"\.(\w+)|\[([^]]*)\]")
_COLLECTIONS: Final = (inspect.CollectionType, inspect.VarTupleType)


class ClientGone(Exception):
    """The client closed the connection before its request was complete, so no answer is sent."""


class BodyReader:
    """Reads a JSON body of one type, of at most `limit` bytes. A missing body counts as an empty object, so that a request whose fields are
    all optional needs no body. The readers of other media types are in `accepts.py`.

    `only_known`: a field that the type does not have is refused. A change has only optional fields, so a misspelt one would be dropped and
    answered like a change that was made.
    """

    media_type = "application/json"
    empty = b"{}"

    def __init__(self, kind: Any, limit: int, *, only_known: bool = False) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind, dec_hook=decode_own_type)
        self._limit = limit
        self._known = {field.encode_name for field in _fields(kind)} if only_known and _is_struct(kind) else None

    def takes(self, content_type: bytes) -> bool:
        media_type = media_type_of(content_type)
        return media_type == b"application/json" or (media_type.startswith(b"application/") and media_type.endswith(b"+json"))

    async def read(self, request: Request, receive: Receive) -> bytes:
        """The bytes for `decode`."""
        content_type = request.header(b"content-type")
        if content_type is not None and not self.takes(content_type):
            raise self._unsupported()
        length = request.header(b"content-length")
        if length is not None and int(length) > self._limit:
            raise PayloadTooLarge(f"The request body must not exceed {self._limit} bytes")
        body = await self._receive_all(receive)
        if body and content_type is None:
            raise self._unsupported()
        return body or self.empty

    def _unsupported(self) -> UnsupportedMediaType:
        return UnsupportedMediaType(f"The request body must be {self.media_type}")

    async def _receive_all(self, receive: Receive) -> bytes:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part = message.get("body", b"")
            size += len(part)
            if size > self._limit:
                raise PayloadTooLarge(f"The request body must not exceed {self._limit} bytes")
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    def decode(self, body: bytes) -> Any:
        _require_shallow(body)
        _require_few_far_numbers(body)
        try:
            if not body.isascii():
                body.decode()  # msgspec skips the strings of undeclared fields, but they must be UTF-8, too
            value = self._decoder.decode(body)
        except UnicodeDecodeError as error:
            raise NotAsDeclared(f"The request body is not valid UTF-8 at byte {error.start}") from None
        except msgspec.ValidationError as error:
            raise NotAsDeclared(explained(error, self._kind)) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise NotAsDeclared(_malformed(body, error)) from None
        # In `\\u0000`, the first backslash escapes the second, so `u0000` is plain text. Removing escaped backslashes leaves real NULs.
        if b"\\u0000" in body and b"\\u0000" in body.replace(b"\\\\", b""):
            raise NotAsDeclared(f"{_place(body, _NUL) or _WHOLE}: must not contain NUL characters")
        if self._known is not None:
            self._require_known(body, self._known)
        return value

    def _require_known(self, body: bytes, known: Collection[str]) -> None:
        unknown = [name for name in msgspec.json.decode(body, type=dict[str, msgspec.Raw]) if name not in known]
        if unknown:
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            raise NotAsDeclared(f"{unknown[0][:_LONGEST_NAME]}{more}: no such field")


class FieldsReader:
    """Reads the named fields of a query or a form."""

    def __init__(self, kind: type[msgspec.Struct], what: str, most_fields: int = _MOST_QUERY_FIELDS) -> None:
        self._kind = kind
        self._what = what
        self._most_fields = most_fields
        self._lists = {field.encode_name for field in _fields(kind) if field.type is not str and _is_list(inspect.type_info(field.type))}
        self._names = {field.encode_name: field.name for field in _fields(kind)}

    def read(self, encoded: bytes) -> Any:
        values: dict[str, Any] = {}
        for name, value in self._pairs(encoded):
            if "\x00" in value:
                raise NotAsDeclared(f"{name}: must not contain NUL characters")
            if name in self._lists:
                values.setdefault(name, []).append(value)
            elif name in values:
                raise NotAsDeclared(f"{name}: send it only once")
            else:
                values[name] = value
        fields = convert(values, self._kind)
        for name in values.keys() & self._names.keys():
            # msgspec turns the text `null` into None where no type of the field is text. A filter that the caller gave must not be dropped.
            if getattr(fields, self._names[name]) is None:
                raise NotAsDeclared(f"{name}: expected a value")
        return fields

    def _pairs(self, encoded: bytes) -> list[tuple[str, str]]:
        try:
            text = encoded.decode("ascii")
            if text.count("&") >= self._most_fields:
                raise NotAsDeclared(f"{self._what} has too many fields")
            # As `parse_qsl` reads them, in half the time.
            return [(_decoded(name), _decoded(value)) for name, equals, value in map(_parted, text.split("&")) if name or equals]
        except UnicodeDecodeError as error:
            wrong = "must be percent-encoded" if error.encoding == "ascii" else "is not valid UTF-8"
            raise NotAsDeclared(f"{self._what} {wrong}") from None


class QueryReader(FieldsReader):
    def __init__(self, kind: type[msgspec.Struct]) -> None:
        super().__init__(kind, "The query")


class ReadByPage(msgspec.Struct, frozen=True):
    """A query that a page reads itself, by stricter rules than `LinkReader`. The type is declared for the OpenAPI description."""


class LinkReader:
    """Reads the query of a page. Links pass through programs that add fields and break characters. So the first of several fields with one
    name counts, and undecodable bytes become U+FFFD.
    """

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self._kind = kind

    def read(self, query_string: bytes) -> Any:
        try:
            pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_LINK_FIELDS)
        except ValueError:  # too many fields, or characters outside ASCII, which browsers percent-encode
            raise NotAsDeclared("The link has too many fields") from None
        return convert(dict(reversed(pairs)), self._kind)


def convert(values: Mapping[str, Any], kind: type[msgspec.Struct]) -> Any:
    """Convert text from a query or path into the declared types. Here the text `"5"` is a valid integer; in a JSON body it is not."""
    try:
        return msgspec.convert(values, kind, strict=False, dec_hook=decode_own_type)
    except msgspec.ValidationError as error:
        raise NotAsDeclared(explained(error, kind)) from None
    except (ValueError, OverflowError):
        # A number stands for a time that `datetime` cannot represent.
        raise NotAsDeclared("A time is out of range") from None


def decode_own_type(kind: type, value: Any) -> Any:
    """Makes a secret of a password or a token before any other code sees it.

    Of a password or a token that is longer than any, one character more than any has is left, so that it is refused as a wrong one is.
    """
    if issubclass(kind, Secret):
        if not isinstance(value, str):
            raise TypeError("Expected `str`")
        if len(value) <= kind.longest:
            return kind(value)
        if issubclass(kind, Password | Token):
            return kind(value[: kind.longest + 1])
        raise ValueError(f"Expected `str` of length <= {kind.longest}")
    raise NotImplementedError(f"No request carries a {kind.__name__}")


def explained(error: msgspec.ValidationError, kind: Any) -> str:
    """The error's message in JSON's words: `Expected `str`, got `int` - at `$.tags[0]`` becomes `tags[0]: expected string, got integer`.
    For an enumeration, the message names the allowed values. `kind` is the declared type.
    """
    text = str(error)
    found = _PLACE.search(text)
    if found is not None:
        text = text[: found.start()]
    if text.startswith("Invalid enum value"):
        # The new message leaves out the value that the caller sent.
        named = _values_at(kind, "" if found is None else found["place"])
        text = f"must be one of {', '.join(named)}" if named else text
    if text.startswith("Expected "):
        text = re.sub(r"`(.*?)`", lambda words: _in_json(words[1]), text)
    place = "" if found is None else found["place"].removeprefix(".")
    return f"{place}: {text[0].lower()}{text[1:]}" if place else text


def _values_at(kind: Any, place: str) -> list[str]:
    """The values of the enumeration at a place such as `.tags[0]` or `.roles[...]`."""
    return list(dict.fromkeys(_values_within([inspect.type_info(kind)], _STEP.findall(place))))


def _values_within(kinds: Sequence[inspect.Type], steps: Sequence[tuple[str, str]]) -> Iterator[str]:
    for kind in kinds:
        if isinstance(kind, inspect.Metadata):
            yield from _values_within([kind.type], steps)
        elif isinstance(kind, inspect.UnionType):
            yield from _values_within(kind.types, steps)
        elif not steps:
            if isinstance(kind, inspect.EnumType):
                yield from (str(one.value) for one in kind.cls)
            elif isinstance(kind, inspect.LiteralType):
                yield from map(str, kind.values)
        elif isinstance(kind, inspect.StructType) and steps[0][0]:
            yield from _values_within([one.type for one in kind.fields if one.encode_name == steps[0][0]], steps[1:])
        elif isinstance(kind, inspect.DictType):
            yield from _values_within([kind.value_type], steps[1:])
        elif isinstance(kind, _COLLECTIONS):
            yield from _values_within([kind.item_type], steps[1:])


def _in_json(words: str) -> str:
    return " or ".join(_JSON_WORDS.get(word, word) for word in words.split(" | "))


def _parted(field: str) -> tuple[str, str, str]:
    return field.partition("=")


def _decoded(text: str) -> str:
    """A name or a value in ASCII, without its percent-encoding. Raises `UnicodeDecodeError`."""
    return unquote_to_bytes(text.replace("+", " ")).decode() if "%" in text or "+" in text else text


# Requests carry few different content types, and nearly every request repeats one of them.
@lru_cache(maxsize=64)
def media_type_of(content_type: bytes) -> bytes:
    return content_type.partition(b";")[0].strip().lower()


def _require_shallow(body: bytes) -> None:
    if body.count(b"[") + body.count(b"{") <= _DEEPEST:
        return
    # Brackets inside texts do not count. Every step runs in C, because a sender can cheaply send many brackets, and on a slice of the body,
    # so that a body of two megabytes holds the interpreter's lock for no longer than a small one.
    depth = opened = 0
    for part in outside_of_texts(body):
        opened += part.count(b"[") + part.count(b"{")
        for at in range(0, len(part), _COUNTED):
            steps = memoryview(part[at : at + _COUNTED].translate(_DEPTH_STEPS, _NOT_BRACKETS)).cast("b")
            depths = list(accumulate(steps, initial=depth))
            depth = depths[-1]
            if max(depths) > _DEEPEST:
                raise NotAsDeclared(f"The request body is nested more than {_DEEPEST} levels deep")
    most = _MOST_BRACKETS + len(body) // _BYTES_A_BRACKET
    if opened > most:
        raise NotAsDeclared(f"The request body has more than {most} lists and objects")


def _require_few_far_numbers(body: bytes) -> None:
    if has_many_far_numbers(body):
        raise NotAsDeclared(f"The request body has more than {MOST_FAR_NUMBERS} numbers with an exponent of three digits")


def _malformed(body: bytes, error: Exception) -> str:
    """The message for a body that msgspec cannot parse. For half a surrogate pair, msgspec reports the end of the input. Python's parser
    accepts half a pair, so this function can find the field.
    """
    place = _place(body, _LONE_SURROGATE)
    if place is not None:
        return f"{place}: is not valid Unicode"
    return f"The request body is not valid JSON: {str(error).removeprefix('JSON is malformed: ')}"


def _place(body: bytes, unwanted: re.Pattern[str]) -> str | None:
    """The place of the first text with an unwanted character. None when there is no such text, or the body is too long to search."""
    if len(body) > _LONGEST_SEARCHED:
        return None
    try:
        # Only strings matter here. Numbers stay text, since Python refuses to convert a number of thousands of digits.
        value = json.loads(body.decode(), parse_int=str, parse_float=str)
    except ValueError:
        return None
    place = _place_in(value, unwanted)
    return None if place is None else place.removeprefix(".") or _WHOLE


def _place_in(value: Any, unwanted: re.Pattern[str]) -> str | None:
    """As `_place`, for one value of the body. Only the way back from a found text builds the place, since most searched values have no
    unwanted character.
    """
    if isinstance(value, str):
        return "" if unwanted.search(value) else None
    if isinstance(value, dict):
        for key, inner in value.items():
            if unwanted.search(key):
                return ""
            place = _place_in(inner, unwanted)
            if place is not None:
                return f".{key}{place}"
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            place = _place_in(inner, unwanted)
            if place is not None:
                return f"[{index}]{place}"
    return None


# Cached, since many endpoints share a type.
@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _is_list(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return any(map(_is_list, kind.types))
    return _is_list(kind.type) if isinstance(kind, inspect.Metadata) else isinstance(kind, inspect.CollectionType)

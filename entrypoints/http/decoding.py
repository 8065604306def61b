"""From bytes to declared types: body, query and path. Whatever is wrong with them is a 400 that names the field."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from itertools import accumulate
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from core.domain.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType
from core.domain.secrets import Secret
from entrypoints.http.calls import Request

Receive = Callable[[], Awaitable[Any]]

# Deeper than anything that we take, and far from where a parser would give up by itself.
_DEEPEST = 100
_MOST_QUERY_FIELDS = 100
# In bytes. To name the field of a bad character means to go over the whole body in Python, on the thread that everybody waits for: about
# a millisecond at this length. Beyond it the refusal does without.
_LONGEST_SEARCHED: Final = 8192
_NOT_MARKS: Final = bytes(set(range(256)) - set(b'[]{}"'))
# Up and down, as signed bytes.
_DEPTH_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NUL: Final = re.compile("\x00")
_WHOLE: Final = "The request body"

# msgspec speaks Python; callers speak JSON.
_JSON_WORDS: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_PLACE: Final = re.compile(r" - at `(?P<key>key in )?\$(?P<place>.*)`$")


class ClientGone(Exception):
    """The client hung up before its request was complete: nobody waits for an answer."""


class BodyReader:
    """Reads one kind of body: at most `limit` bytes of JSON. A missing body counts as an empty object, so that a request whose fields are
    all optional needs none.
    """

    def __init__(self, kind: Any, limit: int) -> None:
        self._decoder = msgspec.json.Decoder(kind, dec_hook=decode_own_type)
        self._limit = limit

    async def read(self, request: Request, receive: Receive) -> bytes:
        """What `decode` takes."""
        content_type = request.header(b"content-type")
        if content_type is not None and not _is_json(content_type):
            raise UnsupportedMediaType
        length = request.header(b"content-length")
        if length is not None and int(length) > self._limit:
            raise PayloadTooLarge(f"The request body must not exceed {self._limit} bytes")
        body = await self._receive_all(receive)
        if body and content_type is None:
            raise UnsupportedMediaType
        return body or b"{}"

    async def _receive_all(self, receive: Receive) -> bytes:
        chunks = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunks += message.get("body", b"")
            if len(chunks) > self._limit:
                raise PayloadTooLarge(f"The request body must not exceed {self._limit} bytes")
            if not message.get("more_body", False):
                return bytes(chunks)

    def decode(self, body: bytes) -> Any:
        _require_shallow(body)
        try:
            if not body.isascii():
                body.decode()  # msgspec skips the strings of fields that nobody declared; they must be UTF-8 all the same
            value = self._decoder.decode(body)
        except UnicodeDecodeError as error:
            raise BadRequest(f"The request body is not valid UTF-8 at byte {error.start}") from None
        except msgspec.ValidationError as error:
            raise BadRequest(explained(error)) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequest(_malformed(body, error)) from None
        # What stands behind an escaped backslash is no escape.
        if b"\\u0000" in body and b"\\u0000" in body.replace(b"\\\\", b""):
            raise BadRequest(f"{_place(body, _NUL) or _WHOLE}: must not contain NUL characters")
        return value


class QueryReader:
    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self._kind = kind
        self._lists = {field.encode_name for field in _fields(kind) if _is_list(field.type)}
        self._names = {field.encode_name: field.name for field in _fields(kind)}

    def read(self, query_string: bytes) -> Any:
        try:
            pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_QUERY_FIELDS)
        except UnicodeDecodeError:
            raise BadRequest("The query is not valid UTF-8") from None
        except ValueError:
            raise BadRequest("The query has too many fields") from None
        values: dict[str, Any] = {}
        for name, value in pairs:
            if "\x00" in value:
                raise BadRequest(f"{name}: must not contain NUL characters")
            if name in self._lists:
                values.setdefault(name, []).append(value)
            elif name in values:
                raise BadRequest(f"{name}: given more than once")
            else:
                values[name] = value
        query = convert(values, self._kind)
        for name in values.keys() & self._names.keys():
            # `null` is nothing for msgspec where text is none of the types. A filter that somebody asks for is not to be left out.
            if getattr(query, self._names[name]) is None:
                raise BadRequest(f"{name}: expected a value")
        return query


def convert(values: Mapping[str, Any], kind: type[msgspec.Struct]) -> Any:
    """Text from a query or path into the declared types: `"5"` may be an integer here, in JSON it may not."""
    try:
        return msgspec.convert(values, kind, strict=False, dec_hook=decode_own_type)
    except msgspec.ValidationError as error:
        raise BadRequest(explained(error)) from None
    except (ValueError, OverflowError):
        # Of a number for a time, beyond all that there are.
        raise BadRequest("A time is out of range") from None


def decode_own_type(kind: type, value: Any) -> Any:
    """Passwords and tokens become secrets before anybody sees them."""
    if issubclass(kind, Secret):
        if not isinstance(value, str):
            raise TypeError("Expected `str`")
        return kind(value)
    raise NotImplementedError(f"No request carries a {kind.__name__}")


def explained(error: msgspec.ValidationError) -> str:
    """`Expected `str`, got `int` - at `$.tags[0]`` becomes `tags[0]: expected string, got integer`."""
    text = str(error)
    found = _PLACE.search(text)
    if found is not None:
        text = text[: found.start()]
    if text.startswith("Expected "):
        text = re.sub(r"`(.*?)`", lambda words: _in_json(words[1]), text)
    place = "" if found is None else found["place"].removeprefix(".")
    return f"{place}: {text[0].lower()}{text[1:]}" if place else text


def _in_json(words: str) -> str:
    return " or ".join(_JSON_WORDS.get(word, word) for word in words.split(" | "))


def _is_json(content_type: bytes) -> bool:
    media_type = content_type.partition(b";")[0].strip().lower()
    return media_type == b"application/json" or (media_type.startswith(b"application/") and media_type.endswith(b"+json"))


def _require_shallow(body: bytes) -> None:
    if body.count(b"[") + body.count(b"{") <= _DEEPEST:
        return
    # What stands in strings does not count: without escapes, every second piece between quotes is one. All of it runs in C, since brackets
    # are a cheap thing to send.
    marks = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NOT_MARKS)
    brackets = b"".join(marks.split(b'"')[::2])
    steps = memoryview(brackets.translate(_DEPTH_STEPS)).cast("b")
    if max(accumulate(steps), default=0) > _DEEPEST:
        raise BadRequest(f"The request body is nested more than {_DEEPEST} levels deep")


def _malformed(body: bytes, error: Exception) -> str:
    """Msgspec takes half a surrogate pair for the end of its input. Python's parser lets it pass, and so finds the field that has it."""
    place = _place(body, _LONE_SURROGATE)
    if place is not None:
        return f"{place}: is not valid Unicode"
    return f"The request body is not valid JSON: {str(error).removeprefix('JSON is malformed: ')}"


def _place(body: bytes, unwanted: re.Pattern[str]) -> str | None:
    """Of the first text with such a character. None when there is none, or nobody looks for it."""
    if len(body) > _LONGEST_SEARCHED:
        return None
    try:
        # Only the strings matter: numbers stay text, since Python refuses to make one of thousands of digits.
        value = json.loads(body.decode(), parse_int=str, parse_float=str)
    except ValueError:
        return None
    place = _place_in(value, unwanted)
    return None if place is None else place.removeprefix(".") or _WHOLE


def _place_in(value: Any, unwanted: re.Pattern[str]) -> str | None:
    """The place is put together on the way back: most of what is looked at is not on it."""
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


def _fields(kind: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)  # noqa: S101 - for the type checker: a Struct describes itself as one
    return described.fields


def _is_list(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return any(map(_is_list, kind.types))
    return isinstance(kind, inspect.CollectionType)

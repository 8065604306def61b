"""Runs a verb, and prints its answer."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec
import trio
from msgspec import inspect

from core.domain.errors import NotFound, Refusal
from core.domain.record.events import Actor
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting, for_owner
from entrypoints.cli.output.printing import print_json, printable
from entrypoints.cli.verbs.deriving import all_verbs, given_body, given_path, given_query
from entrypoints.failures import OK, NotAgreed
from entrypoints.http.machinery.answers import Answer, NoBody, Streamed
from entrypoints.http.machinery.calls import Call, Request
from entrypoints.http.machinery.decoding import convert
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.fields import SHOWN_ONCE
from entrypoints.settings import Settings

_LONGEST: Final = 100
_LONGEST_IN_TABLE: Final = 40


def shown_lines(answer: Any) -> list[str]:
    """A record becomes lines, a list a table. What does not fit there is in `--json`."""
    if isinstance(answer, list):
        return _table(answer)
    return list(_lines(answer)) or ["Done."]


def once_shown(answer: Any) -> str | None:
    """The name of the field that only this answer shows, such as a key."""
    described = inspect.type_info(answer) if isinstance(answer, type) else None
    fields = described.fields if isinstance(described, inspect.StructType) else ()
    return next((one.encode_name for one in fields if isinstance(one.type, inspect.Metadata) and _is_once(one.type)), None)


def _is_once(kind: inspect.Metadata) -> bool:
    return (kind.extra or {}).items() >= (SHOWN_ONCE.extra or {}).items()


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Objects and tables inside the record stand below the other lines, moved in."""
    plain = {name: value for name, value in record.items() if not _is_large(value)}
    width = max(map(len, plain), default=0)
    for name, value in plain.items():
        yield f"{name:<{width}}  {_in_words(value, _LONGEST)}".rstrip()
    for name, value in record.items():
        if _is_large(value):
            yield f"{name}:"
            yield from (f"  {line}" for line in (_table(value) if isinstance(value, list) else _lines(value)))


def _is_large(value: Any) -> bool:
    return (isinstance(value, dict) and bool(value)) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))


def _table(rows: Sequence[Any]) -> list[str]:
    """A column for each field with a value that fits into a cell."""
    if not rows:
        return ["none"]
    if not all(isinstance(one, dict) for one in rows):
        return [_in_words(one, _LONGEST) for one in rows]
    names = [name for name in rows[0] if _fits([one.get(name) for one in rows])]
    cells = [names, *([_in_words(one.get(name), _LONGEST_IN_TABLE) for name in names] for one in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _fits(column: Sequence[Any]) -> bool:
    return any(one is not None and one not in ([], {}) for one in column) and not any(map(_is_large, column))


def _in_words(value: Any, longest: int) -> str:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return printable(", ".join(map(str, value)), longest)
    return printable(value if isinstance(value, str) else json.dumps(value), longest)


_LARGEST_BODY = 64 << 10


class OperatorsRequest(Request):
    """Stands for a request where an endpoint's handler asks who acts."""

    __slots__ = ()

    @property
    def actor(self) -> Actor:
        return msgspec.structs.replace(acting(), document=self.document)

    @property
    def needs_no_proof(self) -> bool:
        return True


def run(given: argparse.Namespace, settings: Settings) -> int:
    endpoint = _endpoint(given)
    if endpoint.method == "DELETE" and not given.yes:
        _require_agreement(endpoint)
    trio.run(_run, given, settings)
    return OK


async def _run(given: argparse.Namespace, settings: Settings) -> None:
    answer = await answer_of(given, settings)
    if given.json:
        print_json(answer)
        return
    once = once_shown(_endpoint(given).answer_type)
    if once is None or answer[once] is None:
        print("\n".join(shown_lines(answer)))
        return
    # What is shown once stands alone on standard output, so that a script may keep it.
    print("\n".join(shown_lines({name: value for name, value in answer.items() if name != once})), file=sys.stderr)
    print(answer[once])


async def answer_of(given: argparse.Namespace, settings: Settings) -> Any:
    """Runs a verb: calls the endpoint's handler as a request would, on the database of the settings. The operator does what the owner of
    the organization may do and needs no recent authentication; the log names the operator. No rate limit counts a command.

    The answer in JSON's terms. Raises the refusals of the endpoint.
    """
    endpoint = _endpoint(given)
    body, query, path = _body(given, endpoint), _query(given, endpoint), _path(given, endpoint)
    async with opened_postern(settings) as postern:
        member = await for_owner(postern, given.path_org_slug)
        request = OperatorsRequest(endpoint.method, endpoint.path, b"", {})
        request.path_values = given_path(given, endpoint)
        result = endpoint.handler(Call(request, member, body, query, path), postern)
        if endpoint.waits:
            result = await result
        if isinstance(result, Answer):
            result = result.value
        if isinstance(result, Streamed):
            async with aclosing(result.parts) as parts:
                result = b"".join([part async for part in parts])
    return {} if isinstance(result, NoBody) else json.loads(result if isinstance(result, bytes) else msgspec.json.encode(result))


def _endpoint(given: argparse.Namespace) -> Endpoint:
    return all_verbs()[given.noun][given.verb]


def _body(given: argparse.Namespace, endpoint: Endpoint) -> Any:
    if endpoint.body_type is None:
        return None
    return endpoint.accepts.reader(endpoint.body_type, _LARGEST_BODY).decode(given_body(given, endpoint))


def _query(given: argparse.Namespace, endpoint: Endpoint) -> Any:
    return None if endpoint.query_type is None else convert(given_query(given, endpoint), endpoint.query_type)


def _path(given: argparse.Namespace, endpoint: Endpoint) -> Any:
    """Raises `NotFound` for a value that does not fit its type, as a request does."""
    if endpoint.path_type is None:
        return None
    try:
        return convert(given_path(given, endpoint), endpoint.path_type)
    except Refusal:
        raise NotFound from None


def _require_agreement(endpoint: Endpoint) -> None:
    if not sys.stdin.isatty():
        raise NotAgreed("Nothing was changed, because this deletes or revokes something. Use --yes, or confirm in a terminal")
    if input(f"{endpoint.summary}. Type yes to continue: ").strip() != "yes":
        raise NotAgreed("Nothing was changed")

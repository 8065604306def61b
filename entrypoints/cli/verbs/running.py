"""Runs a verb: asks the endpoint's handler as a request would, on the database of the settings. The operator does what the owner of the
organization may do and needs no fresh proof; the log names the operator. No limit counts a command.
"""

import argparse
import json
import sys
from contextlib import aclosing
from typing import Any

import msgspec
import trio

from core.domain.errors import NotFound, Refusal
from core.domain.record.events import Actor
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting, for_owner
from entrypoints.cli.output.printing import print_json
from entrypoints.cli.verbs.options import given_body, given_path, given_query
from entrypoints.cli.verbs.showing import once_shown, shown_lines
from entrypoints.failures import OK, NotAgreed
from entrypoints.http.machinery.answers import Answer, NoBody, Streamed
from entrypoints.http.machinery.calls import Call, Request
from entrypoints.http.machinery.decoding import convert
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.settings import Settings

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
    endpoint: Endpoint = given.endpoint
    if endpoint.method == "DELETE" and not given.yes:
        _require_agreement(endpoint)
    trio.run(_run, given, settings)
    return OK


async def _run(given: argparse.Namespace, settings: Settings) -> None:
    answer = await answer_of(given, settings)
    if given.json:
        print_json(answer)
        return
    once = once_shown(given.endpoint.answer_type)
    if once is None or answer[once] is None:
        print("\n".join(shown_lines(answer)))
        return
    # What is shown once stands alone on standard output, so that a script may keep it.
    print("\n".join(shown_lines({name: value for name, value in answer.items() if name != once})), file=sys.stderr)
    print(answer[once])


async def answer_of(given: argparse.Namespace, settings: Settings) -> Any:
    """The answer in JSON's terms. Raises the refusals of the endpoint."""
    endpoint: Endpoint = given.endpoint
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
        raise NotAgreed("Nothing was done, since something would end. Say --yes, or answer at a terminal")
    if input(f"{endpoint.summary}. Type yes to go on: ").strip() != "yes":
        raise NotAgreed("Nothing was done")

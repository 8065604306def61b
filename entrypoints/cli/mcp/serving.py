"""`postern mcp`: reads messages from standard input and answers on standard output, until the input ends."""

import argparse
import os
import sys
from pathlib import Path
from typing import BinaryIO, Final

from entrypoints.cli.mcp.asking import ProductClient, require_private
from entrypoints.cli.mcp.messages import ToolServer
from entrypoints.cli.mcp.tools import Tools
from entrypoints.failures import OK, USAGE, StartFailed

TOKEN: Final = "MCP_TOKEN"  # noqa: S105 - the name of a variable
"""Not among the settings, whose names begin with POSTERN_: a server must not start with it."""
LONGEST_LINE: Final = 1 << 20


class BadBeginning(StartFailed):
    """The command line or the environment is wrong."""

    status = USAGE


def run(given: argparse.Namespace) -> int:
    token = _token(given.token_file)
    try:
        url = require_private(given.url)
    except ValueError as error:
        raise BadBeginning(str(error)) from None
    server = ToolServer(Tools(ProductClient(url, token), given.organization), hides=token)
    converse(server, sys.stdin.buffer, sys.stdout.buffer)
    return OK


def _token(file: Path | None) -> str:
    try:
        token = os.environ.get(TOKEN, "") if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise BadBeginning(f"The file of the key cannot be read: {file}") from None
    token = token.strip()
    if not token:
        raise BadBeginning(f"There is no key: set {TOKEN} to a management key or to an access token, or name its file by --token-file")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise BadBeginning("This is no management key and no access token: it has spaces or other characters")
    return token


def converse(server: ToolServer, lines: BinaryIO, answers: BinaryIO) -> None:
    while line := lines.readline(LONGEST_LINE + 1):
        is_whole = len(line) <= LONGEST_LINE
        while not is_whole and not line.endswith(b"\n") and (line := lines.readline(LONGEST_LINE)):
            """The rest of a line that is too long: nobody keeps it."""
        answer = server.answer(line) if is_whole else server.too_long()
        if answer is not None:
            answers.write(answer + b"\n")
            answers.flush()

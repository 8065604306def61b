"""`postern explain`: explains an error of OAuth or OpenID Connect as a library prints it. It needs no installation."""

import argparse
import json
import sys
from pathlib import Path

from core.domain.federation.explained_errors import LONGEST_ERROR, ExplainedError, explained_in, fits
from entrypoints.failures import FAILURE, OK


def run(arguments: argparse.Namespace) -> int:
    try:
        text = _read(arguments.file)
    except OSError as error:
        print(f"{arguments.file}: {error.strerror}", file=sys.stderr)
        return FAILURE
    if not fits(text):
        print(f"The text is longer than {LONGEST_ERROR // 1024} KiB. Send only the lines with the error.", file=sys.stderr)
        return FAILURE
    found = explained_in(text)
    if arguments.json:
        print(json.dumps({"errors": [{"error": one.name, "cause": one.cause, "page": one.page, "press": one.press} for one in found]}))
    elif found:
        print("\n\n".join(map(_said, found)))
    else:
        print("Postern does not know this error. /docs/errors of an installation lists the errors that Postern explains.", file=sys.stderr)
    return OK if found else FAILURE


def _read(file: str) -> str:
    # One byte more than fits says that there is more.
    if file == "-":
        return sys.stdin.buffer.read(LONGEST_ERROR + 1).decode(errors="replace")
    with Path(file).open("rb") as source:
        return source.read(LONGEST_ERROR + 1).decode(errors="replace")


def _said(one: ExplainedError) -> str:
    return f"{one.name}: {one.title}\n  Cause:          {one.cause}.\n  Page:           {one.page}\n  What to change: {one.press}."

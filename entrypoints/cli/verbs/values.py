"""How the command line reads the value of an option of a verb."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

_YES: Final = {"yes": True, "true": True, "no": False, "false": False}


def yes_or_no(text: str) -> bool:
    if text not in _YES:
        raise argparse.ArgumentTypeError(f"must be yes or no, not {text!r}")
    return _YES[text]


def number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None


def one_or_several(text: str) -> list[Any]:
    value = json_value(text) if text.startswith("[") else [text]
    if not isinstance(value, list):
        raise argparse.ArgumentTypeError("must be a JSON list")
    return value


def secret(text: str) -> str:
    """`@FILE` is what the file holds, and `-` what standard input brings, so that no secret stands among the processes of the machine. `@@`
    begins a secret with an `@`. No other text is read so: a name that somebody else chose must not give away a file of the operator's.
    """
    if text == "-":
        return _from_standard_input()
    if not text.startswith("@"):
        return text
    return text[1:] if text.startswith("@@") else _in_file(text[1:])


def json_value(text: str) -> Any:
    try:
        return json.loads(_from_standard_input() if text == "-" else _in_file(text[1:]) if text.startswith("@") else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be JSON, @FILE with JSON, or - for standard input: {error}") from None


def _in_file(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8'}") from None
    return _without_line_break(text)


def _from_standard_input() -> str:
    try:
        text = _without_line_break(sys.stdin.read())
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError("standard input is not UTF-8") from None
    if not text:
        raise argparse.ArgumentTypeError("standard input is empty; only one option can read it")
    return text


def _without_line_break(text: str) -> str:
    """Editors and `echo` end a file with a line break."""
    return text.removesuffix("\n").removesuffix("\r")


def text(given: str) -> str:
    return given


# By the name that stands in the table of verbs.
READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    one.__name__: one for one in (text, yes_or_no, number, one_or_several, secret, json_value, Path)
}

"""What the parsers of all commands are made of: commands, groups of commands, and the kinds of values."""

import argparse
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from entrypoints.numbers import is_number

if TYPE_CHECKING:
    from core.domain.record.audit import ChainHead

Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for it


def command(commands: "Commands[argparse.ArgumentParser]", name: str, module: str, text: str, **defaults: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
    parser.set_defaults(module=module, without_settings=False, **defaults)
    return parser


def group(commands: "Commands[argparse.ArgumentParser]", name: str, text: str) -> "Commands[argparse.ArgumentParser]":
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
    return parser.add_subparsers(title="commands", metavar="command", required=True)


def add_json(parser: argparse.ArgumentParser, text: str = "print JSON") -> None:
    parser.add_argument("--json", action="store_true", help=text)


def up_to(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not is_number(text) or int(text) > most:
            raise argparse.ArgumentTypeError(f"must be a number up to {most}, not {text!r}")
        return int(text)

    return number


def identifier(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an id from the list, not {text!r}") from None


def own_limit(text: str) -> str:
    if text != "none":
        up_to(2**31 - 1)(text)
    return text


def count(text: str) -> int:
    if not is_number(text) or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 256, not {text!r}")
    return int(text)


def share(text: str) -> float:
    if not re.fullmatch(r"0\.[0-9]{1,6}|1(\.0{1,6})?", text) or not float(text):
        raise argparse.ArgumentTypeError(f"must be a number above 0 and up to 1, not {text!r}")
    return float(text)


def head(text: str) -> "ChainHead":
    from core.domain.errors import BadRequest  # noqa: PLC0415
    from core.domain.record.audit import ChainHead  # noqa: PLC0415 - of one command's own

    try:
        return ChainHead.parse(text)
    except BadRequest as error:
        raise argparse.ArgumentTypeError(error.message) from None


def numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))

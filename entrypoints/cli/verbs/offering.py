"""Adds verbs to the parser of the command line, from the table `verbs.jsonl`."""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias, TypedDict

from entrypoints.cli.verbs.values import READERS

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - argparse has no public name for it

TABLE: Final = Path(__file__).parent / "verbs.jsonl"


class VerbOption(TypedDict, total=False):
    """What is missing has argparse's default. A value that nobody gives is missing among the given ones."""

    names: list[str]
    dest: str
    required: bool
    reads: str
    """A name in `READERS`."""
    repeats: bool
    choices: list[str]
    metavar: str
    default: Any
    clears: str
    """Another option, which gives null."""
    help: str


class VerbWords(TypedDict):
    noun: str
    verb: str
    help: str
    description: str
    deletes: bool
    options: list[VerbOption]


@cache
def table() -> Mapping[str, Mapping[str, VerbWords]]:
    """The verbs by noun and word.

    It has a line for each verb. So neither help nor a wrong word loads the routes. `python -m ops.written.verbs` writes the table from the
    declarations, and a test compares it.
    """
    verbs: dict[str, dict[str, VerbWords]] = defaultdict(dict)
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        one: VerbWords = json.loads(line)
        verbs[one["noun"]][one["verb"]] = one
    return dict(verbs)


def offer(commands: Commands, wanted: str | None = None) -> None:
    """Adds the verbs of one noun, or of all. A command written by hand keeps its name: it shows an operator more than the endpoint does."""
    for noun, verbs in table().items():
        if wanted not in {None, noun}:
            continue
        group = commands.choices.get(noun)
        if group is None:
            text = f"the verbs of {noun.replace('-', ' ')}, as the API has them"
            group = commands.add_parser(noun, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
            group.add_subparsers(title="commands", metavar="command", required=True)
        _offer_verbs(subcommands(group), verbs)


def subcommands(parser: argparse.ArgumentParser) -> Commands:
    return next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction))  # noqa: SLF001 - as above


def _offer_verbs(commands: Commands, verbs: Mapping[str, VerbWords]) -> None:
    for word, verb in verbs.items():
        if word in commands.choices:
            continue
        parser = commands.add_parser(word, help=verb["help"], description=verb["description"], allow_abbrev=False)
        parser.set_defaults(module="verbs.running", without_settings=False, noun=verb["noun"], verb=word)
        for option in verb["options"]:
            _add(parser, option)
        parser.add_argument("--json", action="store_true", help="print the API's response as JSON")
        if verb["deletes"]:
            parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _add(parser: argparse.ArgumentParser, option: VerbOption) -> None:
    default = option.get("default", argparse.SUPPRESS)
    parser.add_argument(
        *option["names"],
        dest=option["dest"],
        required=option.get("required", False),
        action=_Repeated if option.get("repeats") else "store",
        type=READERS[option["reads"]],
        choices=option.get("choices"),
        metavar=option.get("metavar"),
        default=default,
        help=option["help"],
    )
    if "clears" in option:
        parser.add_argument(
            option["clears"], dest=option["dest"], action="store_const", const=None, default=default, help="Null in its place."
        )


class _Repeated(argparse.Action):
    """Joins the lists of a repeated option."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - as argparse calls it
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        before = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, [*(before if isinstance(before, list) else []), *values])

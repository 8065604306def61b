"""Adds verbs to the parser of the command line. Only a command that names no command written by hand loads this, and with it all routes."""

import argparse
from collections.abc import Mapping
from typing import TypeAlias

from entrypoints.cli.verbs.options import Verbs, add_options, verbs_of
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.routes import ROUTES

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - argparse has no public name for it


def all_verbs() -> Verbs:
    return verbs_of(ROUTES)


def offer(commands: Commands, wanted: str | None = None) -> None:
    """Adds the verbs of one noun, or of all. A command written by hand keeps its name: it shows an operator more than the endpoint does."""
    for noun, verbs in all_verbs().items():
        if wanted not in {None, noun}:
            continue
        group = commands.choices.get(noun)
        if group is None:
            text = f"the verbs of {noun.replace('-', ' ')}, as the API has them"
            group = commands.add_parser(noun, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
            group.add_subparsers(title="commands", metavar="command", required=True)
        _offer_verbs(subcommands(group), noun, verbs)


def subcommands(parser: argparse.ArgumentParser) -> Commands:
    return next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction))  # noqa: SLF001 - as above


def _offer_verbs(commands: Commands, noun: str, verbs: Mapping[str, Endpoint]) -> None:
    for verb, endpoint in verbs.items():
        if verb in commands.choices:
            continue
        summary = endpoint.summary.replace("%", "%%")
        parser = commands.add_parser(
            verb, help=f"{summary[0].lower()}{summary[1:]}", description=f"{summary}.\n\n{endpoint.description}", allow_abbrev=False
        )
        parser.set_defaults(module="verbs.running", without_settings=False, endpoint=endpoint)
        item = verbs.get("show") or verbs.get("set") or verbs.get("delete")
        add_options(parser, noun, verb, endpoint, _last(item) if verb == "create" else None)
        parser.add_argument("--json", action="store_true", help="print the API's answer, for programs")
        if endpoint.method == "DELETE":
            parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _last(item: Endpoint | None) -> str | None:
    return parameters(item.path)[-1] if item is not None else None

"""Each command's module can be imported alone, as `postern` imports it. Most tests start commands that are warm (tests/e2e/warm), where an
import that only works after another one would pass. Help and wrong words load no part of the product.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator

import pytest

from entrypoints.cli.parsing.command_line import command_line
from entrypoints.cli.verbs.offering import subcommands
from tests.places import ROOT

# Libraries are the same for all, so they are imported once, and each module in a copy of that process.
_EACH_ALONE = """
import os, sys
import cryptography.x509, hypercorn.trio, jinja2, msgspec, psycopg, quart, rich.console, structlog, trio
failed = []
for module in sys.argv[1:]:
    assert not any(name.partition(".")[0] in {"core", "ports", "adapters", "actors", "entrypoints"} for name in sys.modules)
    number = os.fork()
    if number == 0:
        __import__(f"entrypoints.cli.{module}")
        os._exit(0)
    if os.waitpid(number, 0)[1] != 0:
        failed.append(module)
print(*failed)
"""


def modules(parser: argparse.ArgumentParser) -> Iterator[str]:
    if module := parser.get_default("module"):
        yield module
    if any(isinstance(action, argparse._SubParsersAction) for action in parser._actions):
        for one in subcommands(parser).choices.values():
            yield from modules(one)


def test_each_command_can_be_imported_alone() -> None:
    every = sorted(set(modules(command_line())) | {"verbs.running"})
    assert {"serve", "migrate", "doctor", "backups.check", "version"} <= set(every)
    done = subprocess.run([sys.executable, "-c", _EACH_ALONE, *every], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [], done.stderr


_AFTER = """
import sys
from entrypoints.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    status = ended.code
else:
    status = 0
print(status, *(name for name in sys.modules if name.partition(".")[0] in {"core", "ports", "adapters", "actors", "entrypoints"}))
"""
_OF_PARSER = ("entrypoints.cli", "entrypoints.failures", "entrypoints.numbers")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--help"], "0"),
        (["service", "--help"], "0"),
        (["team", "--help"], "0"),
        (["team", "create", "--help"], "0"),
        (["nonsense"], "2"),
        (["teem", "list"], "2"),
        (["team", "nonsense"], "2"),
        (["service", "nonsense"], "2"),
        (["team", "create", "--nonsense"], "2"),
        (["service", "set", "--sign-in-policy", "nobody"], "2"),
    ],
)
def test_help_and_wrong_words_load_no_part_of_the_product(words: list[str], status: str) -> None:
    done = subprocess.run([sys.executable, "-c", _AFTER, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    ended, *loaded = done.stdout.splitlines()[-1].split()
    assert ended == status
    assert "entrypoints.cli.parsing.command_line" in loaded
    assert [name for name in loaded if name != "entrypoints" and not name.startswith(_OF_PARSER)] == []

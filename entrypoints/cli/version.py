"""`postern version`."""

import argparse
from importlib.metadata import version

from entrypoints.failures import OK


def run(arguments: argparse.Namespace) -> int:
    number = version("postern")
    print(f'{{"version": "{number}"}}' if arguments.json else f"postern {number}")
    return OK

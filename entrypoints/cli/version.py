"""`postern version`."""

import argparse
from importlib.metadata import version

from entrypoints.failures import OK


def run(_arguments: argparse.Namespace) -> int:
    print(f"postern {version('postern')}")
    return OK

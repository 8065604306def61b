"""`postern config`: the settings in force."""

import argparse

from entrypoints.failures import OK
from entrypoints.settings import DECLARATIONS, Settings, in_force


def run(_arguments: argparse.Namespace, settings: Settings) -> int:
    """Prints the settings in the form of a POSTERN_CONFIG file, except that secrets are masked."""
    group = ""
    for one, (name, value) in zip(DECLARATIONS, in_force(settings), strict=True):
        if one.group != group:
            print(f"{'' if not group else chr(10)}# {one.group}")
            group = one.group
        print(f"{name}={value}" if value or one.default is not None else f"# {name} is not set: {one.unset.replace('`', '')}")
    return OK

"""`postern config`: the settings in force."""

import argparse

from entrypoints.assembly.configured import require_usable
from entrypoints.cli.output.printing import print_json
from entrypoints.failures import OK
from entrypoints.settings import Settings, in_force, in_force_by_group


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Prints the settings in the form of a POSTERN_CONFIG file, except that secrets are masked. Refuses what a start would refuse."""
    require_usable(settings)
    if arguments.json:
        print_json(dict(in_force(settings)))
        return OK
    for number, (group, declared) in enumerate(in_force_by_group(settings)):
        print(f"{'' if number == 0 else chr(10)}# {group}")
        for one, value in declared:
            print(f"{one.name}={value}" if value or one.default is not None else f"# {one.name} is not set: {one.unset.replace('`', '')}")
    return OK

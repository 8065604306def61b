"""`postern verbs`: the nouns of the API, each with its verbs."""

import argparse

from entrypoints.cli.output.printing import tell
from entrypoints.cli.verbs.offering import table
from entrypoints.failures import OK


def run(given: argparse.Namespace) -> int:
    verbs = {noun: list(of_noun) for noun, of_noun in table().items()}
    width = max(map(len, verbs))
    tell(verbs, *(f"{noun:<{width}}  {', '.join(of_noun)}" for noun, of_noun in verbs.items()), as_json=given.json)
    return OK

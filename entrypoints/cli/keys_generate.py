"""`postern keys generate`."""

import argparse

from adapters.crypto.key_ring import generate_key
from entrypoints.failures import OK


def run(_arguments: argparse.Namespace) -> int:
    print(generate_key().line())
    return OK

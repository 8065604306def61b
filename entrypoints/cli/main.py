"""The `postern` command."""

import sys


def main() -> None:
    sys.exit("not yet")

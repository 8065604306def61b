"""`python -m ops.bench`: `running` is what it does, and this file says in words what is missing where `running` cannot even be imported."""

import sys
from collections.abc import Sequence

_OURS = {"core", "ports", "adapters", "actors", "entrypoints", "ops"}


def main(arguments: Sequence[str]) -> int:
    try:
        from ops.bench import running  # noqa: PLC0415 - it needs libraries that may be missing
    except ModuleNotFoundError as missing:
        library = (missing.name or "").partition(".")[0]
        if library in _OURS:
            raise
        print(
            f"This Python ({sys.executable}) has no {library}. Run `make .venv/ready-dev`, which installs the libraries of benchmarks into"
            " .venv, and then `.venv/bin/python -m ops.bench`.",
            file=sys.stderr,
        )
        return 2
    return running.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

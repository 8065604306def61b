"""`postern passwords build`: builds the filter of breached passwords from public lists of hashes."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from adapters.crypto.known_passwords.building import NoListOfHashes, build_filter
from entrypoints.cli.output.printing import tell
from entrypoints.cli.output.progress import progress
from entrypoints.failures import OK, StartFailed


def run(arguments: argparse.Namespace) -> int:
    out = Path(arguments.to)
    try:
        with progress("Reading the lists", None, "lines") as advance:
            head = build_filter([Path(one) for one in arguments.lists], out, datetime.now(UTC).date(), advance)
    except NoListOfHashes as error:
        raise StartFailed(str(error)) from None
    except OSError as error:
        raise StartFailed(f"{error.filename or out}: {error.strerror or error}") from None
    made = {"path": str(out), "hashes": head.count, "kind": head.kind.value, "day": head.day.isoformat(), "bytes": head.size}
    tell(made, f"{out}: {head.count} hashes in {head.size} bytes. Set POSTERN_PASSWORD_FILTER to this file.", as_json=arguments.json)
    return OK

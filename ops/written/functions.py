"""Writes the last part of adapters/postgres/schema/replaceable.sql: the functions that are made of the parts of statements.

    .venv/bin/python -m ops.written.functions

Run it after a test has said that the file lacks a change. Before, give each changed function a name with the new number, and raise the
number in the file's first line; then add the line to tests/adapters/postgres/migrating/editions.txt.
"""

import sys
from pathlib import Path
from typing import Final

from adapters.postgres.federation.authorization_codes import REDEEM_CODE
from adapters.postgres.functions import written
from adapters.postgres.identity.sessions.refresh_tokens import ROTATE_REFRESH_TOKEN

FILE: Final = Path(__file__).resolve().parents[2] / "adapters" / "postgres" / "schema" / "replaceable.sql"
FUNCTIONS: Final = (REDEEM_CODE, ROTATE_REFRESH_TOKEN)


def main() -> int:
    FILE.write_text(written(FILE.read_text(encoding="utf-8"), *FUNCTIONS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

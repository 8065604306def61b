"""Writes two parts of adapters/postgres/schema/replaceable.sql: the columns of the views that show the rows of a table, and at the end the
functions that are made of the parts of statements.

    .venv/bin/python -m ops.written.functions

Run it after a test has said that the file lacks a change. Before, give each changed function a name with the new number, and raise the
number in the file's first line; then add the line to tests/adapters/postgres/migrating/editions.txt.
"""

import sys
from pathlib import Path
from typing import Final

from adapters.postgres.federation.authorization_codes import REDEEM_CODE
from adapters.postgres.functions import written
from adapters.postgres.identity.proofs.sign_in import FIND_ATTEMPT, LAST_LOOK
from adapters.postgres.identity.sessions.refresh_tokens import ROTATE_REFRESH_TOKEN
from ops.written.views import VIEWS, columns_of, migrations, with_columns

FILE: Final = Path(__file__).resolve().parents[2] / "adapters" / "postgres" / "schema" / "replaceable.sql"
FUNCTIONS: Final = (REDEEM_CODE, ROTATE_REFRESH_TOKEN, FIND_ATTEMPT, LAST_LOOK)


def main() -> int:
    file, texts = FILE.read_text(encoding="utf-8"), migrations()
    for view in VIEWS:
        file = with_columns(file, view, columns_of(view.table, texts))
    FILE.write_text(written(file, *FUNCTIONS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The two lists of migrations of before 0.2.0, and databases that remember them."""

import io
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from adapters.postgres.driver.connection import Connection
from tests.places import MIGRATIONS, REPLACEABLE, ROOT

_HERE: Final = Path(__file__).parent
EARLIER: Final = (_HERE / "former_migrations.txt").read_text().splitlines()
"""The 83 of before `0001_schema`."""
FORMER: Final = (_HERE / "former_migrations_0_1.txt").read_text().splitlines()
"""Those from `0001_schema` on, which the first schema of 0.2.0 has taken the place of."""
CHANGED: Final = [*FORMER[:5], "0006_resource_servers x", *FORMER[6:]]


async def remember_former(url: str, lines: Sequence[str]) -> None:
    """Writes down that these migrations were applied, and no others."""
    async with await Connection.connect(url) as connection, connection.transaction():
        await connection.execute("delete from schema_migrations")
        for line in lines:
            name, checksum = line.split()
            values = (int(name[:4]), name[5:], checksum)
            await connection.execute("insert into schema_migrations (number, name, checksum, needs) values (%s, %s, %s, 0)", values)


def schema_at(commit: str, folder: Path) -> Path | None:
    """The tree of a commit: its migrations, and its views and functions if it has that file. None: this clone does not have the commit."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return None
    found = False
    for path in (MIGRATIONS, REPLACEABLE):
        asked = ["git", "archive", "--format=tar", commit, "--", str(path.relative_to(ROOT))]
        if packed := subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).stdout:
            found = True
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(folder, filter="data")
    return folder if found else None

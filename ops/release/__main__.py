"""Releases a version: `make release VERSION=0.2.0` writes the version, the changelog and the digest of the image, commits, tags, and makes
the release's files in dist/. It pushes nothing: the tag does, when you push it, because `.github/workflows/release.yml` publishes the files
of a tag.

    .venv/bin/python -m ops.release --files

only makes the files, of the version that the checkout has.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ops.image.debian import NotMade
from ops.release.files import digest_of_image, make
from ops.release.version import NotReleased, current_version, release, tag

ROOT: Final = Path(__file__).resolve().parent.parent.parent


def due_packages() -> Sequence[str]:
    """What ships and is due, as the tests say it."""
    said = subprocess.run([sys.executable, "-m", "tests.runs.packages"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return said.stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description="Release a version")
    parser.add_argument("version", nargs="?", help="such as 0.2.0")
    parser.add_argument("--files", action="store_true", help="only the files, of the version that the checkout has")
    given = parser.parse_args()
    if bool(given.version) == given.files:
        parser.error("name the version: make release VERSION=0.2.0")
    try:
        if given.version:
            release(ROOT, given.version, datetime.now(UTC).date(), digest_of_image, due_packages)
        version = current_version(ROOT)
        for file in make(ROOT, version, ROOT / "dist"):
            print(file)
    except (NotMade, NotReleased) as reason:
        print(f"Nothing was released: {reason}")
        return 1
    if given.version:
        print(f"\nLook at them, then publish: git push origin main {tag(version)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

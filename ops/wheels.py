"""Checks that every locked library has a wheel for each platform and Python that we name, and keeps the answer in wheels.json.

    make wheels

The hashes in a lock do not tell the platform of a file, so a test cannot check the lock alone. The record holds the digests of the locks
that it was made for: a test compares them, and fails if somebody changed a lock and forgot this command.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
RECORD: Final = ROOT / "ops" / "wheels.json"
LOCKS: Final = ("requirements.lock", "requirements-build.lock")
# uv's names for them. README.md names the same, and glibc 2.28: Debian 10, Ubuntu 18.10, RHEL 8 and everything later.
PLATFORMS: Final = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")


def digests() -> Mapping[str, str]:
    return {lock: hashlib.sha256((ROOT / lock).read_bytes()).hexdigest() for lock in LOCKS}


def missing(platform: str, python: str) -> str:
    """Returns uv's message if a library cannot be installed there from a wheel, and otherwise nothing."""
    with tempfile.TemporaryDirectory() as nowhere:
        asked = subprocess.run(
            [
                *(str(Path(sys.executable).with_name("uv")), "pip", "install", "--dry-run", "--quiet", "--target", nowhere),
                *("--python-platform", platform, "--python-version", python, "--only-binary", ":all:", "--require-hashes"),
                *(argument for lock in LOCKS for argument in ("--requirements", lock)),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    return "" if asked.returncode == 0 else asked.stderr.strip() or f"uv ended with {asked.returncode}"


def record(found: Mapping[tuple[str, str], str]) -> Mapping[str, Any]:
    return {
        "locks": digests(),
        "installable": {platform: [python for python in PYTHONS if not found[platform, python]] for platform in PLATFORMS},
    }


def main() -> int:
    asked = list(product(PLATFORMS, PYTHONS))
    with ThreadPoolExecutor(4) as threads:
        found = dict(zip(asked, threads.map(lambda pair: missing(*pair), asked), strict=True))
    for (platform, python), reason in found.items():
        print(f"{platform:<24} {python:<5} {reason or 'ok'}")
    RECORD.write_text(json.dumps(record(found), indent=2) + "\n")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

"""External programs that tests use. `ops/install-test-tools` installs them. Without a program its tests are skipped, or in CI fail."""

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

NOT_OURS_TO_INSTALL: Final = {
    *(
        "apt-get",
        "cc",
        "chromium",
        "dpkg-deb",
        "git",
        "kubectl",
        "make",
        "node",
        "npm",
        "prlimit",
        "setpriv",
        "sha256sum",
        "systemd-analyze",
        "unshare",
    ),
    *("samba", "samba-tool", "ldbmodify", "ns-slapd", "dscreate"),
}
"""Debian's `kubectl` is older than our manifests, and its Node too old for the client. The whole Chromium, which alone binds sessions to
keys, brings a desktop; all else runs in its shell. Samba and 389 are large; the nightly run installs
them. The others belong to the machine. Without one its tests are skipped in CI, too.
"""


_MORE_PLACES: Final = ("/usr/share/simplesamlphp/bin", *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"))))
"""Directories with programs that are in no usual path. Of several versions of PostgreSQL, the oldest comes first."""


def needs(*programs: str) -> pytest.MarkDecorator:
    """Marks a test, or all tests of a module, as needing these programs."""
    missing = [program for program in programs if _is_skipped_without(program)]
    return pytest.mark.skipif(bool(missing), reason=_sentence(*missing))


def place_of(program: str) -> str:
    found = _found(program)
    if found is not None:
        return found
    if _is_skipped_without(program):
        pytest.skip(_sentence(program))
    pytest.fail(_sentence(program))


def _is_skipped_without(program: str) -> bool:
    if os.environ.get("CI") == "true" and program not in NOT_OURS_TO_INSTALL:
        return False
    return _found(program) is None


def _found(program: str) -> str | None:
    return shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_MORE_PLACES)))


def _sentence(*programs: str) -> str:
    return f"{' and '.join(programs)} missing: see ops/install-test-tools"

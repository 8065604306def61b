"""The directory where a run keeps its files, and the directories of earlier runs that a run removes."""

import os
from pathlib import Path

import pytest

from tests import places

pytestmark = pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="needs /proc")
NOBODY = 1 << 30  # no process has this number


def test_files_stand_in_memory_only_where_a_container_may_use_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(places, "_LIMITS", (limit, tmp_path / "of another generation"))
    monkeypatch.setattr(places, "_FILES", 0)
    monkeypatch.setattr(places, "_EVERYTHING", 1 << 20)
    for said, enough in (("max", True), (str(1 << 20), True), (str((1 << 20) - 1), False)):
        limit.write_text(f"{said}\n")
        assert places._has_room(tmp_path) is enough, said
    assert not places._has_room(tmp_path / "missing")


def test_only_what_killed_runs_left_long_ago_is_removed(tmp_path: Path) -> None:
    def made(name: str, *, old: bool) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        (directory / "file").touch()
        if old:
            os.utime(directory, (0, 0))
        return directory

    left = made(f"postern-tests-{NOBODY}-a", old=True)
    kept = [
        made(f"postern-tests-{NOBODY}-b", old=False),  # this run may go on in another container
        made(f"postern-tests-{os.getpid()}-c", old=True),
        made("postern-tests-of-somebody", old=True),
        made(f"another-{NOBODY}-d", old=True),
    ]
    places._remove_leavings(tmp_path)
    assert not left.exists()
    assert all(one.exists() for one in kept)

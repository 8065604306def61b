"""The filter that the operator names: exchanged while Postern runs, and never for a worse one."""

import os
from datetime import date
from pathlib import Path

from adapters.crypto.known_passwords.filters import NoBreachedPasswords, WatchedFilter
from core.domain.secrets import Password
from ports.crypto import ListedPasswords
from tests.adapters.crypto.known_passwords.lists import built
from tests.conftest import CapturedLog

OLD, NEW = Password("an old stolen password"), Password("a new stolen password")


async def test_the_first_question_opens_the_file(tmp_path: Path, log: CapturedLog) -> None:
    built(tmp_path / "filter", OLD.reveal())
    watched = WatchedFilter(tmp_path / "filter")
    assert await watched.contains(OLD)
    assert not await watched.contains(NEW)
    (opened,) = log.events("password_filter_opened")
    assert (opened["hashes"], opened["kind"], opened["day"]) == (1, "sha1", "2026-05-01")


async def test_a_new_file_under_the_name_takes_its_place(tmp_path: Path, log: CapturedLog) -> None:
    path = tmp_path / "filter"
    built(path, OLD.reveal())
    watched = WatchedFilter(path)
    assert await watched.look() == await watched.look() == ListedPasswords(1, date(2026, 5, 1))
    built(path, NEW.reveal())
    assert await watched.contains(OLD)
    await watched.look()
    assert (await watched.contains(OLD), await watched.contains(NEW)) == (False, True)
    assert len(log.events("password_filter_opened")) == 2


async def test_a_damaged_file_is_refused_once_and_the_one_before_stays(tmp_path: Path, log: CapturedLog) -> None:
    path = tmp_path / "filter"
    built(path, OLD.reveal())
    watched = WatchedFilter(path)
    await watched.look()
    log.allow("password_filter_refused")
    (tmp_path / "damaged").write_bytes(path.read_bytes()[:-1])
    os.replace(tmp_path / "damaged", path)  # noqa: PTH105
    await watched.look()
    assert await watched.look() == ListedPasswords(1, date(2026, 5, 1))
    assert await watched.contains(OLD)
    (refused,) = log.events("password_filter_refused")
    assert refused["kept"]
    assert "is cut off, or damaged" in refused["reason"]


async def test_a_filter_that_was_written_over_is_not_said_to_go_on(tmp_path: Path, log: CapturedLog) -> None:
    path = tmp_path / "filter"
    built(path, OLD.reveal())
    watched = WatchedFilter(path)
    await watched.look()
    log.allow("password_filter_refused")
    path.write_bytes(path.read_bytes()[:-1])
    assert await watched.look() is None
    assert not await watched.contains(OLD)
    (refused,) = log.events("password_filter_refused")
    assert not refused["kept"]


async def test_a_file_that_goes_is_refused_once_and_may_come_back(tmp_path: Path, log: CapturedLog) -> None:
    path = tmp_path / "filter"
    log.allow("password_filter_refused")
    watched = WatchedFilter(path)
    assert not await watched.contains(OLD)
    assert await watched.look() is None
    (refused,) = log.events("password_filter_refused")
    assert (refused["kept"], refused["reason"]) == (False, "cannot be read: No such file or directory")
    built(path, OLD.reveal())
    await watched.look()
    assert await watched.contains(OLD)


async def test_without_a_filter_nothing_is_known() -> None:
    assert not await NoBreachedPasswords().contains(OLD)

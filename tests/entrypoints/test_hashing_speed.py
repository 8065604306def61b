"""At the start, an installed package says that passwords are hashed slowly, and the mend."""

import pytest

from adapters.crypto.password_digests import Argon2Binding
from entrypoints import checks, first_start
from entrypoints.checks import Verdict
from entrypoints.settings import read
from tests.conftest import CapturedLog

WHEEL = Argon2Binding("25.1.0", None, "", (), is_published=True)


async def test_the_wheel_is_told_with_its_speed_and_its_mend(monkeypatch: pytest.MonkeyPatch, log: CapturedLog) -> None:
    monkeypatch.setattr(first_start, "binding", lambda: WHEEL)
    await first_start.tell_hashing_speed(read({}))
    [told] = log.events("passwords_hashed_by_wheel")
    assert told["per_second"] > 0
    assert told["mend"].startswith("CFLAGS='-O3 -march=native' pip install ")
    monkeypatch.setattr(checks, "binding", lambda: WHEEL)
    found = await checks.password_hashing(read({}))
    assert found.verdict is Verdict.WARN
    assert found.text.endswith(told["mend"])


@pytest.mark.parametrize("found", [Argon2Binding("25.1.0", "native", "Example CPU", ()), Argon2Binding("25.1.0", None, "", ())])
async def test_a_build_is_not_told(found: Argon2Binding, monkeypatch: pytest.MonkeyPatch, log: CapturedLog) -> None:
    monkeypatch.setattr(first_start, "binding", lambda: found)
    await first_start.tell_hashing_speed(read({}))
    assert log.events("passwords_hashed_by_wheel") == []
    monkeypatch.setattr(checks, "binding", lambda: found)
    assert (await checks.password_hashing(read({}))).verdict is Verdict.OK


async def test_wrong_costs_are_left_to_the_start(monkeypatch: pytest.MonkeyPatch, log: CapturedLog) -> None:
    monkeypatch.setattr(first_start, "binding", lambda: WHEEL)
    await first_start.tell_hashing_speed(read({"POSTERN_ARGON2_MEMORY": "8KiB", "POSTERN_ARGON2_LANES": "4"}))
    assert log.events("passwords_hashed_by_wheel") == []

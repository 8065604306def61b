"""Password hashing: right answers, equal work, bounded memory. The parameters are small where only the logic is at stake."""

import os
import threading
import time
import unicodedata
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from argon2 import PasswordHasher
from trio.testing import wait_all_tasks_blocked

from adapters.crypto.passwords import Argon2Parameters, Argon2Passwords, rate, usable_cores
from core.domain.errors import Overloaded
from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.identity.sign_in import Priority
from core.domain.secrets import Password
from tests.conftest import CapturedLog
from tests.patience import PATIENCE

QUICK = Argon2Parameters(memory_kib=64, iterations=1)


class CountedMetrics:
    """Stands for the metrics: keeps what it was told about hashing."""

    def __init__(self) -> None:
        self.hashed: list[tuple[float, float]] = []
        self.queue: list[int] = []

    def password_hashed(self, seconds: float, waited: float) -> None:
        self.hashed.append((seconds, waited))

    def hashing_queue(self, length: int) -> None:
        self.queue.append(length)


def hasher(
    parameters: Argon2Parameters = QUICK, workers: int = 2, most_queued: int = 100, metrics: CountedMetrics | None = None
) -> Argon2Passwords:
    return Argon2Passwords(parameters, workers, metrics or CountedMetrics(), most_queued=most_queued)  # type: ignore[arg-type]  # the part that is used


async def test_the_right_password_matches_and_no_other_does() -> None:
    passwords = hasher()
    encoded = await passwords.hash(Password("correct horse"))
    assert await passwords.verify(encoded, Password("correct horse"))
    for wrong in ("correct horsf", "correct hors", "correct horse ", " correct horse", "Correct horse", ""):
        assert not await passwords.verify(encoded, Password(wrong))


async def test_by_default_the_hash_is_argon2id_with_the_parameters_of_the_decisions() -> None:
    encoded = await hasher(Argon2Parameters()).hash(Password("correct horse"))
    assert encoded.startswith("$argon2id$v=19$m=19456,t=2,p=1$")


async def test_a_hash_is_what_other_programs_make_and_read() -> None:
    encoded = await hasher().hash(Password("correct horse"))
    assert PasswordHasher().verify(encoded, "correct horse")
    theirs = PasswordHasher(time_cost=1, memory_cost=64, parallelism=2).hash("correct horse")
    assert await hasher().verify(theirs, Password("correct horse"))


async def test_equal_passwords_have_different_hashes() -> None:
    passwords = hasher()
    assert len({await passwords.hash(Password("correct horse")) for _ in range(10)}) == 10


async def test_a_password_that_is_too_long_is_nobodys() -> None:
    passwords = hasher()
    longest = "x" * LONGEST_PASSWORD
    encoded = await passwords.hash(Password(longest))
    assert not await passwords.verify(encoded, Password(f"{longest}x"))
    theirs = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(f"{longest}x")
    assert not await passwords.verify(theirs, Password(f"{longest}x"))
    with pytest.raises(ValueError, match="128"):
        await passwords.hash(Password(f"{longest}x"))


async def test_a_hash_of_a_password_with_many_marks_still_counts() -> None:
    """A hash of before has no bound on a run of marks: 128 characters are bound enough."""
    text = "a" + "\u0301\u0323\u0f73" * 40
    theirs = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(unicodedata.normalize("NFC", text))
    assert await hasher().verify(theirs, Password(text))


async def test_marks_beyond_the_longest_password_cost_no_more_than_another_wrong_one() -> None:
    """60 KB of marks, whose order costs 20 seconds, in the interpreter's lock."""
    passwords = hasher()
    encoded = await passwords.hash(Password("correct horse"))
    began = time.process_time()
    assert not await passwords.verify(encoded, Password("a" + "\u0344" * 15_000 + "\u0f73" * 10_000))
    assert time.process_time() - began < 1


async def test_nothing_is_cut_off_trimmed_or_mapped() -> None:
    passwords = hasher()
    long = "x" * LONGEST_PASSWORD
    encoded = await passwords.hash(Password(long))
    assert await passwords.verify(encoded, Password(long))
    assert not await passwords.verify(encoded, Password(long[:-1] + "y"))
    for one, other in [
        ("a\x00b", "a\x00c"),
        ("a\x00", "a"),
        ("\ufb01sh and chips", "fish and chips"),
        ("\ud800", "\ud801"),
        ("\uff11\uff12\uff13\uff14", "1234"),
    ]:
        encoded = await passwords.hash(Password(one))
        assert await passwords.verify(encoded, Password(one))
        assert not await passwords.verify(encoded, Password(other))


async def test_an_accented_letter_is_the_same_however_the_keyboard_composes_it() -> None:
    passwords = hasher()
    assert await passwords.verify(await passwords.hash(Password("caf\u00e9 au lait")), Password("cafe\u0301 au lait"))


async def test_a_hash_with_other_parameters_is_outdated_and_still_verifies() -> None:
    passwords = hasher()
    assert not passwords.is_outdated(await passwords.hash(Password("correct horse")))
    for other in (Argon2Parameters(128, 1), Argon2Parameters(64, 2), Argon2Parameters(64, 1, 2)):
        encoded = await hasher(other).hash(Password("correct horse"))
        assert passwords.is_outdated(encoded)
        assert await passwords.verify(encoded, Password("correct horse"))
    shorter = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1, hash_len=16).hash("correct horse")
    assert passwords.is_outdated(shorter)
    assert passwords.is_outdated("garbage")


async def test_without_a_hash_the_answer_is_no_after_the_same_work() -> None:
    metrics = CountedMetrics()
    passwords = hasher(Argon2Parameters(), metrics=metrics)
    encoded = await passwords.hash(Password("correct horse"))
    taken: dict[str | None, list[float]] = {encoded: [], None: []}
    for _ in range(200):  # in turns, until a busy machine has let each of them through undisturbed
        for known, times in taken.items():
            assert not await passwords.verify(known, Password("wrong horse"))
            times.append(metrics.hashed[-1][0])
        if min(taken[None]) == pytest.approx(min(taken[encoded]), rel=0.5):
            return
    assert min(taken[None]) == pytest.approx(min(taken[encoded]), rel=0.5)


SALT, DIGEST = b64encode(b"s" * 16).rstrip(b"=").decode(), b64encode(b"d" * 32).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "garbage",
        "$2b$12$abcdefghijklmnopqrstuv",
        "$argon2id$v=19$m=64,t=1,p=1$$",
        f"$argon2id$v=19$m=64,t=1,p=1${SALT}$*",
        f"$argon2id$v=19$m=64,t=1,p=1${SALT}$A",
        f"$argon2id$v=99$m=64,t=1,p=1${SALT}${DIGEST}",
        f"$argon2id$v=19$m=1,t=1,p=1${SALT}${DIGEST}",
        f"$argon2id$v=19$m=4000000000,t=1,p=1${SALT}${DIGEST}",
        f"$argon2id$v=19$m=64,t=4000000000,p=1${SALT}${DIGEST}",
        f"$argon2id$v=19$m=64,t=1,p=1${SALT}${DIGEST}\n",
        f"$argon2i$v=19$m=64,t=1,p=1${SALT}${DIGEST}",
        f"$argon2id$v=19$m=\u0666\u0664,t=1,p=1${SALT}${DIGEST}",
    ],
)
async def test_a_corrupted_hash_is_a_no_after_the_same_work_and_a_logged_error(
    encoded: str, log: CapturedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.allow("password_hash_corrupted")
    log.remember(Password("correct horse"))
    passwords = hasher()
    verified: list[str] = []
    real = passwords._argon2._matches

    def matches(tried: str, password: Password) -> bool:
        answer = real(tried, password)
        verified.append(tried)
        return answer

    monkeypatch.setattr(passwords._argon2, "_matches", matches)
    assert not await passwords.verify(encoded, Password("correct horse"))
    assert verified == [passwords._decoy], "the decoy has been worked on, once, and nothing else"
    assert len(log.events("password_hash_corrupted")) == 1
    assert encoded not in repr(log.entries) or not encoded


async def test_the_decoys_own_password_is_unknown_and_differs_from_process_to_process() -> None:
    assert hasher()._decoy != hasher()._decoy


class Gate:
    """Stands for the library's work: holds every thread until the test lets it go, and counts the threads."""

    def __init__(self, passwords: Argon2Passwords, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.running = self.most = 0
        self.taken: list[str] = []
        self._lock = threading.Lock()
        monkeypatch.setattr(passwords._argon2, "verify", self._verify)

    def _verify(self, _encoded: str, password: Password, _decoy: str) -> bool:
        with self._lock:
            self.taken.append(password.reveal())
            self.running += 1
            self.most = max(self.most, self.running)
        self.open.wait(PATIENCE)
        with self._lock:
            self.running -= 1
        return True

    async def wait_until_running(self, number: int) -> None:
        with trio.fail_after(PATIENCE):
            while self.running < number:
                await trio.sleep(0.001)


async def test_a_crowd_is_served_by_a_few_threads_and_the_rest_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = CountedMetrics()
    passwords = hasher(workers=2, most_queued=20, metrics=metrics)
    gate = Gate(passwords, monkeypatch)
    served, refused = [], []

    async def sign_in() -> None:
        try:
            served.append(await passwords.verify(None, Password("x")))
        except Overloaded as overloaded:
            refused.append(overloaded.retry_after)

    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(sign_in)
        await gate.wait_until_running(2)
        await wait_all_tasks_blocked()
        assert len(refused) == 178
        assert min(refused) >= 1
        gate.open.set()
    assert len(served) == 22
    assert gate.most == 2
    assert max(metrics.queue) == 20
    assert metrics.queue[-1] == 0
    assert len(metrics.hashed) == 22
    assert all(waited >= 0 and seconds >= 0 for seconds, waited in metrics.hashed)


async def test_however_many_strangers_wait_there_are_places_for_those_who_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    passwords = hasher(workers=1, most_queued=8)
    gate = Gate(passwords, monkeypatch)
    served: list[Priority] = []
    refused: list[Priority] = []

    async def sign_in(priority: Priority) -> None:
        try:
            await passwords.verify(None, Password(priority.name), priority)
            served.append(priority)
        except Overloaded:
            refused.append(priority)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sign_in, Priority.STRANGER)
        await gate.wait_until_running(1)
        for priority in (Priority.STRANGER, Priority.FAMILIAR, Priority.PROVEN):
            for _ in range(20):
                nursery.start_soon(sign_in, priority)
            await wait_all_tasks_blocked()
        # Nobody takes the places of those who are better known.
        assert Counter(refused) == {Priority.STRANGER: 12, Priority.FAMILIAR: 18, Priority.PROVEN: 18}
        gate.open.set()
    assert Counter(served) == {Priority.STRANGER: 9, Priority.FAMILIAR: 2, Priority.PROVEN: 2}
    # Nor do they wait for all who came before them. The tasks themselves wake up in any order.
    assert set(gate.taken[:4]) == {priority.name for priority in Priority}


async def test_a_cancelled_caller_keeps_its_slot_until_the_thread_has_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    passwords = hasher(workers=1, most_queued=1)
    gate = Gate(passwords, monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(passwords.verify, None, Password("x"))
        await gate.wait_until_running(1)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            for _ in range(5):  # a caller that comes meanwhile waits, and leaves the queue without a trace when it is cancelled
                with trio.move_on_after(0.01) as impatient:
                    await passwords.verify(None, Password("x"))
                assert impatient.cancelled_caught
            assert gate.most == 1
            gate.open.set()
    assert await passwords.hash(Password("x"))
    assert passwords._inside == 0


async def test_the_event_loop_goes_on_while_a_password_is_hashed() -> None:
    passwords = hasher(Argon2Parameters(iterations=10), workers=1)
    steps = 0

    async def go_on() -> None:
        nonlocal steps
        while True:
            await trio.sleep(0.001)
            steps += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(go_on)
        await passwords.hash(Password("x"))
        nursery.cancel_scope.cancel()
    assert steps >= 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: Argon2Parameters(memory_kib=7),
        lambda: Argon2Parameters(memory_kib=2**21),
        lambda: Argon2Parameters(lanes=0),
        lambda: Argon2Parameters(iterations=0),
        lambda: Argon2Parameters(memory_kib=64, lanes=9),
        lambda: Argon2Parameters(iterations=101),
    ],
)
def test_parameters_out_of_range_are_refused_in_a_sentence(make: Callable[[], Argon2Parameters]) -> None:
    with pytest.raises(ValueError, match="Argon2 takes"):
        make()


def test_the_number_of_workers_respects_the_containers_quota(tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    everything = len(os.sched_getaffinity(0))
    assert usable_cores(quota) == everything
    for text, cores in [("max 100000", everything), ("100000 100000", 1), ("50000 100000", 1), ("10000000 100000", everything)]:
        quota.write_text(text)
        assert usable_cores(quota) == cores
    assert Argon2Passwords(QUICK, None, CountedMetrics())._workers == usable_cores()  # type: ignore[arg-type]  # the part that is used


def test_the_rate_is_measured_in_about_the_time_allowed() -> None:
    started = time.perf_counter()
    assert rate(0.05, QUICK) > 100
    assert time.perf_counter() - started < 1

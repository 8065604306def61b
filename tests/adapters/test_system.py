"""The machine's clock, ids and randomness."""

import os
import re
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from adapters.system import PASSWORD_ALPHABET, PASSWORD_LENGTH, SystemClock, SystemIds, SystemSecrets
from core.domain.identifiers import first_id

# The last 48 bits of an id.
_RANDOM = (1 << 48) - 1


def test_the_clock_speaks_aware_utc() -> None:
    assert SystemClock().now().utcoffset() == timedelta(0)
    assert SystemClock().now().tzinfo is UTC


def test_ids_are_version_7_and_carry_the_time() -> None:
    before = time.time_ns() // 1_000_000
    made = SystemIds().new()
    assert made.version == 7
    assert made.variant == "specified in RFC 4122"
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000


def test_the_first_id_of_a_time_parts_what_was_made_before_it_from_what_was_made_since() -> None:
    now = datetime.now(UTC)
    made = SystemIds().new()
    later = datetime.now(UTC) + timedelta(milliseconds=1)
    assert first_id(now) <= made < first_id(later)


def test_ids_ascend_strictly_even_within_a_millisecond() -> None:
    ids = SystemIds()
    made = [ids.new() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_ascend_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = SystemIds()
    first = ids.new()
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000_000_000)
    assert ids.new() > first


def test_ids_ascend_when_a_millisecond_is_full() -> None:
    ids = SystemIds()
    ids.new()
    ids._milliseconds += 60_000
    ids._counter = (1 << 26) - 2
    made = [ids.new() for _ in range(3)]
    assert made == sorted(made)
    assert all(one.version == 7 for one in made)
    assert made[2].int >> 80 == (made[0].int >> 80) + 1


def test_two_processes_do_not_make_the_same_id() -> None:
    made = {UUID(int=SystemIds().new().int & (1 << 74) - 1) for _ in range(1000)}
    assert len(made) == 1000


def test_a_forked_process_does_not_repeat_its_parents_random_numbers() -> None:
    ids = SystemIds()
    ids.new()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b" ".join(str(ids.new()).encode() for _ in range(20)))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = {UUID(word.decode()).int & _RANDOM for word in os.read(reading, 4096).split()}
    ours = {ids.new().int & _RANDOM for _ in range(20)}
    os.close(reading)
    os.close(writing)
    assert (len(theirs), len(ours)) == (20, 20)
    assert theirs.isdisjoint(ours)


def test_random_numbers_come_to_no_end_with_their_block() -> None:
    ids = SystemIds()
    assert len({ids.new().int & _RANDOM for _ in range(2000)}) == 2000


def test_keys_have_a_public_name_and_256_bits_behind_it() -> None:
    made = [SystemSecrets().key("cs").reveal() for _ in range(2000)]
    assert all(re.fullmatch(r"cs_[a-z0-9]{6}_[0-9A-Za-z]{43}", one) for one in made)
    assert len({one.rpartition("_")[2] for one in made}) == len(made)
    # Every letter and digit comes up, and the public part says nothing of the other.
    assert len(set("".join(one.rpartition("_")[2] for one in made))) == 62
    assert len({one.split("_")[1] for one in made}) > 1990


def test_tokens_are_256_bits_and_differ() -> None:
    first, second = SystemSecrets().token().reveal(), SystemSecrets().token().reveal()
    assert first != second
    assert len(first) == 43


def test_passwords_are_readable_and_strong() -> None:
    password = SystemSecrets().password().reveal()
    assert len(password) == PASSWORD_LENGTH
    assert set(password) <= set(PASSWORD_ALPHABET)
    assert not set(PASSWORD_ALPHABET) & set("01OIl")
    assert len(PASSWORD_ALPHABET) ** PASSWORD_LENGTH > 2**100
    assert password != SystemSecrets().password().reveal()


def test_spread_stays_in_its_range() -> None:
    values = [SystemSecrets().spread() for _ in range(1000)]
    assert all(0 <= value < 1 for value in values)
    assert max(values) - min(values) > 0.5

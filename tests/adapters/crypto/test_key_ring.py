"""The key ring, and the file that an installation of its own keeps it in."""

import copy
import pickle
import stat
import threading
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey, KeyFile, MalformedKeys, generate_key, parse
from ports.crypto import CannotOpen

OLD = EncryptionKey("old", b"o" * 32)
NEW = EncryptionKey("new", b"n" * 32)
MATERIAL = b64encode(b"n" * 32).decode()


@given(plaintext=st.binary(max_size=300), context=st.text(max_size=60))
def test_what_is_sealed_opens_in_its_context(plaintext: bytes, context: str) -> None:
    ring = AesGcmKeyRing([NEW])
    assert ring.open(ring.seal(plaintext, context), context) == plaintext


def test_the_format_is_version_key_id_nonce_ciphertext_and_tag() -> None:
    sealed = AesGcmKeyRing([NEW]).seal(b"four", "here")
    assert sealed[:5] == b"\x01\x03new"
    assert len(sealed) == 5 + 12 + 4 + 16


def test_the_same_value_is_never_sealed_alike() -> None:
    ring = AesGcmKeyRing([NEW])
    assert len({ring.seal(b"value", "here") for _ in range(100)}) == 100


def test_a_value_moved_elsewhere_does_not_open() -> None:
    ring = AesGcmKeyRing([NEW])
    with pytest.raises(CannotOpen, match=r"not sealed for 'users\.totp:2'"):
        ring.open(ring.seal(b"value", "users.totp:1"), "users.totp:2")


def test_no_altered_byte_and_no_missing_one_goes_unnoticed() -> None:
    ring = AesGcmKeyRing([NEW, OLD])
    sealed = ring.seal(b"value", "here")
    for place in range(len(sealed)):
        altered = bytearray(sealed)
        altered[place] ^= 0x80
        with pytest.raises(CannotOpen):
            ring.open(bytes(altered), "here")
        with pytest.raises(CannotOpen):
            ring.open(sealed[:place], "here")
    with pytest.raises(CannotOpen):
        ring.open(sealed + b"x", "here")


def test_a_header_cannot_borrow_from_the_context() -> None:
    """The id `new` with the context `:x` must not pass for the id `new:` with the context `x`, or the like."""
    sealed = AesGcmKeyRing([EncryptionKey("ab", b"n" * 32)]).seal(b"value", "c")
    with pytest.raises(CannotOpen):
        AesGcmKeyRing([EncryptionKey("abc", b"n" * 32)]).open(b"\x01\x03abc" + sealed[4:], "")


def test_the_first_key_seals_and_every_key_opens() -> None:
    before = AesGcmKeyRing([OLD]).seal(b"value", "here")
    ring = AesGcmKeyRing([NEW, OLD])
    assert ring.open(before, "here") == b"value"
    assert ring.is_outdated(before)
    after = ring.seal(b"value", "here")
    assert not ring.is_outdated(after)
    assert after.startswith(ring.current_header())
    assert ring.current_key_id() == "new"
    assert ring.key_ids() == ("new", "old")
    with pytest.raises(CannotOpen, match="'new'"):
        AesGcmKeyRing([OLD]).open(after, "here")


def test_a_key_id_that_begins_like_another_is_another() -> None:
    long = AesGcmKeyRing([EncryptionKey("newer", b"o" * 32)]).seal(b"value", "here")
    assert AesGcmKeyRing([NEW]).is_outdated(long)


def test_a_ring_looks_again_for_a_key_that_it_does_not_know_but_not_for_each_of_a_flood() -> None:
    now, looks = [0.0], []

    def reload() -> list[EncryptionKey]:
        looks.append(now[0])
        return [NEW, OLD] if now[0] >= 10 else [OLD]

    ring = AesGcmKeyRing([OLD], reload, monotonic=lambda: now[0])
    sealed = AesGcmKeyRing([NEW]).seal(b"value", "here")
    now[0] = 2.0
    for _ in range(50):
        with pytest.raises(CannotOpen):
            ring.open(sealed, "here")
    assert looks == [2.0]
    now[0] = 10.0
    assert ring.open(sealed, "here") == b"value"
    assert ring.current_key_id() == "new"


def test_a_ring_seals_under_a_new_first_key_within_seconds() -> None:
    now = [0.0]
    ring = AesGcmKeyRing([OLD], lambda: [NEW, OLD], monotonic=lambda: now[0])
    assert ring.current_key_id() == "old"
    now[0] = 6.0
    assert not AesGcmKeyRing([NEW]).is_outdated(ring.seal(b"value", "here"))


@pytest.mark.parametrize("fault", [OSError("gone"), MalformedKeys("half typed")])
def test_a_ring_whose_keys_cannot_be_read_again_goes_on_with_those_it_has(fault: Exception) -> None:
    def reload() -> list[EncryptionKey]:
        raise fault

    now = [0.0]
    ring = AesGcmKeyRing([OLD], reload, monotonic=lambda: now[0])
    now[0] = 60.0
    assert ring.open(ring.seal(b"value", "here"), "here") == b"value"


def test_nothing_prints_copies_into_a_pickle_or_shows_key_material() -> None:
    key = EncryptionKey("new", b"n" * 32)
    ring = AesGcmKeyRing([key])
    shown = f"{key} {key!r} {ring} {ring!r} {vars(ring)}"
    assert MATERIAL not in shown
    assert "nnnn" not in shown
    for value in (key, ring):
        with pytest.raises(TypeError):
            pickle.dumps(value)
        with pytest.raises(TypeError):
            copy.copy(value)


def test_keys_are_parsed_from_a_setting_or_a_file() -> None:
    text = f"new:{MATERIAL},old:{b64encode(b'o' * 32).decode()}"
    assert [key.id for key in parse(text)] == ["new", "old"]
    assert [key.id for key in parse(text.replace(",", "\n") + "\n\n")] == ["new", "old"]
    assert parse(text)[0].line() == f"new:{MATERIAL}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no encryption key"),
        (" , ", "no encryption key"),
        (MATERIAL, "Entry 1 .* not of the form id:base64"),
        (f"{MATERIAL}:new", "Entry 1 .* has an id other than"),
        (f"new:{MATERIAL}, a b:{MATERIAL}", "Entry 2 .* has an id other than"),
        (f"{'x' * 65}:{MATERIAL}", "Entry 1"),
        (f"new:{MATERIAL[:-4]}", "'new' has 30 bytes; it must have 32"),
        (f"new:{MATERIAL[:-1]}", "'new' is not valid base64"),
        (f"new:*{MATERIAL}", "'new' is not valid base64"),
        ("new:schlüssel", "'new' is not valid base64"),
        ("new:", "'new' has 0 bytes"),
        (f"new:{MATERIAL},new:{MATERIAL}", "'new' occurs twice"),
    ],
)
def test_malformed_keys_are_refused_without_showing_them(text: str, says: str) -> None:
    with pytest.raises(MalformedKeys, match=says) as caught:
        parse(text)
    assert MATERIAL[:8] not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_ring_has_at_least_one_key() -> None:
    with pytest.raises(MalformedKeys):
        AesGcmKeyRing([])


def test_a_new_key_is_named_after_its_day_and_like_no_other() -> None:
    keys = [generate_key(datetime(2026, 11, 20, tzinfo=UTC)) for _ in range(20)]
    assert all(key.id.startswith("2026-11-20.") for key in keys)
    assert len({key.line().partition(":")[2] for key in keys}) == 20
    assert parse(keys[0].line())[0].id == keys[0].id


def test_a_key_file_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "data" / "encryption-keys")
    first = file.ensure()
    assert [key.line() for key in file.ensure()] == [key.line() for key in first]
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_of_many_first_starts_one_makes_the_key(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(KeyFile(tmp_path / "keys").ensure()[0].line())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    assert len(set(found)) == 1


def test_a_prepended_key_is_current_and_the_others_still_open(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    file.ensure()
    before = file.ring().seal(b"value", "here")
    file.prepend(generate_key())
    assert len(file.read()) == 2
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]
    ring = file.ring()
    assert ring.is_outdated(before)
    assert ring.open(before, "here") == b"value"


def test_a_running_ring_notices_the_key_that_another_process_prepended(tmp_path: Path) -> None:
    now = [0.0]
    file = KeyFile(tmp_path / "keys")
    running = AesGcmKeyRing(file.ensure(), file.read, monotonic=lambda: now[0])
    KeyFile(file.path).prepend(NEW)
    sealed = file.ring().seal(b"value", "here")
    now[0] = 1.0
    assert running.open(sealed, "here") == b"value"
    assert running.current_key_id() == "new"


def test_a_running_ring_takes_no_other_in_place_of_the_one_that_it_needs(tmp_path: Path) -> None:
    """The running process has the only copy of the deleted keys."""
    now = [0.0]
    file = KeyFile(tmp_path / "keys")
    running = AesGcmKeyRing(file.ensure(), file.read, monotonic=lambda: now[0])
    needed = running.current_key_id()
    kept = file.path.read_bytes()
    sealed = running.seal(b"value", "here")
    file.path.unlink()
    file.ensure()
    now[0] = 10.0
    assert running.key_ids() == (needed,)
    assert running.open(sealed, "here") == b"value"
    # Until it is back. What came to it meanwhile is taken then.
    file.path.write_bytes(kept)
    file.prepend(NEW)
    now[0] = 20.0
    assert running.key_ids() == ("new", needed)


def test_a_key_that_is_prepended_twice_is_refused_and_the_file_stays(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    file.ensure()
    file.prepend(NEW)
    with pytest.raises(MalformedKeys, match="occurs twice"):
        file.prepend(NEW)
    assert len(file.read()) == 2


@pytest.mark.parametrize("content", [b"garbage", b"\xff\xfe"])
def test_a_damaged_key_file_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    with pytest.raises(MalformedKeys, match=str(path)):
        KeyFile(path).ensure()
    assert path.read_bytes() == content

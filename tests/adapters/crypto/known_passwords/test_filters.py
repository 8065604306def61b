"""The filter: nothing that stands in a list is missed, few others are taken for it, and no damaged file is read."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.crypto.known_passwords import filters
from adapters.crypto.known_passwords.building import build_filter
from adapters.crypto.known_passwords.filters import BLOCK, FilterUnusable, blocks_for, filter_head, md4, open_filter
from core.domain.secrets import Password
from tests.adapters.crypto.known_passwords.lists import DAY, built, listed, sha1
from tests.places import ROOT

MADE = 1_000_000


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("", "31d6cfe0d16ae931b73c59d7e0c089c0"),
        ("abc", "a448017aaf21d8525fc10ae87aa6729d"),
        ("1234567890" * 8, "e33b4ddc9c38f2199c3e7b164fcc0536"),
    ],
)
def test_md4_gives_the_digests_of_its_standard(text: str, digest: str) -> None:
    assert md4(text.encode()).hex() == digest


def test_of_a_million_hashes_none_is_missed_few_others_are_found_and_each_takes_little(tmp_path: Path) -> None:
    own, other = (b"".join(hashlib.sha512(f"{name} {one}".encode()).digest() for one in range(MADE // 3 + 1)) for name in ("in", "out"))
    hashes = [own[at : at + 20] for at in range(0, 20 * MADE, 20)]
    path = tmp_path / "hashes.txt"
    with path.open("w") as file:
        file.writelines(f"{one.hex()}\n" for one in hashes)
    head = build_filter([path], tmp_path / "filter", DAY, lambda _lines: None)
    opened = open_filter(tmp_path / "filter")
    assert (head.count, head.size) == (MADE, (tmp_path / "filter").stat().st_size)
    assert head.size / MADE <= 1.6
    assert all(map(opened.contains_hash, hashes))
    wrong = sum(opened.contains_hash(other[at : at + 20]) for at in range(0, 20 * MADE, 20))
    assert wrong / MADE <= 0.005


def test_a_question_takes_no_more_than_twenty_microseconds(tmp_path: Path) -> None:
    built(tmp_path / "filter", "a stolen password")
    opened, password = open_filter(tmp_path / "filter"), Password("a good and new password")
    began = time.process_time()
    for _ in range(2000):
        opened.contains(password)
    assert (time.process_time() - began) / 2000 <= 20e-6


@pytest.mark.parametrize("password", ["a stolen password", "päss wörd", "\U0001f511 key"])
def test_passwords_are_found_as_they_were_typed(tmp_path: Path, password: str) -> None:
    built(tmp_path / "filter", password)
    opened = open_filter(tmp_path / "filter")
    assert opened.contains(Password(password))
    assert not opened.contains(Password(password.upper()))
    assert not opened.contains(Password("\ud800"))


def test_a_list_of_ntlm_hashes_serves_as_well(tmp_path: Path) -> None:
    (tmp_path / "ntlm.txt").write_text(f"{md4('pässword'.encode('utf-16-le')).hex().upper()}:12\n")
    head = build_filter([tmp_path / "ntlm.txt"], tmp_path / "filter", DAY, lambda _lines: None)
    opened = open_filter(tmp_path / "filter")
    assert head.kind is filters.ListedHash.NTLM
    assert opened.contains(Password("pässword"))
    assert not opened.contains(Password("password"))


def test_the_header_says_what_is_in_it(tmp_path: Path) -> None:
    head = built(tmp_path / "filter", "one", "two")
    assert filter_head(tmp_path / "filter") == head
    assert (head.count, head.day, head.blocks, head.kind.value) == (2, DAY, 1, "sha1")


def test_the_file_is_the_same_on_every_machine(tmp_path: Path) -> None:
    """All numbers have a fixed order of bytes, so these bytes are a part of the format."""
    built(tmp_path / "filter", "a stolen password")
    text = (tmp_path / "filter").read_bytes()
    assert text[:44] == b"postern-password\x00\x01sha12026-05-01" + (1).to_bytes(8, "big") + (1).to_bytes(4, "big")
    digest = sha1("a stolen password")
    for at in range(4, 16, 2):
        bit = int.from_bytes(digest[at : at + 2], "big") & 0x7FFF
        assert text[BLOCK + bit // 8] >> bit % 8 & 1


def swapped(text: bytes) -> bytes:
    """The numbers of a machine with the other order of bytes."""
    return text[:16] + text[16:18][::-1] + text[18:32] + text[32:40][::-1] + text[40:44][::-1] + text[44:]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[:0], "is too short"),
        (lambda text: text[:20], "is too short"),
        (lambda text: text[:-1], "is cut off, or damaged"),
        (lambda text: text + b"\0", "is cut off, or damaged"),
        (lambda text: b"x" + text[1:], "is no filter of passwords"),
        (swapped, "has version 256 of the format"),
        (lambda text: text[:18] + b"md5 " + text[22:], "has a damaged header"),
        (lambda text: text[:22] + b"2026-13-01" + text[32:], "has a damaged header"),
        (lambda text: text[:40] + bytes(4) + text[44:BLOCK], "has a damaged header"),
        (lambda text: text[:32] + (9).to_bytes(8, "big") + text[40:], "its digest is another"),
        (lambda text: text[:-1] + b"\x01", "its digest is another"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(tmp_path: Path, damage: Callable[[bytes], bytes], reason: str) -> None:
    path = tmp_path / "filter"
    built(path, "a stolen password")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FilterUnusable, match=reason):
        open_filter(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "absent", "cannot be read: No such file"), (tmp_path, "is no file")):
        for read in (open_filter, filter_head):
            with pytest.raises(FilterUnusable, match=reason):
                read(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FilterUnusable, match="is no file"):
        open_filter(tmp_path / "pipe")


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "filter"
    built(path, "a stolen password")
    real = filters.digest_of

    def slow(file: int, head: filters.FilterHead) -> bytes:
        digest = real(file, head)
        os.utime(path, ns=(1, 1))
        return digest

    monkeypatch.setattr(filters, "digest_of", slow)
    with pytest.raises(FilterUnusable, match="changes while it is read"):
        open_filter(path)


def test_a_file_that_is_cut_off_in_place_ends_no_process_and_knows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "filter"
    built(path, "a stolen password")
    opened = open_filter(path)
    os.truncate(path, 0)
    assert not opened.contains(Password("a stolen password"))


def test_a_file_that_is_cut_off_between_look_and_read_ends_no_process(tmp_path: Path) -> None:
    path = tmp_path / "filter"
    built(path, "a stolen password")
    program = f"""
import os
from pathlib import Path
from adapters.crypto.known_passwords.filters import open_filter
from core.domain.secrets import Password
opened, real = open_filter(Path({str(path)!r})), os.fstat

def cut_off(file):
    seen = real(file)
    os.truncate({str(path)!r}, 0)
    return seen

os.fstat = cut_off
print(opened.contains(Password("a stolen password")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    # What was read before counts.
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_few_hashes_take_one_block() -> None:
    assert (blocks_for(0), blocks_for(1), blocks_for(2621), blocks_for(2622)) == (1, 1, 1, 2)


def test_an_exchanged_filter_goes_on_until_nobody_asks_it(tmp_path: Path) -> None:
    path = tmp_path / "filter"
    built(path, "a stolen password")
    opened = open_filter(path)
    listed(tmp_path / "other.list", ["another one"])
    build_filter([tmp_path / "other.list"], path, DAY, lambda _lines: None)
    assert opened.contains(Password("a stolen password"))
    opened.close()

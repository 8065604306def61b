"""Building a filter: from lists in any order, zipped or not; what is no list is refused, with the line, and leaves nothing behind."""

import gzip
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from adapters.crypto.known_passwords.building import NoListOfHashes, build_filter
from adapters.crypto.known_passwords.filters import open_filter
from core.domain.secrets import Password
from tests.adapters.crypto.known_passwords.lists import DAY, built, listed, sha1
from tests.places import ROOT

GOOD = "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8"


def test_lists_in_any_order_and_zipped_make_the_same_file(tmp_path: Path) -> None:
    texts = [f"password {number}" for number in range(5000)]
    first = listed(tmp_path / "first", texts)
    second = listed(tmp_path / "second", sorted(texts[:3000], key=sha1))
    (tmp_path / "third.gz").write_bytes(gzip.compress(listed(tmp_path / "third", texts[3000:]).read_bytes()))
    heard: list[int] = []
    heads = [
        build_filter([first], tmp_path / "one", DAY, heard.append),
        build_filter([second, tmp_path / "third.gz"], tmp_path / "two", DAY, heard.append),
    ]
    assert [head.count for head in heads] == [5000, 5000]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert sum(heard)


def test_a_line_may_have_a_count_and_lines_may_be_blank(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text(f"{sha1('one').hex()}\n{sha1('two').hex()}:7\r\n\n{sha1('three').hex()} \n{sha1('four').hex()}")
    assert build_filter([path], tmp_path / "filter", DAY, lambda _lines: None).count == 4
    opened = open_filter(tmp_path / "filter")
    assert all(opened.contains(Password(one)) for one in ("one", "two", "three", "four"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1: is no hash of 40"),
        ("password\n", "line 1: is no hash of 40"),
        (f"{GOOD}\npassword\n", "line 2: is no hash of 40 digits$"),
        (f"{GOOD}\n{'0' * 38}\n", "line 2: is no hash of 40 digits$"),
        (f"{GOOD}\n{GOOD[:-2]}", "line 2: is no hash of 40 digits$"),
        (f"{GOOD}\n{GOOD}0\n", "line 2: is no hash of 40 digits$"),
        (f"{GOOD}\n{GOOD[:-1]}x\n", "line 2: is no hash of 40 digits$"),
        (f"{GOOD}\n+{GOOD[1:]}\n", "line 2: is no hash of 40 digits$"),
    ],
)
def test_what_is_no_list_is_refused_with_its_line_and_leaves_the_old_filter(tmp_path: Path, text: str, reason: str) -> None:
    built(tmp_path / "filter", "a stolen password")
    before = (tmp_path / "filter").read_bytes()
    (tmp_path / "wrong").write_text(text)
    with pytest.raises(NoListOfHashes, match=reason):
        build_filter([tmp_path / "wrong"], tmp_path / "filter", DAY, lambda _lines: None)
    assert (tmp_path / "filter").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["filter", "filter.list", "wrong"]


def test_lists_of_two_kinds_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "ntlm").write_text(f"{'0' * 32}:1\n")
    (tmp_path / "sha1").write_text(f"{GOOD}:1\n")
    with pytest.raises(NoListOfHashes, match="another kind"):
        build_filter([tmp_path / "sha1", tmp_path / "ntlm"], tmp_path / "filter", DAY, lambda _lines: None)


def test_a_folder_an_absent_file_and_half_a_zipped_one_are_refused(tmp_path: Path) -> None:
    whole = gzip.compress(f"{GOOD}:1\n".encode() * 1000)
    (tmp_path / "half.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "spoilt.gz").write_bytes(whole[:12] + b"\xff" * 20 + whole[32:])
    for path, reason in (
        (tmp_path, "is no file that can be read twice"),
        (tmp_path / "absent", "is no file that can be read twice"),
        (tmp_path / "half.gz", "is no whole gzip file"),
        (tmp_path / "spoilt.gz", "is no whole gzip file"),
    ):
        with pytest.raises(NoListOfHashes, match=reason):
            build_filter([path], tmp_path / "filter", DAY, lambda _lines: None)


def test_everybody_may_read_the_file(tmp_path: Path) -> None:
    built(tmp_path / "filter", "a stolen password")
    assert (tmp_path / "filter").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")
def test_memory_does_not_grow_with_the_list(tmp_path: Path) -> None:
    """`ru_maxrss` would have the size of the process that started this one, too."""
    with (tmp_path / "list").open("w") as file:
        file.writelines(f"{number * 2654435761 % 2**160:040x}\n" for number in range(200_000))
    program = (
        "import re, sys\nfrom datetime import date\nfrom pathlib import Path\n"
        "from adapters.crypto.known_passwords.building import build_filter\n"
        "build_filter([Path(sys.argv[1])], Path(sys.argv[2]), date(2026, 5, 1), lambda _lines: None)\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "list"), str(tmp_path / "filter")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) / 1024 <= 96  # MiB


@pytest.mark.parametrize("zipped", [False, True])
def test_a_line_without_an_end_is_refused_before_it_is_in_memory(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "list"
    with gzip.open(path, "wb", compresslevel=1) if zipped else path.open("wb") as file:
        file.write(f"{GOOD}:1\n{GOOD}:".encode())
        for _ in range(64):
            file.write(b"1" * (1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(NoListOfHashes, match=r"line 2: is no hash of 40 digits$"):
            build_filter([path], tmp_path / "filter", DAY, lambda _lines: None)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(tmp_path: Path) -> None:
    """The system takes the place of all pages before one is written: a page that has none ends the process."""
    path = tmp_path / "list"
    hashes = sorted(sha1(f"password {number}") for number in range(100_000))
    path.write_text("".join(f"{one.hex()}\n" for one in hashes))
    taken: list[tuple[int, int]] = []

    def advance(_lines: int) -> None:
        for file in tmp_path.glob(".filter.*"):
            status = file.stat()
            taken.append((status.st_size, status.st_blocks * 512))

    build_filter([path], tmp_path / "filter", DAY, advance)
    assert taken
    assert all(size <= place for size, place in taken), taken

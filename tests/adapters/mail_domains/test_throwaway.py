"""The list of throw-away mail domains: the shipped one, and files of operators."""

from datetime import date
from pathlib import Path

import pytest

from adapters.mail_domains import SHIPPED, ListedThrowawayDomains, ListUnusable
from core.domain.identity.registering import FREE_MAIL


def test_the_shipped_list_is_whole_and_names_no_provider_of_free_mail() -> None:
    listed = ListedThrowawayDomains()
    domains = [line for line in SHIPPED.read_text().splitlines() if line and not line.startswith("#")]
    assert (listed.count, listed.day) == (len(domains), date(2026, 11, 9))
    assert listed.count > 10_000
    assert all(listed.knows(one) and listed.knows(f"below.{one}") for one in domains)
    assert not [one for one in FREE_MAIL if listed.knows(one)]


def test_a_list_is_read_as_people_write_it(tmp_path: Path) -> None:
    path = tmp_path / "listed.txt"
    path.write_bytes("\ufeff# Day: 2026-01-31\r\nZ.example. # the last\r\n\r\n  b.example\r\nBücher.example\r\nb.example".encode())
    listed = ListedThrowawayDomains(path)
    assert (listed.count, listed.day) == (3, date(2026, 1, 31))
    assert [listed.knows(one) for one in ("z.example", "b.example", "xn--bcher-kva.example", "a.b.example")] == [True] * 4
    assert [listed.knows(one) for one in ("c.example", "example", "bb.example", "", "b.example.com")] == [False] * 5


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a.example\nno domain\n", "line 2 is not a domain"),
        (b"a.example\n@b.example\n", "line 2 is not a domain"),
        (b"{'a.example'}", "line 1 is not a domain"),
        (b"# day: yesterday\na.example", "line 1 has a day that is none"),
        (b"\xff\xfe\x00", "is no text in UTF-8"),
        (b"# nothing\n", "names no domain"),
        (b"a.example\n" * 2_000_000, "has more than 16 MiB"),
    ],
)
def test_a_file_that_is_no_list_says_where_and_why(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "listed.txt"
    path.write_bytes(content)
    with pytest.raises(ListUnusable, match=why):
        ListedThrowawayDomains(path)

"""Tables that a spreadsheet may open: whichever separator it takes, no cell is a formula."""

import csv
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.domain.formats import table_line

SEPARATORS = (",", ";", "\t")
# A spreadsheet may take these for the beginning of a formula, also in their wide, small, raised and lowered forms.
SIGNS = [chr(code) for code in range(0x10000) if unicodedata.normalize("NFKC", chr(code)) in {"=", "+", "-", "@"}] + ["\u2212"]
HOSTILE = st.text(st.sampled_from([*"a,;\" \t\r\n'|", "\u2028", "\x85", "\u00a0", *SIGNS]), max_size=12)
ROW = st.lists(HOSTILE | st.text(max_size=12), min_size=1, max_size=4)


def begins_a_formula(cell: str) -> bool:
    return cell[:1] in {"\t", "\r", "\n"} or cell.lstrip()[:1] in SIGNS


@pytest.mark.parametrize("separator", SEPARATORS)
@given(rows=st.lists(ROW, min_size=1, max_size=3))
@example(rows=[["Ada;=1+1;x", "ada@example.org"]])
@example(rows=[["ada", 'x;"=1+1"']])
@example(rows=[["a\n=1", "b\t@x", "c;\uff1d1"]])
@example(rows=[["a; =1", '";"=1', ";;-1"]])
def test_no_cell_begins_as_a_formula_does(separator: str, rows: list[list[str]]) -> None:
    text = "".join(table_line(row) for row in rows)
    for line in csv.reader(text.splitlines(keepends=True), delimiter=separator):
        assert not any(begins_a_formula(cell) for cell in line), line
    # Those that know no quotes, and split wherever a separator stands.
    for row in text.split("\r\n"):
        assert not any(begins_a_formula(cell.lstrip('"')) for cell in row.split(separator)), row


@given(ROW)
def test_a_row_stays_one_line_of_as_many_cells(row: list[str]) -> None:
    text = table_line(row)
    assert len(text.splitlines()) == 1
    (cells,) = csv.reader([text])
    assert len(cells) == len(row)


@given(st.lists(st.text(st.characters(categories=["L", "N", "Zs"], include_characters=".:/_()&'"), max_size=20), min_size=2, max_size=4))
def test_what_is_harmless_stays_as_it_is(row: list[str]) -> None:
    if not any(cell.lstrip()[:1] in SIGNS for cell in row):
        assert next(csv.reader([table_line(row)])) == row


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("Ada;=1+1;x", "Ada;'=1+1;x"),
        # A negative number is no exception: nothing that we export is one.
        ("-5", "'-5"),
        ("+49 30 1234", "'+49 30 1234"),
        ("a-b=c", "a-b=c"),
        ("two\r\nlines\tand a tab", "two lines and a tab"),
        ("'=1", "'=1"),
    ],
)
def test_a_cell_is_changed_where_it_must_be(cell: str, written: str) -> None:
    assert next(csv.reader([table_line([cell])])) == [written]

"""The functions of the schema that are made of the parts of statements: the file has what Python makes."""

import re
from typing import Final

import pytest

from adapters.postgres.functions import Function, written
from adapters.postgres.migrating.schema import NotReplaceable
from ops.written.functions import FILE, FUNCTIONS
from tests.adapters.postgres.migrating.test_replaceable import EDITIONS
from tests.adapters.postgres.migrating.test_replaceable import written as editions

BY_HAND: Final = "-- edition 1\n\ncreate or replace function by_hand() returns void language sql as $$ select $$;\n"


def made(name: str, text: str = "select %(moment)s") -> Function:
    return Function(name, "Asks.", {"moment": "timestamptz"}, {"at": "timestamptz"}, {}, f"    return query {text};")


def test_the_file_has_the_functions_as_their_parts_are_now() -> None:
    file = FILE.read_text(encoding="utf-8")
    assert written(file, *FUNCTIONS) == file, (
        "parts of a function have changed: name it by the next edition, raise the number in the first line of the file, "
        "and run: .venv/bin/python -m ops.written.functions"
    )


def test_a_function_has_the_number_of_the_edition_in_which_it_last_changed() -> None:
    """A process of the release before calls the function by its name, and finds what it was when that process was written."""
    changed = {one.number: one.changed for one in editions(EDITIONS)}
    for function in FUNCTIONS:
        number = int(function.name.rpartition("_")[2])
        named = {edition for edition, names in changed.items() if any(one.startswith(f"function {function.name}(") for one in names)}
        assert named == {number}, f"{function.name} has changed since edition {number}"


def test_a_part_is_read_with_the_arguments_of_the_function() -> None:
    function = made("asks_1", "select %(moment)s where '%%' like '%%'")
    assert "return query select given_moment where '%' like '%';" in function.text()
    assert function.call("*") == "select * from asks_1(%(moment)s::timestamptz)"
    assert function.call("at", without=("moment",)) == "select at from asks_1(null::timestamptz)"
    with pytest.raises(KeyError, match="other"):
        made("asks_1", "select %(other)s").text()


def test_a_function_that_has_a_new_name_stays_for_the_release_before() -> None:
    """It leaves the written part, and whoever ends its time takes it out by hand."""
    first = written(BY_HAND, made("asks_1"), made("tells_1"))
    assert written(first, made("asks_1"), made("tells_1")) == first
    second = written(first, made("asks_2"), made("tells_1"))
    assert re.findall(r"^create or replace function (\w+)|^-- (Written)", second, re.MULTILINE) == [
        ("by_hand", ""),
        ("asks_1", ""),
        ("", "Written"),
        ("asks_2", ""),
        ("tells_1", ""),
    ]
    assert made("asks_1").text() in second
    assert written(second, made("asks_2"), made("tells_1")) == second


def test_what_somebody_writes_into_the_written_part_is_refused() -> None:
    with pytest.raises(NotReplaceable, match="have something in their written part that is no function"):
        written(f"{written(BY_HAND, made('asks_1'))}\ncreate or replace view worlds as select 1;\n", made("asks_1"))

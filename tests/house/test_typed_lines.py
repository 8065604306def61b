"""The field bar by type: on how many lines a field of a noun is declared or copied (`typed_lines.py` says what counts).

`typed_lines.toml` has the numbers of those that stood on more than `BAR` lines when the list was shut: none may rise, a number that fell is
written down, and no field joins. `python -m tests.house.test_typed_lines` writes what fell.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.house.field_lines import Line
from tests.house.test_field_lines import BAR
from tests.house.typed_lines import Counted, counted

FILE: Final = Path(__file__).with_name("typed_lines.toml")
_HEAD: Final = """\
# The fields that stood on more than twelve lines, by their type, when this list was shut: tests/house/typed_lines.py says what counts.
# No number may rise, and no field joins. `python -m tests.house.test_typed_lines` writes those that fell.
"""
Numbers = Mapping[str, Mapping[str, int]]
"""By noun and field."""


def written() -> Numbers:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def faults(before: Numbers, now: Counted) -> list[str]:
    found = []
    for noun, fields in now.items():
        for name, lines in fields.items():
            most = before.get(noun, {}).get(name, BAR)
            if len(lines) > most:
                places = "".join(f"\n  {line}" for line in lines)
                found.append(f"{name} of the noun `{noun}` is declared or copied on {len(lines)} lines, and {most} are enough.{places}")
            elif most > BAR and len(lines) < most:
                found.append(f"{name} of the noun `{noun}` stands on {len(lines)} lines now: python -m tests.house.test_typed_lines")
    return found


def test_no_field_stands_on_more_lines_than_before() -> None:
    now = counted()
    assert "\n".join(faults(written(), now)) == ""
    assert [(noun, name) for noun, fields in written().items() for name in fields if name not in now.get(noun, {})] == []


def test_a_field_of_one_word_is_counted() -> None:
    """As the spelling of it is that of many things, the other counter leaves it out."""
    now = counted()
    assert any(line.file.startswith("adapters/postgres/migrations/") for line in now["webhook"]["url"])
    assert any(line.file.startswith("core/domain/") for line in now["webhook"]["url"])


def test_a_field_on_too_many_lines_is_told_where_it_stands() -> None:
    lines = [Line(f"core/{number}.py", number, "  worth: int") for number in range(1, BAR + 2)]
    (fault,) = faults({}, {"voucher": {"worth": lines}})
    assert fault.startswith("worth of the noun `voucher` is declared or copied on 13 lines, and 12 are enough.")
    assert fault.endswith("\n  core/13.py:13: worth: int")
    assert faults({"voucher": {"worth": 13}}, {"voucher": {"worth": lines}}) == []
    assert len(faults({"voucher": {"worth": 14}}, {"voucher": {"worth": lines}})) == 1
    assert len(faults({"voucher": {"worth": 14}}, {"voucher": {"worth": lines[:12]}})) == 1


def write() -> None:
    """Raises no number, and adds no field."""
    before, sections = written(), []
    for noun, fields in counted().items():
        kept = {
            name: min(before[noun][name], len(lines)) for name, lines in fields.items() if name in before.get(noun, {}) and len(lines) > BAR
        }
        if kept:
            sections.append("\n".join((f'["{noun}"]', *(f"{name} = {number}" for name, number in kept.items()))))
    FILE.write_text("\n\n".join((_HEAD.strip(), *sections)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()

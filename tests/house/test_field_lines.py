"""The field bar: on how many lines a field of a noun is declared or copied (`field_lines.py` says what counts).

`field_lines.toml` has every number. None may rise, and a number that fell is written down, so that it stays low. A field of a new noun
stands on `BAR` lines at most. `python -m tests.house.test_field_lines` writes the numbers that fell and those of new fields.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from core.domain.federation.saml.configurations import Configuration
from core.domain.identity.upstream.identity_assertions import AssertionSettings
from core.domain.services.resource_servers import ResourceServer
from core.domain.services.user_keys import UserKeySettings
from core.domain.tenancy.keys.trusted_issuers import TrustedIssuer
from tests.house.field_lines import Line, lines_of, own_fields
from tests.house.nouns import NOUNS

BAR: Final = 12
# What is held by the bar, besides new nouns: SAML, APIs, keys of users, trusted issuers and identity assertions.
HELD: Final = (Configuration, ResourceServer, UserKeySettings, TrustedIssuer, AssertionSettings)
# Fields of these that stand on more lines, each with the reason.
_ARRIVES: Final = "a row that arrives with a move has a rule for it (0168)"
ABOVE: Final[Mapping[str, str]] = {
    "attribute_mapping": _ARRIVES,
    "acs_endpoints": _ARRIVES,
    "token_lifetime": _ARRIVES,
    "subject_pattern": _ARRIVES,
    "issues": "the audit log calls it by its column, `issues_assertions`",
}
FILE: Final = Path(__file__).with_name("field_lines.toml")
_HEAD: Final = """\
# The lines on which a field of a noun is declared or copied: tests/house/field_lines.py says what counts.
# No number may rise. `python -m tests.house.test_field_lines` writes those that fell, and those of new fields.
"""


def nouns_of_fields() -> Mapping[str, str]:
    """The counted fields, each with the name of its noun."""
    return {name: noun.name for noun in NOUNS for kind in (noun.of, *noun.settings) for name in own_fields(kind)}


def written() -> Mapping[str, int]:
    """The numbers of the file. It has a section for each noun."""
    return {name: number for section in tomllib.loads(FILE.read_text(encoding="utf-8")).values() for name, number in section.items()}


def test_no_field_stands_on_more_lines_than_before() -> None:
    nouns, before = nouns_of_fields(), written()
    now = lines_of(nouns)
    assert "\n".join(faults(nouns, before, now)) == ""
    assert sorted(before.keys() - now.keys()) == [], "there are no such fields: take them out of tests/house/field_lines.toml"


def faults(nouns: Mapping[str, str], before: Mapping[str, int], now: Mapping[str, list[Line]]) -> list[str]:
    """What somebody reads whose field stands on too many lines, or on fewer than before."""
    found = []
    for name, lines in now.items():
        most, places = before.get(name, BAR), "".join(f"\n  {line}" for line in lines)
        if len(lines) > most:
            found.append(
                f"{name} of the noun `{nouns[name]}` is declared or copied on {len(lines)} lines, and {most} are enough. Say it once:"
                " a class that extends the settings, `Columns`, `taken` and `shown` (decisions 0115, 0116, 0170)."
                f"{places}"
            )
        elif name not in before or len(lines) < most:
            found.append(f"{name} stands on {len(lines)} lines now: write `{name} = {len(lines)}` into tests/house/field_lines.toml")
    return found


def test_the_held_nouns_are_below_the_bar() -> None:
    above = {name for kind in HELD for name in own_fields(kind) if written()[name] > BAR}
    assert above == ABOVE.keys()


def test_a_field_on_too_many_lines_is_told_where_it_stands() -> None:
    lines = [Line(f"core/{number}.py", number, "  worth: int") for number in range(1, BAR + 2)]
    (fault,) = faults({"net_worth": "voucher"}, {}, {"net_worth": lines})
    assert fault.startswith("net_worth of the noun `voucher` is declared or copied on 13 lines, and 12 are enough. Say it once:")
    assert fault.endswith("\n  core/13.py:13: worth: int")
    assert faults({"net_worth": "voucher"}, {"net_worth": 20}, {"net_worth": lines}) == [
        "net_worth stands on 13 lines now: write `net_worth = 13` into tests/house/field_lines.toml"
    ]
    assert faults({"net_worth": "voucher"}, {"net_worth": 13}, {"net_worth": lines}) == []


def write() -> None:
    """Raises no number."""
    nouns, before = nouns_of_fields(), written() if FILE.exists() else {}
    counted = {name: len(lines) for name, lines in lines_of(nouns).items()}
    numbers = {name: min(number, before.get(name, BAR if before else number)) for name, number in counted.items()}
    sections = [
        "\n".join((f'["{noun.name}"]', *(f"{name} = {numbers[name]}" for name in names)))
        for noun in NOUNS
        if (names := [name for name, of in nouns.items() if of == noun.name])
    ]
    FILE.write_text("\n\n".join((_HEAD.strip(), *sections)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()

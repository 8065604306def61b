"""The field bar: on how many lines a field of a noun is declared or copied (`field_lines.py` says what counts).

A field stands on `BAR` lines at most, or in `ABOVE` with the reason. `field_lines.toml` has the numbers of those that stood on more when
the list was shut: none of them may rise, a number that fell is written down, and no name joins. `python -m tests.house.test_field_lines`
writes the numbers that fell, and takes out what is within the bar.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from core.domain.federation.saml.configurations import Configuration
from core.domain.identity.upstream.identity_assertions import AssertionSettings
from core.domain.services.resource_servers import ResourceServer
from core.domain.services.user_keys import UserKeySettings
from core.domain.tenancy.trusted_issuers import TrustedIssuer
from tests.house.field_lines import Line, lines_of, own_fields
from tests.house.nouns import NOUNS

BAR: Final = 12
# What is held by the bar, besides new nouns: SAML, APIs, keys of users, trusted issuers and identity assertions.
HELD: Final = (Configuration, ResourceServer, UserKeySettings, TrustedIssuer, AssertionSettings)
# Fields that stand on more lines, each with the reason.
_ARRIVES: Final = "a row that arrives with a move has a rule for it (0168)"
_BY_DOCUMENT: Final = "documents of clients have it by the name that the standard gives it, beside the application's own"
ABOVE: Final[Mapping[str, str]] = {
    "attribute_mapping": _ARRIVES,
    "acs_endpoints": _ARRIVES,
    "token_lifetime": _ARRIVES,
    "issues": "the audit log calls it by its column, `issues_assertions`",
    "set_at": "the console's page of terms shows it of the version that stands and of earlier ones, each a row of its own",
    "due_at": "batches for a SIEM and sweeps of billing are due, too, and count here",
    "session_lifetime_hours": "an organization's rules have it by the same name, and count here",
    "frontchannel_logout_uri": _BY_DOCUMENT,
    "frontchannel_logout_session_required": _BY_DOCUMENT,
    "initiate_login_uri": _BY_DOCUMENT,
    "assertion_audience": _ARRIVES,
}
MOST_WITH_A_REASON: Final = 2 * BAR
SHUT: Final = 36
"""How many names the list had when it was shut. None joins; a number here only falls."""
FILE: Final = Path(__file__).with_name("field_lines.toml")
_HEAD: Final = """\
# The fields that stood on more than twelve lines when this list was shut: tests/house/field_lines.py says what counts.
# No number may rise, and no name joins. `python -m tests.house.test_field_lines` writes those that fell.
# Four rose by one with the first schema of 0.2.0 (0240): before, `alter table … add column` made their columns, which is not counted.
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
        most, places = before.get(name, MOST_WITH_A_REASON if name in ABOVE else BAR), "".join(f"\n  {line}" for line in lines)
        if len(lines) > most:
            found.append(
                f"{name} of the noun `{nouns[name]}` is declared or copied on {len(lines)} lines, and {most} are enough. Say it once:"
                " a class that extends the settings, `Columns`, `taken` and `shown` (decisions 0115, 0116, 0170). Where that cannot be,"
                f" `ABOVE` in tests/house/test_field_lines.py takes the reason.{places}"
            )
        elif name in before and len(lines) < most:
            line = f"write `{name} = {len(lines)}` into" if len(lines) > BAR else f"take {name} out of"
            found.append(f"{name} stands on {len(lines)} lines now: {line} tests/house/field_lines.toml")
    return found


def test_the_list_is_shut() -> None:
    kept = written()
    assert len(kept) <= SHUT, "no name joins: say the field once, or give the reason in `ABOVE`"
    assert len(kept) == SHUT, f"a name has left: `SHUT` is {len(kept)} now"
    assert [name for name, number in kept.items() if number <= BAR] == []


def test_a_reason_is_of_a_field_that_needs_it() -> None:
    now = lines_of(frozenset(ABOVE))
    assert [name for name, lines in now.items() if len(lines) <= BAR] == [], "these are within the bar: take them out of `ABOVE`"
    above = {name for kind in HELD for name in own_fields(kind) if written().get(name, 0) > BAR}
    assert above <= ABOVE.keys()


def test_a_field_on_too_many_lines_is_told_where_it_stands() -> None:
    lines = [Line(f"core/{number}.py", number, "  worth: int") for number in range(1, BAR + 2)]
    (fault,) = faults({"net_worth": "voucher"}, {}, {"net_worth": lines})
    assert fault.startswith("net_worth of the noun `voucher` is declared or copied on 13 lines, and 12 are enough. Say it once:")
    assert fault.endswith("\n  core/13.py:13: worth: int")
    assert faults({"net_worth": "voucher"}, {"net_worth": 20}, {"net_worth": lines}) == [
        "net_worth stands on 13 lines now: write `net_worth = 13` into tests/house/field_lines.toml"
    ]
    assert faults({"net_worth": "voucher"}, {"net_worth": 20}, {"net_worth": lines[:12]}) == [
        "net_worth stands on 12 lines now: take net_worth out of tests/house/field_lines.toml"
    ]
    assert faults({"issues": "voucher"}, {}, {"issues": lines}) == []
    assert faults({"net_worth": "voucher"}, {"net_worth": 13}, {"net_worth": lines}) == []


def write() -> None:
    """Raises no number, and adds no name."""
    nouns, before = nouns_of_fields(), written()
    numbers = {name: min(before[name], len(lines)) for name, lines in lines_of(nouns).items() if name in before and len(lines) > BAR}
    sections = [
        "\n".join((f'["{noun.name}"]', *(f"{name} = {numbers[name]}" for name in names)))
        for noun in NOUNS
        if (names := [name for name, of in nouns.items() if of == noun.name and name in numbers])
    ]
    FILE.write_text("\n\n".join((_HEAD.strip(), *sections)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()

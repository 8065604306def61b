"""What paths ask for and what the application is told: rows on the page, lines for everybody else, and both say the same."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import BadRequest
from core.domain.services.proxies import DemandKind, ProxySettings, TellingPart, parsed_header, parsed_rule
from entrypoints.http.console.kit.rows import Row, cut, joined
from entrypoints.http.console.kit.sent_forms import SeveralFaults
from entrypoints.http.console.organization.applications.proxy.proxy_rows import (
    HEADER_ROWS,
    RULE_ROWS,
    header_rows,
    headers_of,
    rule_rows,
    rules_of,
)
from tests.http.pages.console.applications.conftest import made
from tests.http.pages.console.conftest import ConsoleScene

_WORDS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_PATHS: Final = st.one_of(_WORDS, st.text("/abä.~ \t\u00a0", max_size=12).map(lambda text: f"/{text}"))
_ASKS: Final = st.sampled_from(["", *DemandKind])


@given(st.lists(st.builds(lambda path, asks, name: " ".join(filter(None, (path, asks, name))), _PATHS, _ASKS, _WORDS)))
def test_every_line_of_a_rule_can_be_said_in_a_row_and_comes_back(drawn: list[str]) -> None:
    kept = list[str]()
    for line in drawn:
        try:
            rule = parsed_rule(line)
        except BadRequest:
            continue
        kept.append(f"{rule.path} {rule.demand}")
    rows = rule_rows(ProxySettings(rules=kept))
    assert rules_of(as_sent(RULE_ROWS, rows)) == {"rules": kept}


@given(st.lists(st.fixed_dictionaries({"path": _PATHS, "asks": _ASKS, "name": _WORDS})))
def test_a_row_of_a_rule_is_refused_or_comes_back_as_it_was(drawn: list[Row]) -> None:
    for row in as_sent(RULE_ROWS, drawn):
        try:
            (line,) = rules_of([row])["rules"]
        except SeveralFaults:
            continue
        try:
            rule = parsed_rule(line)
        except BadRequest:
            # The endpoint's own words about this path.
            continue
        asks = DemandKind.SIGNED_IN if row["asks"] == "" else row["asks"]
        assert (rule.path, rule.demand.kind, rule.demand.name) == (row["path"].removesuffix("/") or "/", asks, row["name"])
        (back,) = rule_rows(ProxySettings(rules=[line]))
        assert {**back, "asks": back["asks"] or DemandKind.SIGNED_IN} == {**row, "asks": asks}


@given(st.lists(st.builds(lambda name, tells: f"{name} {tells}", st.from_regex(r"[A-Z][a-z]*(-[A-Z0-9]+)*"), st.sampled_from(TellingPart))))
def test_every_line_of_a_header_can_be_said_in_a_row_and_comes_back(drawn: list[str]) -> None:
    kept = list[str]()
    for line in drawn:
        try:
            header = parsed_header(line)
        except BadRequest:
            continue
        kept.append(f"{header.name} {header.part}")
    rows = header_rows(ProxySettings(headers=kept))
    assert headers_of(as_sent(HEADER_ROWS, rows)) == {"headers": kept}


@given(st.fixed_dictionaries({"name": _WORDS, "tells": st.sampled_from(["", *TellingPart])}))
def test_a_row_of_a_header_is_refused_or_comes_back_as_it_was(drawn: Row) -> None:
    for row in as_sent(HEADER_ROWS, [drawn]):
        try:
            lines = headers_of([row])["headers"]
            header = parsed_header(*lines)
        except (SeveralFaults, BadRequest):
            continue
        assert {"name": header.name, "tells": header.part} == row
        assert header_rows(ProxySettings(headers=lines)) == [row]


def as_sent(rows: Any, each: Any) -> Any:
    """As the browser sends them."""
    return cut(rows, joined(rows, each))


async def behind(console: ConsoleScene) -> str:
    return f"{await made(console, 'Wiki', kind='proxy', addresses='')}/proxy"


async def change(console: ConsoleScene, at: str, **fields: Any) -> None:
    await console.at(f"{at}/change")
    await console.submit(f"{at}/change", **fields)


def kept(console: ConsoleScene) -> dict[str, Any]:
    rows = console.people.rows("select rules, headers from proxies")
    return rows[0] if rows else {}


async def test_rows_become_the_lines_that_the_api_has(console: ConsoleScene) -> None:
    at = await behind(console)
    await change(console, at, rules=["/public", "open", "", "/", "", ""], headers=["Remote-User", "email", "X-Team", "groups"])
    assert console.tab.status == 200
    assert kept(console) == {"rules": ["/public open", "/ signed_in"], "headers": ["Remote-User email", "X-Team groups"]}
    page = console.tab.page.text
    assert "/public None (public)" in page
    assert "X-Team Teams" in page
    # The form shows what the lines say, and an empty row at the end is none.
    await console.at(f"{at}/change")
    fields = console.fields(f"{at}/change").fields
    assert fields["rules"] == ["/public", "open", "", "/", "", ""]
    await change(console, at, rules=["/public", "open", "", "", "", ""])
    assert kept(console)["rules"] == ["/public open"]


@pytest.mark.parametrize(
    ("rules", "place", "said"),
    [
        (["", "open", ""], "rules-1-path", "Enter text"),
        (["/x role", "open", ""], "rules-1-path", "This rule can never match"),
        (["/x//y", "open", ""], "rules-1-path", "This rule can never match"),
        (["/x", "", "", "/.postern/x", "open", ""], "rules-2-path", "reserved for Postern, so this rule can never match"),
        (["/x", "", "", "/X", "open", ""], "rules-2-path", "Another rule already has this path"),
        (["/x", "role", ""], "rules-1-name", "Enter text"),
        (["/x", "role", "editor admin"], "rules-1-name", "does not have this role or permission"),
        (["/x", "role", "nobody"], "rules-1-name", "does not have this role or permission"),
        (["/x", "", "editor"], "rules-1-name", "A name applies only to a role or permission"),
        (["/x", "whatever", ""], "rules-1-asks", "Choose an entry from the list"),
    ],
)
async def test_a_refused_rule_is_said_at_its_field(rules: list[str], place: str, said: str, console: ConsoleScene) -> None:
    at = await behind(console)
    await change(console, at, rules=rules)
    assert console.tab.status == 400
    body = console.tab.shown.body.decode()
    assert f'id="{place}-error"' in body
    assert said in console.tab.page.text
    # A choice that the form does not have is the first one again.
    assert console.fields(f"{at}/change").fields["rules"] == ["" if one == "whatever" else one for one in rules]
    assert kept(console).get("rules", []) == []


@pytest.mark.parametrize(
    ("headers", "place", "said"),
    [
        (["", "email"], "headers-1-name", "Enter text"),
        (["X User", "email"], "headers-1-name", "Enter a header of letters"),
        (["X-User", ""], "headers-1-tells", "Choose an entry from the list"),
        (["X-User", "email", "Cookie", "id"], "headers-2-name", "used by proxies, browsers or Postern. Choose another name"),
        (["Remote-User", "name"], "headers-1-tells", "people choose their own names"),
    ],
)
async def test_a_refused_header_is_said_at_its_field(headers: list[str], place: str, said: str, console: ConsoleScene) -> None:
    at = await behind(console)
    await change(console, at, headers=headers)
    assert console.tab.status == 400
    assert f'id="{place}-error"' in console.tab.shown.body.decode()
    assert said in console.tab.page.text


async def test_all_faults_of_both_lists_are_said_at_once(console: ConsoleScene) -> None:
    at = await behind(console)
    await change(console, at, rules=["", "open", "", "/x", "role", ""], headers=["X-User", ""])
    body = console.tab.shown.body.decode()
    for place in ("rules-1-path", "rules-2-name", "headers-1-tells"):
        assert f'id="{place}-error"' in body, place


async def test_rows_are_added_and_taken_away_without_scripts(console: ConsoleScene) -> None:
    at = await behind(console)
    await change(console, at, rules=["/x", "open", ""], pressed="rules add")
    assert console.fields(f"{at}/change").fields["rules"] == ["/x", "open", "", "", "", ""]
    await console.submit(f"{at}/change", rules=["/x", "open", "", "/y", "", ""], pressed="rules 1")
    assert console.fields(f"{at}/change").fields["rules"] == ["/y", "", ""]
    assert kept(console).get("rules", []) == []


async def test_another_organization_reads_and_changes_nothing(console: ConsoleScene) -> None:
    at = await behind(console)
    _, tab = console.stranger()
    assert (await tab.open(f"/ui/o/acme{at}/change")).status == 403
    assert (await console.colleague().open(f"/ui/o/acme{at}/change")).status == 403

"""The console's page of the rules for risk of the installation: written, seen, counted, and excepted, without scripts."""

from tests.http.browsing import Tab
from tests.http.pages.console.platform.conftest import PlatformScene

PAGE = "/ui/platform/risk"


async def send(platform: PlatformScene, to: str, **fields: str | list[str]) -> Tab:
    number = next(number for number, one in enumerate(platform.tab.page.forms) if one.action == to)
    return await platform.tab.send(number, **fields)


async def test_a_platform_owner_writes_a_rule_lets_it_count_and_makes_an_exception(platform: PlatformScene) -> None:
    assert "No risk policies yet" in (await platform.at("/risk")).page.text
    await platform.at("/risk/rule")
    page = (await send(platform, f"{PAGE}/rule", name="Only from here", action="refuse", except_networks="198.51.100.0/24")).page
    assert "Report-only" in page.text
    assert "This policy would have denied your own sign-in." in page.text
    await platform.at("/risk/rule")
    await send(platform, f"{PAGE}/rule", name="Never", action="refuse", networks="10.0.0.0/8", except_networks="10.0.0.0/8")
    assert "can never match" in platform.tab.page.text
    await platform.at("/risk")
    platform.people.add("ada@home.example")
    for who, says in (("nobody@home.example", "No account has this email address. Enter another."), ("ada@home.example", "")):
        page = (await send(platform, f"{PAGE}/exceptions", exceptions=[who, "", "2100-01-31"])).page
        assert says in page.text
    (row,) = platform.people.rows("select exceptions from installation_risk_policies")
    assert row["exceptions"][0]["ends_at"] == "2100-02-01T00:00:00+00:00"
    page = (await send(platform, f"{PAGE}/act", act="count")).page
    assert "Enforced" in page.text
    assert "ada@home.example" in str(page.forms)

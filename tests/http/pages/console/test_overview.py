"""The overview of an organization."""

from datetime import date, timedelta

from core.domain.languages import Language
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.console.charts import line_chart
from tests.http.pages.console.conftest import ConsoleScene


async def test_the_overview_says_what_needs_a_decision_and_leads_there(console: ConsoleScene) -> None:
    console.tenants.service(console.acme, "board")
    tab = await console.at()
    assert tab.status == 200
    assert "Nothing waits for a decision" in tab.page.text
    console.people.change("update organizations set mfa_required_since = now(), mfa_grace_days = 7")
    tab = await console.at()
    assert "One member has no second factor" in tab.page.text
    assert "/ui/o/acme/people" in tab.page.links


async def test_an_organization_that_is_not_active_shows_why_and_no_figures(console: ConsoleScene) -> None:
    console.people.change("update organizations set status = 'suspended'")
    tab = await console.at()
    assert tab.status == 200
    assert "is suspended" in tab.page.text
    assert b"chart" not in tab.shown.body


async def test_a_plain_member_sees_figures_and_no_matters(console: ConsoleScene) -> None:
    tab = await console.colleague().open("/ui/o/acme")
    assert tab.status == 200
    assert "needs a decision" not in tab.page.text
    # What a member may not open is not in the side list.
    assert "/ui/o/acme/keys" not in tab.page.links
    assert "/ui/o/acme/people" in tab.page.links


async def test_strangers_and_people_who_are_not_signed_in(console: ConsoleScene) -> None:
    _, stranger = console.stranger()
    assert (await stranger.open("/ui/o/acme")).status == 403
    assert (await stranger.open("/ui/o/nowhere")).status == 404
    console.tabs.cookies.clear()
    assert (await console.at()).place.startswith("/ui/sign-in?to=/ui/o/acme")


async def test_the_search_finds_people_applications_and_teams_by_name_address_and_id(console: ConsoleScene) -> None:
    console.tenants.service(console.acme, "shop")
    mary = console.people.add("mary@acme.example")
    console.tenants.join(mary, console.acme)
    for sought, place in (("mary@", f"/ui/o/acme/people/{mary.user}"), ("sho", "/ui/o/acme/applications/shop")):
        tab = await console.at(f"/search?q={sought}")
        assert tab.status == 200
        assert place in tab.page.links
    assert (await console.at(f"/search?q={mary.user}")).place == f"/ui/o/acme/people/{mary.user}"
    tab = await console.at("/search?q=%3Cb%3Enobody")
    assert "Nothing has “<b>nobody”" in tab.page.text
    # Another organization's people are not found.
    other = console.people.add("zoe@globex.example")
    console.tenants.join(other, console.tenants.add("globex"))
    assert str(other.user) not in (await console.at("/search?q=zoe")).shown.body.decode()
    assert (await console.at(f"/search?q={other.user}")).place == f"/ui/o/acme/search?q={other.user}"


def test_the_first_day_of_a_chart_has_its_month() -> None:
    text = shipped_pages().text(Language.ENGLISH)
    chart = line_chart([(date(2026, 10, 27) + timedelta(days=day), day) for day in range(30)], text)
    assert [mark.label for mark in chart.days] == ["Wed 25", "Wed 18", "Wed 11", "Wed 4", "Wed 28 Oct"]

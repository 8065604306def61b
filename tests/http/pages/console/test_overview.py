"""The overview of an organization."""

from datetime import date, timedelta

from core.domain.languages import Language
from entrypoints.http.console.kit.charts import NARROW, line_chart
from entrypoints.http.pages.kit import shipped_pages
from tests.http.pages.console.conftest import ConsoleScene


async def test_the_overview_says_what_needs_a_decision_and_leads_there(console: ConsoleScene) -> None:
    console.tenants.service(console.acme, "board")
    tab = await console.at()
    assert tab.status == 200
    assert "Nothing needs attention" in tab.page.text
    console.people.change("update organizations set mfa_required_since = now(), mfa_grace_days = 7")
    tab = await console.at()
    assert "One member has not set up the MFA that your rules require" in tab.page.text
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
        tab = await console.asks(sought)
        assert tab.status == 200
        assert place in tab.page.links
    assert f"/ui/o/acme/people/{mary.user}" in (await console.asks(str(mary.user))).page.links
    tab = await console.asks("<b>quux")
    assert "No results for “<b>quux”" in tab.page.text
    # Another organization's people are not found.
    other = console.people.add("zoe@globex.example")
    console.tenants.join(other, console.tenants.add("globex"))
    assert str(other.user) not in (await console.asks("zoe")).shown.body.decode()
    assert f"/ui/o/acme/people/{other.user}" not in (await console.asks(str(other.user))).page.links


async def test_the_search_finds_end_users_and_pages_by_their_title_in_the_language(console: ConsoleScene) -> None:
    zoe = console.people.add("zoe@customers.example")
    console.tenants.uses(zoe, console.tenants.service(console.acme, "shop"))
    tab = await console.asks("ZOE@")
    assert f"/ui/o/acme/people/users/{zoe.user}" in tab.page.links
    assert "No results" not in tab.page.text
    tab = await console.asks("settin")
    assert {"/ui/o/acme/settings", "/ui/o/acme/settings/looks", "/ui/o/acme/settings/danger/delete"} <= set(tab.page.links)
    tab = await console.asks("ends soon")
    assert "/ui/o/acme/ends-soon" in tab.page.links
    console.people.change("update users set language = 'de' where id = %s", console.ada.user)
    tab = await console.asks("einstell")
    assert "/ui/o/acme/settings/looks" in tab.page.links


async def test_an_empty_search_says_what_can_be_found_and_shows_the_pages(console: ConsoleScene) -> None:
    tab = await console.asks(" ")
    assert "Enter a task" in tab.page.text
    assert {"/ui/o/acme/people/teams", "/ui/o/acme/sign-ins", "/ui/o/acme/settings/danger/delete"} <= set(tab.page.links)
    member = console.colleague()
    await member.open("/ui/o/acme/search")
    assert "/ui/o/acme/settings/danger/delete" not in member.page.links


async def test_a_member_finds_only_what_they_may_list(console: ConsoleScene) -> None:
    console.people.change(
        "insert into webhooks (id, org_id, name, url, events, sealed_secret, created_at, updated_at)"
        " values (%s, %s, 'CRM', 'https://crm.example', '{user.joined}', '', now(), now())",
        console.postern.foundation.ids.new(),
        console.acme.id,
    )
    tab = await console.asks("crm")
    assert "Webhooks" in tab.page.text
    assert "No results" not in tab.page.text
    member = await console.asks("crm", console.colleague())
    assert "No results for “crm”" in member.page.text


async def test_few_applications_stand_on_the_overview_by_name(console: ConsoleScene) -> None:
    for number in range(8):
        console.tenants.service(console.acme, f"shop-{number}")
    tab = await console.at()
    assert {f"/ui/o/acme/applications/shop-{number}" for number in range(8)} <= set(tab.page.links)
    console.tenants.service(console.acme, "shop-8")
    assert "/ui/o/acme/applications/shop-0" not in (await console.at()).page.links


async def test_the_chart_shows_failures_beside_sign_ins_from_the_first_attempt_on(console: ConsoleScene) -> None:
    assert b'class="chart"' not in (await console.at()).shown.body
    console.people.change(
        "insert into login_events (id, user_id, organization_id, provider, success, created_at)"
        " select %s, %s, %s, 'password', false, now()",
        console.postern.foundation.ids.new(),
        console.ada.user,
        console.acme.id,
    )
    tab = await console.at()
    assert b'<polyline class="beside"' in tab.shown.body
    assert "Failed sign-ins" in tab.page.text


def test_the_axis_of_a_chart_has_thirty_days_whatever_is_known() -> None:
    text = shipped_pages().text(Language.ENGLISH)
    newest = date(2026, 11, 25)
    for known in (30, 2):
        chart = line_chart([(newest - timedelta(days=back), back) for back in range(known - 1, -1, -1)], text)
        assert [mark.label for mark in chart.days] == ["25 Nov", "18 Nov", "11 Nov", "4 Nov", "28 Oct"]
        assert len(chart.line.split()) == known
    narrow = line_chart([(newest - timedelta(days=1), 1), (newest, 2)], text, width=NARROW)
    assert [mark.label for mark in narrow.days] == ["25 Nov", "11 Nov", "28 Oct"]

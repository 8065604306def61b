"""The overview of an organization."""

from tests.http.pages.console.conftest import ConsoleScene


async def test_the_overview_says_what_needs_a_decision_and_leads_there(console: ConsoleScene) -> None:
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

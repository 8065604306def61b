"""The pages of who can open an application, and of what a person can open."""

from tests.http.pages.console.applications.conftest import made
from tests.http.pages.console.conftest import ConsoleScene


async def test_both_pages_say_the_rule_and_what_is_held(console: ConsoleScene) -> None:
    board = await made(console, "Board", "web", "https://board.example.com/callback", "members")
    grace = console.people.add("grace@example.org")
    console.tenants.join(grace, console.acme, "member", listed=True)
    assert f"/ui/o/acme{board}/who" in (await console.at(f"{board}/access")).page.links
    tab = await console.at(f"{board}/who")
    assert "Who can sign in to Board?" in tab.page.text
    assert "grace@example.org" in tab.page.text
    assert "Members can sign in to the application, and this person is a member." in tab.page.text
    assert tab.page.text.count("A setting outside this organization can still block this person.") == 1
    assert f"/ui/o/acme/people/users/{grace.user}" in tab.page.links
    assert f"/ui/o/acme/people/users/{grace.user}/opens" in (await console.at(f"/people/{grace.user}")).page.links
    tab = await console.at(f"/people/users/{grace.user}/opens")
    assert "Which applications can grace@example.org sign in to?" in tab.page.text
    assert "Board" in tab.page.text
    assert "A setting outside this organization can still block this person." in tab.page.text


async def test_the_next_fifty_stand_behind_a_link_and_an_empty_page_says_what_would_be_here(console: ConsoleScene) -> None:
    board = await made(console, "Board", "web", "https://board.example.com/callback", "members")
    for number in range(50):
        person = console.people.add(f"m{number}@example.org")
        console.tenants.join(person, console.acme, "member")
    tab = await console.at(f"{board}/who")
    older = next(link for link in tab.page.links if f"{board}/who?after=" in link)
    await tab.open(older)
    assert tab.status == 200
    assert not any("after=" in link for link in tab.page.links)
    console.people.change("update services set sign_in_policy = 'assigned'")
    assert "No one has access yet" in (await console.at(f"{board}/who")).page.text


async def test_others_find_neither_page(console: ConsoleScene) -> None:
    board = await made(console, "Board", "web", "https://board.example.com/callback", "members")
    _, stranger = console.stranger()
    for place in (f"{board}/who", f"/people/users/{console.ada.user}/opens"):
        assert (await stranger.open(f"/ui/o/acme{place}")).status == 403
        assert (await stranger.open(f"/ui/o/globex{place}")).status == 404
        assert (await console.colleague().open(f"/ui/o/acme{place}")).status == 403

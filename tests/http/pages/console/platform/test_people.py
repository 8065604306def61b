"""What platform owners do for people, and against somebody else in their account."""

import pytest

from core.usecases.platform import account_administration
from tests.http.pages.console.platform.conftest import HOME, PlatformScene
from tests.security.pages.test_guesses import FAILURES, guess, set_up, stuff


def one(platform: PlatformScene) -> str:
    return f"/people/{platform.ada.user}"


def actions(platform: PlatformScene, like: str = "user.%") -> list[str]:
    return [row["action"] for row in platform.audited(like) if row["actor_id"] == platform.grace.user]


async def test_what_was_guessed_over_many_accounts_and_at_one_is_shown(platform: PlatformScene) -> None:
    pauses = set_up(platform.postern)
    page = f"{HOME}/people/second-factors"
    assert "Credential stuffing" not in (await platform.at("/people/second-factors")).page.text
    await stuff(platform.postern, FAILURES + 1)
    for number in range(25):
        await guess(platform.postern, platform.ada.email, f"a guess {number}", address=f"198.51.{number}.1")
    shown = (await platform.at("/people/second-factors")).page
    for words in (
        "Credential stuffing",
        "Many accounts tried from one network",
        "192.0.2.0/24",
        "One password tried on many accounts (password spraying)",
        "Many passwords tried on one account",
    ):
        assert words in shown.text, words
    assert (platform.tab.place, len(pauses.waited)) == (page, 1)
    assert f"{HOME}{one(platform)}" in shown.links


async def test_people_are_found_by_address_and_by_id(platform: PlatformScene) -> None:
    address = f"{HOME}{one(platform)}"
    for search in ("ADA@", str(platform.ada.user)):
        tab = await platform.at(f"/people?search={search}")
        assert address in tab.page.links
        assert f"{HOME}/people/{platform.grace.user}" not in tab.page.links
    assert "No results" in (await platform.at("/people?search=nobody@")).page.text


async def test_a_look_at_a_person_is_recorded(platform: PlatformScene) -> None:
    tab = await platform.at(one(platform))
    assert platform.ada.email in tab.page.text
    assert "acme" in tab.page.text
    assert actions(platform) == ["user.viewed"]


async def test_a_person_is_deactivated_and_reactivated(platform: PlatformScene) -> None:
    tab = await platform.answer(f"{one(platform)}/deactivate")
    assert "Deactivated" in tab.page.text
    assert (await platform.acmes.open("/ui/organizations")).place.startswith("/ui/sign-in")
    await platform.answer(f"{one(platform)}/reactivate")
    assert actions(platform, "user.%activated") == ["user.deactivated", "user.activated"]


async def test_nobody_ends_their_own_access_or_that_of_the_last_owner(platform: PlatformScene) -> None:
    own = f"/people/{platform.grace.user}"
    tab = await platform.at(own)
    assert not [link for link in tab.page.links if link.startswith(f"{HOME}{own}/") and not link.endswith(("/sessions", "/fields"))]
    for act in ("deactivate", "reset-access", "demote", "sessions/end"):
        tab = await platform.answer(f"{own}/{act}")
        assert tab.status == 400, act
    assert platform.people.rows("select from users where deactivated_at is not null") == []


async def test_a_reset_of_access_mails_a_link_and_shows_none(platform: PlatformScene) -> None:
    tab = await platform.answer(f"{one(platform)}/reset-access")
    assert tab.place.endswith("?done=console.people.reset_access")
    assert "token=" not in tab.page.text
    assert len(platform.people.rows("select from jobs where kind = 'mail'")) == 1
    # It stands in the installation's log, and in that of each organization of the person.
    told = platform.audited("security.password.changed")
    assert {(row["actor_id"], row["details"]["link"]) for row in told} == {(platform.grace.user, "mailed")}
    assert {row["organization_id"] for row in told} == {None, platform.acme.id}


async def test_a_second_factor_is_removed_for_a_reason(platform: PlatformScene) -> None:
    await platform.has_second_factor_of_ada()
    tab = await platform.at(one(platform))
    assert f"{HOME}{one(platform)}/remove-factor" in tab.page.links
    assert (await platform.answer(f"{one(platform)}/remove-factor", reason=" ")).status == 400
    await platform.answer(f"{one(platform)}/remove-factor", reason="Lost the phone")
    assert platform.people.rows("select from mfa_secrets") == []


async def test_sessions_are_listed_and_ended(platform: PlatformScene) -> None:
    tab = await platform.at(f"{one(platform)}/sessions")
    action = f"{HOME}{one(platform)}/sessions/{platform.ada.session}/end"
    assert action in [form.action for form in tab.page.forms]
    form = next(form for form in tab.page.forms if form.action == action)
    for _ in range(2):
        tab = await platform.tab._go("POST", action, form.fields)
        assert tab.place.endswith("/sessions?done=console.people.end_session")
    assert (await platform.acmes.open("/ui/organizations")).place.startswith("/ui/sign-in")
    # A session of somebody else is none of this person's.
    other = f"{HOME}{one(platform)}/sessions/{platform.grace.session}/end"
    assert (await platform.tab._go("POST", other, form.fields)).status == 404


async def test_all_sessions_are_ended(platform: PlatformScene) -> None:
    await platform.answer(f"{one(platform)}/sessions/end")
    assert platform.people.rows("select from sessions where user_id = %s and revoked_at is null", platform.ada.user) == []


async def test_owners_are_made_and_unmade(platform: PlatformScene) -> None:
    await platform.answer(f"{one(platform)}/promote")
    tab = await platform.at("/people/owners")
    assert f"{HOME}{one(platform)}" in tab.page.links
    await platform.answer(f"{one(platform)}/demote")
    tab = await platform.at("/people/owners")
    assert f"{HOME}{one(platform)}" not in tab.page.links
    assert [row["action"] for row in platform.audited("platform.owner.%")] == ["platform.owner.created", "platform.owner.removed"]


async def test_fields_of_the_installation_are_declared_and_written(platform: PlatformScene) -> None:
    await platform.at("/fields/~new")
    tab = await platform.send_to(
        f"{HOME}/fields/~new", key="staff_number", label="Staff number", kind="text", rule__max_length__text="5", written_by="administrator"
    )
    assert tab.place == f"{HOME}/fields/staff_number?done=made", tab.page.text
    # The form of its bounds has those of its kind alone, with those that are set.
    form = next(form for form in tab.page.forms if form.action.endswith("/rule"))
    assert {name: value for name, value in form.fields.items() if name.startswith("rule__")} == {
        "rule__min_length": "",
        "rule__max_length__text": "5",
    }
    await platform.at(f"{one(platform)}/fields")
    tab = await platform.send_to(f"{HOME}{one(platform)}/fields", values="123456")
    assert tab.status == 400
    tab = await platform.send_to(f"{HOME}{one(platform)}/fields", values="A-17")
    assert tab.place.endswith("/fields?done=saved")
    assert "A-17" in tab.page.inputs["values"].values()


async def test_an_old_proof_is_asked_for_anew(platform: PlatformScene) -> None:
    platform.grow_old()
    for place in (f"{one(platform)}/deactivate", f"{one(platform)}/reset-access", "/signing-keys/rotate"):
        # Without a password of her own, she proves who she is by signing in once more.
        assert (await platform.at(place)).place.startswith("/ui/sign-in/password"), place


async def test_the_platform_is_searched_for_people_organizations_applications_and_pages(platform: PlatformScene) -> None:
    platform.tenants.service(platform.acme, "webshop")
    platform.people.change("update users set name = 'Ada Lovelace' where id = %s", platform.ada.user)
    for sought, place in (
        ("ovela", f"/ui/platform/people/{platform.ada.user}"),
        ("cme", f"/ui/platform/organizations/{platform.acme.id}"),
        # Of an application: the page of its organization.
        ("bsho", f"/ui/platform/organizations/{platform.acme.id}"),
        ("health", "/ui/platform/health"),
        ("settings", "/ui/platform/settings"),
    ):
        tab = await platform.asks(sought)
        assert place in tab.page.links, sought
        assert "No results" not in tab.page.text
    assert f"/ui/platform/people/{platform.ada.user}" in (await platform.asks(str(platform.ada.user))).page.links
    assert "No results for “<b>x”" in (await platform.asks("<b>x")).page.text
    tab = await platform.at("/search")
    assert "Enter a task" in tab.page.text
    assert {"/ui/platform/health", "/ui/platform/people/owners"} <= set(tab.page.links)
    assert f"/ui/platform/people/{platform.ada.user}" in (await platform.at("/people?search=LOVEL")).page.links


async def test_pages_say_when_a_search_has_not_read_everybody(platform: PlatformScene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "newest" not in (await platform.asks("a")).page.text
    monkeypatch.setattr(account_administration, "MOST_READ", 1)
    assert "The search covered only the newest people" in (await platform.asks("a")).page.text
    assert "The search covered the newest" in (await platform.at("/people?search=a")).page.text


async def test_a_link_that_waits_is_said_by_what_it_is_for(platform: PlatformScene) -> None:
    """Declared fields have a value of the same name, which is no purpose."""
    link = await platform.postern.identity.sign_in_links.issue(platform.postern.foundation.email_syntax.parse(platform.grace.email))
    platform.log.remember(link.reveal())
    shown = (await platform.at(f"/people/{platform.grace.user}")).page.text
    assert "Sign-in link from an operator" in shown
    assert "At the next sign-in" not in shown

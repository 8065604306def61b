"""Whose password reaches which directory, and where a password of a directory never stays."""

from typing import Any
from uuid import UUID

import pytest

from core.domain.identity.sign_in_domains import LoginPolicy
from ops.browser.page_reader import PageReader
from tests.http.ldap.scene import PASSWORD, LdapScene
from tests.http.people import BASE_URL
from tests.http.routing import route

OURS = "the password of her account here"


def everything(scene: LdapScene) -> str:
    """Every row of every table, as text."""
    names = [row["name"] for row in scene.people.rows("select tablename as name from pg_tables where schemaname = 'public'")]
    return "\n".join(str(scene.people.rows(f'select one::text as row from "{name}" as one')) for name in names)


@pytest.mark.parametrize("policy", list(LoginPolicy))
async def test_no_password_of_ours_reaches_a_directory(scene: LdapScene, policy: LoginPolicy) -> None:
    """Whatever the route's policy, and whether the directory answers: at the API, on the page, at a reset, and as a proof."""
    provider = await scene.active()
    route(scene.people, scene.acme, "example.org", provider=None, own=UUID(provider), login=policy)
    scene.verified("ada@example.org")
    scene.log.remember(OURS)
    scene.log.allow("password_hash_corrupted")
    scene.directory.binds.clear()
    for is_away in (False, True):
        scene.directory.is_away = is_away
        for email in ("ada@example.org", "nobody@example.org"):
            body = {"email": email, "password": OURS}
            await scene.unlimited.request("POST", "/api/auth/login", body=body)
            tabs = scene.browser()
            first = await tabs.request("GET", "/ui/sign-in")
            form = PageReader(first.body).forms[0]
            page = await tabs.request("POST", form.action, {**form.fields, "email": email})
            for one in PageReader(page.body).forms:
                if "password" in one.fields:
                    await tabs.request("POST", one.action, {**one.fields, "password": OURS})
    assert OURS.encode() not in scene.directory.passwords()
    assert not [dn for dn, _ in scene.directory.binds if dn.startswith("uid=")]


async def test_the_apis_sign_in_takes_no_password_of_a_directory(scene: LdapScene) -> None:
    provider = await scene.active()
    assert (await scene.arrive(scene.browser(), provider)).status == 303
    scene.directory.binds.clear()
    body = {"email": "ada@example.org", "password": PASSWORD}
    assert (await scene.unlimited.request("POST", "/api/auth/login", body=body)).status == 401
    assert scene.directory.binds == []


async def test_a_password_of_a_directory_stays_nowhere(scene: LdapScene, caplog: pytest.LogCaptureFixture) -> None:
    provider = await scene.active()
    await scene.arrive(scene.browser(), provider)
    await scene.arrive(scene.browser(), provider, password=f"{PASSWORD} mistyped")
    await scene.keep_recorded()
    kept = everything(scene)
    assert PASSWORD not in kept
    assert PASSWORD not in caplog.text
    (account,) = scene.people.rows("select password_hash from users where email = 'ada@example.org'")
    assert account["password_hash"] is None


@pytest.mark.parametrize(
    "name",
    ["*", "a*", "ada)(uid=*", "*)(&", "\\2a", "ada\\", "(uid=ada)", "ada,ou=people", "\u202eada", chr(0xFF41) + "da"],
)
async def test_nothing_in_a_name_is_more_than_a_name(scene: LdapScene, name: str) -> None:
    provider = await scene.active()
    scene.directory.searches.clear()
    answer = await scene.arrive(scene.browser(), provider, name)
    assert answer.status == 400
    compared = scene.directory.searches[0] if scene.directory.searches else []
    assert [value for attribute, value in compared if attribute == "uid"] in ([name.encode()], [])
    assert not [dn for dn, _ in scene.directory.binds if dn.startswith("uid=ada,")]


async def test_a_directory_vouches_in_proved_domains_alone(scene: LdapScene) -> None:
    """Also for people of another organization, and for an address that somebody has proved."""
    mine = scene.verified("grace@elsewhere.example")
    scene.directory.add("grace", mail="grace@elsewhere.example")
    provider, tabs = await scene.active(), scene.browser()
    answer = await scene.arrive(tabs, provider, "grace")
    assert answer.status == 400, answer.body
    assert await scene.who(tabs) is None
    assert [one for one in scene.identities() if one["user_id"] == mine.user] == []


async def test_another_who_got_the_old_address_is_another(scene: LdapScene) -> None:
    provider, hers, his = await scene.active(), scene.browser(), scene.browser()
    await scene.arrive(hers, provider)
    ada, bob = scene.directory.people
    ada.attributes = {**ada.attributes, "mail": [b"ada.l@example.org"]}
    bob.attributes = {**bob.attributes, "mail": [b"ada@example.org"]}
    await scene.arrive(his, provider, "bob")
    assert await scene.who(his) != await scene.who(hers)


async def test_an_answer_serves_once_and_in_its_browser(scene: LdapScene) -> None:
    provider, tabs, other = await scene.active(), scene.browser(), scene.browser()
    typed = await scene.type(tabs, await scene.page(tabs, provider), "ada", PASSWORD)
    address = PageReader(typed.body).refresh.removeprefix(BASE_URL)
    assert (await other.request("GET", address)).status == 400
    assert await scene.who(other) is None
    assert (await tabs.request("GET", address)).status == 303


async def test_a_directorys_form_of_another_site_is_refused(scene: LdapScene) -> None:
    provider, tabs = await scene.active(), scene.browser()
    page = await scene.page(tabs, provider)
    form = PageReader(page.body).forms[0]
    fields: dict[str, Any] = {**form.fields, "directory_name": "ada", "directory_password": PASSWORD, "form_token": "another"}
    assert (await tabs.request("POST", form.action, fields)).status in {400, 403}
    assert scene.directory.binds == []


async def test_a_sign_in_is_no_second_factor_and_no_password(scene: LdapScene) -> None:
    provider, tabs = await scene.active(), scene.browser()
    await scene.arrive(tabs, provider)
    user = await scene.who(tabs)
    (session,) = scene.people.rows("select authenticated_by, stated_at from sessions where user_id = %s", user)
    assert session["authenticated_by"] == ["fed"]
    assert session["stated_at"] is not None

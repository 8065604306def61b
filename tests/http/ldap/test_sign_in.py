"""Signing in with the password of a directory, on a page of its own."""

import pytest

from ops.browser.page_reader import PageReader
from tests.http.ldap.scene import PASSWORD, LdapScene
from tests.ldap.fake import BIND_DN, BIND_PASSWORD


async def test_a_person_of_the_directory_signs_in(scene: LdapScene) -> None:
    provider, tabs = await scene.active(), scene.browser()
    answer = await scene.arrive(tabs, provider)
    assert answer.status == 303, answer.body
    (identity,) = scene.identities()
    assert (identity["issuer"], identity["subject"]) == (f"urn:uuid:{provider}", "00000000-0000-4000-8000-000000000000")
    assert await scene.who(tabs) == identity["user_id"]
    assert scene.directory.binds == [(BIND_DN, BIND_PASSWORD.encode()), ("uid=ada,ou=people,dc=example,dc=org", PASSWORD.encode())]
    (session,) = scene.people.rows("select authenticated_by from sessions where user_id = %s", identity["user_id"])
    assert session["authenticated_by"] == ["fed"]
    (recorded, *_) = await scene.recorded(provider)
    assert (recorded["kind"], recorded["succeeded"]) == ("sign_in", True)


async def test_the_page_says_whose_password_it_wants(scene: LdapScene) -> None:
    provider, tabs = await scene.active(), scene.browser()
    page = await scene.page(tabs, provider)
    assert "not the password of your account here" in page.body.decode()
    # Browsers must not fill in the password of the account here.
    assert b'autocomplete="new-password"' in page.body
    assert b'name="password"' not in page.body


async def test_a_wrong_password_is_said_on_the_page_and_signs_nobody_in(scene: LdapScene) -> None:
    provider, tabs = await scene.active(), scene.browser()
    answer = await scene.arrive(tabs, provider, password="another password")
    assert answer.status == 400
    assert "did not accept this name and password" in answer.body.decode()
    assert await scene.who(tabs) is None
    again = await scene.type(tabs, answer, "ada", PASSWORD)
    assert again.status == 200
    (wrong,) = [one for one in await scene.recorded(provider) if one["fault"] == "wrong"]
    assert (wrong["times"], wrong["succeeded"]) == (1, False)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("530", "at this time"),
        ("531", "from here"),
        ("532", "has expired. Change it"),
        ("533", "is disabled"),
        ("701", "directory account has expired"),
        ("773", "must first change your password"),
        ("775", "did not accept this name and password"),
        ("525", "did not accept this name and password"),
    ],
)
async def test_what_the_directory_says_of_a_right_password_is_told(scene: LdapScene, data: str, words: str) -> None:
    said = f"80090308: LdapErr: DSID-0C090449, comment: AcceptSecurityContext error, data {data}, v4563"
    scene.directory.add("carol", refused_with=said)
    provider = await scene.active()
    answer = await scene.arrive(scene.browser(), provider, "carol")
    assert (answer.status, words in answer.body.decode()) == (400, True), answer.body
    # The administrator reads it in any case.
    (recorded, *_) = [one for one in await scene.recorded(provider) if not one["succeeded"]]
    assert f"data {data}" in recorded["reason"]


@pytest.mark.parametrize("password", ["", "\0", "a\0b", "x" * 2000])
async def test_a_password_that_is_none_reaches_no_directory(scene: LdapScene, password: str) -> None:
    provider = await scene.active()
    assert (await scene.arrive(scene.browser(), provider, password=password)).status == 400
    assert scene.directory.binds == []


@pytest.mark.parametrize("name", ["", "   ", "a\0da", "a" * 300])
async def test_a_name_that_is_none_reaches_no_directory(scene: LdapScene, name: str) -> None:
    provider = await scene.active()
    assert (await scene.arrive(scene.browser(), provider, name)).status == 400
    assert scene.directory.searches[-1:] != [[("uid", name.encode())]]
    assert scene.directory.binds == []


async def test_somebody_unknown_costs_the_directory_as_much(scene: LdapScene) -> None:
    provider = await scene.active()
    answer = await scene.arrive(scene.browser(), provider, "nobody")
    assert (answer.status, "did not accept" in answer.body.decode()) == (400, True)
    (_, (dn, password)) = scene.directory.binds
    assert dn.startswith("uid=")
    assert dn.endswith(",ou=people,dc=example,dc=org")
    assert password == PASSWORD.encode()


async def test_two_people_of_one_name_are_nobody(scene: LdapScene) -> None:
    provider = await scene.active()
    scene.directory.add("ada", dn="uid=ada,ou=people,ou=elsewhere,dc=example,dc=org")
    answer = await scene.arrive(scene.browser(), provider)
    assert (answer.status, len(scene.directory.binds)) == (400, 1)
    (recorded,) = [one for one in await scene.recorded(provider) if one["fault"] == "several"]
    assert "uid=ada,ou=people,dc=example,dc=org and uid=ada,ou=people,ou=elsewhere" in recorded["reason"]
    assert recorded["reference"] in answer.body.decode()


@pytest.mark.parametrize("values", [[], [b"one", b"two"]])
async def test_somebody_without_an_identity_is_nobody(scene: LdapScene, values: list[bytes]) -> None:
    provider = await scene.active()
    scene.directory.add("carol", attributes={"entryUUID": values})
    answer = await scene.arrive(scene.browser(), provider, "carol")
    assert (answer.status, len(scene.directory.binds)) == (400, 1)
    assert [one["fault"] for one in await scene.recorded(provider) if not one["succeeded"]] == ["no_identity"]


async def test_without_a_proved_domain_nobody_types_anything(scene: LdapScene) -> None:
    provider, tabs = await scene.active(), scene.browser()
    scene.people.change("delete from domains")
    page = await scene.page(tabs, provider)
    assert page.status == 400
    assert not [form for form in PageReader(page.body).forms if "directory_password" in page.body.decode()]


async def test_a_directory_that_was_turned_off_gets_no_password(scene: LdapScene) -> None:
    provider, tabs = await scene.active(), scene.browser()
    page = await scene.page(tabs, provider)
    (await scene.change(provider, enabled=False)).ok()
    assert (await scene.type(tabs, page, "ada", PASSWORD)).status == 400
    assert scene.directory.binds == []


async def test_another_browsers_page_takes_nothing(scene: LdapScene) -> None:
    provider, tabs, other = await scene.active(), scene.browser(), scene.browser()
    page = await scene.page(tabs, provider)
    await scene.page(other, provider)
    form = PageReader(page.body).forms[0]
    fields = {**form.fields, "directory_name": "ada", "directory_password": PASSWORD}
    assert (await other.request("POST", form.action, fields)).status in {400, 403}
    assert scene.directory.binds == []


async def test_who_changes_their_mind_gets_the_other_ways(scene: LdapScene) -> None:
    provider, tabs = await scene.active(), scene.browser()
    page = await scene.page(tabs, provider)
    cancel = next(link for link in PageReader(page.body).links if "access_denied" in link)
    assert (await tabs.request("GET", cancel)).status == 400
    # The state is used up: the page takes nothing any more.
    assert (await scene.type(tabs, page, "ada", PASSWORD)).status == 400
    assert scene.directory.binds == []


async def test_a_person_renamed_or_moved_stays_the_same(scene: LdapScene) -> None:
    provider, tabs = await scene.active(), scene.browser()
    await scene.arrive(tabs, provider)
    ada = scene.directory.people[0]
    ada.dn = "uid=ada.l,ou=elsewhere,dc=example,dc=org"
    ada.attributes = {**ada.attributes, "uid": [b"ada.l"], "mail": [b"ada.l@example.org"]}
    later = scene.browser()
    assert (await scene.arrive(later, provider, "ada.l")).status == 303
    assert await scene.who(later) == await scene.who(tabs)

"""A directory by LDAP, from draft to active: settings, the bind password and what it belongs to, the test, and the owner's word."""

from typing import Any

import pytest

from ops.browser.page_reader import PageReader
from tests.http.ldap.scene import PATH, LdapScene, own
from tests.http.people import BASE_URL
from tests.ldap.authority import Authority
from tests.ldap.fake import BIND_DN, BIND_PASSWORD, FakeLdap


async def test_a_directory_begins_as_a_draft_and_shows_no_password(scene: LdapScene) -> None:
    provider = await scene.draft()
    record = await scene.record(provider)
    assert (record["kind"], record["state"], record["has_secret"], record["client_id"]) == ("ldap", "draft", True, None)
    assert record["issuer"] == f"urn:uuid:{provider}"
    assert record["ldap"]["hosts"] == [f"ldaps://127.0.0.1:{scene.directory.port}"]
    assert BIND_PASSWORD not in str(record)
    (row,) = scene.people.rows("select sealed_bind_password as sealed from upstream_providers")
    assert BIND_PASSWORD.encode() not in row["sealed"]
    (created,) = [one for one in scene.told() if one["name"] == "organization.upstream_provider.created"]
    assert created["details"]["bind_dn"] == BIND_DN
    assert BIND_PASSWORD not in str(created)


@pytest.mark.parametrize(
    "changes",
    [
        {"hosts": ["ldap://dc1.example.org"]},
        {"hosts": ["ldap://localhost"]},
        {"hosts": ["dc1"]},
        {"bind_dn": "reader"},
        {"base_dn": "people"},
        {"person_filter": "(uid=*"},
        {"ca_certificates": "no certificate"},
        {"ca_certificates": "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----"},
        {"ca_certificates": "x" * 40_000},
        {"lockout_threshold": 2},
        {"client_id": "c"},
        {"issuer": "https://login.example.org"},
        {"sso_url": "https://login.example.org"},
        {"identity_attribute": "mail"},
        {"bind_password": "a\0b"},
        {"address_attribute": "userPassword"},
        {"person_filter": "(unicodePwd=a*)"},
        {"profile_mapping": {"msLAPS-Password;binary": "department"}},
    ],
)
async def test_what_cannot_be_used_is_refused(scene: LdapScene, changes: dict[str, Any]) -> None:
    assert (await scene.request("POST", PATH, scene.settings(**changes))).status == 400
    assert scene.directory.connections == 0


async def test_a_mapping_reads_no_credential(scene: LdapScene) -> None:
    """A manager alone could otherwise read the hashes of everybody in a field."""
    provider = await scene.active()
    manager = scene.resident(scene.acme, "admin", "manager")
    answer = await scene.change(provider, by=manager, profile_mapping={"USERPASSWORD": "department"})
    assert (answer.status, b"USERPASSWORD contains a credential" in answer.body) == (400, True)
    assert (await scene.record(provider))["profile_mapping"] == {}
    (await scene.change(provider, profile_mapping={"departmentNumber": "department"})).ok()


async def test_other_kinds_have_no_settings_of_ldap(scene: LdapScene) -> None:
    saml = {"name": "Other", "kind": "saml", "hosts": ["ldaps://dc1"]}
    assert (await scene.request("POST", PATH, saml)).status == 400
    provider = str((await scene.request("POST", PATH, {"name": "Other", "kind": "saml"})).ok(201)["id"])
    assert (await scene.change(provider, bind_password="x")).status == 400
    assert (await scene.change(provider, hosts=["ldaps://dc1"])).status == 400
    ours = await scene.draft()
    assert (await scene.change(ours, client_id="x")).status == 400
    assert (await scene.change(ours, sso_url="https://x.example.org")).status == 400
    assert (await scene.change(ours, issuer="https://x.example.org")).status == 400


@pytest.mark.parametrize(
    "change",
    [
        {"hosts": ["ldaps://192.0.2.1"]},
        {"hosts": ["ldap://127.0.0.1:389"], "start_tls": True},
        {"ca_certificates": ""},
        {"bind_dn": "cn=other,dc=example,dc=org"},
    ],
)
async def test_the_bind_password_goes_with_what_it_belongs_to(scene: LdapScene, change: dict[str, Any]) -> None:
    provider = await scene.active()
    (await scene.change(provider, **change)).ok()
    record = await scene.record(provider)
    assert (record["has_secret"], record["state"], record["enabled"]) == (False, "draft", False)
    assert scene.people.rows("select sealed_bind_password from upstream_providers") == [{"sealed_bind_password": None}]
    told = [one["details"] for one in scene.told() if one["name"] == "organization.upstream_provider.updated"][-1]
    assert (told["secret_changed"], told["new_state"]) == (True, "draft")
    answer = await scene.request("POST", f"{PATH}/{provider}/test")
    assert (answer.status, b"bind_password" in answer.body) == (400, True)
    # The same request may give another one.
    (await scene.change(provider, **scene_back(scene), bind_password="typed anew")).ok()
    assert (await scene.record(provider))["has_secret"]


def scene_back(scene: LdapScene) -> dict[str, Any]:
    names = ("hosts", "ca_certificates", "bind_dn")
    return {**{name: scene.settings()[name] for name in names}, "start_tls": False}


async def test_a_password_that_somebody_put_back_in_the_database_goes_to_no_other_host(
    scene: LdapScene, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The password is sealed together with what it belongs to."""
    scene.prove_domain()
    provider = await scene.draft()
    (kept,) = scene.people.rows("select sealed_bind_password, secret_set_at from upstream_providers")
    with FakeLdap(authority.server_context(tmp_path_factory.mktemp("other"), "127.0.0.1")) as other:
        (await scene.change(provider, hosts=[f"ldaps://127.0.0.1:{other.port}"])).ok()
        scene.people.change(
            "update upstream_providers set sealed_bind_password = %s, secret_set_at = %s",
            kept["sealed_bind_password"],
            kept["secret_set_at"],
        )
        page = await scene.test(provider)
        assert b"The bind password is missing" in page.body
        assert other.binds == []


async def test_a_change_of_anything_else_keeps_the_password_and_makes_a_draft(scene: LdapScene) -> None:
    provider = await scene.active()
    (await scene.change(provider, base_dn="dc=example,dc=org")).ok()
    record = await scene.record(provider)
    assert (record["has_secret"], record["state"]) == (True, "draft")
    assert (await scene.activate(provider)).status == 400
    (await scene.change(provider, name="Another name")).ok()
    assert (await scene.change(provider, identity_attribute="objectGUID")).status == 400


async def test_nobody_signs_in_before_test_and_owners_word(scene: LdapScene) -> None:
    scene.prove_domain()
    provider = await scene.draft()
    tabs = scene.browser()
    assert (await tabs.request("GET", f"/auth/{provider}?org=acme")).status == 400
    assert (await scene.activate(provider)).status == 400
    assert b"All checks passed" in (await scene.test(provider)).body
    assert (await scene.record(provider))["state"] == "tested"
    manager = scene.resident(scene.acme, "admin", "manager")
    assert (await scene.activate(provider, by=manager)).status == 403
    digest = (await scene.record(provider))["digest"]
    (await scene.change(provider, lockout_minutes=60)).ok()
    # What was tested and seen is not what stands there.
    assert (await scene.activate(provider, digest)).status == 409


async def test_a_test_says_each_step_in_words(scene: LdapScene) -> None:
    scene.prove_domain()
    scene.directory.threshold = 10
    provider = await scene.draft()
    page = (await scene.test(provider)).body.decode()
    for words in (
        "Bind account",
        "The filter finds 2",
        "2 email addresses are in verified domains",
        "10 in 30 min",
        "accepted this person",
    ):
        assert words in page, words
    record = await scene.record(provider)
    assert (record["state"], record["ldap"]["read_threshold"]) == ("tested", 10)
    (row,) = scene.people.rows("select ldap ->> 'read_seconds' as seconds from upstream_providers")
    assert row["seconds"] == "1800"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bind_password": "wrong"}, "rejected the bind account"),
        ({"ca_certificates": ""}, "unknown certificate authority"),
        ({"person_filter": "(&(objectClass=person)(uid=nobody))"}, "finds no people"),
        ({"identity_attribute": "objectGUID"}, "do not have exactly one value of objectGUID"),
        ({"address_attribute": "otherMailbox"}, "0 email addresses are in verified domains"),
        ({"hosts": ["ldaps://10.1.2.3"]}, "operator of this installation does not allow"),
    ],
)
async def test_what_is_wrong_stands_in_its_line(scene: LdapScene, changes: dict[str, Any], words: str) -> None:
    scene.prove_domain()
    provider = await scene.draft(**changes)
    page = (await scene.test(provider)).body.decode()
    assert words in page, page
    assert (await scene.record(provider))["state"] == "draft"
    # Nobody was asked to type a person's password for settings that cannot work.
    assert not [dn for dn, _ in scene.directory.binds if dn.startswith("uid=")]


async def test_two_people_with_one_identity_are_found(scene: LdapScene) -> None:
    scene.prove_domain()
    scene.directory.add("carol", attributes={"entryUUID": scene.directory.people[0].attributes["entryUUID"]})
    assert b"Several people have the same identity" in (await scene.test(await scene.draft())).body


@pytest.mark.parametrize(
    ("name", "password", "words"),
    [
        ("nobody", "x", "No person with this name"),
        ("ada", "wrong", "rejected this person: wrong"),
        ("ada", "", "rejected this person: wrong"),
    ],
)
async def test_a_test_needs_a_person_who_can_sign_in(scene: LdapScene, name: str, password: str, words: str) -> None:
    scene.prove_domain()
    provider = await scene.draft()
    assert words in (await scene.test(provider, name, password)).body.decode()
    assert (await scene.record(provider))["state"] == "draft"


async def test_several_people_of_one_name_fail_the_test(scene: LdapScene) -> None:
    scene.prove_domain()
    scene.directory.add("ada", dn="uid=ada,ou=elsewhere,dc=example,dc=org")
    page = (await scene.test(await scene.draft())).body.decode()
    assert "Several people have this name" in page


async def test_a_directory_that_locks_at_once_needs_a_yes(scene: LdapScene) -> None:
    scene.prove_domain()
    scene.directory.threshold = 2
    provider = await scene.draft()
    assert b"a stranger can lock any account" in (await scene.test(provider)).body
    (await scene.change(provider, accepts_lockouts=True)).ok()
    assert b"All checks passed" in (await scene.test(provider)).body


async def test_a_test_says_that_no_domain_is_proved_yet(scene: LdapScene) -> None:
    page = await scene.test(await scene.draft())
    assert b"No email domain is verified" in page.body
    assert b"All checks passed" in page.body


async def test_a_test_of_settings_that_somebody_changed_uses_no_password(scene: LdapScene) -> None:
    scene.prove_domain()
    provider, tabs = await scene.draft(), scene.browser()
    started = (await scene.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
    form = PageReader((await tabs.request("GET", started)).body).forms[0]
    (await scene.change(provider, base_dn="dc=example,dc=org")).ok()
    assert (await tabs.request("POST", form.action, form.fields)).status == 400
    assert scene.directory.connections == 0


async def test_settings_that_change_while_a_password_is_typed_count_for_nothing(scene: LdapScene) -> None:
    scene.prove_domain()
    provider, tabs = await scene.draft(), scene.browser()
    started = (await scene.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
    form = PageReader((await tabs.request("GET", started)).body).forms[0]
    left = await tabs.request("POST", form.action, form.fields)
    page = await tabs.request("GET", own(PageReader(left.body).refresh))
    (await scene.change(provider, base_dn="dc=example,dc=org")).ok()
    scene.directory.binds.clear()
    assert (await scene.type(tabs, page, "ada", "her directory password")).status == 400
    assert scene.directory.binds == []


async def test_a_directory_issues_no_assertions(scene: LdapScene) -> None:
    provider = await scene.active()
    answer = await scene.request("PUT", f"{PATH}/{provider}/assertions", {"issues": True})
    assert answer.status in {400, 404}


async def test_a_directory_goes_with_the_identities_there(scene: LdapScene) -> None:
    provider = await scene.active()
    await scene.arrive(scene.browser(), provider)
    await scene.arrive(scene.browser(), provider, password="wrong")
    assert len(scene.people.rows("select id from directory_failures")) == 1
    assert (await scene.request("DELETE", f"{PATH}/{provider}")).status == 204
    assert scene.identities() == []
    assert scene.people.rows("select id from directory_failures") == []


async def test_another_organization_neither_sees_nor_changes_it(scene: LdapScene) -> None:
    provider = await scene.draft()
    stranger = scene.resident(scene.other, "owner", "stranger") if hasattr(scene, "other") else None
    if stranger is not None:
        assert (await scene.change(provider, by=stranger, bind_password="x")).status in {403, 404}

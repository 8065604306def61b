"""The sign-in with a directory, set up with a link: from the choice of the directory to an active connection, and every wrong turn."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from adapters.postgres.tenancy.setup import SetupLinkRows
from adapters.postgres.upkeep.housekeeping import sweep
from core.domain.tenancy.upstream_providers import sealing_context
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_directory import ENTITY, FakeDirectory
from ops.stand_ins.fake_providers import FakeProvider
from tests.conftest import CapturedLog
from tests.http.browsing import Tab
from tests.http.client import refused
from tests.http.people import BASE_URL, People
from tests.http.postbox import Postbox
from tests.http.tenancy.proving import proving
from tests.http.tenancy.setup.scene import LINKS, SetupScene
from tests.meanwhile import meanwhile
from tests.simplesamlphp import SimpleSamlPhp, simplesamlphp

PROVIDERS = "/api/organizations/acme/upstream-providers"
OF_APPLICATION = b"""<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://app.example/">
<SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">
<AssertionConsumerService index="0" Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="https://app.example/acs"/>
</SPSSODescriptor></EntityDescriptor>"""
LACKING = b"""<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example/">
<IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"/></EntityDescriptor>"""


class SetupConnectionScene(SetupScene):
    async def at(self, tab: Tab, link: str) -> Tab:
        return await tab.tabs.tab().open(f"/ui/setup/of/{link}/connection")

    async def chosen(self, *, directory: str = "shibboleth", kind: str = "saml", name: str = "Example", **more: Any) -> tuple[str, Tab]:
        """A link, and the page with the steps for this directory."""
        link, tab = await self.begun("connection", **more)
        return link, await (await self.at(tab, link)).send(directory=directory, kind=kind, name=name)

    async def providers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.request("GET", PROVIDERS)).json()
        return found

    async def draft(self, link: str) -> dict[str, Any]:
        (draft,) = (await self.shown(link))["drafts"]
        return dict(draft)

    async def post(self, tab: Tab, link: str, act: str, **fields: str) -> Tab:
        page = await self.at(tab, link)
        return await page.send(next(at for at, one in enumerate(page.page.forms) if one.action.endswith(f"/{act}")), **fields)

    async def filled(self, page: Tab, link: str, directory: SimpleSamlPhp) -> Tab:
        """Gives the directory's metadata to us, and ours to the directory."""
        page = await self.post(page, link, "metadata", text=(await trio.to_thread.run_sync(directory.metadata)).decode())
        assert f"Values of {directory.entity_id} saved" in page.page.text
        (provider,) = await self.providers()
        ours = await self.client.get(urlsplit(provider["saml"]["entity_id"]).path)
        await trio.to_thread.run_sync(lambda: directory.trust(ours.body))
        return page


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[SetupConnectionScene]:
    async with proving(SetupConnectionScene, postern, people, log, tmp_path, "example.org", "metadata.example") as scene:
        yield scene


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[SimpleSamlPhp]:
    with simplesamlphp(tmp_path / "directory") as running:
        yield running


async def test_the_values_to_copy_and_the_draft(scene: SetupConnectionScene) -> None:
    link, page = await scene.chosen(directory="entra_id", name="Example Ltd")
    (provider,) = await scene.providers()
    assert (provider["name"], provider["kind"], provider["state"], provider["enabled"]) == ("Example Ltd", "saml", "draft", False)
    for told in (provider["saml"]["entity_id"], provider["saml"]["acs_url"], provider["saml"]["single_logout_url"]):
        assert told in page.page.text
    assert "objectidentifier" in page.page.text
    assert "Enterprise apps" in page.page.text
    assert not [form for form in page.page.forms if form.action.endswith("/test")]
    # Whoever chooses anew drops what was there.
    again = await (await scene.post(page, link, "remove")).send(directory="okta", name="Example Ltd")
    assert "Okta Admin Console" in again.page.text
    (other,) = await scene.providers()
    assert other["id"] != provider["id"]
    # Revoking drops the connection, too.
    assert (await scene.request("DELETE", f"{LINKS}/{link}")).status == 204
    assert await scene.providers() == []


async def test_every_wrong_thing_in_place_of_metadata_is_explained(scene: SetupConnectionScene) -> None:
    link, page = await scene.chosen()
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "Enter the metadata URL"),
        ({"text": "<!DOCTYPE html><html><title>Sign in</title></html>"}, "This is a web page"),
        ({"text": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"}, "This is a certificate, not metadata"),
        ({"file": OF_APPLICATION}, "the metadata of an application"),
        ({"file": LACKING}, "The metadata is incomplete"),
        ({"file": b"PK\x03\x04 a spreadsheet"}, "This is not SAML metadata"),
        ({"address": "http://metadata.example/"}, "Postern cannot reach this URL"),
        ({"address": "https://127.0.0.1/metadata"}, "This URL did not respond"),
        ({"address": "https://10.1.2.3/metadata"}, "Postern cannot reach this URL"),
        ({"address": "not an address"}, "Postern cannot reach this URL"),
    )
    for fields, said in cases:
        answer = await scene.post(page, link, "metadata", **fields)
        assert (answer.status, said in answer.page.text) == (400, True), (fields, answer.page.text)
    values: tuple[tuple[dict[str, str], str], ...] = (
        (
            {"issuer": "https://idp.example/", "sso_url": "https://idp.example/sso", "certificate": "nonsense"},
            "This certificate cannot be used",
        ),
        ({"issuer": " ", "sso_url": "https://idp.example/sso", "certificate": "x"}, "This entity ID is not valid"),
    )
    for fields, said in values:
        answer = await scene.post(page, link, "values", **fields)
        assert (answer.status, said in answer.page.text) == (400, True), (fields, answer.page.text)
    for fields, said in (({"name": " "}, "Enter a button label"), ({"name": "x", "directory": "ldap"}, "Choose an identity provider")):
        other, tab = await scene.begun("connection")
        answer = await (await scene.at(tab, other)).send(**fields)
        assert (answer.status, said in answer.page.text) == (400, True)
    other, tab = await scene.begun("connection")
    taken = await (await scene.at(tab, other)).send(directory="other", name="Example")
    assert (taken.status, "already has a connection with this name" in taken.page.text) == (400, True)
    # Nothing can be tried or handed over yet.
    draft = await scene.draft(link)
    form = {"form_token": scene.token_of(page)}
    said = (await page.tabs.request("POST", f"/ui/setup/of/{link}/connection/test", form)).body.decode()
    assert "Settings are missing" in said
    said = (await page.tabs.request("POST", f"/ui/setup/of/{link}/drafts/{draft['id']}/finish", form)).body.decode()
    assert "has not been tested yet" in said
    assert refused(await scene.activate(link, draft["id"])) == (400, "BAD_REQUEST")


async def test_a_client_of_a_provider_that_does_not_answer(scene: SetupConnectionScene) -> None:
    link, page = await scene.chosen(kind="oidc", directory="keycloak")
    assert await scene.providers() == []
    assert "/callback" in page.page.text
    for fields, said in (
        ({"issuer": "https://127.0.0.1:1", "client_id": "c", "client_secret": "s"}, "No OpenID Connect provider responds"),
        ({"issuer": "nowhere", "client_id": "c", "client_secret": "s"}, "No OpenID Connect provider responds"),
    ):
        answer = await scene.post(page, link, "client", **fields)
        assert (answer.status, said in answer.page.text) == (400, True), answer.page.text
    assert await scene.providers() == []


async def test_from_the_link_to_an_active_connection(scene: SetupConnectionScene, directory: SimpleSamlPhp) -> None:
    link, page = await scene.chosen(by=scene.admin, directory="entra_id")
    # The wrong directory: its test fails, and says what was missing.
    result = await tried(scene, await scene.filled(page, link, directory), link, directory)
    assert "identity/claims/objectidentifier" in result.page.text
    assert (await scene.draft(link))["state"] == "draft"
    page = await (await scene.post(page, link, "remove")).send(directory="shibboleth", kind="saml", name="Example")
    result = await tried(scene, await scene.filled(page, link, directory), link, directory)
    back = next(place for place in result.page.links if place.startswith("/ui/setup/"))
    page = await result.open(back)
    assert "These settings passed the test" in page.page.text, result.page.text
    assert [one["enabled"] for one in await scene.providers()] == [False]
    page = await page.send(next(at for at, one in enumerate(page.page.forms) if one.action.endswith("/finish")))
    assert "waiting for approval by an owner of Acme" in page.page.text
    (mail,) = await Postbox(scene.postern).empty()
    assert "Example" in mail.subject
    todos = (await scene.request("GET", "/api/organizations/acme/todos")).json()
    assert {"todo": "setup_links", "count": 1} in todos
    draft = await scene.draft(link)
    assert draft["state"] == "waiting"
    assert (await scene.activate(link, draft["id"])).ok()["state"] == "active"
    (provider,) = await scene.providers()
    assert (provider["state"], provider["enabled"]) == ("active", True)
    # The link has no hold on it, whatever it sends.
    form = {"form_token": scene.token_of(page)}
    for act in ("test", "values", "address", "client"):
        sent = {**form, "issuer": "https://evil.example/", "sso_url": "https://evil.example/", "client_id": "c", "client_secret": "s"}
        answer = await page.tabs.request("POST", f"/ui/setup/of/{link}/connection/{act}", sent)
        assert answer.status in {400, 403, 409}, (act, answer.body)
    assert (await page.tabs.request("POST", f"/ui/setup/of/{link}/drafts/{draft['id']}/remove", form)).status == 403
    assert (await scene.request("DELETE", f"{LINKS}/{link}")).status == 204
    assert await scene.providers() == [provider]


async def test_an_owner_who_activates_in_the_console_takes_it_from_the_link(scene: SetupConnectionScene, directory: SimpleSamlPhp) -> None:
    link, page = await scene.chosen(directory="other")
    await scene.post(page, link, "metadata", file=await trio.to_thread.run_sync(directory.metadata))  # type: ignore[arg-type]
    scene.people.change("update upstream_providers set state = 'active', enabled = true, activated_at = now()")
    draft = await scene.draft(link)
    assert draft["state"] == "active"
    form = {"form_token": scene.token_of(page)}
    assert (await page.tabs.request("POST", f"/ui/setup/of/{link}/drafts/{draft['id']}/remove", form)).status == 409
    assert (await scene.request("DELETE", f"{LINKS}/{link}")).status == 204
    assert len(await scene.providers()) == 1
    # Also if an administrator has made it a draft again since.
    scene.people.change("update upstream_providers set state = 'draft', enabled = false")
    assert (await scene.draft(link))["state"] == "active"


# What a test that has passed leaves behind.
PASSED = "update upstream_providers set state = 'tested', tested_at = now(), tested_digest = 'x'"


async def test_a_connection_that_a_route_names_stays_when_its_link_goes(scene: SetupConnectionScene) -> None:
    link, page = await scene.chosen()
    (provider,) = await scene.providers()
    scene.people.change(PASSED)
    routes = "/api/organizations/acme/domain-routes"
    made = (await scene.request("POST", routes, {"domain": "example.org", "upstream_provider_id": provider["id"]})).ok(201)
    again = await scene.post(page, link, "remove")
    assert (again.status, len(await scene.providers())) == (409, 1)
    assert (await scene.request("DELETE", f"{LINKS}/{link}")).status == 204
    assert [one["id"] for one in await scene.providers()] == [provider["id"]]
    assert (await scene.request("GET", routes)).json()[0]["id"] == made["id"]


async def test_the_janitor_leaves_a_connection_that_a_route_names(scene: SetupConnectionScene) -> None:
    await scene.chosen()
    (provider,) = await scene.providers()
    scene.people.change(PASSED)
    body = {"domain": "example.org", "upstream_provider_id": provider["id"]}
    (await scene.request("POST", "/api/organizations/acme/domain-routes", body)).ok(201)
    scene.people.change("update setup_links set expires_at = now() - interval '31 days'")
    assert await sweep(scene.postern.foundation.pool, "PastSetupLinks").delete_expired(10) == 1
    assert [one["id"] for one in await scene.providers()] == [provider["id"]]


async def test_other_settings_are_handed_over_anew(scene: SetupConnectionScene) -> None:
    link, page = await scene.chosen()
    scene.people.change(PASSED)
    scene.people.change("update setup_drafts set state = 'waiting', waiting_since = now()")
    answer = await scene.post(page, link, "metadata", text=FakeDirectory().metadata())
    assert answer.status == 200, answer.page.text
    scene.people.change(PASSED)
    draft = await scene.draft(link)
    assert (draft["state"], draft["waiting_since"]) == ("tested", None)


async def test_a_connection_takes_the_values_of_its_own_kind_alone(scene: SetupConnectionScene) -> None:
    link, page = await scene.chosen()
    form = {"form_token": scene.token_of(page)}
    client = {"issuer": ENTITY, "client_id": "c", "client_secret": "s"}
    said = await page.tabs.request("POST", f"/ui/setup/of/{link}/connection/client", {**form, **client})
    assert (said.status, b"Settings are missing" in said.body) == (400, True)
    scene.people.change(
        "update upstream_providers set kind = 'oidc', client_id = 'c', sealed_client_secret = 'x', saml = null, issuer = %s", ENTITY
    )
    values = {"issuer": ENTITY, "sso_url": f"{ENTITY}/sso", "certificate": FakeDirectory().certificate}
    for act, fields in (("values", values), ("address", {"email_sources": "mail"})):
        said = await page.tabs.request("POST", f"/ui/setup/of/{link}/connection/{act}", {**form, **fields})
        assert said.status == 400, said.body


async def test_the_customer_names_the_attribute_of_the_address(scene: SetupConnectionScene) -> None:
    link, page = await scene.chosen(directory="okta")
    given = {"issuer": ENTITY, "sso_url": f"{ENTITY}/sso", "certificate": FakeDirectory().certificate}
    await scene.post(page, link, "values", **given)
    scene.people.change(PASSED)
    for named, kept, told in (("urn:mail", "urn:mail", "urn:mail"), (" nameid ", "name_id", "NameID")):
        shown = await scene.post(page, link, "address", email_sources=named)
        assert (shown.status, shown.place) == (200, f"/ui/setup/of/{link}/connection")
        assert [form.fields["email_sources"] for form in shown.page.forms if "email_sources" in form.fields] == [told]
        (provider,) = await scene.providers()
        assert (provider["saml"]["email_sources"], provider["saml"]["subject_source"]) == ([kept], "name_id")
        # Settings that nobody has tried are a draft.
        assert ((await scene.draft(link))["state"], provider["state"]) == ("draft", "draft")
    for wrong in ("", "x" * 201, "two\nlines"):
        refusal = await scene.post(page, link, "address", email_sources=wrong)
        assert (refusal.status, "Enter one attribute name" in refusal.page.text) == (400, True), wrong
    (provider,) = await scene.providers()
    assert provider["saml"]["email_sources"] == ["name_id"]


async def test_what_is_given_in_place_of_an_address_forgets_the_address(scene: SetupConnectionScene) -> None:
    """The address would be read every day, and its certificates would count beside the one that was given and tested."""
    link, page = await scene.chosen()
    values = {"issuer": ENTITY, "sso_url": f"{ENTITY}/sso", "certificate": FakeDirectory().certificate}
    for act, fields in (("values", values), ("metadata", {"text": FakeDirectory().metadata(), "address": ""})):
        scene.people.change("update upstream_providers set saml = jsonb_set(saml, '{metadata_url}', '\"https://evil.example/\"')")
        assert (await scene.post(page, link, act, **fields)).status == 200
        (provider,) = await scene.providers()
        assert (act, provider["saml"]["metadata_url"]) == (act, "")


async def test_who_chooses_in_a_second_tab_begins_anew(scene: SetupConnectionScene) -> None:
    link, tab = await scene.begun("connection")
    first, second = await scene.at(tab, link), await scene.at(tab, link)
    await first.send(directory="okta", kind="saml", name="Example")
    (before,) = await scene.providers()
    page = await second.send(directory="entra_id", kind="saml", name="Example")
    assert "Enterprise apps" in page.page.text
    # The first connection is gone, and has left its name to the second.
    (provider,) = await scene.providers()
    assert (provider["name"], provider["id"] == before["id"]) == ("Example", False)
    assert (await scene.draft(link))["connection"]["id"] == provider["id"]
    deleted = [one["target_id"] for one in scene.audited("organization.upstream_provider.deleted")]
    assert deleted == [before["id"]]


async def test_a_client_takes_the_place_of_the_one_before(scene: SetupConnectionScene) -> None:
    link, page = await scene.chosen(kind="oidc", directory="keycloak")
    draft = await scene.draft(link)
    with FakeProvider(client_id="first") as fake:
        for client in ("first", "second"):
            given = await scene.post(page, link, "client", issuer=fake.issuer, client_id=client, client_secret=fake.client_secret)
            assert (given.status, given.place) == (200, f"/ui/setup/of/{link}/connection"), given.page.text
            (provider,) = await scene.providers()
            told = (provider["kind"], provider["state"], provider["enabled"], provider["issuer"], provider["client_id"])
            assert told == ("oidc", "draft", False, fake.issuer, client)
            # People have entered our address, which has the id, at their directory before.
            assert provider["id"] == draft["id"]
    (provider,), kept = await scene.providers(), await scene.draft(link)
    assert (kept["id"], kept["state"], kept["connection"]["client_id"]) == (draft["id"], "draft", "second")
    (row,) = scene.people.rows("select sealed_client_secret as sealed from upstream_providers")
    assert scene.people.opened(row["sealed"], sealing_context(provider["id"])) == fake.client_secret
    assert [one["action"] for one in scene.audited("organization.upstream_provider%")] == [
        f"organization.upstream_provider.{what}" for what in ("created", "deleted", "created")
    ]


async def test_a_connection_without_a_client_is_not_tried_nor_filled_nor_activated(scene: SetupConnectionScene) -> None:
    link, page = await scene.chosen(kind="oidc", directory="keycloak")
    form = {"form_token": scene.token_of(page)}
    values = {"issuer": ENTITY, "sso_url": f"{ENTITY}/sso", "certificate": FakeDirectory().certificate}
    for act, fields in (("test", {}), ("values", values)):
        said = await page.tabs.request("POST", f"/ui/setup/of/{link}/connection/{act}", {**form, **fields})
        assert (act, said.status, b"Settings are missing" in said.body) == (act, 400, True)
    # Whatever its draft says: there is nothing that could become active.
    scene.people.change("update setup_drafts set state = 'waiting', tested_at = now(), waiting_since = now()")
    draft = await scene.draft(link)
    assert refused(await scene.activate(link, draft["id"])) == (400, "BAD_REQUEST")
    assert ((await scene.draft(link))["state"], await scene.providers()) == ("waiting", [])


async def test_the_same_settings_again_take_nothing_back(scene: SetupConnectionScene) -> None:
    link, page = await scene.chosen()
    metadata = FakeDirectory().metadata()
    assert (await scene.post(page, link, "metadata", text=metadata)).status == 200
    (before,) = await scene.providers()
    scene.people.change("update setup_drafts set state = 'waiting', waiting_since = now()")
    scene.people.change(PASSED)
    waiting = await scene.draft(link)
    assert (await scene.post(page, link, "metadata", text=metadata)).status == 200
    (after,) = await scene.providers()
    kept = await scene.draft(link)
    assert (after["digest"], kept["state"], kept["waiting_since"]) == (before["digest"], "waiting", waiting["waiting_since"])


async def test_a_link_is_revoked_whose_connection_goes_at_that_moment(scene: SetupConnectionScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The janitor does not wait for whoever revokes the link."""
    link, _ = await scene.chosen()
    meanwhile(monkeypatch, SetupLinkRows, "drafts", lambda: scene.people.change("delete from upstream_providers"))
    assert (await scene.request("DELETE", f"{LINKS}/{link}")).status == 204
    assert ((await scene.shown(link))["state"], await scene.providers()) == ("revoked", [])
    # Nobody is said to have deleted what was gone already.
    assert scene.audited("organization.upstream_provider.deleted") == []


async def tried(scene: SetupConnectionScene, page: Tab, link: str, directory: SimpleSamlPhp) -> Tab:
    """Tries the sign-in at the directory, and returns the page with every check."""
    leaving = await scene.post(page, link, "test")
    assert leaving.place.startswith("/ui/connections/test"), leaving.page.text
    leaving = await leaving.send()
    address = next(place for place in (leaving.page.refresh, *leaving.page.links, *(one.action for one in leaving.page.forms)) if place)
    posted = await trio.to_thread.run_sync(lambda: directory.sign_in(address))
    assert posted.action.startswith(BASE_URL)
    answer = await page.tabs.request("POST", posted.action.removeprefix(BASE_URL), posted.fields)
    onward = urlsplit(answer.header("location") or "")
    assert parse_qs(onward.query)
    return await page.tabs.tab().open(f"{onward.path}?{onward.query}")

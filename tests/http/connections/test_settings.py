"""Connecting a directory: presets, metadata, certificates, our key pair, and the pages for all of it."""

from typing import Any

import pytest
from lxml import etree

from adapters.saml import signing
from core.domain.identity.upstream.saml.assertions import PRESETS, DirectoryPreset
from ops.browser.page_reader import PageReader
from ops.stand_ins.saml import pair
from tests.http.browsing import Tabs
from tests.http.client import refused
from tests.http.connections.scene import PATH, ConnectionScene
from tests.http.people import BASE_URL

PAGES = "/ui/o/acme/directories"


async def record(scene: ConnectionScene, provider: str) -> dict[str, Any]:
    listed: list[dict[str, Any]] = (await scene.request("GET", PATH)).json()
    return next(one for one in listed if one["id"] == provider)


async def test_a_directory_is_described_by_its_product_its_metadata_or_by_hand(scene: ConnectionScene) -> None:
    for number, (product, preset) in enumerate(PRESETS.items()):
        made = (await scene.request("POST", PATH, {"name": f"{number}", "kind": "saml", "preset": product.value})).ok(201)
        told = made["saml"]
        assert (told["preset"], told["subject_source"], told["email_sources"]) == (
            product.value,
            preset.mapping.subject,
            list(preset.mapping.email),
        )
        assert (made["state"], made["issuer"], made["client_id"], made["has_secret"]) == ("draft", "", None, False)
    provider = str((await scene.request("GET", PATH)).json()[0]["id"])
    # What is named beside the product wins.
    changed = await scene.request("PATCH", f"{PATH}/{provider}", {"preset": DirectoryPreset.OKTA.value, "email_sources": ["mail"]})
    assert (changed.ok()["saml"]["subject_source"], changed.ok()["saml"]["email_sources"]) == ("name_id", ["mail"])
    filled = (await scene.fill(provider)).ok()
    assert (filled["issuer"], filled["saml"]["sso_url"]) == (scene.directory.issuer, "https://login.acme.example/saml/sso")
    (known,) = filled["saml"]["certificates"]
    assert (known["source"], known["public_key"].strip()) == ("metadata", scene.directory.certificate.strip())
    for wrong in (
        {"sso_url": "http://login.acme.example"},
        {"sso_url": "javascript:alert(1)"},
        {"slo_url": "https://user:secret@login.acme.example"},
        {"issuer": "two words"},
        {"email_sources": ["x"] * 11},
        {"subject_source": ""},
        {"subject_source": "x" * 201},
        {"subject_source": "two\nlines"},
        {"requested_contexts": ["two words"]},
        {"metadata_url": "ftp://login.acme.example"},
        {"client_id": "x"},
        {"scopes": ["x"]},
    ):
        assert refused(await scene.request("PATCH", f"{PATH}/{provider}", wrong)) == (400, "BAD_REQUEST"), wrong
    for document in ("", "<no/>", "no markup", scene.directory.metadata().replace("SingleSignOnService", "Other")):
        answer = await scene.fill(provider, document or " ")
        assert refused(answer) == (400, "BAD_REQUEST"), document
    for url in ("http://login.acme.example/metadata", "https://127.0.0.1/metadata", "https://10.0.0.1/metadata"):
        assert refused(await scene.fill(provider, url=url)) == (400, "BAD_REQUEST"), url
    assert refused(await scene.request("POST", f"{PATH}/{await scene.own_provider(domain='')}/certificate", {})) == (400, "BAD_REQUEST")
    assert (await scene.request("DELETE", f"{PATH}/{provider}")).status == 204
    assert (await scene.client.request("GET", f"/saml/sp/{provider}")).status == 404


async def test_a_certificate_counts_at_once_if_an_owner_adds_it(scene: ConnectionScene) -> None:
    provider = await scene.active()
    admin = scene.resident(scene.acme, "admin", "admin")
    path, old, new = f"{PATH}/{provider}/certificate", scene.directory.signer, pair("the next of the directory")
    scene.directory.signer = new
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    assert await scene.who(tabs) is None
    assert refused(await scene.request("POST", path, {"certificate": "no certificate"})) == (400, "BAD_REQUEST")
    added = (await scene.request("POST", path, {"certificate": new.certificate})).ok()
    assert (added["state"], [one["source"] for one in added["saml"]["certificates"]]) == ("active", ["metadata", "hand"])
    for signer in (old, new):
        scene.directory.signer = signer
        tabs = scene.browser()
        await scene.arrive(tabs, provider)
        assert await scene.who(tabs) is not None
    # From anybody else, it has to be tested and activated again.
    another = pair("one that an admin adds")
    added = (await scene.request("POST", path, {"certificate": another.certificate}, by=admin)).ok()
    assert (added["state"], added["enabled"]) == ("draft", False)


async def test_a_directory_has_at_most_ten_certificates(scene: ConnectionScene) -> None:
    """Whoever adds one at a time comes no further than whoever sends them all: each answer of the directory is tried with each of them."""
    provider = await scene.active()
    path, new = f"{PATH}/{provider}/certificate", pair("the next of the directory")
    scene.people.change(
        """
        update upstream_providers
           set saml = jsonb_set(saml, '{certificates}', (
                   select jsonb_agg(saml #> '{certificates,0}' || jsonb_build_object('fingerprint', 'copy ' || number))
                     from generate_series(1, 10) as number
               ))
        """
    )
    before = await record(scene, provider)
    assert len(before["saml"]["certificates"]) == 10
    answer = await scene.request("POST", path, {"certificate": new.certificate})
    assert (answer.status, answer.json()["error"]) == (400, "certificates: at most 10")
    assert await record(scene, provider) == before


async def test_a_directory_that_encrypts_weakly_gets_a_key_for_it_when_it_is_asked_to_encrypt(scene: ConnectionScene) -> None:
    async def uses(provider: str) -> list[str | None]:
        metadata = await scene.client.request("GET", f"/saml/sp/{provider}")
        keys = etree.fromstring(metadata.body).iter("{urn:oasis:names:tc:SAML:2.0:metadata}KeyDescriptor")
        return [one.get("use") for one in keys]

    okta, ad_fs = [
        (await scene.request("POST", PATH, {"name": one.value, "kind": "saml", "preset": one.value})).ok(201)["id"]
        for one in (DirectoryPreset.OKTA, DirectoryPreset.AD_FS)
    ]
    assert (await uses(okta), await uses(ad_fs)) == (["signing", "encryption"], ["signing"])
    for wanted, told in ((True, ["signing", "encryption"]), (False, ["signing"])):
        (await scene.request("PATCH", f"{PATH}/{ad_fs}", {"wants_encrypted": wanted})).ok()
        assert await uses(ad_fs) == told, wanted


async def test_our_key_pair_changes_in_two_steps(scene: ConnectionScene) -> None:
    provider = await scene.active()
    path = f"{PATH}/{provider}/certificate"
    before = (await record(scene, provider))["saml"]["certificate"]
    assert refused(await scene.request("POST", path, {"activate": True})) == (409, "CONFLICT")
    following = (await scene.request("POST", path, {})).ok()["saml"]["next_certificate"]
    metadata = await scene.client.request("GET", f"/saml/sp/{provider}")
    root = etree.fromstring(metadata.body)
    assert root.get("entityID") == f"{BASE_URL}/saml/sp/{provider}"
    shown = {"".join((one.text or "").split()) for one in root.iter("{http://www.w3.org/2000/09/xmldsig#}X509Certificate")}
    assert shown == {bare(before), bare(following)}
    changed = (await scene.request("POST", path, {"activate": True})).ok()
    assert (changed["state"], changed["saml"]["certificate"], changed["saml"]["next_certificate"]) == ("active", following, None)
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    assert await scene.who(tabs) is not None


@pytest.mark.parametrize("mishap", [ValueError("no entropy"), OSError("no entropy")])
async def test_a_key_pair_that_cannot_be_made_is_told_and_changes_nothing(
    scene: ConnectionScene, mishap: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_exponent: int, _bits: int) -> Any:
        raise mishap

    provider = await scene.draft()
    before = await scene.request("GET", PATH)
    monkeypatch.setattr(signing, "generate_private_key", fails)
    answers = [
        await scene.request("POST", f"{PATH}/{provider}/certificate", {}),
        await scene.request("POST", PATH, {"name": "Another", "kind": "saml"}),
    ]
    for answer in answers:
        assert (answer.json()["error"], refused(answer)) == ("The certificate could not be made", (500, "INTERNAL_SERVER_ERROR"))
        assert b"no entropy" not in answer.body
    assert (await scene.request("GET", PATH)).body == before.body


def bare(pem: str) -> str:
    return "".join(line for line in pem.splitlines() if not line.startswith("-----"))


async def test_a_directory_is_connected_on_the_pages(scene: ConnectionScene) -> None:
    owner = scene.signed_in(scene.speaker, age=1)
    page = await owner.request("GET", f"{PAGES}/~new")
    tab = owner.tab()
    tab.answer = page
    await tab.send(form_of(page.body, f"{PAGES}/~new"), name="Acme directory", kind="shibboleth")
    provider = str((await scene.request("GET", PATH)).json()[0]["id"])
    place = f"{PAGES}/{provider}/connection"
    shown = PageReader((await owner.request("GET", f"{PAGES}/{provider}")).body)
    steps = (
        "1. Enter these values at the identity provider",
        "2. Identity provider metadata",
        "3. Test",
        "4. Activate the identity provider",
        "SAML settings",
    )
    assert [shown.text.index(one) for one in steps] == sorted(shown.text.index(one) for one in steps)
    # What only OpenID Connect has is not asked for.
    assert not {"client_id", "client_secret", "scopes"} & {name for form in shown.forms for name in form.fields}
    await sent(owner, f"{PAGES}/{provider}", f"{place}/metadata", text=scene.directory.metadata())
    assert (await record(scene, provider))["issuer"] == scene.directory.issuer
    wrong = await sent(owner, place, f"{place}/certificate", certificate="no certificate")
    assert wrong.status == 400
    await sent(owner, place, f"{place}/certificate", certificate=pair("another").certificate)
    assert len((await record(scene, provider))["saml"]["certificates"]) == 2
    test = await sent(owner, place, f"{place}/test")
    begun = await owner.request("GET", test.header("location") or "")
    location = await scene.begin_test(owner, begun)
    await scene.post_answer(provider, scene.directory.answer(location))
    assert (await record(scene, provider))["state"] == "tested"
    await sent(owner, f"{PAGES}/{provider}/activate", f"{PAGES}/{provider}/activate")
    assert (await record(scene, provider))["state"] == "active"
    await scene.keep_recorded()
    listed = PageReader((await owner.request("GET", f"{PAGES}/{provider}/exchanges")).body).text
    assert "Accepted" in listed
    assert "signed the last responses" in PageReader((await owner.request("GET", place)).body).text


async def test_a_provider_of_openid_connect_is_made_on_the_pages_and_asks_for_what_it_has(scene: ConnectionScene) -> None:
    owner = scene.signed_in(scene.speaker, age=1)
    tab = owner.tab()
    tab.answer = await owner.request("GET", f"{PAGES}/~new")
    number = form_of(tab.shown.body, f"{PAGES}/~new")
    given = {"name": "Acme login", "kind": "oidc", "client_id": "postern", "client_secret": "3c6e0b8a"}
    tab = await tab.send(number, **given, issuer="")
    assert tab.status == 400
    assert tab.page.inputs["issuer"]["aria-invalid"] == "true"
    assert tab.page.inputs["client_secret"].get("value") is None
    await tab.send(form_of(tab.shown.body, f"{PAGES}/~new"), **given, issuer=scene.sits(word="own").issuer)
    (made,) = (await scene.request("GET", PATH)).json()
    assert (made["kind"], made["client_id"]) == ("oidc", "postern")
    shown = PageReader((await owner.request("GET", f"{PAGES}/{made['id']}")).body)
    assert "Enter the issuer and your client" in shown.text
    assert [form.action.rpartition("/")[2] for form in shown.forms if "/directories/" in form.action] == ["test", "change"]


def form_of(body: bytes, action: str) -> int:
    return [form.action for form in PageReader(body).forms].index(action)


async def sent(tabs: Tabs, place: str, action: str, **fields: str) -> Any:
    page = await tabs.request("GET", place)
    form = PageReader(page.body).forms[form_of(page.body, action)]
    return await tabs.request("POST", action, {**form.fields, **fields}, with_file=form.with_file)


async def test_a_provider_of_openid_connect_is_tested_too_also_as_a_draft(scene: ConnectionScene) -> None:
    provider = await scene.own_provider(domain="")
    # As a set-up link makes it.
    scene.people.change("update upstream_providers set state = 'draft', enabled = false where id = %s", provider)
    assert (await scene.browser().request("GET", f"/auth/{provider}?org=acme")).status == 400
    fake = scene.sits(word="own")
    for email, state in ((None, "draft"), ("ada@example.org", "tested")):
        fake.person["email"] = email
        tabs = scene.browser()
        place = (await scene.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
        location = await scene.begin_test(tabs, await tabs.request("GET", place))
        back = await tabs.request("GET", fake.consent(location))
        assert (back.status, back.header("location")) == (303, f"{BASE_URL}{place}")
        told = PageReader((await tabs.request("GET", place)).body).text
        assert ("All checks passed" in told) is (state == "tested"), told
        assert (await record(scene, provider))["state"] == state
    assert scene.identities() == []
    (await scene.activate(provider)).ok()
    tabs = scene.browser()
    await scene.prove_domain()
    await scene.go(tabs, "?org=acme", word=provider)
    assert await scene.who(tabs) is not None
    # One that is active stays so, whatever changes.
    changed = (await scene.request("PATCH", f"{PATH}/{provider}", {"scopes": ["groups"]})).ok()
    assert (changed["state"], changed["enabled"]) == ("active", True)


async def test_a_failure_of_any_own_provider_has_a_reference_in_its_recorder(scene: ConnectionScene) -> None:
    provider = await scene.own_provider()
    fake = scene.sits(word="own")
    for fault, wrong in (("not_vouched", {"aud": "somebody-else"}), ("away", None)):
        tabs = scene.browser()
        location = await scene.leave(tabs, "?org=acme", word=provider)
        fake.wrong, fake.fails = wrong or {}, wrong is None
        answer = await tabs.request("GET", fake.consent(location))
        assert answer.status in {502, 503}
        await scene.keep_recorded()
        newest = (await scene.request("GET", f"{PATH}/{provider}/exchanges")).ok()["exchanges"][0]
        assert (newest["fault"], newest["succeeded"]) == (fault, False)
        assert newest["reference"].encode() in answer.body

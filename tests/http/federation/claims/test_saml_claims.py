"""The attributes of assertions by the same sources as claims, and the consent to the person's own values."""

from typing import Any

import pytest

from adapters.saml import signing
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.claims.telling import Furnishing
from tests.http.federation.providing import Providing, asking, authn_request, kept_pairs, sent
from tests.http.people import People

TITLE = "Allow App to access your account?"
NAMES = {"email": "mail", "name": "cn", "first_name": "givenName", "last_name": "sn"}


class TellingProvider(Furnishing, Providing):
    async def preview(self, user: Any) -> dict[str, Any]:
        path = f"/api/organizations/acme/services/app/token-preview?user_id={user}"
        preview: dict[str, Any] = (await self.request("GET", path, by=self.owner)).ok()
        return preview


@pytest.fixture(autouse=True)
def _primes_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "generate_private_key", kept_pairs())


@pytest.fixture
def provider(postern: Postern, people: People, client: Client, log: CapturedLog) -> TellingProvider:
    return TellingProvider(postern, people, client, log)


async def test_attributes_come_from_the_same_sources_as_claims(provider: TellingProvider) -> None:
    await provider.ready(attribute_mapping={**NAMES, "groups": "memberOf"})
    owner, app = provider.owner, provider.app
    provider.profile(owner, name="Olga Owner", given_name="Olga")
    provider.assign(provider.role_in(app, "editor", ["pages.write"]), provider.team(provider.acme, "writers", owner))
    provider.value(provider.acme, owner, provider.field(provider.acme, "desk"), ["3", "4"])
    provider.field(provider.acme, "empty")
    for name, source, argument in (
        ("https://aws.example/Role", "constant", "arn:aws:iam::1:role/x"),
        ("numbers", "constant", [1, True]),
        ("roles", "roles", None),
        ("desk", "organization_field", "desk"),
        ("nothing", "organization_field", "empty"),
        ("memberOf", "permissions", None),
        ("blank", "constant", ""),
        ("blanks", "constant", ["", []]),
        ("object", "constant", {"a": 1}),
        ("plan_features", "features", None),
    ):
        provider.claim(app, name, source, argument, "saml")
    provider.claim(app, "of_tokens", "constant", "x", "id_token")
    got = sent(await provider.signed_in(owner).request("GET", asking()))
    expected = {
        "mail": [owner.email],
        "cn": ["Olga Owner"],
        "givenName": ["Olga"],
        "memberOf": ["acme/owner", "writers", "pages.write"],
        "https://aws.example/Role": ["arn:aws:iam::1:role/x"],
        "numbers": ["1", "true"],
        "roles": ["editor"],
        "desk": ["3", "4"],
    }
    assert got.attributes == expected
    saml = (await provider.preview(owner.user))["saml"]
    assert {one["name"] for one in saml["claims"]} == set(expected)
    assert {one["name"]: one["reason"] for one in saml["missing"]} == {
        "sn": "The person has not set it",
        "nothing": "The field empty has no value for this person",
        **dict.fromkeys(("blank", "blanks", "object", "plan_features"), "An assertion has no attribute for a value without a text"),
    }


async def test_a_consent_covers_what_the_page_named(provider: TellingProvider) -> None:
    """An organization may map more attributes after the person has consented. The person's own values need another consent."""
    await provider.ready(attribute_mapping={"email": "mail"})
    ada = provider.people.add("ada@example.org")
    provider.profile(ada, name="Ada Lovelace")
    browser = provider.signed_in(ada, allowed=False)
    tab = await provider.opened(browser.tab(), asking())
    assert "View your profile" not in tab.page.text
    assert sent((await tab.send(answer="allow")).shown).attributes == {"mail": ["ada@example.org"]}
    await provider.configure(attribute_mapping=NAMES)
    assert sent(await browser.request("GET", asking(authn_request(IsPassive="true")))).status == "NoPassive"
    tab = await provider.opened(browser.tab(), asking())
    assert TITLE in tab.page.text
    assert "View your profile" in tab.page.text
    preview = (await provider.preview(ada.user))["saml"]
    assert {one["name"] for one in preview["claims"]} == {"mail"}
    # The reason is the same for what the person has set and for what not.
    assert {one["name"]: one["reason"] for one in preview["missing"]} == dict.fromkeys(
        ("cn", "givenName", "sn"), "The scope profile is not granted: the person has not allowed the application to learn it"
    )
    assert sent((await tab.send(answer="allow")).shown).attributes == {"mail": ["ada@example.org"], "cn": ["Ada Lovelace"]}
    assert sent(await browser.request("GET", asking())).attributes["cn"] == ["Ada Lovelace"]
    assert {one["name"] for one in (await provider.preview(ada.user))["saml"]["claims"]} == {"mail", "cn"}
    # A consent of the release before named the address and the role.
    provider.people.change("update consents set saml_scopes = null")
    assert TITLE in (await provider.opened(browser.tab(), asking())).page.text
    # Whoever has set nothing of it is not asked for it.
    bob = provider.people.add("bob@example.org")
    assert sent(await provider.signed_in(bob).request("GET", asking())).attributes == {"mail": ["bob@example.org"]}


@pytest.mark.parametrize(("value", "text"), [(False, "false"), (0, "0")])
async def test_a_value_that_is_false_or_zero_needs_consent_too(provider: TellingProvider, value: Any, text: str) -> None:
    await provider.ready(attribute_mapping={"email": "mail"})
    ada = provider.people.add("ada@example.org")
    browser = provider.signed_in(ada, allowed=False)
    tab = await provider.opened(browser.tab(), asking())
    assert sent((await tab.send(answer="allow")).shown).attributes == {"mail": ["ada@example.org"]}
    provider.value(None, ada, provider.field(None, "grown_up", scope="profile"), value)
    provider.claim(provider.app, "adult", "person_field", "grown_up", "saml")
    tab = await provider.opened(browser.tab(), asking())
    assert TITLE in tab.page.text
    assert sent((await tab.send(answer="allow")).shown).attributes == {"mail": ["ada@example.org"], "adult": [text]}


async def test_what_is_added_while_the_page_is_open_is_asked_again(provider: TellingProvider) -> None:
    await provider.ready(attribute_mapping={"email": "mail"})
    ada = provider.people.add("ada@example.org")
    browser = provider.signed_in(ada, allowed=False)
    tab = await provider.opened(browser.tab(), asking())
    provider.value(None, ada, provider.field(None, "nickname", scope="profile"), "Countess")
    provider.claim(provider.app, "nick", "person_field", "nickname", "saml")
    tab = await tab.send(answer="allow")
    assert TITLE in tab.page.text
    assert "View your profile" in tab.page.text
    assert provider.people.rows("select from consents") == []
    assert sent((await tab.send(answer="allow")).shown).attributes == {"mail": ["ada@example.org"], "nick": ["Countess"]}


async def test_own_members_are_not_asked_and_listed_ones_are(provider: TellingProvider) -> None:
    await provider.ready(attribute_mapping=NAMES)
    own, listed = provider.people.add(), provider.people.add()
    for person, is_listed in ((own, False), (listed, True)):
        provider.tenants.join(person, provider.acme, listed=is_listed)
        provider.profile(person, name="Some Body")
    assert sent(await provider.signed_in(own, allowed=False).request("GET", asking())).attributes["cn"] == ["Some Body"]
    tab = provider.signed_in(listed, allowed=False).tab()
    assert b"SAMLResponse" not in (await provider.opened(tab, asking())).shown.body

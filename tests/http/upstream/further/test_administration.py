"""Who adds further providers, and what is refused, in words at the field."""

from typing import Any, Final

import pytest

from core.domain.identity.upstream.providers import RESERVED_NAMES
from ops.browser.page_reader import PageReader
from tests.http.client import refused
from tests.http.upstream.further.preset_providers import APPLE_PEM
from tests.http.upstream.further.scene import PROVIDERS, FurtherScene
from tests.http.upstream.scene import ADA

BAD: Final = (400, "BAD_REQUEST")


async def test_a_provider_is_added_listed_changed_and_deleted(scene: FurtherScene) -> None:
    made = await scene.add({**scene.of_preset("discord"), "active": True, "position": 2})
    assert made.status == 201
    record = made.json()
    assert (record["key"], record["name"], record["kind"], record["enabled"]) == ("discord", "Discord", "oauth2", True)
    assert record["callback_url"].endswith("/auth/discord/callback")
    assert "secret" not in {name for name in record if record[name] == scene.fakes["discord"].client_secret}
    await scene.add({**scene.of_preset("gitlab"), "position": 1, "name": "Our GitLab", "key": "our-gitlab"})
    listed = (await scene.request("GET", PROVIDERS, by=scene.root)).json()
    assert [one["key"] for one in listed] == ["our-gitlab", "discord"]
    assert (await scene.request("GET", f"{PROVIDERS}/discord", by=scene.root)).json() == listed[1]
    changed = await scene.request("PATCH", f"{PROVIDERS}/discord", {"name": "Chat", "enabled": False}, by=scene.root)
    assert (changed.json()["name"], changed.json()["enabled"]) == ("Chat", False)
    assert (await scene.request("PATCH", f"{PROVIDERS}/discord", {"name": "Chat"}, by=scene.root)).status == 200
    assert (await scene.request("DELETE", f"{PROVIDERS}/discord", by=scene.root)).status == 204
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        assert (await scene.request(method, f"{PROVIDERS}/discord", body, by=scene.root)).status == 404
    told = scene.audited("platform.provider.%")
    assert [one["action"] for one in told] == [
        *("platform.provider.created", "platform.provider.activated", "platform.provider.created"),
        *("platform.provider.updated", "platform.provider.deleted"),
    ]
    assert (told[3]["details"]["old_name"], told[3]["details"]["new_name"]) == ("Discord", "Chat")
    assert scene.fakes["discord"].client_secret not in repr(told)


async def test_only_a_platform_owner_with_a_fresh_proof(scene: FurtherScene) -> None:
    body = scene.of_preset("discord")
    boss = scene.resident(scene.acme, "owner")
    assert (await scene.add(body, by=boss)).status == 403
    assert (await scene.request("GET", PROVIDERS, by=boss)).status == 403
    scene.people.change("update sessions set proved_at = now() - interval '1 day' where id = %s", scene.root.session)
    stale = await scene.add(body)
    assert (stale.status, stale.error_code) == (401, "REAUTHENTICATION_REQUIRED")
    assert scene.people.rows("select from further_providers") == []


async def test_the_presets_are_listed(scene: FurtherScene) -> None:
    found = (await scene.request("GET", "/api/platform/provider-presets", by=scene.root)).json()
    assert [one["key"] for one in found] == ["apple", "discord", "facebook", "gitlab", "linkedin", "slack"]
    assert found[0]["secret_kind"] == "signing_key"


OPENID: Final = {
    "key": "company",
    "name": "Any",
    "kind": "openid",
    "client_id": "openid-client",
    "client_secret": "openid-provider-secret-78",
    "active": True,
}
PROFILE: Final = {
    "key": "profiles",
    "name": "Any",
    "kind": "oauth2",
    "client_id": "c",
    "client_secret": "s",
    "subject": "id",
    "authorization_url": "https://a.example/a",
    "token_url": "https://a.example/t",
    "profile_url": "https://a.example/p",
    "active": True,
}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({**PROFILE, "key": "codehost"}, "key: this name is reserved"),
        ({**PROFILE, "key": "verify-email"}, "key: this name is reserved"),
        ({**PROFILE, "key": "Upper"}, "key: 2 to 30"),
        ({**PROFILE, "key": "x"}, "key: 2 to 30"),
        ({**PROFILE, "key": "01a21cfd-a18d-7414-9ed2-c31d61ffc196"}, "key: 2 to 30"),
        ({**PROFILE, "name": ""}, "name: 1 to 100"),
        ({**PROFILE, "subject": ""}, "subject: needed"),
        ({**PROFILE, "subject": "a..b"}, "subject: names of members"),
        ({**PROFILE, "token_url": "ftp://a.example"}, "token_url: must start with"),
        ({**PROFILE, "profile_url": ""}, "profile_url: needed"),
        ({**PROFILE, "client_id": ""}, "client_id: 1 to"),
        ({**PROFILE, "client_secret": ""}, "client_secret: 1 to"),
        ({**PROFILE, "scopes": ["a b"]}, "scopes: at most"),
        ({**PROFILE, "position": -1}, "position: 0 to"),
        ({**PROFILE, "organizations": ["nobody"]}, "organizations: there is no such"),
        ({**PROFILE, "preset": "nothing"}, "preset: there is no such preset"),
        ({**OPENID}, "issuer: needed"),
        ({**OPENID, "issuer": "https://a.example/?x"}, "issuer: a URL without a query"),
        ({**OPENID, "issuer": "http://127.0.0.1:1"}, "must answer as OpenID Connect Discovery has it"),
        (
            {"preset": "apple", "client_id": "c", "client_secret": "no key", "team_id": "A" * 10, "key_id": "B" * 10},
            "client_secret: no private",
        ),
        ({"preset": "apple", "client_id": "c", "client_secret": APPLE_PEM, "team_id": "x", "key_id": "B" * 10}, "team_id: ten capital"),
        ({"preset": "apple", "client_id": "c", "client_secret": APPLE_PEM, "team_id": "A" * 10}, "key_id: ten capital"),
    ],
)
async def test_bad_input_gets_words_at_the_field(scene: FurtherScene, body: dict[str, Any], said: str) -> None:
    answer = await scene.add(body)
    assert refused(answer) == BAD
    assert said in answer.json()["error"]
    assert scene.people.rows("select from further_providers") == []


async def test_an_issuer_that_answers_as_another_is_refused(scene: FurtherScene) -> None:
    answer = await scene.add({**OPENID, "issuer": scene.fakes["company"].issuer + "/"})
    assert refused(answer) == BAD
    assert "issuer: " in answer.json()["error"]


async def test_a_short_name_is_there_once_and_places_are_bounded(scene: FurtherScene) -> None:
    await scene.has("discord")
    again = await scene.add(scene.of_preset("discord"))
    assert refused(again) == (409, "CONFLICT")
    scene.people.change(
        """
        insert into further_providers (id, key, preset, name, settings, client_id, sealed_client_secret, enabled, position, organizations,
                                       secret_set_at, created_at, updated_at)
        select gen_random_uuid(), 'copy' || number, preset, name, settings, client_id, sealed_client_secret, enabled, position,
               organizations, secret_set_at, created_at, updated_at
          from further_providers, generate_series(1, 19) as number
        """
    )
    full = await scene.add({**scene.of_preset("discord"), "key": "one-more"})
    assert refused(full) == BAD
    assert "at most 20" in full.json()["error"]


async def test_another_place_needs_the_secret_anew(scene: FurtherScene) -> None:
    await scene.has("discord")
    one = f"{PROVIDERS}/discord"
    stolen = await scene.request("PATCH", one, {"token_url": "https://evil.example/token"}, by=scene.root)
    assert refused(stolen) == BAD
    assert stolen.json()["error"].startswith("client_secret: send it again")
    given = await scene.request("PATCH", one, {"token_url": "https://a.example/t", "client_secret": "another"}, by=scene.root)
    assert given.status == 200
    (kept,) = scene.people.rows("select id, sealed_client_secret as sealed from further_providers")
    assert scene.people.opened(kept["sealed"], f"further_providers.sealed_client_secret:{kept['id']}") == "another"
    assert scene.audited("platform.provider.updated")[0]["details"]["secret_changed"] is True
    scopes = await scene.request("PATCH", one, {"scopes": ["identify"]}, by=scene.root)
    assert scopes.json()["scopes"] == ["identify"]


async def test_every_word_below_auth_is_reserved(scene: FurtherScene) -> None:
    below = {
        path.split("/")[2]
        for path in (str(one.path) for one in scene.client.application.endpoints)
        if path.startswith("/auth/") and "{" not in path.split("/")[2]
    }
    assert below
    assert below <= RESERVED_NAMES


async def test_pages_offer_them_in_their_order_and_where_they_are_offered(scene: FurtherScene) -> None:
    await scene.has("slack", position=2)
    await scene.has("discord", position=1)
    await scene.has("gitlab", organizations=["acme"])
    everywhere = PageReader((await scene.browser().request("GET", "/ui/sign-in")).body)
    offered = [link.partition("?")[0] for link in everywhere.links if link.startswith("/auth/")]
    assert offered == ["/auth/codehost", "/auth/websuite", "/auth/officesuite", "/auth/discord", "/auth/slack"]
    inside = await scene.browser().tab().open(scene.asking())
    assert "/auth/gitlab" in {link.partition("?")[0] for link in inside.page.links}
    # A provider that is offered to acme alone signs nobody in elsewhere.
    elsewhere = await scene.browser().request("GET", "/auth/gitlab")
    assert elsewhere.status == 400
    await scene.request("PATCH", f"{PROVIDERS}/discord", {"enabled": False}, by=scene.root)
    off = await scene.browser().request("GET", "/auth/discord")
    assert off.status == 400
    assert b"was turned off" in off.body
    unknown = await scene.browser().request("GET", "/auth/nobody-has-this")
    assert unknown.status == 404
    assert b"This sign-in method does not exist" in unknown.body


async def test_deleting_disconnects_everybody_and_the_accounts_stay(scene: FurtherScene) -> None:
    await scene.has("discord")
    tabs = scene.browser()
    await scene.register(tabs, await scene.asked(tabs, await scene.come(tabs, "discord")))
    assert len(scene.identities()) == 1
    assert (await scene.request("DELETE", f"{PROVIDERS}/discord", by=scene.root)).status == 204
    assert scene.identities() == []
    assert scene.people.rows("select from users where email = %s", ADA) != []
    assert scene.audited("platform.provider.deleted")[0]["details"]["people"] == 1

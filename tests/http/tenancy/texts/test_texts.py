"""Own texts over HTTP: who sets them, what is refused, and what becomes of them when ours or a domain's proof changes."""

import tomllib
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from actors.sweepers import own_text_comparer
from core.domain.texts.own_texts import OPEN_TEXTS
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops, all_at_once
from tests.http.client import Received, refused
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

TEXTS: Final = "/api/organizations/acme/texts"
INSTALLATION: Final = "/api/platform/texts"
BAD_REQUEST, FORBIDDEN, CONFLICT = (400, "BAD_REQUEST"), (403, "FORBIDDEN"), (409, "CONFLICT")


class TextsScene(Shops):
    """Acme with an owner, an admin and a member; globex beside it; and a platform owner."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner, self.admin, self.member = (self.resident(self.acme, role) for role in ("owner", "admin", "member"))
        self.boss = self.people.add("boss@platform.example", platform_owner=True)
        self.speaker = self.admin

    async def change(
        self, texts: dict[str, Any], language: str = "en", at: str = TEXTS, *, by: Person | None = None, **other: Any
    ) -> Received:
        by = by or (self.boss if at == INSTALLATION else None)
        return await self.request("PATCH", at, {"language": language, "texts": texts, **other}, by=by)

    async def listed(self, language: str = "en", at: str = TEXTS, *, place: str = "") -> dict[str, Any]:
        query = f"?language={language}" + (f"&place={place}" if place else "")
        return (await self.request("GET", at + query, by=self.boss if at == INSTALLATION else None)).ok()

    async def own(self, language: str = "en", at: str = TEXTS) -> dict[str, str]:
        return {one["key"]: one["own"] for one in (await self.listed(language, at))["texts"] if one["own"] is not None}

    async def todos(self) -> dict[str, int]:
        listed: Any = (await self.request("GET", "/api/organizations/acme/todos")).ok()
        return {one["todo"]: one["count"] for one in listed}

    def digest(self) -> str | None:
        (row,) = self.people.rows("select texts_digest from organizations where slug = 'acme'")
        found: str | None = row["texts_digest"]
        return found

    def prove(self, domain: str, *, tenant: str = "acme") -> None:
        self.people.change(
            "insert into domains (id, org_id, domain, token, verified_at, checked_at, next_check_at, created_at, updated_at) "
            f"select gen_random_uuid(), id, '{domain}', 'token', now(), now(), now() + interval '7 days', now(), now() "
            f"from organizations where slug = '{tenant}'"
        )


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> TextsScene:
    return TextsScene(postern, people, unlimited(postern), log)


async def test_texts_are_set_language_by_language_and_taken_back(scene: TextsScene) -> None:
    scene.log.remember("Willkommen bei", "High Street")
    everything = await scene.listed()
    assert (everything["version"], everything["outdated"], everything["gone"]) == (None, [], [])
    assert [one["key"] for one in everything["texts"]] == [key for key, one in OPEN_TEXTS.items() if one.is_of_organizations]
    title = next(one for one in everything["texts"] if one["key"] == "sign_in.title_to")
    assert title == {
        "key": "sign_in.title_to",
        "place": "sign_in",
        "page": "sign_in",
        "kind": "title",
        "ours": "Sign in to {service}",
        "own": None,
        "placeholders": ["service"],
        "most": 60,
        "was_ours": None,
        "unlinked": False,
    }
    version = (await scene.change({"sign_in.title": "Welcome to Acme", "own.footer": "Acme Ltd\r\n\r\n\r\nHigh Street 1,\nLondon "})).ok()
    assert version == {"version": scene.digest()}
    assert (await scene.change({"sign_in.title": "Willkommen bei Acme"}, "de")).status == 200
    assert await scene.own() == {"sign_in.title": "Welcome to Acme", "own.footer": "Acme Ltd\n\nHigh Street 1,\nLondon"}
    assert await scene.own("de") == {"sign_in.title": "Willkommen bei Acme"}
    places = {one["place"] for one in (await scene.listed("de", place="mail_invitation"))["texts"]}
    assert places == {"mail_invitation"}

    told = [one for one in scene.told("audit_log") if one["name"] == "texts.updated"]
    assert told[1]["details"] == {
        "count": 1,
        "texts": [{"language": "de", "key": "sign_in.title", "before": None, "after": "Willkommen bei Acme"}],
    }
    # The same again changes nothing, and is no news.
    assert (await scene.change({"sign_in.title": " Willkommen  bei Acme", "register.title": None}, "de")).status == 200
    assert len([one for one in scene.told("audit_log") if one["name"] == "texts.updated"]) == 2
    assert (await scene.change({"sign_in.title": None, "own.footer": None})).status == 200
    assert (await scene.change({"sign_in.title": None}, "de")).ok() == {"version": None}
    assert scene.digest() is None


async def test_a_text_that_no_page_of_an_organization_has_is_the_installations_alone(scene: TextsScene) -> None:
    kept_back = [key for key, one in OPEN_TEXTS.items() if not one.is_of_organizations]
    assert {"enter_code.title", "choose_password.title_reset", "mail_reset.text", "stale.text"} < set(kept_back)
    refused = await scene.change(dict.fromkeys(kept_back, "Ours"))
    assert refused.status == 400
    assert refused.json()["error"].count("the installation alone can change it") == len(kept_back)
    assert (await scene.listed(place="device"))["texts"] == []
    assert scene.digest() is None


async def test_the_digest_is_the_texts_and_nothing_else(scene: TextsScene) -> None:
    await scene.change({"sign_in.title": "Grüezi", "register.title": "Join"}, "de")
    written = '[["de","register.title","Join",false],["de","sign_in.title","Grüezi",false]]'
    assert scene.digest() == sha256(written.encode()).hexdigest()


async def test_all_that_is_wrong_is_said_at_once_and_nothing_is_kept(scene: TextsScene) -> None:
    scene.log.remember("x" * 61, "<b>x</b>")
    answer = await scene.change({"sign_in.title": "x" * 61, "sign_in.title_to": "Sign in", "consent.title": "Hi", "own.footer": "<b>x</b>"})
    assert refused(answer) == BAD_REQUEST
    words = answer.json()["error"]
    for part in (
        "sign_in.title (en): too long by 1: at most 60 characters",
        "sign_in.title_to (en): {service} must stand in it",
        "consent.title (en): not on the list of open texts",
        "own.footer (en): HTML would be shown as it stands",
    ):
        assert part in words
    assert await scene.own() == {}


async def test_a_language_that_is_not_on_is_refused_in_words(scene: TextsScene) -> None:
    answer = await scene.change({"sign_in.title": "Velkommen"}, "da")
    assert refused(answer) == BAD_REQUEST
    assert answer.json()["error"].startswith("language: da is not on; there are en, de")
    assert refused(await scene.change({})) == BAD_REQUEST


async def test_who_saw_other_texts_changes_none(scene: TextsScene) -> None:
    seen = (await scene.change({"sign_in.title": "One"})).ok()["version"]
    assert (await scene.change({"sign_in.title": "Two"}, version=seen)).status == 200
    answer = await scene.change({"sign_in.title": "Three"}, version=seen)
    assert refused(answer) == CONFLICT
    assert await scene.own() == {"sign_in.title": "Two"}
    for none in ("", None):
        assert refused(await scene.change({"sign_in.title": "Three"}, version=none)) == CONFLICT


async def test_of_two_administrators_who_saw_the_same_one_wins(scene: TextsScene) -> None:
    answers = await all_at_once(
        *(partial(scene.change, {"sign_in.title": f"Title of {by.email}"}, version=None, by=by) for by in (scene.owner, scene.admin))
    )
    assert sorted(one.status for one in answers) == [200, 409]
    # Without a version, both count, and the digest is that of what is there.
    await all_at_once(
        partial(scene.change, {"register.title": "A"}, by=scene.owner), partial(scene.change, {"password.title": "B"}, by=scene.admin)
    )
    assert set(await scene.own()) == {"sign_in.title", "register.title", "password.title"}
    assert (await scene.listed())["version"] == scene.digest()


async def test_links_lead_to_proved_domains_and_to_those_of_the_operator(scene: TextsScene) -> None:
    text = {"own.footer": "See [our imprint](https://www.acme.example/imprint)."}
    answer = await scene.change(text)
    assert "prove the domain of www.acme.example first" in answer.json()["error"]
    scene.prove("acme.example", tenant="globex")
    assert refused(await scene.change(text)) == BAD_REQUEST
    scene.people.change("update domains set org_id = (select id from organizations where slug = 'acme')")
    assert (await scene.change(text)).status == 200
    assert refused(await scene.change(text, at=INSTALLATION)) == BAD_REQUEST


async def test_ours_that_changes_beneath_is_shown_with_what_it_was(scene: TextsScene) -> None:
    await scene.change({"sign_in.title": "Welcome"})
    await scene.change({"register.title": "Registrieren"}, "de")
    scene.people.change("update organization_texts set based_on = 'Log in' where key = 'sign_in.title'")
    everything = await scene.listed("de")
    (outdated,) = everything["outdated"]
    assert (outdated["key"], outdated["language"], outdated["text"], outdated["based_on"]) == ("sign_in.title", "en", "Welcome", "Log in")
    (title,) = [one for one in (await scene.listed())["texts"] if one["key"] == "sign_in.title"]
    assert (title["ours"], title["own"], title["was_ours"]) == ("Sign in", "Welcome", "Log in")
    assert (await scene.change({"sign_in.title": "Welcome"})).status == 200
    assert (await scene.listed())["outdated"] == []


async def test_a_release_that_changes_ours_makes_a_todo(scene: TextsScene) -> None:
    await scene.change({"sign_in.title": "Welcome", "own.footer": "Acme Ltd"})
    await scene.change({"sign_in.title": "Willkommen", "register.title": "Dabei sein"}, "de")
    await scene.change({"sign_in.title": "Hello"}, at=INSTALLATION)
    sweeper = own_text_comparer(scene.postern.tenancy.own_texts, spread=lambda: 0.0, batch=2)
    scene.people.change("update organization_texts set language = 'tlh' where key = 'register.title'")
    assert await sweeper.sweep() == 5
    assert await scene.todos() == {}
    assert await sweeper.sweep() == 0
    # As if the release before had said something else.
    scene.people.change("update organization_texts set based_on = 'Log in', compared_with = 'before' where key = 'sign_in.title'")
    assert await sweeper.sweep() == 3
    assert await scene.todos() == {"texts": 2}
    assert (await scene.change({"sign_in.title": "Welcome"})).status == 200
    assert await scene.todos() == {"texts": 1}
    assert await sweeper.sweep() == 1
    assert (await scene.change({"sign_in.title": None}, "de")).status == 200
    assert await scene.todos() == {}


def every_former_default() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parent / "former_defaults.toml").read_text(encoding="utf-8"))


async def test_custom_texts_beside_reworded_defaults_need_no_review(scene: TextsScene) -> None:
    ids: Any = {True: "(select id from organizations where slug = 'acme')", False: "null"}
    for language, defaults in every_former_default().items():
        for key, default in defaults.items():
            scene.people.change(
                "insert into organization_texts (id, updated_at, org_id, key, language, text, based_on)"
                f" values (gen_random_uuid(), now(), {ids[OPEN_TEXTS[key].is_of_organizations]}, %s, %s, %s, %s)",
                *(key, language, default, default),
            )
    before = scene.people.rows("select id, text, based_on, updated_at from organization_texts order by id")
    assert len(before) == 327
    sweeper = own_text_comparer(scene.postern.tenancy.own_texts, spread=lambda: 0.0)
    assert await sweeper.sweep() == 327
    assert await scene.todos() == {}
    for at in (TEXTS, INSTALLATION):
        listed = await scene.listed("de", at)
        assert listed["outdated"] == []
        assert {one["was_ours"] for one in listed["texts"]} == {None}
    # The same text again says nothing new, so its row stays as it is.
    assert (await scene.change({"newcomer.title": "Which e-mail address is yours?"})).status == 200
    assert scene.people.rows("select id, text, based_on, updated_at from organization_texts order by id") == before
    scene.people.change("update organization_texts set based_on = 'Another meaning', compared_with = '' where key = 'newcomer.title'")
    assert await sweeper.sweep() == 4
    assert await scene.todos() == {"texts": 4}


async def test_a_text_that_is_no_longer_there_is_listed_and_taken_away(scene: TextsScene) -> None:
    await scene.change({"sign_in.title": "Welcome", "register.title": "Join"})
    scene.people.change("update organization_texts set key = 'former.title' where key = 'sign_in.title'")
    scene.people.change("update organization_texts set language = 'tlh' where key = 'register.title'")
    everything = await scene.listed()
    assert {(one["key"], one["language"]) for one in everything["gone"]} == {("former.title", "en"), ("register.title", "tlh")}
    assert await scene.own() == {}
    assert (await scene.change({"former.title": None})).status == 200
    assert (await scene.change({"register.title": None}, "tlh")).ok() == {"version": None}


async def test_the_texts_of_whole_languages_are_replaced_at_once(scene: TextsScene) -> None:
    await scene.change({"sign_in.title": "Welcome", "own.notice": "Closed on Monday"})
    await scene.change({"sign_in.title": "Willkommen"}, "de")
    await scene.change({"sign_in.title": "Bienvenido"}, "es")
    scene.people.change("update organization_texts set based_on = 'Log in'")
    body = {"en": {"sign_in.title": "Welcome"}, "de": {}, "fr": {"sign_in.title": "Bienvenue"}}
    assert (await scene.request("PUT", TEXTS, body)).ok() == {"version": scene.digest()}
    assert [await scene.own(language) for language in ("en", "de", "fr")] == [body["en"], {}, body["fr"]]
    assert await scene.own("es") == {"sign_in.title": "Bienvenido"}
    # A text that stays as it is says nothing about a change of ours.
    assert len((await scene.listed())["outdated"]) == 2
    assert refused(await scene.request("PUT", TEXTS, {"en": {"refusals.forbidden": "No"}})) == BAD_REQUEST
    assert refused(await scene.request("PUT", TEXTS, {"da": {}})) == BAD_REQUEST
    assert (await scene.request("PUT", TEXTS, {"en": {}, "fr": {}, "es": {}})).ok() == {"version": None}


async def test_the_installation_has_texts_of_its_own(scene: TextsScene) -> None:
    assert (await scene.change({"sign_in.title": "Hello"}, at=INSTALLATION)).status == 200
    assert (await scene.own(at=INSTALLATION), await scene.own()) == ({"sign_in.title": "Hello"}, {})
    (row,) = scene.people.rows("select digest from installation_texts")
    assert (await scene.listed(at=INSTALLATION))["version"] == row["digest"]
    assert (await scene.change({"sign_in.title": "Hi"}, at=INSTALLATION)).status == 200
    assert (await scene.request("PUT", INSTALLATION, {"en": {}}, by=scene.boss)).ok() == {"version": None}
    assert scene.people.rows("select digest from installation_texts") == []
    (told, *_) = [one for one in scene.told("audit_log") if one["name"] == "texts.updated"]
    assert (told["target_type"], told["target_id"], told["organization_id"]) == ("texts", "installation", None)


async def test_members_read_and_only_those_with_permission_change(scene: TextsScene) -> None:
    assert (await scene.request("GET", TEXTS, by=scene.member)).status == 200
    assert refused(await scene.change({"sign_in.title": "Mine"}, by=scene.member)) == FORBIDDEN
    stranger = scene.resident(scene.globex, "owner")
    for method, body in (("GET", None), ("PATCH", {"language": "en", "texts": {"sign_in.title": "Ours"}}), ("PUT", {})):
        assert refused(await scene.request(method, TEXTS, body, by=stranger))[0] in {403, 404}
        assert refused(await scene.request(method, INSTALLATION, body, by=scene.owner)) == FORBIDDEN

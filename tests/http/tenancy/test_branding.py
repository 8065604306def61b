"""The looks of an organization over HTTP: its logo is fetched once, kept, and shown from our own address."""

from functools import partial
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import uuid4

import pytest
import trio

from core.domain.branding import Font, Look
from core.domain.errors import NotFound
from core.domain.identifiers import OrganizationId
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.pages.kit import FOREVER
from tests.conftest import CapturedLog
from tests.hostile_addresses import HOSTILE_ADDRESSES, HOSTILE_URLS
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.people import BASE_URL, People, Person
from tests.http.signing_in import unlimited
from tests.pictures import chunk, drawn_png, gif, png
from tests.receiver import CRUMBS, answering, hanging_up, receiving

UNSET: Final[dict[str, Any]] = {
    **dict.fromkeys(("logo_url", "primary_color", "second_color", "corner", "font", "help_url", "privacy_url", "terms_url")),
    **dict.fromkeys(("logo", "dark_logo", "favicon", "background")),
    "pale_uses": [],
}
# What a dark red is too dark for.
DARK_RED: Final = {
    "primary_color": "#a01040",
    "pale_uses": [
        {"use": "links", "scheme": "dark", "contrast": 2.07, "needed": 4.5, "nearest": "#e35775"},
        {"use": "edges", "scheme": "dark", "contrast": 2.07, "needed": 3.0, "nearest": "#bf3659"},
    ],
}


class BrandingScene(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.speaker = self.resident(self.acme, "admin")
        self.member = self.resident(self.acme, "member")
        self.stranger = self.resident(self.globex, "owner")

    async def ask(self, method: str, body: Any = None, *, of: str = "acme", by: Person | None = None) -> Received:
        return await self.request(method, f"/api/organizations/{of}/branding", body, by=by)

    def digest(self) -> str | None:
        (row,) = self.people.rows("select logo_digest from organizations where slug = 'acme'")
        found: str | None = row["logo_digest"]
        return found


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> BrandingScene:
    return BrandingScene(postern, people, unlimited(postern), log)


def url(port: int, path: str = "/logo.png") -> str:
    return f"http://127.0.0.1:{port}{path}"


async def test_looks_are_changed_part_by_part_and_removed(scene: BrandingScene) -> None:
    assert (await scene.ask("GET", by=scene.member)).ok(200) == UNSET
    assert (await scene.ask("PATCH", {"primary_color": "#A01040"})).ok(200) == {**UNSET, **DARK_RED}
    async with receiving(answering(200, png(), "Content-Type: text/html")) as receiver:
        there = url(receiver.port)
        told: dict[str, Any] = {**UNSET, **DARK_RED, "logo_url": there}
        told["logo"] = f"{BASE_URL}/logos/{sha256(png()).hexdigest()}"
        assert (await scene.ask("PATCH", {"logo_url": there})).ok(200) == told
        (call,) = receiver.calls
    assert call.body == b""
    assert (await scene.ask("GET", by=scene.member)).ok(200) == told
    assert (await scene.ask("PATCH", {"logo_url": None})).ok(200) == {**told, "logo_url": None, "logo": None}
    assert (scene.digest(), scene.people.rows("select from logos")) == (None, [])
    assert (await scene.ask("PATCH", {"primary_color": None})).ok(200) == UNSET
    assert (await scene.ask("PATCH", {"primary_color": None})).ok(200) == UNSET
    changes = [one["details"]["changed"] for one in scene.audited("branding.updated")]
    assert changes == [["primary_color"], ["logo_url"], ["logo_url"], ["primary_color"]]


async def test_links_are_changed_one_by_one_and_stand_at_the_foot_of_its_pages(scene: BrandingScene) -> None:
    links = {"help_url": "https://acme.example/help?from=a&b=c", "terms_url": "https://acme.example/terms"}
    assert (await scene.ask("PATCH", links)).ok(200) == {**UNSET, **links}
    assert (await scene.ask("PATCH", {"privacy_url": "https://acme.example/privacy", "terms_url": None})).ok(200) == {
        **UNSET,
        "help_url": links["help_url"],
        "privacy_url": "https://acme.example/privacy",
    }
    invited = (await scene.request("POST", "/api/organizations/acme/invitations", {"email": "new@example.org", "role": "member"})).ok()
    shown = (await scene.client.get(f"/ui/invitations/accept?token={invited['token']}")).body.decode()
    foot = shown.partition("<footer>")[2]
    assert '<a href="https://acme.example/help?from=a&amp;b=c">Help</a>' in foot
    assert '<a href="https://acme.example/privacy">Privacy</a>' in foot
    assert "Terms" not in foot
    changes = [one["details"]["changed"] for one in scene.audited("branding.updated")]
    assert changes == [["help_url", "terms_url"], ["privacy_url", "terms_url"]]
    # The page of another organization has none of these links, and our own pages have none.
    of = "/api/organizations/globex/invitations"
    other = (await scene.request("POST", of, {"email": "n@example.org", "role": "member"}, by=scene.stranger)).ok()
    assert "acme.example" not in (await scene.client.get(f"/ui/invitations/accept?token={other['token']}")).body.decode()
    assert "acme.example" not in (await scene.client.get("/ui/sign-in")).body.decode()


@pytest.mark.parametrize("field", ["help_url", "privacy_url", "terms_url"])
@pytest.mark.parametrize(
    "address",
    [
        "http://acme.example/",
        "javascript:alert(1)",
        "//acme.example/",
        "https://user:secret@acme.example/",
        'https://acme.example/"onclick=',
        "https://acme.example/" + "a" * 2000,
        "mailto:help@acme.example",
    ],
)
async def test_what_is_no_link_by_https_is_refused(scene: BrandingScene, field: str, address: str) -> None:
    refused = await scene.ask("PATCH", {field: address})
    assert (refused.status, field in refused.json()["error"]) == (400, True), refused.body
    assert (await scene.ask("GET")).ok(200) == UNSET


async def test_the_logo_is_shown_from_our_own_address_as_what_it_is(scene: BrandingScene) -> None:
    async with receiving(answering(200, png(), "Content-Type: text/html")) as receiver:
        (await scene.ask("PATCH", {"logo_url": url(receiver.port)})).ok(200)
    shown = await scene.client.get(f"/logos/{scene.digest()}")
    assert (shown.status, shown.body) == (200, png())
    headers = dict(shown.headers)
    assert headers["content-type"] == "image/png"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == FOREVER
    assert "default-src 'none'" in headers["content-security-policy"]
    branding = await scene.postern.foundation.brandings.find("acme")
    assert branding is not None
    assert branding.logo == f"/logos/{scene.digest()}"


async def test_pages_show_it_and_nothing_of_another_address(scene: BrandingScene) -> None:
    from core.domain.languages import DEFAULT  # noqa: PLC0415
    from entrypoints.http.pages.kit import shipped_pages  # noqa: PLC0415

    async with receiving(answering(200, png())) as receiver:
        (await scene.ask("PATCH", {"logo_url": url(receiver.port)})).ok(200)
    branding = await scene.postern.foundation.brandings.find("acme")
    assert branding is not None
    page = shipped_pages().said("Title", "Text", DEFAULT, good=True, brand=branding).decode()
    assert f'<img class="logo" src="/logos/{scene.digest()}" alt="">' in page
    assert "127.0.0.1" not in page


async def test_sending_the_address_again_brings_the_new_picture(scene: BrandingScene) -> None:
    async with receiving(answering(200, png())) as receiver:
        (await scene.ask("PATCH", {"logo_url": url(receiver.port)})).ok(200)
    before = scene.digest()
    async with receiving(answering(200, gif())) as receiver:
        (await scene.ask("PATCH", {"logo_url": url(receiver.port)})).ok(200)
    assert scene.digest() != before
    assert (await scene.client.get(f"/logos/{before}")).status == 404
    assert dict((await scene.client.get(f"/logos/{scene.digest()}")).headers)["content-type"] == "image/gif"
    assert len(scene.people.rows("select from logos")) == 1


async def test_two_organizations_may_have_the_same_logo(scene: BrandingScene) -> None:
    async with receiving(answering(200, png())) as receiver:
        (await scene.ask("PATCH", {"logo_url": url(receiver.port)})).ok(200)
        (await scene.ask("PATCH", {"logo_url": url(receiver.port)}, of="globex", by=scene.stranger)).ok(200)
    (await scene.ask("PATCH", {"logo_url": None})).ok(200)
    (other,) = scene.people.rows("select digest from logos")
    assert (await scene.client.get(f"/logos/{other['digest']}")).status == 200


@pytest.mark.parametrize("digest", ["x", "0" * 64, "..", "%00"])
async def test_there_is_no_other_logo(scene: BrandingScene, digest: str) -> None:
    assert (await scene.client.get(f"/logos/{digest}")).status in {400, 404}


async def test_a_suspended_organization_shows_none(scene: BrandingScene) -> None:
    async with receiving(answering(200, png())) as receiver:
        (await scene.ask("PATCH", {"logo_url": url(receiver.port)})).ok(200)
    scene.people.change("update organizations set status = 'suspended' where slug = 'acme'")
    assert (await scene.client.get(f"/logos/{scene.digest()}")).status == 404


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answering(200, b"<svg xmlns='http://www.w3.org/2000/svg'/>", "Content-Type: image/svg+xml"), "does not return a PNG"),
        (answering(200, png(padding=300_000)), "more than 256 KiB"),
        (answering(302, b"", "Location: http://169.254.169.254/"), "redirects are not followed"),
        (answering(404, png()), "answered 404"),
        (hanging_up, "no HTTP response"),
        *((crumbs, "no HTTP response") for crumbs in CRUMBS.values()),
    ],
)
async def test_what_is_no_logo_is_refused_in_words_and_changes_nothing(scene: BrandingScene, answer: Any, words: str) -> None:
    async with receiving(answer) as receiver:
        refused = await scene.ask("PATCH", {"logo_url": url(receiver.port), "primary_color": "#000000"})
    assert (refused.status, words in refused.json()["error"]) == (400, True), refused.body
    assert (await scene.ask("GET")).ok(200) == UNSET
    assert scene.audited("branding.updated") == []


async def test_where_nobody_answers_is_refused_in_words(scene: BrandingScene) -> None:
    for there, words in ((url(1), "could not be reached"), ("https://nobody.invalid/", "no such host")):
        refused = await scene.ask("PATCH", {"logo_url": there})
        assert (refused.status, words in refused.json()["error"]) == (400, True), refused.body


@pytest.mark.parametrize("body", [{}, {"primary_color": "red"}, {"primary_color": 5}, {"logo_url": ""}, {"logo_url": "x"}])
async def test_what_is_wrong_is_refused(scene: BrandingScene, body: Any) -> None:
    assert (await scene.ask("PATCH", body)).status == 400


async def test_a_wrong_colour_is_told_before_anything_is_fetched(scene: BrandingScene) -> None:
    async with receiving(answering(200, png())) as receiver:
        assert (await scene.ask("PATCH", {"logo_url": url(receiver.port), "primary_color": "red"})).status == 400
        assert receiver.calls == []


async def test_no_address_leads_inside(scene: BrandingScene) -> None:
    """Postern may call 127.0.0.1 here, and no other internal address."""
    hosts = [f"[{one}]" if ":" in one else one for one in HOSTILE_ADDRESSES]
    allowed = {"127.0.0.1", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"}
    for there in (*(f"http://{host}/" for host in hosts if host not in allowed), *HOSTILE_URLS):
        refused = await scene.ask("PATCH", {"logo_url": there})
        assert (refused.status, "logo_url" in refused.json()["error"]) == (400, True), there
    assert scene.log.events("outbound_refused")


async def test_others_neither_see_nor_change_them(scene: BrandingScene) -> None:
    (await scene.ask("PATCH", {"primary_color": "#000000"})).ok(200)
    assert (await scene.ask("GET", of="globex", by=scene.stranger)).ok(200) == UNSET
    assert (await scene.ask("GET", by=scene.stranger)).status == 403
    for person in (scene.member, scene.stranger):
        assert (await scene.ask("PATCH", {"primary_color": "#ffffff"}, by=person)).status == 403
    assert (await scene.ask("GET")).ok(200)["primary_color"] == "#000000"


async def test_round_trips(scene: BrandingScene) -> None:
    async with receiving(answering(200, png())) as receiver:
        for body in ({"primary_color": "#123456"}, {"logo_url": url(receiver.port)}, {"logo_url": None}):
            (await scene.ask("PATCH", body)).ok(200)
            assert scene.log.events("request")[-1]["db_round_trips"] <= 5
    await scene.ask("GET")
    assert scene.log.events("request")[-1]["db_round_trips"] <= 2


async def test_an_organization_that_is_gone_meanwhile_has_no_looks(scene: BrandingScene) -> None:
    caller = SimpleNamespace(organization=OrganizationId(uuid4()))
    with pytest.raises(NotFound):
        await scene.postern.tenancy.branding.get(cast("Member", caller))


async def upload(scene: BrandingScene, content: bytes, kind: str = "image/png", *, by: Person | None = None, of: str = "acme") -> Received:
    place = f"/api/organizations/{of}/branding/logo"
    token = await scene.tenants.token(by or scene.speaker)
    return await scene.client.request("PUT", place, body=content, token=token, headers=[("content-type", kind)])


async def test_a_logo_is_uploaded_shown_to_everybody_and_removed(scene: BrandingScene) -> None:
    told = (await upload(scene, drawn_png())).ok()
    assert told == {**UNSET, "logo": f"{BASE_URL}/logos/{scene.digest()}"}
    shown = await scene.client.get(f"/logos/{scene.digest()}")
    assert (shown.status, shown.header("content-type"), shown.header("x-content-type-options")) == (200, "image/png", "nosniff")
    assert "immutable" in (shown.header("cache-control") or "")
    # The same again changes nothing, and is not on record.
    assert (await upload(scene, drawn_png())).ok() == told
    assert [entry["details"] for entry in scene.audited("branding.updated")] == [{"changed": ["logo"]}]
    token = await scene.tenants.token(scene.speaker)
    for _ in range(2):
        assert (await scene.client.request("DELETE", "/api/organizations/acme/branding/logo", token=token)).status == 204
    assert (await scene.ask("GET")).ok() == UNSET
    assert (await scene.client.get(told["logo"].removeprefix(BASE_URL))).status == 404
    assert scene.people.rows("select from logos") == []
    assert len(scene.audited("branding.updated")) == 2


async def test_an_uploaded_logo_takes_the_place_of_a_fetched_one_and_gives_way_to_another(scene: BrandingScene) -> None:
    async with receiving(answering(200, gif())) as receiver:
        there = url(receiver.port)
        fetched = (await scene.ask("PATCH", {"logo_url": there})).ok()
        uploaded = (await upload(scene, drawn_png())).ok()
        assert (uploaded["logo_url"], uploaded["logo"] != fetched["logo"]) == (None, True)
        assert scene.audited("branding.updated")[-1]["details"] == {
            "changed": ["logo", "logo_url"],
            "old_logo_url": there,
            "new_logo_url": None,
        }
        assert (await scene.ask("PATCH", {"logo_url": there})).ok() == fetched
    assert len(scene.people.rows("select from logos")) == 1


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "image/png", 400),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", 415),
        (gif(), "image/gif", 415),
        (gif(), "image/png", 400),
        (drawn_png(), "image/jpeg", 400),
        (drawn_png()[:40], "image/png", 400),
        (drawn_png(2049, 1), "image/png", 400),
        (b"", "image/png", 400),
        (drawn_png() + bytes(256 << 10), "image/png", 413),
    ],
)
async def test_what_is_no_picture_is_no_logo(content: bytes, kind: str, status: int, scene: BrandingScene) -> None:
    assert (await upload(scene, content, kind)).status == status
    assert scene.people.rows("select from logos") == []


async def test_only_who_manages_the_settings_uploads_a_logo(scene: BrandingScene) -> None:
    for person in (scene.member, scene.stranger):
        assert (await upload(scene, drawn_png(), by=person)).status == 403
    token = await scene.tenants.token(scene.member)
    assert (await scene.client.request("DELETE", "/api/organizations/acme/branding/logo", token=token)).status == 403
    assert scene.people.rows("select from logos") == []


async def test_a_second_colour_corners_and_a_font_are_set_one_by_one(scene: BrandingScene) -> None:
    (await scene.ask("PATCH", {"corner": 12})).ok()
    (await scene.ask("PATCH", {"font": "serif"})).ok()
    told = (await scene.ask("PATCH", {"second_color": "#A01040"})).ok()
    assert told == {**UNSET, "corner": 12, "font": "serif", "second_color": "#a01040"}
    assert (await scene.ask("GET", by=scene.member)).ok() == told
    branding = await scene.postern.foundation.brandings.find("acme")
    assert branding is not None
    assert branding.look == Look(corner=12, font=Font.SERIF, second_color="#a01040")
    assert (await scene.ask("PATCH", {"corner": None, "font": None, "second_color": None})).ok() == UNSET
    # Nothing of its own is nothing stored.
    assert scene.people.rows("select look from organizations where slug = 'acme'") == [{"look": None}]
    changes = [one["details"]["changed"] for one in scene.audited("branding.updated")]
    assert changes == [["corner"], ["font"], ["second_color"], ["second_color", "corner", "font"]]


async def test_links_that_cannot_be_read_are_refused_with_the_nearest_colour(scene: BrandingScene) -> None:
    refused = await scene.ask("PATCH", {"second_color": "#ffe066"})
    assert refused.status == 400
    nearest = refused.json()["error"].rpartition(" ")[2]
    assert (await scene.ask("PATCH", {"second_color": nearest})).ok()["second_color"] == nearest


async def test_the_answer_says_what_a_colour_is_not_used_for(scene: BrandingScene) -> None:
    told = (await scene.ask("PATCH", {"primary_color": "#ffe066"})).ok()
    assert [(one["use"], one["scheme"]) for one in told["pale_uses"]] == [("links", "light"), ("edges", "light")]
    nearest = told["pale_uses"][0]["nearest"]
    found = (await scene.ask("PATCH", {"primary_color": nearest})).ok()["pale_uses"]
    assert ("links", "light") not in [(one["use"], one["scheme"]) for one in found]


@pytest.mark.parametrize(
    "body", [{"corner": 5}, {"corner": "4"}, {"font": "comic"}, {"font": ""}, {"second_color": "red"}, {"corner": 4.5}]
)
async def test_a_look_that_cannot_be_is_refused(body: Any, scene: BrandingScene) -> None:
    assert (await scene.ask("PATCH", body)).status == 400
    assert (await scene.ask("GET")).ok() == UNSET


FURTHER: Final = {"dark-logo": "dark_logo", "favicon": "favicon", "background": "background"}


async def send(scene: BrandingScene, method: str, place: str, content: bytes | None = None, *, by: Person | None = None) -> Received:
    token = await scene.tenants.token(by or scene.speaker)
    headers = [("content-type", "image/png")] if content is not None else []
    path = f"/api/organizations/acme/branding/{place}"
    return await scene.client.request(method, path, body=content, token=token, headers=headers)


@pytest.mark.parametrize(("place", "field"), FURTHER.items())
async def test_a_picture_is_uploaded_shown_replaced_and_removed(place: str, field: str, scene: BrandingScene) -> None:
    first = (await send(scene, "PUT", place, drawn_png())).ok()
    assert first == {**UNSET, field: first[field]}
    shown = await scene.client.get(first[field].removeprefix(BASE_URL))
    assert (shown.status, shown.header("content-type"), shown.header("x-content-type-options")) == (200, "image/png", "nosniff")
    assert shown.header("cache-control") == FOREVER
    # The same again changes nothing.
    assert (await send(scene, "PUT", place, drawn_png())).ok() == first
    second = (await send(scene, "PUT", place, drawn_png(3, 3))).ok()
    assert second[field] != first[field]
    assert (await scene.client.get(first[field].removeprefix(BASE_URL))).status == 404
    assert len(scene.people.rows("select from look_pictures")) == 1
    for _ in range(2):
        assert (await send(scene, "DELETE", place)).status == 204
    assert (await scene.ask("GET")).ok() == UNSET
    assert scene.people.rows("select from look_pictures") == []
    assert [entry["details"] for entry in scene.audited("branding.updated")] == [{"changed": [field]}] * 3


async def test_pictures_do_not_push_each_other_out(scene: BrandingScene) -> None:
    (await upload(scene, drawn_png())).ok()
    for place in FURTHER:
        (await send(scene, "PUT", place, drawn_png())).ok()
    told = (await scene.ask("PATCH", {"corner": 0})).ok()
    assert len({told[field] for field in ("logo", *FURTHER.values())}) == 1
    assert (await send(scene, "DELETE", "favicon")).status == 204
    left = (await scene.ask("GET")).ok()
    assert left == {**told, "favicon": None}
    # The others have the same digest, and are still shown.
    assert (await scene.client.get(told["logo"].removeprefix(BASE_URL))).status == 200


@pytest.mark.parametrize("place", FURTHER)
@pytest.mark.parametrize(
    "content",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        drawn_png()[:40],
        drawn_png(2, 2, chunk(b"acTL", bytes(8))),
        drawn_png(2049, 2049),
        b"",
    ],
)
async def test_what_is_no_picture_of_a_look_is_refused(place: str, content: bytes, scene: BrandingScene) -> None:
    assert (await send(scene, "PUT", place, content)).status == 400
    assert scene.people.rows("select from look_pictures") == []


@pytest.mark.parametrize(("place", "kib"), [("dark-logo", 256), ("favicon", 32), ("background", 200)])
async def test_a_picture_that_is_too_large_is_refused(place: str, kib: int, scene: BrandingScene) -> None:
    assert (await send(scene, "PUT", place, drawn_png() + bytes(kib << 10))).status == 413


async def test_only_who_manages_the_settings_changes_pictures(scene: BrandingScene) -> None:
    for place in FURTHER:
        for person in (scene.member, scene.stranger):
            assert (await send(scene, "PUT", place, drawn_png(), by=person)).status == 403
            assert (await send(scene, "DELETE", place, by=person)).status == 403
    assert scene.people.rows("select from look_pictures") == []


async def test_of_two_administrators_neither_takes_back_what_the_other_does(scene: BrandingScene) -> None:
    """A picture, a colour and a font are parts of one text, which each change writes anew."""
    other = scene.tenants.member(scene.acme, "admin")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(send, scene, "PUT", "background", drawn_png(), by=other))
        nursery.start_soon(partial(send, scene, "PUT", "favicon", drawn_png()))
        nursery.start_soon(partial(scene.ask, "PATCH", {"corner": 4}, by=other))
        nursery.start_soon(partial(scene.ask, "PATCH", {"font": "mono"}))
        nursery.start_soon(partial(scene.ask, "PATCH", {"second_color": "#a01040"}, by=other))
    told = (await scene.ask("GET")).ok()
    assert None not in (told["background"], told["favicon"])
    assert (told["corner"], told["font"], told["second_color"]) == (4, "mono", "#a01040")


async def test_of_two_backgrounds_at_once_one_is_shown(scene: BrandingScene) -> None:
    async with trio.open_nursery() as nursery:
        for size in (2, 3, 4):
            nursery.start_soon(partial(send, scene, "PUT", "background", drawn_png(size, size)))
    told = (await scene.ask("GET")).ok()
    (row,) = scene.people.rows("select digest from look_pictures")
    assert told["background"].endswith(row["digest"])
    assert (await scene.client.get(told["background"].removeprefix(BASE_URL))).status == 200


async def test_pictures_are_shown_while_the_organization_is_active(scene: BrandingScene) -> None:
    told = (await send(scene, "PUT", "background", drawn_png())).ok()
    scene.people.change("update organizations set status = 'suspended' where slug = 'acme'")
    assert (await scene.client.get(told["background"].removeprefix(BASE_URL))).status == 404


async def test_a_page_wears_the_look_and_no_other_organizations(scene: BrandingScene) -> None:
    (await scene.ask("PATCH", {"corner": 0, "font": "serif"})).ok()
    told = (await send(scene, "PUT", "background", drawn_png())).ok()
    digest = told["background"].rpartition("/")[2]
    invited = (await scene.request("POST", "/api/organizations/acme/invitations", {"email": "new@example.org", "role": "member"})).ok()
    page = await scene.client.get(f"/ui/invitations/accept?token={invited['token']}")
    (sheet,) = [one for one in page.body.decode().split('"') if one.endswith(f"/pages-x-x-0-serif-{digest}.css")]
    style = await scene.client.get(sheet)
    assert (style.status, style.header("cache-control")) == (200, FOREVER)
    assert f"--background:url(/logos/{digest})".encode() in style.body
    assert "img-src 'self'" in (page.header("content-security-policy") or "")
    of = "/api/organizations/globex/invitations"
    other = (await scene.request("POST", of, {"email": "n@example.org", "role": "member"}, by=scene.stranger)).ok()
    assert digest not in (await scene.client.get(f"/ui/invitations/accept?token={other['token']}")).body.decode()


async def test_round_trips_of_pictures(scene: BrandingScene) -> None:
    for method, content in (("PUT", drawn_png()), ("DELETE", None)):
        await send(scene, method, "background", content)
        assert scene.log.events("request")[-1]["db_round_trips"] <= 5

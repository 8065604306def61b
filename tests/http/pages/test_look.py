"""The look of all pages: readable colours, in light and dark and for every organization; and the size of a first visit."""

import re
from collections.abc import Mapping
from gc import collect
from typing import Any, Final
from weakref import ref

import pytest
from hypothesis import given, strategies

from core.domain.branding import CORNERS, DARK, LIGHT, PLAIN, POSTERN, READABLE, VISIBLE, Branding, Font, Look, contrast, nearest_color
from core.domain.identity.profiles import SHADES
from core.domain.languages import Language
from core.domain.texts.own_texts import OwnTexts
from entrypoints.http.pages.kit import FOREVER, Pages, breakable, breakable_addresses, shipped_pages
from entrypoints.http.pages.kit.look import PageLook
from tests.http.client import Client

MOST_BYTES: Final = 30 * 1024
COLORS = strategies.integers(0, 0xFFFFFF).map(lambda number: f"#{number:06x}")
# One renders pages, and the other has just started.
ONCE, ANEW = Pages(), Pages()
SHEET: Final = (shipped_pages().asset(*shipped_pages().asset_url("pages.css").split("/")[2:]) or (b"", ""))[0].decode()


def palettes(sheet: str) -> Mapping[str, Mapping[str, str]]:
    """The colours that a browser derives from the style sheet: later declarations win, and dark ones win over light ones."""
    light: dict[str, str] = {}
    dark: dict[str, str] = {}
    for media, block in re.findall(r"(@media \(prefers-color-scheme: ?dark\) ?\{\s*)?:root ?\{([^}]*)\}", sheet):
        (dark if media else light).update(re.findall(r"--([a-z0-9-]+):\s*([^;]+?)\s*(?:;|$)", block))
    return {"light": _resolved(light), "dark": _resolved(light | dark)}


def _resolved(palette: Mapping[str, str]) -> Mapping[str, str]:
    return {name: palette[value[6:-1]] if value.startswith("var(--") else value for name, value in palette.items()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_written_can_be_read(scheme: str) -> None:
    is_now = palettes(SHEET)[scheme]
    grounds = ("ground", "surface")
    written = [(ink, ground) for ink in ("text", "soft", "link", "bad") for ground in grounds]
    written += [("shade-ink", f"shade{number}") for number in range(SHADES)]
    written += [("ink", "accent"), ("bad", "bad-ground"), ("good", "good-ground"), ("warn", "warn-ground")]
    written += [(ink, f"{kind}-ground") for ink in ("text", "link") for kind in ("good", "warn", "bad")]
    assert {
        pair: contrast(is_now[pair[0]], is_now[pair[1]]) for pair in written if contrast(is_now[pair[0]], is_now[pair[1]]) < READABLE
    } == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_edges_of_what_can_be_used_can_be_seen(scheme: str) -> None:
    is_now = palettes(SHEET)[scheme]
    edges = [(edge, ground) for edge in ("edge", "accent-edge", "bad", "good", "warn") for ground in ("ground", "surface")]
    assert {
        pair: contrast(is_now[pair[0]], is_now[pair[1]]) for pair in edges if contrast(is_now[pair[0]], is_now[pair[1]]) < VISIBLE
    } == {}


@given(COLORS)
def test_every_organizations_colour_leaves_its_pages_readable(color: str) -> None:
    for is_now in palettes(SHEET + PageLook(color).declarations().decode()).values():
        assert is_now["accent"] == color
        assert contrast(is_now["ink"], color) >= READABLE
        for ground in ("ground", "surface"):
            assert contrast(is_now["link"], is_now[ground]) >= READABLE
            assert contrast(is_now["accent-edge"], is_now[ground]) >= VISIBLE


def test_the_grounds_that_colours_are_judged_on_are_those_of_the_stylesheet() -> None:
    for scheme, grounds in (("light", LIGHT), ("dark", DARK)):
        is_now = palettes(SHEET)[scheme]
        assert (is_now["surface"], is_now["ground"]) == grounds


def test_no_colour_stands_outside_of_the_palette() -> None:
    """The QR code is the exception, since scanners need it dark on light."""
    rules = re.sub(r":root ?\{[^}]*\}", "", SHEET)
    assert re.findall(r"#[0-9a-f]{3,8}\b|rgb\(|hsl\(", rules) == ["#ffffff"]


def test_an_organizations_stylesheet_is_ours_and_its_colour() -> None:
    pages = Pages()
    url = pages.stylesheet(Branding("Acme", color="#a01040"))
    _, _, digest, name = url.split("/")
    found = pages.asset(digest, name)
    assert found is not None
    assert found[0].decode() == SHEET + PageLook("#a01040").declarations().decode()
    assert pages.stylesheet(POSTERN) == pages.asset_url("pages.css") != url
    assert pages.asset(digest, "pages-a01041.css") is None
    assert pages.asset(digest, "pages.css") is None
    assert pages.asset(digest, "pages-A01040.css") is None
    assert pages.asset(digest, "pages-a01040.js") is None


LOOKS: Final = strategies.builds(
    Look,
    dark_logo=strategies.none(),
    favicon=strategies.none(),
    background=strategies.none() | strategies.just("0f" * 32),
    second_color=strategies.none() | COLORS,
    corner=strategies.none() | strategies.sampled_from(CORNERS),
    font=strategies.none() | strategies.sampled_from(Font),
    notice_from=strategies.none(),
    notice_until=strategies.none(),
)


@given(COLORS | strategies.just(POSTERN.color), LOOKS)
def test_the_address_of_a_stylesheet_says_all_that_is_in_it(color: str, look: Look) -> None:
    """A process that has just started, and has never rendered a page of the organization, serves the same sheet."""
    _, _, digest, name = ONCE.stylesheet(Branding("Acme", color=color, look=look)).split("/")
    served = ANEW.asset(digest, name)
    assert served is not None
    assert served == ONCE.asset(digest, name)
    if name != "pages.css":
        assert PageLook.named(name.removeprefix("pages-").removesuffix(".css")) == PageLook.of(color, look)


@given(COLORS, COLORS)
def test_links_in_the_second_colour_can_be_read_on_dark_pages_too(color: str, second: str) -> None:
    worn = PageLook(color, nearest_color(second, LIGHT, READABLE))
    for is_now in palettes(SHEET + worn.declarations().decode()).values():
        for ground in ("ground", "surface"):
            assert contrast(is_now["accent-2"], is_now[ground]) >= READABLE
        assert is_now["link"] == is_now["accent-2"]


@pytest.mark.parametrize(
    "name",
    [
        "pages-a01040-x-x-x.css",
        "pages-a01040-x-x-x-x.css",
        "pages-0f5f5c-x-5-x-x.css",
        "pages-x-x-x-comic-x.css",
        "pages-x-x-x-x-0f.css",
        "pages-x-x-x-x-" + "0F" * 32 + ".css",
        "pages-a01040;}body{display:none}.css",
        "pages-a0104\u0660.css",
        "pages-..%2f..%2fa01040.css",
        "pages-" + "a" * 100_000 + ".css",
        "other-a01040.css",
    ],
)
def test_a_made_up_name_says_nothing(name: str) -> None:
    said = name.removeprefix("pages-").removesuffix(".css")
    assert PageLook.named(said) is None
    assert ANEW.asset("0" * 16, name) is None


def test_made_up_looks_take_no_place() -> None:
    """Whoever asks for many sheets must not push out those that pages use."""
    pages = Pages()
    _, _, digest, name = pages.stylesheet(Branding("Acme", color="#a01040")).split("/")
    for number in range(500):
        pages.asset("0" * 16, f"pages-{number:06x}.css")
    assert list(pages._kept_sheets) == [name]
    for number in range(300):
        pages.stylesheet(Branding("Acme", color=f"#{number:06x}"))
    assert len(pages._kept_sheets) == 256
    assert name not in pages._kept_sheets
    # It is made again when somebody asks for it.
    assert pages.asset(digest, name) is not None


def test_a_background_lies_behind_cards_alone() -> None:
    sheet = PageLook(None, background="0f" * 32).declarations().decode()
    assert f"--background:url(/logos/{'0f' * 32})" in sheet
    assert ".flow{background:var(--background) center/cover no-repeat var(--ground)}" in sheet
    texts = sheet.partition(".flow .brand,.flow footer{")[2]
    assert "background:var(--surface)" in texts
    assert "http" not in sheet


def test_a_page_has_the_pictures_of_its_organization() -> None:
    look = Look(dark_logo="1f" * 32, favicon="2f" * 32)
    brand = Branding("Acme", logo="/logos/" + "0f" * 32, look=look)
    page = shipped_pages().said("Title", "Text", Language.ENGLISH, good=True, brand=brand).decode()
    assert f'<link rel="icon" href="/logos/{"2f" * 32}">' in page
    assert f'<source media="(prefers-color-scheme: dark)" srcset="/logos/{"1f" * 32}">' in page
    plain = shipped_pages().said("Title", "Text", Language.ENGLISH, good=True, brand=Branding("Acme", look=PLAIN)).decode()
    assert '<link rel="icon" type="image/svg+xml"' in plain
    assert "<picture>" not in plain
    # A stored look that says nothing has no sheet of its own.
    assert shipped_pages().stylesheet(Branding("Acme", look=Look(favicon="2f" * 32))) == shipped_pages().asset_url("pages.css")


_FULL: Final = Look(background="0f" * 32, second_color="#0f5f5c", corner=12, font=Font.HUMANIST)


@pytest.mark.parametrize(("color", "look"), [(POSTERN.color, PLAIN), ("#ffe066", PLAIN), ("#ffe066", _FULL)])
async def test_a_first_visit_loads_little(color: str, look: Look, lonely_client: Client) -> None:
    page = shipped_pages().page(
        "mailed/choose_password.html",
        Language.ENGLISH,
        brand=Branding("Acme", color=color, look=look),
        title="Choose a new password",
        action="/ui/reset-password",
        token="x" * 64,
        errors={},
        shortest=8,
        longest=128,
        listed=[],
        keys=[],
        recent=[],
    )
    loaded = re.findall(r'(?:href|src)="(/assets/[^"]+)"', page.decode())
    assert [place.rpartition(".")[2] for place in loaded] == ["svg", "css", "js"]
    answers = [await lonely_client.get(place) for place in loaded]
    assert [(answer.status, answer.header("cache-control")) for answer in answers] == [(200, FOREVER)] * 3
    assert len(page) + sum(len(answer.body) for answer in answers) <= MOST_BYTES


@pytest.mark.parametrize(
    "fields",
    [{"code": "x"}, *({"code": f"x{one}y"} for one in "&<>\"'"), {"SAMLResponse": "A" * 5000, "RelayState": "</form>\"'&<!-- x -->"}],
)
def test_the_page_that_leaves_is_the_same_filled_as_made(fields: dict[str, str]) -> None:
    """The page's template is made once for each address, and filled each time."""
    pages, brand = shipped_pages(), Branding("Nutters & <Söhne>")
    words: dict[str, Any] = {"action": "https://app.example.com/a?b=1&c=<", "title": "To <x>", "label": "Go on"}
    for language in Language:
        made = pages.page("leave_form.html", language, brand=brand, hidden=fields, **words)
        for _ in range(2):
            assert pages.leaving(language, brand=brand, fields=fields, **words) == made
        assert pages.leaving(language, fields=fields, **words) != made


def test_pages_that_leave_are_kept_within_a_bound_and_hold_no_texts() -> None:
    pages, held = Pages(), list[Any]()
    words: dict[str, Any] = {"action": "https://app.example.com", "fields": {}, "title": "To", "label": "Go on"}
    for number in range(2):
        texts = OwnTexts(str(number), {Language.ENGLISH: {"own.footer": f"Foot {number}"}})
        held.append(ref(texts))
        for _ in range(2):
            assert f"Foot {number}".encode() in pages.leaving(Language.ENGLISH, brand=Branding("Acme", texts=texts), **words)
        del texts
    collect()
    assert [one() for one in held] == [None, None]
    for number in range(300):
        pages.leaving(Language.ENGLISH, brand=Branding(f"Acme {number}"), **words)
    assert len(pages._around_fields) == 256


def test_a_long_address_breaks_behind_its_marks() -> None:
    """A line that began with a dot would look like another address."""
    assert breakable("ada.l@example.org") == "ada.l@<wbr>example.<wbr>org"
    assert breakable("<x>.org") == "&lt;x&gt;.<wbr>org"
    assert breakable("2001:db8:1234:5600:9abc:def0:1:2").count(":<wbr>") == 7
    assert breakable("12:30") == "12:30"
    assert breakable_addresses("To a@b.org.") == "To a@b.<wbr>org."

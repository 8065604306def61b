"""Style sheets, styles in mails and scripts speak of start and end, so that a language from right to left needs no sheet of its own.

Lines of all our languages follow each other from top to bottom, so `top` and `bottom` may stay.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from core.domain.branding import Branding, Font, Look
from core.domain.languages import Language
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.look import PageLook
from tests.adapters.mail.test_templates import ACME, TEMPLATES, VALUES
from tests.browser.states import states

ROOT: Final = Path(__file__).parents[3]
SHEETS: Final = sorted([*ROOT.glob("entrypoints/http/**/*.css"), *ROOT.glob("ops/site/**/*.css")])
SCRIPTS: Final = sorted([*ROOT.glob("entrypoints/http/**/*.js"), *ROOT.glob("ops/site/**/*.js")])
TEMPLATE_FILES: Final = sorted(
    file
    for kind in ("adapters/mail/**/*.html", "adapters/mail/**/*.jinja", "entrypoints/http/**/*.html", "ops/site/**/*.html")
    for file in ROOT.glob(kind)
)

# Beside each, why it may stay.
MAY_STAY: Final[Mapping[str, str]] = {
    "border-width: 0 1.500px 1.500px 0": "two edges of a square, which a turn makes an arrow down or up",
    "transform: rotate(45deg) translate(-2px, -2px)": "an arrow down",
    "transform: rotate(-135deg) translate(-2px, -2px)": "an arrow up",
    "border-width: 1.500px 1.500px 0 0": "two edges of a square; from right to left, another turn makes them point to the left",
    "transform: rotate(45deg)": "an arrow along the line, which turns from right to left; in /docs, which is English, one down",
    "transform: rotate(-135deg)": "the arrow along the line from right to left",
    "border-width: 0 2px 2px 0": "two edges of a square; /docs is English",
    "transform: rotate(-45deg)": "an arrow along the line; /docs is English",
}

LOOK: Final = Look(second_color="#103080", corner=12, font=Font.SERIF, background="a" * 64)

_COMMENT: Final = re.compile(r"/\*.*?\*/|\{#.*?#\}", re.DOTALL)
_DECLARATION: Final = re.compile(r"(?<=[{;\s])([a-z-]+)\s*:\s*([^;{}]+)")
_SIDE: Final = re.compile(r"(?<![\w-])(?:left|right)(?![\w-])|-(?:left|right)\b")
_STRING: Final = re.compile(r"\"[^\"]*\"|'[^']*'|url\([^)]*\)")
_ONE_VALUE: Final = re.compile(r"(?:[^\s(]|\([^()]*(?:\([^()]*\)[^()]*)*\))+")
_FOUR_SIDES: Final = frozenset(
    {"margin", "padding", "inset", "border-width", "border-style", "border-color", "scroll-margin", "scroll-padding", "border-image-width"}
)
# A turn, and a way along the line. `translate(0, …)` and `translateY(…)` go along no line.
_MOVES: Final = re.compile(r"rotate\(|skew|matrix|scale(?:X)?\(-|translate(?:X|3d)?\((?!\s*0\s*[,)])")
_SHADOW: Final = re.compile(r"(?:^|,)\s*(?:inset\s+)?(-?[\d.]+)")
_MEASURES: Final = re.compile(
    r"\b(?:offsetLeft|clientLeft|scrollLeft|clientX|pageX|screenX|offsetX|deltaX|marginLeft|marginRight|paddingLeft|paddingRight"
    r"|ArrowLeft|ArrowRight)\b|\.(?:left|right)\b|[\"'](?:left|right)[\"']"
)


def of_sides(property_name: str, value: str) -> bool:
    """Whether a declaration tells left from right."""
    value = _STRING.sub("", value)
    if _SIDE.search(property_name) or _SIDE.search(value):
        return True
    values: list[str] = _ONE_VALUE.findall(value.replace("!important", ""))
    if property_name in _FOUR_SIDES:
        return len(values) == 4 and values[1] != values[3]
    if property_name == "border-radius":
        # A corner that is left out is like the one across.
        top_left, top_right, bottom_right, bottom_left = (values * 4 if len(values) < 3 else [*values, values[1]])[:4]
        return top_left != top_right or bottom_right != bottom_left
    if property_name in {"transform", "translate", "rotate"}:
        return property_name != "transform" or bool(_MOVES.search(value))
    if property_name in {"box-shadow", "text-shadow"}:
        return any(float(along) for along in _SHADOW.findall(value))
    placed = property_name in {"background-position", "background-position-x", "object-position"}
    return placed and values[0] not in {"center", "50%"}


def sided(styles: str) -> Iterator[str]:
    # What a template puts in is another matter: it can ask for the direction.
    for name, value in _DECLARATION.findall(f"\n{_COMMENT.sub('', styles)}"):
        told = f"{name}: {value.strip()}"
        if of_sides(name, value) and told not in MAY_STAY:
            yield told


def styles_in(template: str) -> str:
    """The styles of a template, without what the template puts in."""
    template = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "0", _COMMENT.sub("", template), flags=re.DOTALL)
    return ";".join([*re.findall(r"<style>(.*?)</style>", template, re.DOTALL), *re.findall(r"\bstyle=\"([^\"]*)\"", template)])


@pytest.mark.parametrize("sheet", SHEETS, ids=[str(sheet.relative_to(ROOT)) for sheet in SHEETS])
def test_a_style_sheet_speaks_of_start_and_end(sheet: Path) -> None:
    assert list(sided(sheet.read_text())) == []


def test_the_sheets_that_we_write_speak_of_start_and_end() -> None:
    assert list(sided(PageLook.of("#a01040", LOOK).declarations().decode())) == []


@pytest.mark.parametrize("template", TEMPLATE_FILES, ids=[str(template.relative_to(ROOT)) for template in TEMPLATE_FILES])
def test_a_template_speaks_of_start_and_end(template: Path) -> None:
    source = template.read_text()
    assert list(sided(styles_in(source))) == []
    assert re.findall(r"\balign=\"(?:left|right)\"|\b(?:hspace|leftmargin|rightmargin)=", _COMMENT.sub("", source)) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=[str(script.relative_to(ROOT)) for script in SCRIPTS])
def test_a_script_measures_nothing_from_the_left(script: Path) -> None:
    assert _MEASURES.findall(script.read_text()) == []


def test_every_exception_is_needed() -> None:
    everything = "".join(_COMMENT.sub("", sheet.read_text()) for sheet in SHEETS)
    assert [one for one in MAY_STAY if one not in everything] == []


@pytest.mark.parametrize(
    "written",
    [
        "left: 0",
        "margin-left: 4px",
        "border-top-right-radius: 4px",
        "text-align: left",
        "float: right",
        "margin: 1px 2px 3px 4px",
        "padding: 0 max(1px, (2px + 3px)) 0 0",
        "border-radius: 0 4px 4px 0",
        "border-radius: 4px 0",
        "transform: translate(4px)",
        "transform: translateX(-50%)",
        "box-shadow: inset 2px 0 red",
        "background-position: 8px 0",
        "background: linear-gradient(to right, red, blue)",
    ],
)
def test_a_side_is_found(written: str) -> None:
    assert list(sided(f"a {{ {written}; }}")) == [written]
    assert list(sided(styles_in(f'<p style="color:red;{written.replace(": ", ":")};">'))) == [written]


@pytest.mark.parametrize(
    "written",
    [
        "margin: 1px 2px",
        "margin: 1px 2px 3px 2px",
        "margin: 4px 0 0",
        "border-radius: 0 0 4px 4px",
        "border-radius: 4px",
        "inset-inline-start: 0",
        "transform: translateY(4px)",
        "transform: translate(0, 4px)",
        "box-shadow: 0 2px 4px red",
        'font-family: "Bright left"',
        "padding-block: 1px 2px",
    ],
)
def test_what_knows_no_side_may_stand(written: str) -> None:
    assert list(sided(f"a {{ {written}; }}")) == []


@pytest.mark.parametrize("language", Language)
def test_a_page_says_how_its_lines_run(language: Language) -> None:
    page = shipped_pages().said("a", "b", language, good=True, brand=Branding("Acme (2)")).decode()
    assert f'<html lang="{language.tag}" dir="{"rtl" if language is Language.ARABIC else "ltr"}">' in page
    assert ("\u2068Acme (2)\u2069</title>" in page) == (language is Language.ARABIC)


def test_what_is_typed_runs_as_its_kind_does() -> None:
    """An address, a password and a code run from left to right in every language; a name runs as it is typed."""
    (state,) = (state for state in states() if state.name == "register")
    page = state.page(Language.ARABIC).decode()
    kinds = dict(re.findall(r'<input [^>]*type="(\w+)"[^>]* dir="(\w+)"', page))
    assert kinds == {"email": "ltr", "password": "ltr"}
    drawn = re.search(r"\[dir=\"rtl\"\] \.along ?\{ ?scale: ?-1 1;? ?\}", (ROOT / "entrypoints/http/pages/kit/look/frame.css").read_text())
    assert drawn is not None


@pytest.mark.parametrize("language", [Language.ENGLISH, Language.ARABIC])
def test_a_mail_says_how_its_lines_run(language: Language) -> None:
    """On the body, and on each table: some programs drop the body's, and Outlook listens to attributes alone."""
    start, direction, other = ("right", "rtl", "left") if language is Language.ARABIC else ("left", "ltr", "right")
    mail = TEMPLATES.mail("new_device", "ada@example.org", account=None, language=language, branding=ACME, **VALUES["new_device"])
    assert set(re.findall(r'<(?:html|body|table|div)\b[^>]* dir="(\w+)"', mail.html)) == {direction}
    assert len(re.findall(r"<table\b", mail.html)) == len(re.findall(r"<table\b[^>]* dir=", mail.html))
    assert f'align="{other}"' not in mail.html
    assert mail.html.count(f'align="{start}"') > 6

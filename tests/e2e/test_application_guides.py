"""The guides to applications say how they were tried, and their lines can be used as they stand."""

import configparser
import re
import tomllib

import pytest

from ops.guides.__main__ import PRODUCTS
from ops.guides.pages import Page, pages

TRIED = re.compile(r"\*\*Tested\*\* on \d{4}-\d{2}-\d{2} with (?:(?!\n\n).)*?\d(?:(?!\n\n).)*?`python -m\sops\.guides (\w+)`", re.DOTALL)
UNTRIED = re.compile(r"\*\*Untested\.\*\* .*\spackage\sregistr.*\sdocumentation", re.DOTALL)


def named(page: Page) -> str:
    return page.name


@pytest.mark.parametrize("page", pages(), ids=named)
def test_a_guide_says_how_it_was_tried(page: Page) -> None:
    tried = TRIED.search(page.text)
    if tried is None:
        assert UNTRIED.search(page.text)
        assert page.name not in {product.page for product in PRODUCTS.values()}
    else:
        assert PRODUCTS[tried[1]].page == page.name


@pytest.mark.parametrize("page", pages(), ids=named)
def test_a_guide_has_the_parts_that_a_reader_looks_for(page: Page) -> None:
    parts = re.findall(r"^## (.+)$", page.text, re.MULTILINE)
    assert [parts[0], *parts[-2:]] == ["Configure Postern", "Sign-out", "Pitfalls"]
    assert any(part.startswith(("Configure ", "Add sign-in ")) for part in parts[1:])
    assert any(part.endswith(" access") for part in parts)
    assert re.search(r"\bsub`", page.text), "accounts are keyed on it"


@pytest.mark.parametrize("page", pages(), ids=named)
def test_the_files_of_a_guide_can_be_read(page: Page) -> None:
    exported = set(re.findall(r"^export (\w+)=", page.shell(), re.MULTILINE))
    for name, text in page.files().items():
        assert set(re.findall(r"<([A-Z][A-Z_]+)>", text)) <= exported, name
        if name.endswith(".py"):
            compile(text, name, "exec")
        elif name.endswith((".toml", ".cfg")):
            tomllib.loads(text)
        elif name.endswith(".ini"):
            configparser.ConfigParser(interpolation=None).read_string(text)


def test_every_product_has_a_guide() -> None:
    assert {product.page for product in PRODUCTS.values()} <= {page.name for page in pages()}

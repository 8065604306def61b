"""A guide that says that its lines were tried names the program or the test that runs them."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from ops.guides.__main__ import PRODUCTS
from tests.places import ROOT

GUIDES: Final = sorted((ROOT / "docs" / "guides").rglob("*.md"))
_SAYS: Final = re.compile(r"\*\*(?:Tried|Tested)\*\*|\b(?:is|are) tried\b|\b(?:tried|tested) (?:with|by)\b", re.IGNORECASE)
_NAMED: Final = re.compile(r"`python -m (ops\.\w+)(?: (\w+))?`|`(tests/[\w/]+(?:\.py)?)`")


def claims(text: str) -> list[str]:
    """The paragraphs and cells that say it, without code."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [part for part in re.split(r"\n\s*\n", prose) if _SAYS.search(part)]


def unfounded(part: str) -> list[str]:
    """What the paragraph names and is not there; or the paragraph itself, if it names nothing."""
    named = _NAMED.findall(" ".join(part.split()))
    if not named:
        return [part]
    missing = [module for module, _, _ in named if module and find_spec(module) is None]
    missing += [product for module, product, _ in named if product and product not in PRODUCTS]
    return missing + [path for _, _, path in named if path and not (ROOT / path).exists()]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_what_was_tried_names_the_program_that_ran(guide: Path) -> None:
    assert [found for part in claims(guide.read_text()) for found in unfounded(part)] == []


@pytest.mark.parametrize(
    ("text", "is_founded"),
    [
        ("**Tested** with a product.", False),
        ("**Tested** by `python -m ops.guides express`.", True),
        ("**Tested** by `python -m ops.guides no_such_product`.", False),
        ("**Tested** by\n`python -m ops.check_tokens`.", True),
        ("Postern's part is tried by a test.", False),
        ("**Tested**: `tests/e2e/starts` runs it.", True),
        ("**Tested**: `tests/e2e/no_such_test.py` runs it.", False),
        ("**Untested.** Nobody has it.\n\n```sh\n# tried\n```\n\nOther words.", True),
    ],
)
def test_a_claim_without_a_program_is_seen(text: str, is_founded: bool) -> None:
    assert (not [found for part in claims(text) for found in unfounded(part)]) is is_founded

"""The lines that the console and the guides show for a framework: one set of names, whole programs, and the guides are those lines.
tests/e2e/starts runs the programs.
"""

import re

import pytest

from entrypoints.http.console.organization.applications.making import CHOSEN, FRAMEWORKS, Framework
from entrypoints.http.description.documentation import curl
from ops.starts.guides import GUIDES, TESTED, UNTESTED, pages, shown
from ops.starts.installed import locked
from ops.starts.pasting import script
from tests.places import ROOT

# How each language reads a variable.
READ = re.compile(r"process\.env\.(\w+)|import\.meta\.env\.(\w+)|ENV\[\"(\w+)\"\]|os\.Getenv\(\"(\w+)\"\)|env\('(\w+)'|\$\{([A-Z]\w+)\}")
NAMES = {"OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET", "APP_URL", "SESSION_SECRET"}
OF_A_LIBRARY = {"NEXTAUTH_URL"}


def by_key(framework: Framework) -> str:
    return framework.key


def test_the_seven_are_tested_and_each_other_one_says_that_it_is_not() -> None:
    assert {one.key for one in FRAMEWORKS if one.tested} == {"nextjs", "react", "vue", "express", "flask", "fastapi", "django"}
    assert {one.key for one in TESTED} == {one.key for one in FRAMEWORKS if one.tested}
    untested = {one.key for one in FRAMEWORKS if one.untested}
    assert untested == {"spring", "rails", "laravel", "go", "dotnet", "spa", "android", "ios"}
    page = (GUIDES / f"{UNTESTED}.md").read_text()
    assert page.count("\nUntested. ") == len(untested - {"spa"})


@pytest.mark.parametrize("framework", TESTED, ids=by_key)
def test_a_program_is_whole(framework: Framework) -> None:
    """It exports what it reads, and reads what it exports; a shell takes it in one paste."""
    program = shown(framework).program
    assert [one.place for one in program if not one.file] == ["environment", "install", "run"]
    exported = set(re.findall(r"^export (\w+)=", program[0].code, re.MULTILINE))
    assert exported <= NAMES
    files = "\n".join(one.code for one in program if one.file)
    assert {name for name in NAMES if re.search(rf"\b{name}\b", files)} == exported
    assert "@" not in re.sub(r"@[a-z]", "", files), "a value was not filled in"
    assert "\nEND\n" not in files
    pasted = script(program)
    for one in program:
        assert one.code in pasted
        if one.file.endswith(".py"):
            compile(one.code, one.file, "exec")


@pytest.mark.parametrize("framework", CHOSEN.values(), ids=by_key)
def test_lines_read_the_names_that_the_console_shows(framework: Framework) -> None:
    read = {name for one in shown(framework).program for found in READ.findall(one.code) for name in found if name}
    assert read - OF_A_LIBRARY <= NAMES


@pytest.mark.parametrize("framework", TESTED, ids=by_key)
def test_what_a_program_installs_is_what_our_lock_has(framework: Framework) -> None:
    """Otherwise the test would run something else than a newcomer."""
    (installing,) = [one.code for one in shown(framework).program if one.place == "install"]
    (named,) = re.findall(r"^(?:npm|pip) install (.+)$", installing, re.MULTILINE)
    assert {re.sub(r"\[.*|\"", "", one) for one in named.split()} <= locked(framework.key)


def test_the_guides_show_the_lines_that_the_tests_run() -> None:
    """`.venv/bin/python -m ops.starts.guides` writes them."""
    assert {file.stem: file.read_text() for file in GUIDES.glob("*.md")} == pages()


def test_no_lock_names_where_it_came_from() -> None:
    locks = list((ROOT / "ops" / "starts").rglob("package-lock.json"))
    assert len(locks) == 2
    for lock in locks:
        assert '"resolved"' not in lock.read_text()


# Names that a product or a library reads of its own accord, and those of Postern's own settings.
OF_A_PRODUCT = re.compile(r"\b(?:OAUTH2?|OIDC_RP|POSTERN_[A-Z]+)_CLIENT_(?:ID|SECRET)\b|\"auth\": {\"CLIENT_ID\"")


def test_every_guide_calls_the_environment_of_an_application_alike() -> None:
    """What a guide exports, a program of another guide reads. The guides of `start` name constants of the program itself, too."""
    for guide in sorted((ROOT / "docs" / "guides").rglob("*.md")):
        text = OF_A_PRODUCT.sub("", guide.read_text())
        named = set(re.findall(r"(?:export |environ\[\"|getenv\(\"|process\.env\.|\$\{?|<)([A-Z_]*CLIENT_(?:ID|SECRET))\b", text))
        named |= {
            name for taken in re.findall(r"const {([^}]*)} = process\.env", text) for name in re.findall(r"\w*CLIENT_(?:ID|SECRET)", taken)
        }
        assert named <= NAMES, guide
    assert '-u "$OIDC_CLIENT_ID:$OIDC_CLIENT_SECRET"' in curl("post", "", {"security": [{"client": []}]})

"""The documents keep to their form, and name only files that exist."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.places import ROOT

# The pages at the top of the tree, which newcomers read first.
FIRST = sorted(ROOT.glob("*.md"))
DOCUMENTS = [*FIRST, *sorted((ROOT / "docs").rglob("*.md"))]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
HISTORY = sorted((ROOT / "docs" / "decisions" / "history").glob("[0-9]*.md"))
# The headings that a decision has, in this order, and those that its consequences may have.
PARTS = ("Decision", "Context", "Consequences")
CONSEQUENCES = ("Enforcement", "Costs", "Rejected alternatives")
# The third line of a decision.
STATUS = re.compile(r"Status: (?:in force|superseded in part by (?:\[\d{4}\]\(\d{4}-[^)]+\.md\)(?:, )?)+)")
LONGEST_LINE = 120
# The README names so many; `docs/guides/README.md` names all.
MOST_GUIDES = 5
# A help to readers, not a mould: write the sentences that a decision needs. If it grows beyond this, it is probably two decisions. Headings
# and the status do not count.
MOST_WORDS = 1200
# Operators write this file, so git does not have it.
MADE_BY_OPERATORS = {"ops/.env"}
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
# `NNNN_name.sql`, `<family>/<noun>.py` and `test_*.py` stand for names that the reader fills in.
PATTERN = re.compile(r"[<>*…]|NNNN")
SHELL = re.compile(r"^ *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# An ellipsis within a word shortens a value: a password or a digest. A word of its own, or one before a comment, is a command unsaid.
UNSAID = re.compile(r"(?:^|\s)(?:…|\.\.\.)(?:\s|$)|see (?:above|below)")


def named(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def prose(document: Path) -> str:
    return FENCED.sub("", document.read_text())


def alternatives(path: str) -> list[str]:
    """The paths that `a/{b,c}.py` stands for, as in a shell."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if braces is None:
        return [path]
    return [each for one in braces[1].split(",") for each in alternatives(path[: braces.start()] + one + path[braces.end() :])]


def paths(text: str) -> Iterator[str]:
    """The paths in backticks that begin with a folder of the repository, also as a word of a command. What commands and tests write into
    `build` is not there before.
    """
    folders = {folder.name for folder in ROOT.iterdir() if folder.is_dir()} - {"build"}
    for code in CODE.findall(text):
        for word in code.split():
            if word.partition("/")[0] in folders and "/" in word and not PATTERN.search(word):
                yield from alternatives(word.rstrip("/,;:").partition("::")[0])


def missing(text: str) -> list[str]:
    return [path for path in paths(text) if path not in MADE_BY_OPERATORS and not (ROOT / path).exists()]


def faults(documents: Sequence[Path], found: Callable[[Path], Sequence[object]]) -> Mapping[str, Sequence[object]]:
    """What is wrong, by the documents. A rule is one test over all documents: a test for each document would be a thousand tests."""
    return {named(document): wrong for document in documents if (wrong := found(document))}


def test_every_path_that_a_document_names_exists() -> None:
    assert faults(DOCUMENTS, lambda document: missing(prose(document))) == {}


def test_every_guide_is_among_what_the_list_of_guides_names() -> None:
    guides = ROOT / "docs" / "guides"
    linked = {*LINK.findall((guides / "README.md").read_text())}
    assert {guide.relative_to(guides).as_posix() for guide in guides.rglob("*.md")} - {"README.md"} <= linked


def test_the_readme_names_five_guides_and_the_list_of_all() -> None:
    listed = (ROOT / "README.md").read_text().partition("**Guides.**")[2]
    first, *five = [link for link in LINK.findall(listed) if link.startswith("docs/guides/")]
    assert first == "docs/guides/README.md"
    assert len(five) == MOST_GUIDES


def test_every_guide_to_an_application_stands_on_the_page_of_claims() -> None:
    guides = ROOT / "docs" / "guides"
    linked = {*LINK.findall((guides / "claims-and-scopes.md").read_text())}
    assert {guide.relative_to(guides).as_posix() for guide in (guides / "applications").glob("*.md")} <= linked


def test_a_path_that_does_not_exist_is_found() -> None:
    text = "`tests/ops/test_documents.py` `python ops/nowhere.py --all` `core/{domain,nothing}` `ports/<family>.py` `/health/live`"
    assert missing(text) == ["ops/nowhere.py", "core/nothing"]


def broken_links(document: Path) -> list[str]:
    files = [link.partition("#")[0] for link in LINK.findall(prose(document)) if not link.startswith("https://")]
    return [file for file in files if not (document.parent / file).exists()]


def test_the_architecture_names_every_folder_of_tests() -> None:
    told = (ROOT / "docs" / "architecture.md").read_text()
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/test_*.py")}
    assert sorted(folder for folder in folders if f"`tests/{folder}`" not in told) == []


def test_every_file_that_a_document_links_to_exists() -> None:
    assert faults(DOCUMENTS, broken_links) == {}


def odd_titles(decision: Path) -> list[str]:
    title = decision.read_text().partition("\n")[0]
    return [] if re.fullmatch(rf"# {decision.name[:4]}: [A-Z].*[^.]", title) else [title]


def test_the_title_of_a_decision_is_its_number_and_a_sentence() -> None:
    assert faults(DECISIONS, odd_titles) == {}


def test_no_two_decisions_have_one_number() -> None:
    numbers = sorted(decision.name[:4] for decision in [*DECISIONS, *HISTORY])
    assert sorted(set(numbers)) == numbers


def odd_parts(text: str) -> list[str]:
    parts = re.findall(r"^##+ .+$", FENCED.sub("", text), re.MULTILINE)
    whole = [f"## {part}" for part in PARTS]
    below = [f"### {part}" for part in CONSEQUENCES]
    right = parts[: len(whole)] == whole and parts[len(whole) :] == [part for part in below if part in parts]
    return [] if right and {*below[1:]} & {*parts} else parts or ["no parts"]


def test_every_decision_has_the_same_parts_in_the_same_order() -> None:
    assert faults(DECISIONS, lambda decision: odd_parts(decision.read_text())) == {}


def test_a_decision_with_other_parts_or_another_order_is_found() -> None:
    whole = "## Decision\n\n## Context\n\n## Consequences\n\n### Costs\n"
    assert odd_parts(whole) == []
    for wrong in ("", "## Decided", whole.replace("### Costs", ""), whole + "### Enforcement\n", whole.replace("Context", "Why")):
        assert odd_parts(wrong) != [], wrong


def odd_status(text: str) -> list[str]:
    """What is in the place of the status: it follows the title, and stands in the page once."""
    _, empty, status, after, *_ = [*text.splitlines(), "", "", "", ""][:5]
    once = len(re.findall(r"^Status: ", text, re.MULTILINE)) == 1
    return [] if once and (empty, after) == ("", "") and STATUS.fullmatch(status) else [status]


def test_every_decision_says_its_status_below_its_title() -> None:
    assert faults(DECISIONS, lambda decision: odd_status(decision.read_text())) == {}


def test_another_status_is_found() -> None:
    assert odd_status("# 0001: One\n\nStatus: superseded in part by [0002](0002-two.md), [0003](0003-three.md)\n\n## Decision\n") == []
    for wrong in (
        "",
        "# 0001: One\n",
        "# 0001: One\n\nStatus: rejected\n\n",
        "# 0001: One\n\nStatus: in force\nText",
        "# One\nStatus: in force\n\n",
    ):
        assert odd_status(wrong) != [], wrong


def test_the_first_screen_of_the_readme_says_whose_it_is_and_shows_it() -> None:
    screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:20])
    _, second, *_ = re.split(r"(?<=\.)\s", screen.partition("\n\n")[2])
    assert "Apache License 2.0" in second
    assert "make run" in screen
    pictures = [ROOT / name for name in re.findall(r'<img\s+src="([^"]+)"', screen)]
    assert [picture.stem for picture in pictures] == ["console", "sign-in"]
    assert all(picture.stat().st_size <= 150_000 for picture in pictures)


def test_the_first_pages_are_there() -> None:
    assert {document.name for document in FIRST} == {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}


def test_the_first_pages_lead_a_reader_on_from_the_readme() -> None:
    linked = LINK.findall((ROOT / "README.md").read_text())
    assert [document.name for document in FIRST if document.name not in {"README.md", *linked}] == []


def long_lines(document: Path) -> list[str]:
    lines = LINK.sub("]", prose(document)).splitlines()
    return [line for line in lines if len(line) > LONGEST_LINE and not line.startswith("|")]


def test_the_lines_of_a_decision_or_a_first_page_fit_a_screen() -> None:
    assert faults([*FIRST, *DECISIONS], long_lines) == {}


def test_a_decision_can_be_read_in_one_sitting() -> None:
    body = re.compile(r"^(?:#+ .+|Status: .+)$", re.MULTILINE)
    counts = {named(decision): len(body.sub("", decision.read_text()).split()) for decision in DECISIONS}
    assert {name: words for name, words in counts.items() if words > MOST_WORDS} == {}


def unsaid(text: str) -> list[str]:
    """The lines of commands that leave out what a reader has to type. Comments may leave out what they like, but not the command."""
    lines = [line for block in SHELL.findall(text) for line in block.splitlines()]
    return [line for line in lines if UNSAID.search(line.partition("  #")[0]) or re.search(r"# +see (?:above|below)", line)]


def test_every_command_of_a_document_is_said_in_full() -> None:
    assert faults(DOCUMENTS, lambda document: unsaid(document.read_text())) == {}


def test_a_command_that_is_not_said_is_found() -> None:
    said = (
        "```sh\npg_dump …                  # see above\ncd /opt && git checkout … && make\n"
        "postern keys generate  # prints …\nA=b:…@c run\n```\n"
    )
    assert unsaid(said) == said.splitlines()[1:3]

"""Hooks, issue forms and the dev container name only tools, fields and targets that exist."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.commit_title import refusal
from tests.places import ROOT

HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
CONTAINER = json.loads(re.sub(r"^\s*//.*$", "", (ROOT / ".devcontainer" / "devcontainer.json").read_text(), flags=re.MULTILINE))


def targets() -> set[str]:
    made = re.findall(r"^([\w$()/.-]+):", MAKEFILE, re.MULTILINE)
    return {one.replace("$(VENV)", ".venv") for one in made}


def hooks() -> list[dict[str, Any]]:
    return [hook for repository in HOOKS["repos"] for hook in repository["hooks"]]


def test_hooks_call_what_is_installed_here_and_download_nothing() -> None:
    assert [repository["repo"] for repository in HOOKS["repos"]] == ["local"]
    for hook in hooks():
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")


def test_the_tools_that_hooks_call_come_with_the_environment() -> None:
    programs = {hook["entry"].split()[0].rpartition("/")[2] for hook in hooks()}
    assert [program for program in programs if not (Path(sys.prefix) / "bin" / program).exists()] == []


@pytest.mark.parametrize(
    "message",
    [
        "A" * 72 + "\n\nBecause.",
        "\n# a comment\nFinish a sign-in after a reload\n\n" + "A long line of the body. " * 9,
        f"Merge the branch that {'a' * 72}",
        f'Revert "{"a" * 72}"',
        f"fixup! {'a' * 72}",
        "",
    ],
)
def test_a_title_of_at_most_72_characters_is_accepted_and_so_are_those_of_git(message: str) -> None:
    assert refusal(message) is None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "\n\n",
        "\n\n# a comment\n",
        "\n\nSigned-off-by: Ada <ada@example.org>\n",
        "\n\n# ------------------------ >8 ------------------------\n+a",
    ],
)
def test_a_commit_without_a_body_is_refused(body: str) -> None:
    assert refusal(f"Finish a sign-in after a reload{body}") == "The commit has no body: say below the title why the change is made"


@pytest.mark.parametrize("before", ["", "\n", "# a comment\n"])
def test_a_longer_title_is_refused_with_its_length_and_where_it_is_too_long(before: str) -> None:
    told = refusal(f"{before}{'a' * 72}bc\n\nThe body.")
    assert told == f"The title has 74 characters, and at most 72 are allowed:\n  {'a' * 72}|bc"


@pytest.mark.parametrize("way", ["core.hooksPath", "pre-commit"])
def test_git_makes_no_commit_with_a_long_title_or_without_a_body(way: str, tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    (tmp_path / "ops").symlink_to(ROOT / "ops")
    hook = "ops/hooks"
    if way == "pre-commit":
        (entry,) = (one["entry"] for one in hooks() if one.get("stages") == ["commit-msg"])
        assert "commit-msg" in HOOKS["default_install_hook_types"]
        (tmp_path / "hooks").mkdir()
        (tmp_path / "hooks" / "commit-msg").write_text(f'#!/bin/sh\nexec {sys.executable} {entry.partition(" ")[2]} "$1"\n')
        (tmp_path / "hooks" / "commit-msg").chmod(0o755)
        hook = "hooks"

    def git(*words: str) -> int:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", f"core.hooksPath={hook}")
        return subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, check=False).returncode

    assert git("init", "--quiet") == 0
    assert git("commit", "--allow-empty", "-m", "a" * 73, "-m", "Because.") != 0
    assert git("commit", "--allow-empty", "-m", "a" * 72) != 0
    assert git("commit", "--allow-empty", "-m", "a" * 72, "-m", "Because.") == 0


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_asks_for_something_and_each_field_once(form: Path) -> None:
    asked = yaml.safe_load(form.read_text())
    assert asked["name"]
    assert asked["description"]
    fields = [field for field in asked["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_dev_container_makes_targets_that_exist_with_a_python_that_we_name() -> None:
    command = CONTAINER["postCreateCommand"]
    made = command.partition("&& make ")[2].split()
    assert made
    assert set(made) <= targets()
    python = re.fullmatch(r"python:(3\.\d+)-\w+", CONTAINER["image"])
    assert python
    assert f'"Programming Language :: Python :: {python[1]}"' in (ROOT / "pyproject.toml").read_text()


def test_no_file_has_line_ends_of_windows() -> None:
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    listed = subprocess.run(["git", "ls-files", "--eol"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("no repository")
    assert [line for line in listed.stdout.splitlines() if line.split()[0] in {"i/crlf", "i/mixed"}] == []

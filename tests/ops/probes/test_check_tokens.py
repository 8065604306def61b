"""The guide to checking access tokens has the versions that its probe installs, and its programs can be read. No library runs here."""

import re
from typing import Any

import pytest

from ops.check_tokens import NODE_PACKAGES, PAGE, PYTHON_PACKAGES, TOOLS, refuses


class FailingTrial:
    def run(self, *command: str) -> str:
        if "good" not in command:
            raise SystemExit("fails")
        return ""


def test_the_page_names_the_versions_that_are_tried() -> None:
    versions = [re.split("==|@", package)[-1] for package in (*PYTHON_PACKAGES, *NODE_PACKAGES)]
    tried = PAGE.text[PAGE.text.index("**Tested**") : PAGE.text.index("## Set up Postern")]
    assert [version for version in versions if version not in tried] == []


def test_the_programs_of_the_page_check_issuer_and_audience() -> None:
    files = PAGE.files()
    assert set(files) == {"check.py", "check.mjs", "checking.py", "signing_in.py"}
    for name, text in files.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
        if name != "signing_in.py":
            assert "service:acme/tools" in text, name
            assert re.search("issuer", text), name
    assert f'base_url="{TOOLS}"' in files["signing_in.py"]


@pytest.mark.parametrize(("command", "refused"), [("good", False), ("bad", True)])
def test_a_program_that_fails_refuses(command: str, refused: bool) -> None:
    trial: Any = FailingTrial()
    assert refuses(trial, command) is refused

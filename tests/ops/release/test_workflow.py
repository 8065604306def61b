"""The workflow of a release: it calls what exists, is pinned, and only the job that publishes may write."""

import re
from typing import Any

import yaml

from tests.places import ROOT

FILE = ROOT / ".github" / "workflows" / "release.yml"
# YAML reads the key `on` as true.
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text())
JOBS: dict[str, Any] = WORKFLOW["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]


def test_only_a_tag_of_a_version_starts_it() -> None:
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}
    publish = " ".join(step.get("run", "") for step in JOBS["publish"]["steps"])
    assert 'pyproject.toml)" = "$GITHUB_REF_NAME"' in publish


def test_the_checks_come_first_and_may_not_write() -> None:
    assert WORKFLOW["permissions"] == {}
    assert JOBS["check"]["permissions"] == {"contents": "read"}
    assert ".ci/run" in [step.get("run") for step in JOBS["check"]["steps"]]
    assert JOBS["publish"]["needs"] == "check"


def test_every_action_is_pinned_by_its_commit() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one)] == []
    assert all(step["with"]["persist-credentials"] is False for step in STEPS if "checkout" in step.get("uses", ""))


def test_its_targets_exist_and_nothing_from_outside_becomes_a_command() -> None:
    commands = "\n".join(step.get("run", "") for step in STEPS)
    targets = re.findall(r"\bmake ([\w-]+)", commands)
    assert targets
    assert all(re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE) for target in targets)
    assert "${{" not in commands

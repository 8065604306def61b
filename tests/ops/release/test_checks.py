"""The workflow of checks: it may write nothing, its actions are pinned, and it runs all that `make check` runs."""

import re
from typing import Any

import yaml

from tests.places import ROOT

WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text())
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
COMMANDS = "\n".join(step.get("run", "") for step in STEPS)
MAKEFILE = (ROOT / "Makefile").read_text()


def test_it_reads_and_writes_nothing() -> None:
    assert WORKFLOW["permissions"] == {}
    assert all(job["permissions"] == {"contents": "read"} for job in WORKFLOW["jobs"].values())
    # A change of somebody else's runs without our secrets.
    assert "pull_request_target" not in WORKFLOW[True]
    assert "secrets." not in COMMANDS
    assert "${{" not in COMMANDS


def test_every_action_is_pinned_by_its_commit() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one)] == []
    assert all(step["with"]["persist-credentials"] is False for step in STEPS if "uses" in step)


def test_it_runs_what_make_check_runs_and_makes_the_image() -> None:
    targets = {target for run in re.findall(r"\bmake ([\w -]+)", COMMANDS) for target in run.split()}
    (beside,) = re.findall(r"--keep-going ([\w ]+) >", MAKEFILE)
    assert targets == {*beside.split(), "check-tests", "image"}

"""The workflow of the night: it may only read, is pinned, and runs `make check-all` where PostgreSQL is the one that CI tries."""

import re
from typing import Any

import yaml

from tests.places import ROOT

FILE = ROOT / ".github" / "workflows" / "nightly.yml"
# YAML reads the key `on` as true.
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text())
((_, JOB),) = WORKFLOW["jobs"].items()


def test_it_runs_at_night_and_when_somebody_asks() -> None:
    assert set(WORKFLOW[True]) == {"schedule", "workflow_dispatch"}
    ((moment,),) = (one.values() for one in WORKFLOW[True]["schedule"])
    assert re.fullmatch(r"\d+ \d \* \* \*", moment)


def test_it_may_only_read_and_every_action_is_pinned_by_its_commit() -> None:
    assert (WORKFLOW["permissions"], JOB["permissions"]) == ({}, {"contents": "read"})
    used = [step for step in JOB["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"]) for step in used)
    assert all(step["with"]["persist-credentials"] is False for step in used if "checkout" in step["uses"])


def test_it_skips_nothing_and_has_the_debian_of_the_image() -> None:
    assert JOB["env"] == {"CI": "true"}
    assert JOB["container"]["image"] == "debian:12"
    assert JOB["steps"][-1]["run"] == "make check-all"
    assert any("setup-node@" in step.get("uses", "") for step in JOB["steps"])
    # `make check-all` installs the other programs.
    assert re.search(r"^check-all: \$\(READY_FOR_ALL\) ", (ROOT / "Makefile").read_text(), re.MULTILINE)

"""The workflow of a release: it calls what exists, is pinned, and only the job that publishes may write."""

import os
import re
import shlex
import subprocess
from fnmatch import fnmatch
from pathlib import Path
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
    # Nothing of what ships is left out, on the machine of the night.
    night = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())["jobs"]["check"]
    assert JOBS["check"] == night
    assert night["steps"][-1]["run"] == "make check-all"
    assert JOBS["publish"]["needs"] == "check"


def test_every_action_is_pinned_by_its_commit() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one)] == []
    assert all(step["with"]["persist-credentials"] is False for step in STEPS if "checkout" in step.get("uses", ""))


def test_its_targets_exist_and_nothing_from_outside_becomes_a_command() -> None:
    commands = "\n".join(step.get("run", "") for step in STEPS)
    targets = re.findall(r"^make ([\w-]+)", commands, re.MULTILINE)
    assert targets
    assert all(re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE) for target in targets)
    assert "${{" not in commands


def commands_of(job: str) -> str:
    return "\n".join(step.get("run", "") for step in JOBS[job]["steps"])


# As the tests of each file name it.
FILES = (
    "postern-9.9.9-py3-none-any.whl",
    "postern_client-9.9.9-py3-none-any.whl",
    "postern-client-9.9.9.tgz",
    "postern-9.9.9-site.tar.gz",
    *(f"postern-9.9.9-image{end}" for end in (".tar", ".cdx.json", "-licences.txt", ".digest")),
    "CHANGES.md",
    "SHA256SUMS",
)


def test_each_file_of_a_release_is_published_once() -> None:
    given = shlex.split(commands_of("publish").partition("gh release create")[2].replace("\\\n", " "))
    named = given[given.index("--notes-file") + 2 :]
    assert [len([one for one in named if fnmatch(file, one)]) for file in FILES] == [1] * len(FILES)
    assert [one for one in named if not any(fnmatch(file, one) for file in FILES)] == []
    taken = re.findall(r"--pattern '([^']+)'", commands_of("clients") + commands_of("site"))
    assert [[file for file in FILES if fnmatch(file, one)] for one in taken] == [[FILES[1]], [FILES[2]], [FILES[3]]]


def test_the_notes_of_a_release_link_to_documents_of_its_tag(tmp_path: Path) -> None:
    (tmp_path / "CHANGES.md").write_text("- Told once ([guide](docs/guides/a.md), [0001](docs/decisions/0001-b.md#c)).\n")
    (command,) = re.findall(r"^sed .*$", commands_of("publish"), re.MULTILINE)
    of_runner = {
        "GITHUB_SERVER_URL": "https://git.example",
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_REF_NAME": "v9.9.9",
        "RUNNER_TEMP": str(tmp_path),
    }
    subprocess.run(["sh", "-c", command], cwd=tmp_path, env={**os.environ, **of_runner}, check=True)
    place = "https://git.example/a/b/blob/v9.9.9/docs"
    assert (tmp_path / "notes.md").read_text() == f"- Told once ([guide]({place}/guides/a.md), [0001]({place}/decisions/0001-b.md#c)).\n"


def test_what_goes_elsewhere_is_asked_for_and_comes_after_the_release() -> None:
    for job, variable, rights in (
        ("site", "PUBLISH_SITE", {"contents": "read", "pages": "write", "id-token": "write"}),
        ("clients", "PUBLISH_CLIENTS", {"contents": "read", "attestations": "read", "id-token": "write"}),
    ):
        assert (JOBS[job]["needs"], JOBS[job]["if"], JOBS[job]["permissions"]) == ("publish", f"vars.{variable} == 'true'", rights)
        assert f"`{variable}=true`" in (ROOT / "CONTRIBUTING.md").read_text()
    # What was published is what goes to the registries, and nothing is built with their trust.
    assert "make" not in commands_of("clients")
    assert commands_of("clients").index("gh attestation verify") < commands_of("clients").index("uv==")


def test_the_publisher_has_the_version_of_the_lock() -> None:
    (used,) = re.findall(r"uv==([\d.]+)", commands_of("clients"))
    assert f"\nuv=={used} " in (ROOT / "requirements-dev.lock").read_text()

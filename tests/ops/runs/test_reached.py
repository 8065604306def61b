"""`--reached` writes which tests run which function, also of modules whose lines are counted in the same run (`tests/runs/reached.py`)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.runs.reached import MOST_FILES, family_of, written


@pytest.mark.parametrize("options", [("-n", "0"), ("-n", "1"), ("-n", "1", "--coverage")], ids=["alone", "worker", "with coverage"])
def test_a_run_writes_which_tests_run_which_function(tmp_path: Path, options: tuple[str, ...]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    command = [sys.executable, "-m", "pytest", "-q", *options, "--reached", "tests/domain/test_email.py"]
    done = subprocess.run(
        command, cwd=ROOT, env={**environment, "TESTS_REACHED": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert " passed" in done.stdout, done.stdout + done.stderr
    lines = (tmp_path / "core.txt").read_text().splitlines()
    of_email = lines[lines.index("core/domain/mail.py") + 1 :]
    assert " mail_domain tests/domain/test_email.py" in of_email


def test_a_function_that_many_files_reach_has_its_name_alone() -> None:
    many = {f"tests/test_{number:02}.py": {"core/domain/tenancy/teams.py:everywhere"} for number in range(MOST_FILES + 1)}
    many["tests/test_00.py"] = {*many["tests/test_00.py"], "core/domain/tenancy/teams.py:Team.seldom"}
    assert written(many) == {"tenancy": "core/domain/tenancy/teams.py\n Team.seldom tests/test_00.py\n everywhere\n"}


def test_each_module_has_one_file_of_the_map() -> None:
    assert family_of("core/usecases/identity/sign_in/admission.py") == "identity"
    assert family_of("entrypoints/assembly/tenancy.py") == "tenancy"
    assert family_of("adapters/postgres/driver/pool.py") == "adapters"

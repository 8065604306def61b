"""`--reached` writes which tests run which function, also of modules whose lines are counted in the same run (`tests/runs/reached.py`)."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.runs.reached import MOST_FILES, family_of, written
from tests.runs.recorded import Recording, those


@pytest.mark.parametrize("options", [("-n", "0"), ("-n", "1"), ("-n", "1", "--coverage")], ids=["alone", "worker", "with coverage"])
def test_a_run_writes_which_tests_run_which_function(tmp_path: Path, options: tuple[str, ...]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    command = [sys.executable, "-m", "pytest", "-q", *options, "--reached", "tests/domain/test_email.py"]
    places = {"TESTS_REACHED": str(tmp_path), "TESTS_RECORDED": str(tmp_path / "recorded.json.gz")}
    done = subprocess.run(command, cwd=ROOT, env={**environment, **places}, capture_output=True, text=True, check=False)
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


MADE_UP = """
import pytest

from adapters.crypto import common_passwords
from core.domain.mail import Email
from core.domain.normal_forms import ascii_letters, has_long_run


@pytest.fixture(scope="module")
def of_the_module():
    return Email("ada@example.com").domain


@pytest.fixture(scope="session")
def of_the_session():
    return ascii_letters("A")


@pytest.mark.usefixtures("of_the_module", "of_the_session")
def test_first():
    common_passwords._common()


@pytest.mark.usefixtures("of_the_module")
def test_second():
    assert not has_long_run("a")


def test_third():
    assert not has_long_run("")
    assert has_long_run("\\u0301" * 31)


def test_red():
    raise AssertionError
"""


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    place = tmp_path_factory.mktemp("made_up")
    (place / "test_made_up.py").write_text(MADE_UP)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    places = {"TESTS_REACHED": str(place / "reached"), "TESTS_RECORDED": str(place / "recorded.json.gz")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-c", "pyproject.toml", "--reached", str(place / "test_made_up.py")]
    done = subprocess.run(command, cwd=ROOT, env={**environment, **places}, capture_output=True, text=True, check=False)
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    return Recording.read(place / "recorded.json.gz")


def reached(recording: Recording) -> Mapping[str, set[str]]:
    names, cases = recording.numbered()
    return {case.partition("::")[2]: {*those(names, one.reached)} for case, one in cases.items()}


def test_what_a_fixture_ran_once_counts_for_each_case_that_uses_it(made_up: Recording) -> None:
    found = reached(made_up)
    assert {case for case, some in found.items() if "core/domain/mail.py:Email.domain" in some} == {"test_first", "test_second"}
    assert {case for case, some in found.items() if "core/domain/normal_forms.py:ascii_letters" in some} == {"test_first"}


def test_what_a_cache_ran_once_counts_for_each_case_of_the_file(made_up: Recording) -> None:
    cached = {"adapters/crypto/common_passwords.py:_common", "adapters/crypto/common_passwords.py:key_of"}
    assert all(cached <= some for some in reached(made_up).values())


def test_a_case_has_the_branches_of_core_that_it_took(made_up: Recording) -> None:
    lines = (ROOT / "core/domain/normal_forms.py").read_text().splitlines()
    loop = next(number for number, line in enumerate(lines, 1) if line.strip() == "for letter in text:")
    long = next(number for number, line in enumerate(lines, 1) if line.strip() == "if run > MOST_MARKS_IN_A_RUN:")
    branches = {f"core/domain/normal_forms.py:{line}>{way}" for line in (loop, long) for way in (0, 1)}
    found = {case: some & branches for case, some in reached(made_up).items()}
    # Into the loop, and out of it at its end; into the condition, and past it.
    assert found["test_second"] == {f"core/domain/normal_forms.py:{loop}>{way}" for way in (0, 1)}
    assert found["test_third"] == branches
    # Branches are counted in `core` alone.
    names, _ = made_up.numbered()
    assert {name.partition("/")[0] for name in names if ">" in name} == {"core"}


def test_a_recording_says_what_passed_and_whether_everything_ran(made_up: Recording) -> None:
    _, cases = made_up.numbered()
    assert [case.partition("::")[2] for case, one in cases.items() if not one.passed] == ["test_red"]
    assert (made_up.green, made_up.whole) == (False, False)
    assert all(one.price >= one.seconds > 0 for one in cases.values())

"""The script that installs the tools. It is quick when all are there, it names every tool whose tests will be skipped, and it fails in CI
only.
"""

import ast
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ops.browser.chromium import PROGRAM
from tests.places import ROOT
from tests.tools import NOT_OURS_TO_INSTALL, needs, place_of

SCRIPT = ROOT / "ops" / "install-test-tools"
TOOLS = (
    *("h2load", "wrk", "promtool", "openssl", "oathtool", "jq", "xmlsec1", "pgbouncer", "haproxy", "nginx", "caddy", "curl"),
    *("bwrap", "etcd", "etcdctl", "pg_ctl", "patroni", "slapd", "ldapmodify", "pwgen.php", "zsh", "fish", "chromium-headless-shell"),
)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the script on a machine that has only these commands."""

    def run_it(*there: str, user: int = 1000, apt: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        for name in ("tr", "chmod", "rm"):
            found = shutil.which(name)
            assert found is not None
            (tmp_path / name).symlink_to(found)
        for name, program in {**dict.fromkeys(there, "exit 0"), "id": f"echo {user}", **({"apt-get": apt} if apt else {})}.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
            (tmp_path / name).chmod(0o755)
        variables = {"PATH": str(tmp_path), "TOOLS": str(tmp_path), **environment}
        return subprocess.run(["/bin/sh", str(SCRIPT)], env=variables, capture_output=True, text=True, check=False)

    return run_it


def test_it_is_a_valid_script_that_can_be_run() -> None:
    assert os.access(SCRIPT, os.X_OK)
    subprocess.run(["/bin/sh", "-n", str(SCRIPT)], check=True)


def test_it_installs_every_tool_that_a_test_needs() -> None:
    """On a machine with tools installed by hand, nobody would see that the script misses one of them."""
    wanted = {
        word.value
        for file in (ROOT / "tests").rglob("*.py")
        if "tests.tools" in (source := file.read_text(encoding="utf-8"))
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in {needs.__name__, place_of.__name__}
        for word in call.args
        if isinstance(word, ast.Constant)
    }
    lines = SCRIPT.read_text(encoding="utf-8").partition('tools="\\\n')[2].partition('"')[0].splitlines()
    assert {line.split()[0] for line in lines} == set(TOOLS)
    assert {"jq", "xmlsec1"} <= wanted
    assert wanted <= {*TOOLS, "php", *NOT_OURS_TO_INSTALL}


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_test_without_its_tool_fails_in_ci_and_is_skipped_elsewhere(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(outcome, match="xmlsec1 missing"):
        place_of("xmlsec1")
    assert needs("xmlsec1", "jq").mark.args == (ci != "true",)
    assert needs("kubectl").mark.args == (True,)


def test_nothing_is_done_and_nothing_said_when_all_is_there(run: Run) -> None:
    done = run(*TOOLS, apt="exit 1", user=0)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_chromium_with_windows_will_not_do(run: Run) -> None:
    """Five tests fail with it."""
    done = run(*TOOLS[:-1], "chromium", CI="true")
    assert done.returncode == 1
    assert "apt-get install chromium-headless-shell" in done.stderr
    assert PROGRAM == "chromium-headless-shell"


def test_it_asks_for_every_package_of_a_group_and_not_for_the_command_of_one(run: Run, tmp_path: Path) -> None:
    """SimpleSAMLphp is there, and what reads its XML is not."""
    known = 'case "$3" in simplesamlphp|php-cli|php-cgi|php-mbstring) printf installed;; php-xml) exit 1;; *) exit 1;; esac'
    (tmp_path / "dpkg-query").write_text(f"#!/bin/sh\n{known}\n")
    (tmp_path / "dpkg-query").chmod(0o755)
    done = run(*TOOLS, CI="true")
    assert done.returncode == 1
    assert "apt-get install simplesamlphp php-cli php-cgi php-xml php-mbstring" in done.stderr
    assert "pwgen.php: SimpleSAMLphp" in done.stderr
    # A tool that was installed by hand is no package's.
    assert "h2load" not in done.stderr


def test_without_root_it_says_what_will_be_skipped_and_goes_on(run: Run) -> None:
    done = run("wrk", *TOOLS[3:], apt="exit 0")
    assert done.returncode == 0
    assert "apt-get install nghttp2-client prometheus" in done.stderr
    assert "h2load: HTTP/2 clients that leave" in done.stderr
    assert "wrk:" not in done.stderr


def test_in_ci_a_missing_tool_is_an_error(run: Run) -> None:
    assert run("wrk", CI="true").returncode == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="it writes where only root may, as apt-get does")
def test_as_root_it_installs_what_is_missing_and_only_that(run: Run) -> None:
    apt = (
        'echo "$@" >>"$TOOLS/asked"; for name in h2load promtool; do printf "#!/bin/sh\\n" >"$TOOLS/$name"; chmod 755 "$TOOLS/$name"; done'
    )
    done = run("wrk", *TOOLS[3:], apt=apt, user=0, CI="true")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Installing what the tests need: nghttp2-client prometheus\n"
    assert done.stderr == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="it writes where only root may, as apt-get does")
def test_no_network_fails_nothing(run: Run) -> None:
    done = run("wrk", *TOOLS[3:], apt="exit 100", user=0)
    assert done.returncode == 0
    assert "That did not work" in done.stderr

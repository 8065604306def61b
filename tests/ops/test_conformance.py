"""The lists of modules, the page about them, and the programs beside them."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from ops.conformance import table
from ops.conformance.__main__ import main
from ops.conformance.checkout import Checkout
from ops.conformance.plans import commit, function_of, plans
from ops.conformance.table import NOT_OFFERED, WARNING, Ran
from tests.places import ROOT

TESTS = ROOT / "tests" / "conformance"
CONFIGURATIONS = ROOT / "ops" / "conformance"
TAKEN = re.compile(r"^from (tests\.conformance\.[\w.]+) import \*", re.MULTILINE)
# Two in the plans of OpenID Connect, and two in FAPI 2.0.
MOST_CAUSES = 4


def functions(folder: str) -> set[str]:
    """The tests of the folder, and those of the files whose tests it takes over."""
    own = list((TESTS / folder).glob("test_*.py"))
    taken = [ROOT / f"{name.replace('.', '/')}.py" for file in own for name in TAKEN.findall(file.read_text())]
    lines = (line for file in (*own, *taken) for line in file.read_text().splitlines())
    return {line[4:].partition("(")[0] for line in lines if line.startswith("def test_")}


def test_each_module_that_applies_has_a_test_of_its_name_and_no_other_has() -> None:
    for folder in {plan.folder for plan in plans()}:
        wanted = [module for plan in plans() if plan.folder == folder for module in plan.applying]
        assert functions(folder) == {function_of(module) for module in wanted}
        assert len(wanted) == len(set(wanted))


def test_the_page_has_each_module_with_what_it_came_to() -> None:
    found = table.shown()
    assert list(found) == [plan.name for plan in plans()]
    causes: set[str] = set()
    for plan in plans():
        assert list(found[plan.name]) == list(plan.modules)
        for module, (result, because) in found[plan.name].items():
            assert result in {"passed", "warning", "not offered"}, module
            assert bool(because) == (result != "passed"), module
            assert not plan.modules[module] or (result, because) == ("not offered", plan.modules[module])
            causes |= {because} if result == "warning" else set()
    assert len(causes) <= MOST_CAUSES
    assert f"`{commit()}`" in table.PAGE.read_text()


def test_a_run_becomes_the_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGINS}\nolder tables\n{table.ENDS}\nafter\n")
    basic = plans()[0]
    first, second, third, fourth, *_ = basic.applying
    ran = [
        Ran("basic", function_of(first)),
        Ran("basic", function_of(second), told=[(WARNING, "why")]),
        Ran("basic", function_of(third), told=[(NOT_OFFERED, "because")]),
        Ran("basic", function_of(fourth), has_failed=True),
        Ran("mcp", "test_a_scenario", was_skipped="no registry"),
    ]
    table.put(table.written(ran), page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "older tables" not in text
    assert "| `a-scenario` | not run | no registry |" in text
    found = table.shown(page)[basic.name]
    assert [found[one] for one in (first, second, third, fourth)] == [
        ("passed", ""),
        ("warning", "why"),
        ("not offered", "because"),
        ("failed", ""),
    ]
    assert {result for result, _ in found.values()} == {"passed", "warning", "not offered", "failed", "not run"}


SUITE = {
    "one/OneTestPlan.java": """
        @PublishTestPlan (
            testPlanName = "oidcc-config-certification-test-plan"
        )
        public class OneTestPlan implements TestPlan {
            // Not this one: Gone.class
            public List<ModuleListEntry> testModulesWithVariants() {
                List<Class> modules = new ArrayList<>(OtherTestPlan.testModules);
                modules.remove(Dropped.class);
                return List.of(new ModuleListEntry(List.of(Known.class, Fresh.class), List.of(new Variant(ResponseMode.class, "x"))));
            }
        }""",
    "two/OtherTestPlan.java": 'testPlanName = "other"; testModules = List.of(Dropped.class, Taken.class);',
    "two/OtherTestPlanNarrow.java": """
        testPlanName = "narrow"; modules = new ArrayList<>(OtherTestPlan.testModules);
        modules.add(Known.class);
        modules.removeAll(List.of(
            Dropped.class,
            Taken.class
        ));""",
    "two/Known.java": '@PublishTestModule(testName = "oidcc-discovery-endpoint-verification")',
    "two/Fresh.java": '@PublishTestModule(testName = "fresh")',
    "two/Taken.java": '@PublishTestModule(testName = "taken")',
    "two/Dropped.java": '@PublishTestModule(testName = "dropped")',
    "two/Gone.java": '@PublishTestModule(testName = "gone")',
    "two/ResponseMode.java": "public enum ResponseMode {}",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in SUITE.items():
        file = tmp_path / "src" / "main" / "java" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_the_modules_of_a_plan_are_read_from_its_class(checkout: Path) -> None:
    read = Checkout(checkout)
    name = "oidcc-config-certification-test-plan"
    assert read.modules(name) == ["taken", "oidcc-discovery-endpoint-verification", "fresh"]
    assert dict(read.plans) == {name: "OneTestPlan", "other": "OtherTestPlan", "narrow": "OtherTestPlanNarrow"}
    assert read.modules("narrow") == ["oidcc-discovery-endpoint-verification"]


def test_a_newer_suite_says_what_ours_lacks(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["newer", str(checkout)]) == 1
    told = capsys.readouterr().out
    assert "oidcc-config-certification-test-plan: new: fresh\n" in told
    assert "oidcc-config-certification-test-plan: new: taken\n" in told
    assert "gone" not in told
    assert "oidcc-basic-certification-test-plan: the checkout has no such plan" in told


def test_a_suite_of_the_same_modules_lacks_nothing(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = checkout / "src" / "main" / "java" / "one" / "OneTestPlan.java"
    plan.write_text('testPlanName = "oidcc-config-certification-test-plan"; List.of(Known.class)')
    assert main(["newer", str(checkout)]) == 0
    assert "has no module that the list of commit" in capsys.readouterr().out
    plan.write_text('testPlanName = "oidcc-config-certification-test-plan"; List.of()')
    assert main(["newer", str(checkout)]) == 0
    assert "gone: oidcc-discovery-endpoint-verification" in capsys.readouterr().out


def test_no_checkout_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is no checkout of the suite"):
        main(["newer", str(tmp_path)])


def test_the_suite_itself_starts_at_the_commit_of_the_list(tmp_path: Path) -> None:
    """With programs in place of git and Docker, which write down what they are called with."""
    for name in ("git", "docker"):
        stand_in = tmp_path / name
        stand_in.write_text(f'#!/bin/sh\necho "{name} $*" >>"{tmp_path}/called"\n')
        stand_in.chmod(0o755)
    folder = tmp_path / "suite"
    folder.mkdir()
    given = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([CONFIGURATIONS / "run-suite", folder], env=given, check=True, capture_output=True)
    assert (tmp_path / "called").read_text().splitlines() == [
        f"git -C {folder} checkout --quiet {commit()}",
        "docker compose -f builder-compose.yml run --rm builder",
        "docker compose up --detach",
    ]


@pytest.mark.parametrize("file", sorted(CONFIGURATIONS.glob("*.json")), ids=lambda file: file.name)
def test_the_files_for_the_suite_have_what_it_reads(file: Path) -> None:
    given = json.loads(file.read_text())
    match file.stem:
        case "openid-connect":
            assert given["server"]["discoveryUrl"].endswith("/.well-known/openid-configuration")
            assert all({"client_id", "client_secret"} <= given[one].keys() for one in ("client", "client_secret_post", "client2"))
        case "fapi2":
            assert given["resource"]["resourceUrl"].endswith("/oauth/userinfo")
            assert all(given[one].keys() >= {"client_id", "scope", "jwks", "dpop_signing_alg"} for one in ("client", "client2"))
        case "authzen":
            assert given["pdp"].keys() == {"policy_decision_point", "api_key"}
        case "signals":
            assert given["server"]["discoveryUrl"].endswith("/.well-known/openid-configuration")
            assert given["client"].keys() == {"client_id", "client_secret", "scope"}
            assert given["ssf"]["transmitter"].keys() == {"issuer", "push_endpoint_authorization_header"}
        case _:
            assert file.stem in {"modules", "package", "package-lock"}

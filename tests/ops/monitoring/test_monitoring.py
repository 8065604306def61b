"""Alert rules, dashboard and runbook agree with each other and with what the product exports."""

import json
import re
import subprocess
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from adapters.metrics import PrometheusMetrics
from entrypoints.http.application import PAGES
from entrypoints.http.routes import ROUTES
from tests.ops.operations.pages import WHOLE, anchors
from tests.places import ROOT
from tests.tools import needs

PROMETHEUS = ROOT / "ops" / "prometheus"
RULES = [PROMETHEUS / "alerts.yaml", PROMETHEUS / "service-levels.yaml"]
CASES = sorted((ROOT / "tests" / "ops" / "monitoring").glob("*.yaml"))
DASHBOARD = ROOT / "ops" / "grafana" / "postern.json"
# The page of the runbook about alerts.
RUNBOOK = ROOT / "docs" / "operations" / "alerts.md"
# Prometheus itself makes these series.
OF_PROMETHEUS = {"up", "ALERTS"}


def all_rules() -> list[dict[str, Any]]:
    return [rule for file in RULES for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]


def rules() -> list[dict[str, Any]]:
    """The rules that are alerts."""
    return [rule for rule in all_rules() if "alert" in rule]


def recorded() -> set[str]:
    return {rule["record"] for rule in all_rules() if "record" in rule}


def panels() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return loaded


def names_in(expression: str) -> set[str]:
    without_labels = re.sub(r"\{[^}]*\}|\([a-z_, ]*\) ?(?=\()|\[[^\]]*\]", "", expression)
    return set(re.findall(r"\b(?:sso_[a-z_]+|process_[a-z_]+|postern:[a-z_:0-9]+|up|ALERTS)\b", without_labels))


@cache
def exported() -> frozenset[str]:
    """Every name that a query can use. Histograms have more than one name."""
    names = recorded()
    for family in text_string_to_metric_families(PrometheusMetrics().render().decode()):
        endings = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",)}.get(family.type, ("",))
        names |= {family.name + ending for ending in endings}
    return frozenset(names)


def test_only_counters_end_in_total_but_for_the_gauges_whose_names_are_promised() -> None:
    """The suffix `_total` tells the author of a query that `rate` makes sense."""
    families = list(text_string_to_metric_families(PrometheusMetrics().render().decode()))
    assert {family.name for family in families if family.type != "counter" and family.name.endswith("_total")} == {
        "sso_db_pool_connections_total",
        "sso_active_users_total",
        "sso_mfa_enabled_users_total",
    }


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_every_rule_watches_a_metric_that_exists(rule: dict[str, Any]) -> None:
    names = names_in(rule["expr"])
    assert names or rule["expr"].startswith("vector(")
    assert names <= exported() | OF_PROMETHEUS


def test_the_steps_of_a_sign_in_are_routes_that_exist_and_every_page_of_a_sign_in_is_one() -> None:
    rated = {expression for rule in all_rules() for expression in re.findall(r'route=~"([^"]*)"', rule["expr"]) if "oauth" in expression}
    (steps,) = rated
    paths = {str(endpoint.path) for endpoint in (*ROUTES, *PAGES)}
    counted = {path for path in paths if re.fullmatch(steps, path)}
    # Taken apart at each `|` outside parentheses.
    for alternative in re.split(r"\|(?![^(]*\))", steps):
        stem, _, ends = alternative.partition("(")
        for end in ends.rstrip(")").split("|"):
            assert any(re.fullmatch(stem + end, path) for path in paths), stem + end
    assert {path for path in paths if path.startswith(("/ui/sign-in/", "/ui/sign-in"))} - {"/ui/sign-ins"} <= counted
    assert not {path for path in counted if "{provider}" in path or path.startswith("/ui/o/")}


def test_a_sign_in_is_slow_by_a_bucket_that_exists() -> None:
    limits = {limit for rule in all_rules() for limit in re.findall(r'le=~"([^"]*)"', rule["expr"])}
    (limit,) = limits
    page = PrometheusMetrics().render().decode()
    buckets = set(re.findall(r'sso_http_request_duration_seconds_bucket\{le="([^"]*)"', page))
    assert [bucket for bucket in buckets if re.fullmatch(limit, bucket)] == ["1.0"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_says_what_is_wrong_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["summary"]
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert ROOT / page == RUNBOOK
    assert anchor == rule["alert"].lower()
    assert anchor in anchors(ROOT / page)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_is_explained_as_its_runbook_says_which_also_says_where_to_look_and_what_to_do(rule: dict[str, Any]) -> None:
    section = sections()[rule["alert"]]
    assert section.severity == rule["labels"]["severity"]
    assert rule["annotations"]["description"] == section.meaning
    assert re.findall(r"^- (See|Do)\b", section.steps, re.MULTILINE)[:2] == ["See", "Do"]


def test_no_alert_and_no_panel_knows_how_the_scrape_job_is_called() -> None:
    for rule in rules():
        assert "job=" not in rule["expr"], rule["alert"]
        # Other programs export some of these metrics too. An expression that uses such a metric must also use one that only Postern
        # exports.
        if not names_in(rule["expr"]) <= exported_by_postern_alone():
            assert names_in(rule["expr"]) & exported_by_postern_alone(), rule["alert"]
    for panel in panels():
        for target in panel.get("targets", []):
            assert set(re.findall(r'job=~?"[^"]*"', target["expr"])) <= {'job=~"$job"'}, panel["title"]
    (job,) = [one for one in json.loads(DASHBOARD.read_text())["templating"]["list"] if one["name"] == "job"]
    assert names_in(job["query"]["query"]) <= exported_by_postern_alone()


def exported_by_postern_alone() -> set[str]:
    return {name for name in exported() if name.startswith(("sso_", "postern:"))}


class Section(NamedTuple):
    """A section of the runbook. Its meaning is plain text in one line, as an alert shows it."""

    severity: str
    meaning: str
    steps: str


def sections() -> dict[str, Section]:
    found = re.findall(r"^### (Postern\w+)\n\n\*(\w+)\.\* (.*?)\n\n(.*?)\n(?=##)", RUNBOOK.read_text(), re.MULTILINE | re.DOTALL)
    return {
        name: Section(severity, re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", " ".join(meaning.split())), steps)
        for name, severity, meaning, steps in found
    }


def test_every_section_about_an_alert_belongs_to_a_rule() -> None:
    assert set(re.findall(r"^### (Postern\w+)$", RUNBOOK.read_text(), re.MULTILINE)) == {rule["alert"] for rule in rules()}


def shows_in(cases: Path) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = yaml.safe_load(cases.read_text())["tests"]
    return loaded


def test_every_alert_is_shown_firing() -> None:
    shown = {
        case["alertname"]
        for cases in CASES
        for test in shows_in(cases)
        for case in test.get("alert_rule_test", [])
        if case.get("exp_alerts")
    }
    assert shown == {rule["alert"] for rule in rules()}


@needs("promtool")
@pytest.mark.parametrize(
    "command",
    [["check", "rules", *map(str, RULES)], ["check", "config", str(PROMETHEUS / "scrape.yaml")]],
    ids=["the rules are valid", "the scrape configuration is valid"],
)
def test_promtool_finds_valid(command: list[str]) -> None:
    promtool(*command)


@needs("promtool")
def test_every_query_of_the_dashboard_is_valid(tmp_path: Path) -> None:
    filled = {"$job": ".*", "$instance": ".*", "$__rate_interval": "5m"}
    queries: list[dict[str, str]] = []
    for target in (target for panel in panels() for target in panel.get("targets", [])):
        query = target["expr"]
        for variable, value in filled.items():
            query = query.replace(variable, value)
        queries.append({"record": f"query:{len(queries)}", "expr": query})
    rules_of_dashboard = tmp_path / "dashboard.yaml"
    rules_of_dashboard.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": queries}]}))
    promtool("check", "rules", str(rules_of_dashboard))


@needs("promtool")
def test_the_rules_fire_when_they_should_and_not_otherwise(tmp_path: Path) -> None:
    explained = {rule["alert"]: rule["annotations"] for rule in rules()}
    complete = []
    for cases in CASES:
        # Every value stays text: `0x40` is 41 zeros to promtool, and a number to YAML.
        loaded = yaml.load(cases.read_text(), yaml.BaseLoader)  # noqa: S506 - loads nothing but text
        loaded["rule_files"] = [str(PROMETHEUS / name) for name in loaded["rule_files"]]
        for case in (case for test in loaded["tests"] for case in test.get("alert_rule_test", [])):
            for expected in case.get("exp_alerts", []):
                expected["exp_annotations"] = {**explained[case["alertname"]], **expected["exp_annotations"]}
        complete.append(tmp_path / cases.name)
        complete[-1].write_text(yaml.safe_dump(loaded))
    promtool("test", "rules", *map(str, complete))


def promtool(*command: str) -> None:
    done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("panel", [panel for panel in panels() if panel["type"] != "row"], ids=lambda panel: panel["title"])
def test_every_panel_shows_a_metric_that_exists(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        names = names_in(target["expr"])
        assert names
        assert names <= exported() | OF_PROMETHEUS


@pytest.mark.parametrize("panel", [panel for panel in panels() if panel["type"] != "row"], ids=lambda panel: panel["title"])
def test_every_panel_explains_itself_and_has_a_unit(panel: dict[str, Any]) -> None:
    assert re.fullmatch(r"[A-Z0-9`].*[^.\s]", panel["description"])
    assert panel["description"] != panel["title"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    for target in panel["targets"]:
        # A panel shows what is chosen at the top. Series that rules record are sums over all.
        assert {'job=~"$job"'} <= set(re.findall(r'job=~"\$job"', target["expr"])) or names_in(target["expr"]) <= recorded() | {"ALERTS"}


def test_what_a_person_would_hang_on_a_wall_comes_first_and_is_big() -> None:
    first, *others = panels()
    assert (first["type"], first["title"]) == ("row", "Overview")
    wall = list(takewhile(lambda panel: panel["type"] != "row", others))
    assert {panel["type"] for panel in wall} == {"stat"}
    assert all(panel["gridPos"]["w"] >= 4 and panel["gridPos"]["h"] >= 5 for panel in wall)
    assert {name for panel in wall for target in panel["targets"] for name in names_in(target["expr"])} >= {
        "postern:sign_ins:rate5m",
        "postern:sign_ins_failed:ratio30d",
        "sso_actor_turn_due_timestamp_seconds",
        "sso_jobs_oldest_due_age_seconds",
        "sso_backup_checked_timestamp_seconds",
        "sso_tls_certificate_end_timestamp_seconds",
        "ALERTS",
    }


def test_the_dashboard_shows_every_metric_of_ours() -> None:
    shown = {name for panel in panels() for target in panel.get("targets", []) for name in names_in(target["expr"])}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported() if name.startswith("sso_")}
    assert {name for name in families if not any(one.startswith(name) for one in shown)} == set()


def test_panels_lie_side_by_side_and_have_numbers_of_their_own() -> None:
    assert len({panel["id"] for panel in panels()}) == len(panels())
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.parametrize("page", WHOLE, ids=lambda page: page.stem)
def test_every_link_in_the_runbook_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        led = (page.parent / path).resolve() if path else page
        assert led.exists(), target
        assert not anchor or anchor in anchors(led), target

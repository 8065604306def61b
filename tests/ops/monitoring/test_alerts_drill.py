"""The drill of alerts tries every alert, or says why not, with rules that differ from the shipped ones in their durations alone."""

import inspect
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from ops.drill.__main__ import main
from ops.drill.alerts.drill import UNTRIED
from ops.drill.alerts.faults import ROUNDS
from ops.drill.alerts.shortened import RULES, alerts, shortened, write
from tests.tools import needs


def test_every_alert_has_one_fault_or_a_reason_why_it_has_none() -> None:
    tried = [name for trials in ROUNDS for trial in trials for name in trial.fires]
    assert sorted([*tried, *UNTRIED]) == sorted(alerts())


def test_every_fault_is_described() -> None:
    assert all(len((inspect.getdoc(trial.fault) or "").split()) > 3 for trials in ROUNDS for trial in trials)


@needs("promtool")
def test_promtool_finds_the_shorter_rules_valid(tmp_path: Path) -> None:
    done = subprocess.run(["promtool", "check", "rules", str(write(tmp_path))], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_but_durations_is_shorter() -> None:
    for rule in (rule for file in RULES for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]):
        before, after = rule["expr"], shortened(rule)["expr"]
        durations = r"\[\d[^\]]*\]|(?<=> )(300|60)\b|(?<=> )(5|30|1|6)\b|\* (300|5) >="
        assert re.sub(durations, "#", after) == re.sub(durations, "#", before)


def test_windows_ages_and_waits_are_a_sixtieth_as_long_and_a_window_has_four_scrapes() -> None:
    def brief(expression: str, **more: str) -> str:
        return str(shortened({"expr": expression, **more})["expr"])

    assert brief("rate(a[10m]) + sum_over_time(b[6h:5m]) * 300 >= 10") == "rate(a[10s]) + sum_over_time(b[360s:5s]) * 5 >= 10"
    assert brief("rate(a[1m])") == "rate(a[4s])"
    assert brief('rate(a{le=~"1|1[.]0"}[5m])') == 'rate(a{le=~"1|1[.]0"}[5s])'
    assert brief("max(x_age_seconds) > 300") == "max(x_age_seconds) > 5"
    assert brief("time() - x > 7 * 86400") == "time() - x > 7 * 86400"
    assert brief("changes(x[15m]) > 3", alert="PosternRestarting") == "changes(x[90s]) > 3"
    assert shortened({"expr": "x", "for": "1h"})["for"] == "60s"


def test_an_alert_that_no_fault_fires_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["alerts", "PosternEarthquake"])

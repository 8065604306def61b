"""Whom a fault would wake: the metrics of the daemons during the drill, and the shipped rules, by promtool.

What was scraped goes into a test of promtool as its series. Afterwards everything stays as it was at the last scrape, for a quarter of an
hour: a rule that looks back over minutes has time to fire. Counters that stand still dilute no errors, so this is on the strict side.
"""

import json
import math
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ops.bench.load import Target, fetch
from ops.bench.report import ROOT

RULES: Final = ROOT / "ops" / "prometheus" / "alerts.yaml"
INTERVAL: Final = 5
AFTERWARDS: Final = 900
_NAMES: Final = re.compile(r"\b(?:sso_[a-z_]+|process_[a-z_]+)\b")


@dataclass(slots=True)
class Alarms:
    """Scrapes while it runs."""

    targets: Mapping[str, Target]
    """By the name of the instance, its page of metrics."""
    scrapes: list[Mapping[str, Mapping[str, float] | None]] = field(default_factory=list)
    """For each scrape and instance, the samples; None if there was no answer."""

    async def watch(self) -> None:
        while True:
            began = trio.current_time()
            found: dict[str, Mapping[str, float] | None] = {}
            for instance, target in self.targets.items():
                answer = await fetch(target, INTERVAL / 2)
                found[instance] = None if answer is None or answer.status != 200 else _samples(answer.body.decode(), instance)
            self.scrapes.append(found)
            await trio.sleep_until(began + INTERVAL)

    async def fired(self, place: Path) -> Mapping[str, str]:
        """Of the alerts that fired, the severity."""
        return await trio.to_thread.run_sync(_fired, list(self.scrapes), place)


def rules() -> Mapping[str, Mapping[str, Any]]:
    return {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


def _samples(text: str, instance: str) -> Mapping[str, float]:
    wanted = {name for rule in rules().values() for name in _NAMES.findall(rule["expr"])}
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in wanted and not math.isnan(sample.value):
                labels = {**sample.labels, "job": "postern", "instance": instance}
                found[f"{sample.name}{{{', '.join(f'{name}={json.dumps(value)}' for name, value in labels.items())}}}"] = sample.value
    return found


def _fired(scrapes: Sequence[Mapping[str, Mapping[str, float] | None]], place: Path) -> Mapping[str, str]:
    more = AFTERWARDS // INTERVAL
    last = (len(scrapes) + more) * INTERVAL
    known = rules()
    # Severities and annotations do not matter: whatever fires makes promtool name it.
    asked = [{"alertname": name, "eval_time": f"{at}s"} for name in known for at in range(0, last, 30)]
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{INTERVAL}s",
        "tests": [{"interval": f"{INTERVAL}s", "input_series": list(_series(scrapes, more)), "alert_rule_test": asked}],
    }
    file = place / "alarms.yaml"
    file.write_text(yaml.safe_dump(test))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    names = set(re.findall(r"alertname: ?(\w+)", said))
    if done.returncode and not names:
        raise AssertionError(said)
    return {name: known[name]["labels"]["severity"] for name in sorted(names)}


def _series(scrapes: Sequence[Mapping[str, Mapping[str, float] | None]], more: int) -> Iterator[Mapping[str, str]]:
    for instance in scrapes[0]:
        up = [float(one[instance] is not None) for one in scrapes]
        yield {"series": f'up{{job="postern", instance="{instance}"}}', "values": _written([*up, *[up[-1]] * more])}
    for instance in scrapes[0]:
        for name in sorted({name for one in scrapes for name in one[instance] or ()}):
            values = [None if (told := one[instance]) is None else told.get(name) for one in scrapes]
            yield {"series": name, "values": _written([*values, *[values[-1]] * more])}


def _written(values: Sequence[float | None]) -> str:
    """A scrape without an answer, and a sample that is gone, end a series until its next sample."""
    words = []
    before: float | None = None
    for value in values:
        words.append(f"{value:g}" if value is not None and abs(value) < 1e6 else repr(value) if value is not None else _ended(before))
        before = value
    return " ".join(words)


def _ended(before: float | None) -> str:
    return "_" if before is None else "stale"

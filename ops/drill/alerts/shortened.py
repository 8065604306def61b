"""The shipped alert rules with shorter durations, for a drill that has no week. Everything else in them stays as it is."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from ops.bench.report import ROOT

RULES: Final = (ROOT / "ops" / "prometheus" / "alerts.yaml", ROOT / "ops" / "prometheus" / "service-levels.yaml")
FACTOR: Final = 60
# Four starts of a process do not fit into a minute's sixtieth part of a quarter of an hour.
LESS: Final[Mapping[str, int]] = {"PosternRestarting": 10, "PosternActorRestarts": 10}
SCRAPE: Final = 1
SHORTEST: Final = 4 * SCRAPE
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def shortened(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    """Each duration is divided by `FACTOR`: windows, `for`, the ages of waiting work, and the seconds of a window that a sum is multiplied
    with. A window has at least four scrapes. Days that a rule counts in seconds (`7 * 86400`) stay: the drill sets such a time back
    instead.
    """
    factor = LESS.get(rule.get("alert", ""), FACTOR)
    expression = re.sub(r"\[(\d[^\]]*)\]", lambda found: f"[{':'.join(_window(one, factor) for one in found[1].split(':'))}]", rule["expr"])
    expression = re.sub(r"(_age_seconds\) > )300", lambda found: f"{found[1]}{300 // factor}", expression)
    expression = re.sub(r"(_wait_seconds_bucket\[\w+\]\)\)\) > )60\b", lambda found: f"{found[1]}{60 / factor:g}", expression)
    expression = re.sub(r"\* 300 >= ", f"* {300 // factor} >= ", expression)
    brief = {**rule, "expr": expression}
    if "for" in rule:
        brief["for"] = f"{max(1, _seconds(rule['for']) // factor)}s"
    return brief


def write(place: Path) -> Path:
    """The file of all rules."""
    groups = [
        {"name": group["name"], "interval": f"{SCRAPE}s", "rules": [shortened(rule) for rule in group["rules"]]}
        for file in RULES
        for group in yaml.safe_load(file.read_text())["groups"]
    ]
    written = place / "rules.yaml"
    written.write_text(yaml.safe_dump({"groups": groups}))
    return written


def alerts() -> Mapping[str, str]:
    """Of each shipped alert, its severity."""
    return {
        rule["alert"]: rule["labels"]["severity"]
        for file in RULES
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }


def _seconds(words: str) -> int:
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", words))


def _window(words: str, factor: int) -> str:
    return f"{max(SHORTEST, _seconds(words) // factor)}s"

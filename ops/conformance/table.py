"""The table of docs/conformance.md: what each module of each plan came to in one run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ops.conformance.plans import ROOT, Plan, commit, function_of, plans

PAGE: Final = ROOT / "docs" / "conformance.md"
BEGINS: Final = "<!-- `make conformance` writes from here -->"
ENDS: Final = "<!-- to here -->"
WARNING: Final = "conformance-warning"
NOT_OFFERED: Final = "conformance-not-offered"
MCP: Final = "mcp"
"""The folder of MCP's scenarios, which are no plan of the Foundation's."""


@dataclass
class Ran:
    """One test."""

    folder: str
    function: str
    has_failed: bool = False
    was_skipped: str = ""
    told: list[tuple[str, str]] = field(default_factory=list)

    @property
    def result(self) -> tuple[str, str]:
        """The result and the reason, as the table says them."""
        if self.has_failed:
            return "failed", ""
        if self.was_skipped:
            return "not run", self.was_skipped
        for name, word in ((NOT_OFFERED, "not offered"), (WARNING, "warning")):
            because = [str(value) for told, value in self.told if told == name]
            if because:
                return word, because[0]
        return "passed", ""


def rows(plan: Plan, ran: Mapping[tuple[str, str], Ran]) -> Iterator[tuple[str, str, str]]:
    """Module, result and reason. A module that applies and did not run is "not run"."""
    for module, because in plan.modules.items():
        if because:
            yield module, "not offered", because
        else:
            one = ran.get((plan.folder, function_of(module)))
            yield module, *(one.result if one is not None else ("not run", ""))


def written(ran: Sequence[Ran]) -> str:
    by_name = {(one.folder, one.function): one for one in ran}
    parts = [f"Of the suite's commit `{commit()}`."]
    parts += [_section(plan.title, _said(plan), list(rows(plan, by_name))) for plan in plans()]
    scenarios = [(one.function.removeprefix("test_").replace("_", "-"), *one.result) for one in ran if one.folder == MCP]
    if scenarios:
        parts.append(_section("MCP", "`@modelcontextprotocol/conformance authorization`, through the pages.", sorted(scenarios)))
    return "\n\n".join(parts)


def _said(plan: Plan) -> str:
    return f"`{plan.name}`; the tests are in `tests/conformance/{plan.folder}`." if plan.applying else f"`{plan.name}`"


def _section(title: str, said: str, found: Sequence[tuple[str, str, str]]) -> str:
    lines = [f"| `{module}` | {result} | {because} |" for module, result, because in found]
    return "\n".join([f"### {title}", "", said, "", "| module | result | because |", "|---|---|---|", *lines])


def put(text: str, page: Path = PAGE) -> None:
    """Writes the tables between the two marks of the page."""
    before, _, rest = page.read_text().partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    page.write_text(f"{before}{BEGINS}\n\n{text}\n\n{ENDS}{after}")


def shown(page: Path = PAGE) -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """What the page says now: by plan, the result and the reason of each module."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    plan = ""
    for line in page.read_text().splitlines():
        named = re.match(r"`([\w-]+-test-plan)`", line)
        row = re.match(r"\| `([^`]+)` \| ([^|]+) \| ([^|]*)\|", line)
        if named:
            plan = named[1]
            found[plan] = {}
        elif line.startswith("#"):
            plan = ""
        elif row and plan:
            found[plan][row[1]] = (row[2].strip(), row[3].strip())
    return found

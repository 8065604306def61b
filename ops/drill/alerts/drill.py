"""`python -m ops.drill alerts [alert …]`: each alert is fired by its fault, against daemons that run, and resolved by what mends the fault.

A real Prometheus scrapes them and evaluates the shipped rules, with durations a sixtieth as long. Exit status 1 when an alert did not fire,
or did not resolve.
"""

import argparse
import inspect
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

import structlog
import trio

from ops.bench.report import complain
from ops.drill.alerts.faults import ROUNDS, Trial
from ops.drill.alerts.shortened import alerts
from ops.drill.alerts.site import Site, standing

# An actor is stalled after three minutes.
FIRES_WITHIN: Final = 240.0
# Windows of six hours are six minutes here.
RESOLVES_WITHIN: Final = 540.0
PATIENCE: Final = 3600.0
# Nobody waits for these between two rounds: they look back for the longest.
LONG: Final = frozenset({"PosternSignInsFail", "PosternSignInsSlow", "PosternSignInBudget", "PosternSignInTimeBudget"})
UNTRIED: Final[Mapping[str, str]] = {
    "PosternPresenceDropped": "20 000 people would have to come within one outage of the database",
    "PosternConnectionsUnread": "a daemon looks within ten minutes of its start, and more than ten directories would have to be away",
    "PosternDirectoriesFailing": "a directory by LDAP would have to fail at its next run, a quarter of an hour later",
    "PosternDirectoriesWaiting": "a directory by LDAP would have to lose more people than a run takes away by itself",
    "PosternMailsHeldBack": "the daemons count no mails here, as they have no rate limits",
    "PosternConnectionCertificatesEnd": "a daemon looks within ten minutes of its start",
    "PosternSamlCertificateEnds": "a daemon looks within an hour of its start",
    "PosternNothingGoesOut": "the receivers of three organizations would have to be away for a quarter of an hour",
    "PosternDeliveriesFailing": "two receivers would have to be away for a quarter of an hour",
    "PosternSignalsLate": "an application has to make its streams itself, and none runs here",
    "PosternHookSilent": "an organization has to have a hook, and none runs here",
    "PosternHookSlow": "an organization has to have a hook, and none runs here",
    "PosternPeopleThereLate": "an application has to have a connection outwards, and none runs here",
    "PosternOffboardingLate": "fifty receivers would have to miss a deadline of their organization",
    "PosternOrganizationMailFailing": "a server that fails rests, so twenty organizations would have to have one each",
}


@dataclass(slots=True)
class Found:
    fired: dict[str, float] = field(default_factory=dict)
    resolved: dict[str, float] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)


async def _round(site: Site, trials: Sequence[Trial], found: Found) -> None:
    names = [name for trial in trials for name in trial.fires]
    complain(f"{', '.join(names)} …")
    began = trio.current_time()
    async with AsyncExitStack() as stack:
        for trial in trials:
            await stack.enter_async_context(trial.fault(site))
        if any(trial.restarts for trial in trials):
            await site.restart()
        began = trio.current_time()
        for name in names:
            site.fired.pop(name, None)
        with trio.move_on_after(FIRES_WITHIN):
            while not site.fired.keys() >= set(names):  # noqa: ASYNC110 - Prometheus works
                await trio.sleep(0.5)
        for name in names:
            if name in site.fired:
                found.fired[name] = site.fired[name] - began
            else:
                complain(f"  {name} did not fire")
        complain(f"  fired: {', '.join(name for name in names if name in found.fired)}")
    if any(trial.restarts for trial in trials):
        await site.restart()
    await _resolved(site, [name for name in names if name not in LONG and name in found.fired], found)


async def _resolved(site: Site, names: Sequence[str], found: Found) -> None:
    mended = trio.current_time()
    left = set(names)
    with trio.move_on_after(RESOLVES_WITHIN):
        while left:
            for name in left - await site.alerts():
                found.resolved[name] = trio.current_time() - mended
                left.discard(name)
            await trio.sleep(0.5)
    for name in left:
        complain(f"  {name} did not resolve")


async def drill(asked: frozenset[str]) -> Found:
    found = Found()
    with trio.fail_after(PATIENCE):
        async with standing() as site:
            for trials in ROUNDS:
                chosen = [trial for trial in trials if not asked or asked & set(trial.fires)]
                if chosen:
                    await _round(site, chosen, found)
            await _resolved(site, [name for name in LONG if name in found.fired], found)
    return found


def _table(found: Found) -> str:
    faults = {name: " ".join((inspect.getdoc(trial.fault) or "").split()) for trials in ROUNDS for trial in trials for name in trial.fires}
    lines = ["| alert | | the fault that fires it | fired after | resolved after |", "|---|---|---|---|---|"]
    for name, severity in alerts().items():
        if name in UNTRIED:
            lines.append(f"| `{name}` | {severity} | not tried: {UNTRIED[name]} | | |")
        elif name in found.fired:
            resolved = f"{found.resolved[name]:.0f} s" if name in found.resolved else "NOT"
            lines.append(f"| `{name}` | {severity} | {faults[name]} | {found.fired[name]:.0f} s | {resolved} |")
        else:
            lines.append(f"| `{name}` | {severity} | {faults.get(name, '')} | NOT | |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.drill alerts", description=__doc__)
    parser.add_argument("alerts", nargs="*", metavar="alert", help="only these; all without")
    chosen = frozenset(parser.parse_args(arguments).alerts)
    tried = {name for trials in ROUNDS for trial in trials for name in trial.fires}
    if unknown := chosen - tried:
        parser.error(f"no fault fires {', '.join(sorted(unknown))}")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    found = trio.run(drill, chosen)
    print(_table(found))
    wanted = {name for trials in ROUNDS for trial in trials if not chosen or chosen & set(trial.fires) for name in trial.fires}
    return 0 if wanted <= found.fired.keys() and wanted <= found.resolved.keys() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

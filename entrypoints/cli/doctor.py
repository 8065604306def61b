"""`postern doctor`: checks the installation for a person on call, in one line per check."""

import argparse
from pathlib import Path
from typing import Final

import psycopg
import trio

from entrypoints import checks
from entrypoints.bootstrap import open_postern
from entrypoints.checks import Finding, Report, Verdict
from entrypoints.cli.output.printing import print_json
from entrypoints.failures import FAILURE, OK, StartFailed, sole
from entrypoints.installation import reachable_database, require_answer, require_installation
from entrypoints.settings import Settings, SettingsError

LONGEST: Final = 120.0
"""Whoever is on call waits no longer, whatever hangs. A database that recovers is given most of it."""


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    return trio.run(_examine, settings, arguments.processes, arguments.backups, arguments.json)


async def _examine(settings: Settings, processes: int | None, backups: Path | None, as_json: bool) -> int:  # noqa: FBT001 - trio.run passes by position
    worst = OK
    findings: list[dict[str, str]] = []

    def report(subject: str, finding: Finding) -> None:
        nonlocal worst
        if as_json:
            code = subject.lower().replace(" ", "_")
            findings.append({"code": code, "subject": subject, "verdict": finding.verdict.lower(), "text": finding.text})
        else:
            print(f"{finding.verdict:<4}  {subject:<18} {finding.text}", flush=True)
        if finding.verdict in {Verdict.FAIL, Verdict.SOON}:
            worst = FAILURE

    with trio.move_on_after(LONGEST) as looking:
        await _report_all(settings, processes, backups, report)
    if looking.cancelled_caught:
        report("doctor", Finding(Verdict.FAIL, f"stopped after {LONGEST:g} s: checks that are not listed above did not run"))
    if as_json:
        print_json(findings)
    return worst


async def _report_all(settings: Settings, processes: int | None, backups: Path | None, report: Report) -> None:
    report("settings", checks.given_settings())
    try:
        require_installation(settings)
    except StartFailed as error:
        report("data directory", Finding(Verdict.FAIL, str(error)))
        return
    checks.before_database(settings, backups, report)
    away: list[str] = []
    of_hosts: list[Finding] = []
    async with trio.open_nursery() as nursery:
        # The check of the database runs beside the other checks, so that a database that is down is reported without delay.
        nursery.start_soon(_notice_absence, settings, away)
        nursery.start_soon(_look_at_hosts, settings, of_hosts)
        report("mail", await checks.mail(settings))
        report("password hashing", await checks.password_hashing(settings))
    for finding in of_hosts:
        report("database hosts", finding)
    if away and of_hosts and of_hosts[0].verdict is Verdict.FAIL:
        return
    if away:
        report("database", Finding(Verdict.FAIL, away[0]))
        return
    await _of_database(settings, processes, report)


async def _notice_absence(settings: Settings, away: list[str]) -> None:
    try:
        await require_answer(settings)
    except StartFailed as error:
        away.append(str(error))


async def _look_at_hosts(settings: Settings, found: list[Finding]) -> None:
    # The embedded database is one host.
    finding = None if settings.embedded else await checks.hosts(settings)
    if finding is not None:
        found.append(finding)


async def _of_database(settings: Settings, processes: int | None, report: Report) -> None:
    try:
        async with reachable_database(settings):
            if await checks.of_database(settings, processes, report):
                await _of_postern(settings, report)
    except (StartFailed, psycopg.Error, BaseExceptionGroup) as error:
        cause = sole(error)
        if not isinstance(cause, (StartFailed, psycopg.Error)):
            raise
        report("database", Finding(Verdict.FAIL, " ".join(str(cause).split())))


async def _of_postern(settings: Settings, report: Report) -> None:
    try:
        async with open_postern(settings) as postern:
            await checks.of_postern(settings, postern, report)
    except (SettingsError, StartFailed) as error:
        report("start", Finding(Verdict.FAIL, str(error)))

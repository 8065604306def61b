"""`postern doctor`: what a person on call wants to know, one line each."""

import argparse
import os
import stat
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import trio

from adapters.crypto.argon2_binding import binding
from adapters.crypto.passwords import rate, usable_cores
from adapters.postgres.driver import Connection
from adapters.postgres.migrate import SchemaMismatch, plan
from core.domain.errors import Refusal
from core.domain.signing_keys import KeyPurpose
from entrypoints.bootstrap import Services, ages, argon2_parameters, key_file, key_ring, mail_transport, open_services, unreadable
from entrypoints.daemon import require_certificate
from entrypoints.failures import FAILURE, OK, StartFailed, sole
from entrypoints.installation import conninfo, reachable_database, require_installation
from entrypoints.settings import CONFIG, DECLARATIONS, Settings, SettingsError
from entrypoints.settings_forms import masked_url
from ports.mail import MailDelayed

_OLD_KEY: Final = timedelta(days=365)
_SKEW_NOTED: Final = timedelta(seconds=1)
_SKEW_HARMFUL: Final = timedelta(seconds=30)
_LITTLE_SPACE: Final = 1 << 30


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    text: str


Report = Callable[[str, Finding], None]


def run(_arguments: argparse.Namespace, settings: Settings) -> int:
    return trio.run(_examine, settings)


async def _examine(settings: Settings) -> int:
    worst = OK

    def report(subject: str, finding: Finding) -> None:
        nonlocal worst
        print(f"{finding.verdict:<4}  {subject:<18} {finding.text}", flush=True)
        if finding.verdict is Verdict.FAIL:
            worst = FAILURE

    report("settings", _settings())
    try:
        require_installation(settings)
    except StartFailed as error:
        report("data directory", Finding(Verdict.FAIL, str(error)))
        return worst
    report("base URL", _base_url(settings))
    report("certificate", _certificate(settings))
    report("trusted proxies", _trusted_proxies(settings))
    report("rate limits", Finding(Verdict.OK, "on") if settings.rate_limits else Finding(Verdict.WARN, "off: passwords can be guessed"))
    report("data directory", _data_directory(settings))
    report("encryption keys", _encryption_keys(settings))
    report("mail", await _mail(settings))
    report("password hashing", await _argon2(settings))
    await _of_database(settings, report)
    return worst


async def _of_database(settings: Settings, report: Report) -> None:
    try:
        async with reachable_database(settings):
            report("database", await _database(settings))
            schema = await _schema(settings)
            report("schema", schema)
            if schema.verdict is Verdict.OK:
                async with open_services(settings) as services:
                    report("clock", await _asked(_clock, services))
                    report("keys", await _asked(_key_ages, services))
                    report("jobs", await _asked(_jobs, services))
    except (StartFailed, BaseExceptionGroup) as error:
        cause = sole(error)
        if not isinstance(cause, StartFailed):
            raise
        report("database", Finding(Verdict.FAIL, str(cause)))


async def _asked(check: Callable[[Services], Awaitable[Finding]], services: Services) -> Finding:
    try:
        return await check(services)
    except Refusal as error:
        return Finding(Verdict.FAIL, error.message)


def _settings() -> Finding:
    given = sum(1 for one in DECLARATIONS if one.name in os.environ or f"{one.name}_FILE" in os.environ)
    file = os.environ.get(CONFIG)
    return Finding(Verdict.OK, f"{given} of {len(DECLARATIONS)} from the environment{f', more from {file}' if file else ''}")


def _base_url(settings: Settings) -> Finding:
    url = settings.public_url
    if settings.base_url is None:
        return Finding(Verdict.WARN, f"{url}, made from POSTERN_BIND; POSTERN_BASE_URL names the public one")
    if urlsplit(url).scheme == "https" or _is_loopback(urlsplit(url).hostname or ""):
        return Finding(Verdict.OK, url)
    return Finding(Verdict.WARN, f"{url}: passwords and tokens travel in the clear without https")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _certificate(settings: Settings) -> Finding:
    if settings.tls_certificate is None:
        return Finding(Verdict.OK, "none; we answer plain HTTP")
    try:
        require_certificate(settings)
    except SettingsError as error:
        return Finding(Verdict.FAIL, str(error))
    return Finding(Verdict.OK, str(settings.tls_certificate))


def _trusted_proxies(settings: Settings) -> Finding:
    everybody = [network for network in settings.trusted_proxies if network.prefixlen == 0]
    if everybody:
        return Finding(Verdict.WARN, f"{everybody[0]} is everybody: whoever connects can claim any address")
    if not settings.trusted_proxies:
        return Finding(Verdict.OK, "none; the address that connects is the client's")
    return Finding(Verdict.OK, ", ".join(map(str, settings.trusted_proxies)))


def _data_directory(settings: Settings) -> Finding:
    if not settings.embedded and not settings.mail.startswith("file:"):
        return Finding(Verdict.OK, "not used")
    directory = settings.data_dir.absolute()
    # It is made at the first start: what counts is where that can be.
    nearest = next(parent for parent in (directory, *directory.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            free = os.statvfs(nearest).f_bavail * os.statvfs(nearest).f_frsize
    except OSError as error:
        return Finding(Verdict.FAIL, f"{nearest} cannot be written to: {error.strerror}")
    verdict = Verdict.OK if free > _LITTLE_SPACE else Verdict.WARN
    return Finding(verdict, f"{directory}, {free / (1 << 30):.1f} GiB free")


def _encryption_keys(settings: Settings) -> Finding:
    file = key_file(settings)
    if file is not None and not file.path.exists():
        return Finding(Verdict.OK, f"{file.path} is made at the first start")
    try:
        ring = key_ring(settings)
    except (SettingsError, StartFailed) as error:
        return Finding(Verdict.FAIL, str(error))
    known = f"{len(ring.key_ids())} known, {ring.current_key_id()} in force"
    if file is not None and file.path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return Finding(Verdict.FAIL, f"{file.path} is open to others: chmod 600 it")
    return Finding(Verdict.OK, known)


async def _mail(settings: Settings) -> Finding:
    try:
        where = await mail_transport(settings).check()
    except SettingsError as error:
        return Finding(Verdict.FAIL, str(error))
    except MailDelayed as error:
        return Finding(Verdict.FAIL, str(error))
    if settings.mail.startswith("smtp"):
        return Finding(Verdict.OK, where)
    return Finding(Verdict.WARN, f"{where}: it reaches nobody; POSTERN_MAIL names a server")


async def _argon2(settings: Settings) -> Finding:
    found = binding()
    if found.missing:
        return Finding(Verdict.FAIL, str(found))
    try:
        parameters = argon2_parameters(settings)
    except SettingsError as error:
        return Finding(Verdict.FAIL, str(error))
    per_second = await trio.to_thread.run_sync(rate, 0.5, parameters)
    workers = settings.argon2_workers or usable_cores()
    verdict = Verdict.WARN if found.baseline is None else Verdict.OK
    return Finding(verdict, f"{found}: {per_second:.0f} a second per worker, {workers} workers")


async def _database(settings: Settings) -> Finding:
    connection = await Connection.connect(conninfo(settings))
    try:
        version = connection.info.parameter_status("server_version") or "of an unknown version"
    finally:
        with trio.CancelScope(shield=True):
            await connection.close()
    kind = "embedded" if settings.embedded else masked_url(conninfo(settings))
    return Finding(Verdict.OK, f"PostgreSQL {version.partition(' ')[0]}, {kind}")


async def _schema(settings: Settings) -> Finding:
    try:
        found = await plan(conninfo(settings))
    except SchemaMismatch as error:
        return Finding(Verdict.FAIL, str(error))
    if found.pending:
        names = ", ".join(str(migration) for migration in found.pending)
        return Finding(Verdict.WARN, f"{names} not applied yet; `postern migrate` or the next `postern serve` does it")
    return Finding(Verdict.OK, f"current, at {found.applied[-1]}" if found.applied else "empty")


async def _clock(services: Services) -> Finding:
    before = services.clock.now()
    theirs = await services.database.clock()
    # Theirs was read somewhere between our two looks; the middle is the best guess.
    skew = abs(theirs - (before + (services.clock.now() - before) / 2))
    text = f"{skew.total_seconds():.3f} s apart from the database's"
    verdict = Verdict.FAIL if skew > _SKEW_HARMFUL else Verdict.WARN if skew > _SKEW_NOTED else Verdict.OK
    return Finding(verdict, text)


async def _key_ages(services: Services) -> Finding:
    told = await ages(services.signing_keys, services.keyring, services.clock.now())
    if KeyPurpose.ACCESS.value not in told:
        return Finding(Verdict.WARN, "no signing keys yet: they are made at the first start")
    lost = await unreadable(services.signing_keys, services.keyring)
    if lost:
        return Finding(Verdict.FAIL, f"no encryption key in force opens the signing keys {', '.join(lost)}")
    text = ", ".join(f"{purpose} {age.days} d" for purpose, age in told.items())
    old = [purpose for purpose, age in told.items() if age > _OLD_KEY]
    return Finding(Verdict.WARN, f"{text}; `postern keys rotate` renews them") if old else Finding(Verdict.OK, text)


async def _jobs(services: Services) -> Finding:
    states = await services.jobs.state()
    waiting, dead = sum(state.waiting for state in states), sum(state.dead for state in states)
    return Finding(Verdict.WARN if dead else Verdict.OK, f"{waiting} waiting, {dead} dead")

"""The health checks of an installation, which `postern doctor` and a page of platform owners show."""

import json
import os
import resource
import stat
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg
import trio

from adapters.crypto.known_passwords.filters import FilterUnusable, filter_head
from adapters.crypto.password_digests import binding
from adapters.crypto.passwords import rate, usable_cores
from adapters.mail.transports import MailSettingsError, mail_directory
from adapters.postgres.backups.restored import held_kinds, missing_parts, missing_rows
from adapters.postgres.backups.snapshots import Unreadable, attempt_reading
from adapters.postgres.backups.tools import PostgresTools, ToolsUnusable
from adapters.postgres.database import connection_limits
from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.lookout import HostState, seen_hosts
from adapters.postgres.grants import Rights, rights
from adapters.postgres.migrate import SchemaMismatch, listed_processes, older_processes, plan, plan_of_all
from core.domain.backups import BACKUP_CHECKED
from core.domain.errors import BadRequest, Refusal
from core.domain.identity.guards.bound_sessions import BindingRule
from core.domain.identity.passkeys import RELATED_ORIGINS, Obstacle, PasskeysUnavailable, RelyingParty
from core.domain.outbound import destination
from core.domain.record.deliveries import ReceiverKind
from core.domain.tokens import KeyPurpose, clocks_differ, clocks_in_words
from core.frozen import Frozen
from core.usecases.identity.guards.puzzles import OUR_OWN
from entrypoints.assembly.configured import argon2_parameters, key_file, key_ring, mail_transport
from entrypoints.bootstrap import Postern
from entrypoints.failures import StartFailed
from entrypoints.installation import connections_of, conninfo
from entrypoints.listening import require_pair, valid_between
from entrypoints.settings import CONFIG, DECLARATIONS, Settings, SettingsError
from entrypoints.settings_forms import masked_url
from ports.identity.sign_in import WidgetSilent
from ports.mail import MailDelayed
from ports.outbound import OutboundFailed, OutboundRequest
from ports.services.billing import PaymentRefused, PaymentUnavailable

_OLD_KEY: Final = timedelta(days=365)
_OLD_LISTS: Final = timedelta(days=365)
_ENDS_SOON: Final = timedelta(days=21)
_LATE_NEWS: Final = timedelta(minutes=5)
_SKEW_NOTED: Final = timedelta(seconds=1)
_LITTLE_SPACE: Final = 1 << 30
# Two checkpoints' worth of PostgreSQL's log, and time to act.
_TOO_LITTLE_SPACE: Final = 256 << 20
_MOST_NAMED: Final = 4
_MOST_ENDING: Final = 1000
# The rows of each table that are looked at for what they lack.
_LOOKED_AT: Final = 1000
# Connections of people, of the pool and to others, and the files of the process itself. Linux gives 1024 where nobody set a limit.
_FEW_DESCRIPTORS: Final = 1024
# A good mail server says hello in milliseconds, and those that make senders wait on purpose do so for some seconds.
MAIL_ANSWERS_WITHIN: Final = 15.0
# As long as somebody who wants to sign in waits for a look at a provider.
_PROVIDER_ANSWERS_WITHIN: Final = 5.0
_LONGEST_DOCUMENT: Final = 16 << 10
_PROVED_LATELY: Final = timedelta(days=7)


_RECEIVERS: Final = {
    ReceiverKind.WEBHOOK: ("webhook", "webhooks"),
    ReceiverKind.SIGNAL: ("shared signals (SSF) stream", "shared signals (SSF) streams"),
    ReceiverKind.LOGOUT_NOTICE: ("back-channel logout URI", "back-channel logout URIs"),
    ReceiverKind.SIEM: ("SIEM", "SIEMs"),
    ReceiverKind.PROVISIONING: ("provisioning connection", "provisioning connections"),
}


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    SOON = "SOON"
    """Nothing is broken yet, and something will break if nobody acts."""
    FAIL = "FAIL"


class Finding(Frozen):
    verdict: Verdict
    text: str
    is_used: bool = True
    """Whether the installation uses what was looked at."""


# Whether a connection of this role compiles, and a server that was built without a compiler does not.
_COMPILES: Final = b"select current_setting('jit')::boolean and pg_jit_available(), quote_ident(current_user)"

Report = Callable[[str, Finding], None]


def before_database(settings: Settings, backups: Path | None, report: Report) -> None:
    """The checks that need no database. `backups` is the folder of backups, if it is not the usual one."""
    report("base URL", base_url(settings))
    report("certificate", certificate(settings))
    report("trusted proxies", trusted_proxies(settings))
    report("rate limits", rate_limits(settings))
    report("descriptors", descriptors())
    report("data directory", data_directory(settings))
    report("mail folder", mail_folder(settings))
    report("backup folder", backup_folder(settings, backups))
    report("encryption keys", encryption_keys(settings))
    report("stolen passwords", stolen_passwords(settings))
    report("bound sessions", bound_sessions(settings))


async def of_database(settings: Settings, processes: int | None, report: Report) -> bool:
    """The checks of a database that answers. Returns whether this program can run on it. Raises `StartFailed` and the driver's errors."""
    report("database", await database(settings))
    found = await rights(conninfo(settings))
    report("grants", grants(settings, found))
    if found.lacking:
        return False
    report("connections", await connections(settings, processes))
    finding, usable = await schema(settings)
    report("schema", finding)
    if (older := await processes_of_before(settings)) is not None:
        report("older processes", older)
    if usable and finding.verdict is Verdict.OK:
        # A newer Postern may have removed what this one knows.
        lacking = await missing_parts(conninfo(settings))
        report("tables", tables(lacking))
        usable = not lacking
    if usable:
        report("rows", await rows(settings))
        report("next backup", await next_backup(settings))
    return usable


async def of_postern(settings: Settings, postern: Postern, report: Report) -> None:
    """The checks that need an open Postern."""
    report("writes", await _asked(writes, postern))
    report("clock", await _asked(clock, postern))
    report("months", await _asked(months, postern))
    report("keys", await _asked(key_ages, postern))
    report("SAML certificates", await _asked(saml_certificates, postern))
    report("jobs", await _asked(lambda opened: jobs(settings, opened), postern))
    report("receivers", await _asked(lambda opened: receivers(settings, opened), postern))
    report("backups", await _asked(backups, postern))
    report("billing", await _asked(lambda opened: billing(settings, opened), postern))
    report("widget", await _asked(widget, postern))
    report("providers", await _asked(further_providers, postern))
    if (related := await related_origins(postern)) is not None:
        report("passkeys", related)


async def of_running(postern: Postern) -> Sequence[tuple[str, Finding]]:
    """The checks of a process that serves, for a page. They leave out how fast passwords are hashed, since measuring this would make
    people who sign in wait.
    """
    found: list[tuple[str, Finding]] = []

    def report(subject: str, finding: Finding) -> None:
        found.append((subject, finding))

    settings = postern.settings
    # These checks read files.
    await trio.to_thread.run_sync(before_database, settings, None, report)
    report("mail", await mail(settings))
    of_hosts = await hosts(settings)
    if of_hosts is not None:
        report("database hosts", of_hosts)
        if of_hosts.verdict is Verdict.FAIL:
            return found
    try:
        await of_database(settings, None, report)
    except (StartFailed, psycopg.Error) as error:
        report("database", Finding(Verdict.FAIL, " ".join(str(error).split())))
        return found
    await of_postern(settings, postern, report)
    return found


async def _asked(check: Callable[[Postern], Awaitable[Finding]], postern: Postern) -> Finding:
    try:
        return await check(postern)
    except Refusal as error:
        return Finding(Verdict.FAIL, error.message if error.detail is None else f"{error.message}: {error.detail}")


def rate_limits(settings: Settings) -> Finding:
    if settings.rate_limits:
        return Finding(Verdict.OK, "on")
    return Finding(Verdict.WARN, "off: passwords can be guessed; set POSTERN_RATE_LIMITS=on")


def given_settings() -> Finding:
    given = sum(any(name in os.environ or f"{name}_FILE" in os.environ for name in one.names) for one in DECLARATIONS)
    file = os.environ.get(CONFIG)
    return Finding(Verdict.OK, f"{given} of {len(DECLARATIONS)} from the environment{f', more from {file}' if file else ''}")


def base_url(settings: Settings) -> Finding:
    url = settings.public_url
    if settings.base_url is None:
        return Finding(Verdict.WARN, f"{url}, made from POSTERN_BIND; set POSTERN_BASE_URL to the public address")
    if urlsplit(url).scheme == "https" or is_loopback(urlsplit(url).hostname or ""):
        return Finding(Verdict.OK, url)
    return Finding(Verdict.WARN, f"{url}: without https, passwords and tokens travel in the clear")


def is_public(settings: Settings) -> bool:
    """Whether people elsewhere could come to the address, and nobody reads along. An address of this machine alone is none."""
    url = urlsplit(settings.public_url)
    return settings.base_url is not None and url.scheme == "https" and not is_loopback(url.hostname or "")


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def certificate(settings: Settings) -> Finding:
    if settings.tls_certificate is None:
        return Finding(Verdict.OK, "none; this server answers plain HTTP", is_used=False)
    try:
        if settings.tls_key is not None:
            require_pair(settings.tls_certificate, settings.tls_key)
        begins, ends = valid_between(settings.tls_certificate)
    except SettingsError as error:
        return Finding(Verdict.FAIL, str(error))
    now = datetime.now(UTC)
    text = f"{settings.tls_certificate}, valid from {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC"
    if not begins <= now < ends:
        return Finding(Verdict.FAIL, f"{text}, so that clients refuse it now: renew it, and restart Postern")
    # Some certificates are issued for a few days only.
    if ends - now < min(_ENDS_SOON, (ends - begins) / 4):
        return Finding(Verdict.SOON, f"{text}: renew it, and restart Postern")
    return Finding(Verdict.OK, text)


def trusted_proxies(settings: Settings) -> Finding:
    everybody = [network for network in settings.trusted_proxies if network.prefixlen == 0]
    if everybody:
        return Finding(Verdict.WARN, f"{everybody[0]} means everyone: any client can spoof any address; name only your proxies")
    if not settings.trusted_proxies:
        return Finding(Verdict.OK, "none; the client's address is the one that connects", is_used=False)
    return Finding(Verdict.OK, ", ".join(map(str, settings.trusted_proxies)))


def descriptors() -> Finding:
    """Of a process that starts as this one did: Postern raises its soft limit to the hard one by itself."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY:
        return Finding(Verdict.OK, "no limit")
    if hard < _FEW_DESCRIPTORS:
        return Finding(Verdict.WARN, f"at most {hard}, one for each connection: raise the hard limit (ulimit -Hn, LimitNOFILE of the unit)")
    return Finding(Verdict.OK, f"at most {hard}")


def data_directory(settings: Settings) -> Finding:
    if not settings.embedded and not settings.mail.startswith("file:"):
        return Finding(Verdict.OK, "not used", is_used=False)
    return _room(settings.data_dir)


def mail_folder(settings: Settings) -> Finding:
    if not settings.mail.startswith("file:"):
        return Finding(Verdict.OK, "not used", is_used=False)
    try:
        return _room(mail_directory(settings.mail_url))
    except MailSettingsError as error:
        return Finding(Verdict.FAIL, str(error))


def backup_folder(settings: Settings, given: Path | None) -> Finding:
    """A backup that finds no room is missing in the morning. Until the first one, the folder is not there."""
    folder = settings.data_dir / "backups" if given is None else given
    if not folder.is_dir():
        return Finding(Verdict.OK if given is None else Verdict.FAIL, f"{folder.absolute()} is not there; name yours with --backups")
    return _room(folder)


def _room(folder: Path) -> Finding:
    directory = folder.absolute()
    # The first start makes the directory. Until then, its nearest existing parent is checked, because both share a file system.
    nearest = next(parent for parent in (directory, *directory.parents) if os.path.exists(parent))  # noqa: PTH110 - some may not look
    try:
        with tempfile.TemporaryFile(dir=nearest):
            free = os.statvfs(nearest).f_bavail * os.statvfs(nearest).f_frsize
    except OSError as error:
        return Finding(Verdict.FAIL, f"{nearest} cannot be written to: {error.strerror}")
    text = f"{directory}, {free / (1 << 30):.1f} GiB free"
    if free < _TOO_LITTLE_SPACE:
        return Finding(Verdict.FAIL, f"{text}: make room, since writes fail when it is full")
    return Finding(Verdict.OK if free > _LITTLE_SPACE else Verdict.SOON, text)


def encryption_keys(settings: Settings) -> Finding:
    file = key_file(settings)
    try:
        ring = key_ring(settings)
    except (SettingsError, StartFailed) as error:
        return Finding(Verdict.FAIL, str(error))
    known = f"{len(ring.key_ids())} known, {ring.current_key_id()} in force"
    if file is not None and file.path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return Finding(Verdict.FAIL, f"other users can read {file.path}: run chmod 600 on it")
    return Finding(Verdict.OK, known)


def bound_sessions(settings: Settings) -> Finding:
    """Browsers keep keys for `https` alone, and for the machine that they run on."""
    if BindingRule(settings.bound_sessions) is BindingRule.OFF:
        return Finding(Verdict.OK, "not offered; POSTERN_BOUND_SESSIONS=offer binds cookies to devices", is_used=False)
    url = urlsplit(settings.public_url)
    if url.scheme == "https" or is_loopback(url.hostname or ""):
        return Finding(Verdict.OK, "offered to browsers at each sign-in")
    return Finding(Verdict.WARN, "offered, but browsers accept only https; set POSTERN_BASE_URL to an https address")


def stolen_passwords(settings: Settings) -> Finding:
    """What the filter's header says. Whether the rest is whole is found when a process opens it, and is told by a metric."""
    if settings.password_ranges is not None:
        return Finding(Verdict.OK, f"asked at {settings.password_ranges}")
    file = settings.password_filter
    if file is None:
        return Finding(Verdict.OK, "the shipped list alone; POSTERN_PASSWORD_FILTER names more", is_used=False)
    try:
        head = filter_head(file)
    except FilterUnusable as error:
        return Finding(Verdict.FAIL, f"the file {file} {error}")
    age = datetime.now(UTC).date() - head.day
    text = f"{head.count} hashes of {head.day}, {max(age.days, 0)} days old, in {file}"
    if age > _OLD_LISTS:
        return Finding(Verdict.WARN, f"{text}: newer breaches are not in it; build a new one with postern passwords build")
    return Finding(Verdict.OK, text)


async def mail(settings: Settings, within: float = MAIL_ANSWERS_WITHIN) -> Finding:
    where = None
    try:
        with trio.move_on_after(within):
            where = await mail_transport(settings).check()
    except SettingsError as error:
        return Finding(Verdict.FAIL, str(error))
    except MailDelayed as error:
        return Finding(Verdict.FAIL, f"{masked_url(settings.mail)}: {error}")
    if where is None:
        slow = f"the server answers, but is not through within {within:g} s, or does not answer: emails wait"
        return Finding(Verdict.FAIL, f"{masked_url(settings.mail)}: {slow}")
    if settings.mail.startswith("smtp"):
        return Finding(Verdict.OK, where)
    return Finding(Verdict.WARN, f"{where}: no email is delivered; set POSTERN_MAIL to an email server")


async def password_hashing(settings: Settings) -> Finding:
    found = binding()
    if found.missing:
        return Finding(Verdict.FAIL, str(found))
    try:
        parameters = argon2_parameters(settings)
    except SettingsError as error:
        return Finding(Verdict.FAIL, str(error))
    per_second = await trio.to_thread.run_sync(rate, 0.5, parameters)
    workers = settings.argon2_workers or usable_cores()
    text = f"{found}: {per_second:.0f} a second per worker, {workers} workers"
    if found.is_published:
        return Finding(Verdict.WARN, f"{text}. A build for this processor may be twice as fast: {found.mend}")
    return Finding(Verdict.OK, text)


async def hosts(settings: Settings) -> Finding | None:
    """Of an address that names several, each with its own reason."""
    try:
        found = await seen_hosts(conninfo(settings))
    except psycopg.ProgrammingError:  # the check of the database says what is wrong with the address
        return None
    if not found:
        return None
    told = "; ".join(f"{host}" if host.best.detail is None else f"{host} ({host.best.detail})" for host in found)
    states = [host.state for host in found]
    if HostState.WRITES not in states:
        return Finding(Verdict.FAIL, f"none takes writes: {told}")
    if HostState.SILENT in states or HostState.REFUSES in states:
        return Finding(Verdict.WARN, told)
    return Finding(Verdict.OK, told)


async def database(settings: Settings) -> Finding:
    connection = await Connection.connect(conninfo(settings))
    try:
        version = connection.info.parameter_status("server_version") or "of an unknown version"
        ((compiles, role),) = await (await connection.execute(_COMPILES)).fetchall()
    finally:
        with trio.CancelScope(shield=True):
            await connection.close()
    kind = "embedded" if settings.embedded else masked_url(conninfo(settings))
    text = f"PostgreSQL {version.partition(' ')[0]}, {kind}"
    if compiles:
        mend = f"alter role {role} set jit = off; docs/operations/database.md says what it costs"
        return Finding(Verdict.WARN, f"{text}; it compiles long plans (jit), which takes longer than Postern's statements run: {mend}")
    return Finding(Verdict.OK, text)


def grants(settings: Settings, found: Rights) -> Finding:
    if found.fault is not None:
        return Finding(Verdict.FAIL, found.fault)
    if found.fault_of_moving is not None:
        return Finding(Verdict.WARN, found.fault_of_moving)
    if not found.owns:
        return Finding(Verdict.OK, f"{found.role} reads and writes rows, and can only add to the audit log")
    if settings.embedded:
        return Finding(Verdict.OK, f"{found.role} owns the tables")
    return Finding(
        Verdict.WARN,
        f"{found.role} owns the tables, so it can rewrite the audit log; docs/operations/database.md shows how to serve with another role",
    )


async def connections(settings: Settings, processes: int | None) -> Finding:
    """Compares the connections that all processes together may open with the connections that the server allows this role."""
    limits = await connection_limits(conninfo(settings))
    count = max(1, limits.processes) if processes is None else processes
    most = connections_of(settings, count)
    text = f"{count} {'process' if count == 1 else 'processes'} may open {most} connections, and the server has room for {limits.room}"
    return Finding(Verdict.OK if most <= limits.room else Verdict.SOON, text)


async def schema(settings: Settings) -> tuple[Finding, bool]:
    """The finding, and whether this program can run on this schema."""
    try:
        found = await plan(conninfo(settings))
    except SchemaMismatch as error:
        return Finding(Verdict.FAIL, str(error)), False
    if found.lacking:
        names = ", ".join(str(one) for one in found.lacking)
        by = (
            "`postern migrate` or the next `postern serve` applies it"
            if settings.migrate
            else "run `postern migrate`, or no process starts"
        )
        return Finding(Verdict.WARN if settings.migrate else Verdict.FAIL, f"{names} not applied yet; {by}"), False
    if found.beyond:
        return Finding(Verdict.WARN, f"at {found.beyond[-1]}, from a newer Postern; this one can run on it"), True
    return Finding(Verdict.OK, f"current, at {found.applied[-1]}"), True


async def processes_of_before(settings: Settings) -> Finding | None:
    """Of processes that carry fewer migrations than the database has, or than this program. None if this program cannot read the schema."""
    try:
        found = await plan_of_all(conninfo(settings))
    except SchemaMismatch:
        return None
    numbers = [*(one.number for one in found.applied), *(one.number for one in found.pending)]
    older = await older_processes(conninfo(settings), max(numbers, default=0))
    if not older:
        return Finding(Verdict.OK, "none serves")
    ending = sum(any(not one.runs_beside(step.number, step.needs) for step in found.applied) for one in older)
    text = f"{len(older)} {'serves' if len(older) == 1 else 'serve'}, {listed_processes(older)}"
    if ending:
        return Finding(Verdict.FAIL, f"{text}; {ending} cannot run on this schema and may fail: stop the old version")
    return Finding(Verdict.WARN, f"{text}: restart with the newest version")


async def writes(postern: Postern) -> Finding:
    reason = await postern.foundation.database.write_failure()
    if reason is None:
        return Finding(Verdict.OK, "succeed")
    return Finding(Verdict.FAIL, f"fail: {reason}. No one can sign in, and `postern serve` is not ready")


async def clock(postern: Postern) -> Finding:
    database = postern.foundation.database
    if not await database.ping():
        return Finding(Verdict.FAIL, "the database did not tell its time within a second")
    ahead = database.clock_ahead
    text = f"{abs(ahead).total_seconds():.3f} s apart from the database's"
    if clocks_differ(ahead):
        return Finding(Verdict.FAIL, f"{text}: this process is {clocks_in_words(ahead)} the database, and `postern serve` is not ready")
    if await database.doubt_of_clock() is not None:
        return Finding(Verdict.SOON, f"{text}; nothing was written for two days before the last hour, so nothing is deleted for its age")
    return Finding(Verdict.WARN if abs(ahead) > _SKEW_NOTED else Verdict.OK, text)


async def months(postern: Postern) -> Finding:
    """Of the tables that are cut by month."""
    obstructed = [name for table in postern.platform.months for name in await table.in_the_way()]
    if not obstructed:
        return Finding(Verdict.OK, "nothing stands in the way of the next ones")
    return Finding(
        Verdict.SOON, f"a table that is none of Postern's stands in the way of {', '.join(obstructed)}: rename it, and the rows move"
    )


async def key_ages(postern: Postern) -> Finding:
    told = await postern.foundation.key_care.ages()
    if KeyPurpose.ACCESS.value not in told:
        return Finding(Verdict.WARN, "no signing keys yet: the first start makes them")
    lost = await postern.foundation.key_care.unreadable()
    if lost:
        return Finding(Verdict.FAIL, f"no encryption key in force decrypts these signing keys: {', '.join(lost)}")
    text = ", ".join(f"{purpose} {age.days} d" for purpose, age in told.items())
    old = [purpose for purpose, age in told.items() if age > _OLD_KEY]
    return Finding(Verdict.WARN, f"{text}; `postern keys rotate` renews them") if old else Finding(Verdict.OK, text)


async def saml_certificates(postern: Postern) -> Finding:
    """Of the certificates with which Postern signs for applications, and which only their organizations can change."""
    now = postern.foundation.clock.now()
    ending = await postern.federation.saml.ending(_ENDS_SOON, _MOST_ENDING)
    if not ending:
        return Finding(Verdict.OK, f"none that is in use expires within {_ENDS_SOON.days} days")
    ends = [(one.certificate.valid_until, f"{one.service_slug} of {one.organization_slug}") for one in ending]
    more = f", and {len(ends) - _MOST_NAMED} more" if len(ends) > _MOST_NAMED else ""
    told = ", ".join(f"{whose} {'expired' if at <= now else 'expires'} {at:%Y-%m-%d}" for at, whose in ends[:_MOST_NAMED])
    verdict = Verdict.FAIL if any(at <= now for at, _ in ends) else Verdict.SOON
    return Finding(verdict, f"{told}{more}: the organization must create the next one and activate it")


def tables(lacking: Sequence[str]) -> Finding:
    if not lacking:
        return Finding(Verdict.OK, "with all that this Postern needs")
    more = f" and {len(lacking) - _MOST_NAMED} more" if len(lacking) > _MOST_NAMED else ""
    return Finding(
        Verdict.FAIL,
        f"missing, as after a restore that failed half-way: {', '.join(lacking[:_MOST_NAMED])}{more}; "
        "restore again, into an empty database",
    )


async def rows(settings: Settings) -> Finding:
    """Looks at the newest rows of each table, so that it takes no longer on a large database."""
    lacking = await missing_rows(conninfo(settings), _LOOKED_AT)
    if not lacking:
        return Finding(Verdict.OK, "none lacks another that it needs, among the newest")
    told = "; ".join(f"{table}: {sentence}" for table, sentence in lacking.items())
    return Finding(Verdict.FAIL, f"missing, as after a partial restore: {told}")


async def next_backup(settings: Settings) -> Finding:
    """Tries what `postern backup create` would do with these settings, so that the operator need not wait for the night."""
    try:
        version = await attempt_reading(conninfo(settings))
    except (Unreadable, psycopg.Error) as error:
        return Finding(Verdict.FAIL, f"`postern backup create` would fail: {' '.join(str(error).split())}")
    try:
        tools = await PostgresTools.find(embedded=settings.embedded, server_version=version)
    except ToolsUnusable as error:
        return Finding(Verdict.WARN, f"`postern backup create` would fail here: {error}")
    return Finding(Verdict.OK, f"can read every table; pg_dump {tools.major}")


async def jobs(settings: Settings, postern: Postern) -> Finding:
    states = await postern.foundation.jobs.state()
    waiting, dead = sum(state.waiting for state in states), sum(state.dead for state in states)
    held = await held_kinds(conninfo(settings))
    text = f"{waiting} waiting, {dead} dead"
    if held:
        return Finding(Verdict.WARN, f"{text}; paused since a restore: {', '.join(held)}; `postern jobs release` resumes them")
    return Finding(Verdict.WARN if dead else Verdict.OK, text)


async def receivers(settings: Settings, postern: Postern) -> Finding:
    """What organizations have things sent to. One that fails is its organization's matter; several are worth a look."""
    counted = await postern.record.receivers.count()
    if not counted:
        return Finding(Verdict.OK, "no organization has any", is_used=False)
    way = "" if settings.outbound_proxy is None else f"; by the proxy {masked_url(settings.outbound_proxy.reveal())}"
    failing = [one for one in counted if one.failing]
    if not failing:
        return Finding(Verdict.OK, f"{sum(one.all for one in counted)}, none fails{way}")
    told = ", ".join(
        f"{one.failing} of {one.all} {_RECEIVERS[one.kind][one.all != 1]} ({one.organizations} of the organizations)" for one in failing
    )
    return Finding(Verdict.WARN if sum(one.failing for one in failing) > 1 else Verdict.OK, f"failing: {told}{way}")


async def backups(postern: Postern) -> Finding:
    proved = await postern.record.audit.last(BACKUP_CHECKED)
    if proved is None:
        return Finding(Verdict.WARN, "none was ever verified: `postern backup create` and `postern backup check` create and verify one")
    age = postern.foundation.clock.now() - proved
    text = f"last verified {proved:%Y-%m-%d %H:%M} UTC"
    return Finding(Verdict.OK, text) if age <= _PROVED_LATELY else Finding(Verdict.WARN, f"{text}: run `postern backup check`")


async def billing(settings: Settings, postern: Postern) -> Finding:
    provider, secrets = postern.services.payment_provider, settings.billing_webhook_secrets or ()
    if provider is None and not secrets:
        return Finding(Verdict.OK, "not set up: checkout answers 500 BILLING_ERROR, and events of a payment provider 401", is_used=False)
    if provider is None or not secrets:
        missing = "POSTERN_BILLING_KEY" if provider is None else "POSTERN_BILLING_WEBHOOK_SECRETS"
        return Finding(Verdict.WARN, f"{missing} is not set: {'nothing can be bought' if provider is None else 'events are rejected'}")
    try:
        await provider.subscriptions(None)
    except PaymentRefused as refused:
        return Finding(Verdict.FAIL, f"{settings.billing_api_url} does not accept POSTERN_BILLING_KEY: {refused.status} {refused.code}")
    except PaymentUnavailable as away:
        return Finding(Verdict.FAIL, f"{settings.billing_api_url} does not answer: {away.reason}")
    waiting = await postern.services.billing.waiting()
    late = waiting.oldest is not None and postern.foundation.clock.now() - waiting.oldest > _LATE_NEWS
    text = f"{settings.billing_api_url} answers; {waiting.events} events wait"
    return Finding(Verdict.WARN, f"{text}: `postern billing events --waiting` lists them") if late else Finding(Verdict.OK, text)


async def widget(postern: Postern) -> Finding:
    """Asks the maker about an answer that nobody gave: it must know the secret to refuse it."""
    maker = postern.identity.widgets.maker
    if maker is None:
        return Finding(Verdict.OK, "none: under load, pages require bot challenges", is_used=False)
    try:
        await maker.verify(OUR_OWN)
    except WidgetSilent as silence:
        return Finding(Verdict.FAIL, f"{maker.preset.maker} gives no verdict ({silence.reason}): pages require bot challenges instead")
    return Finding(Verdict.OK, f"{maker.preset.maker} answers, and knows the secret")


async def further_providers(postern: Postern, within: float = _PROVIDER_ANSWERS_WITHIN) -> Finding:
    """Of the installation's further providers that are on: issuers publish their metadata, addresses may be called, secrets and keys can be
    read. All are asked at once.
    """
    looks = await postern.platform.further_providers.looks()
    if not looks:
        return Finding(Verdict.OK, "none besides the three", is_used=False)
    faults: dict[str, str] = {}

    async def look(key: str, check: Callable[[], Awaitable[None]]) -> None:
        try:
            with trio.fail_after(within):
                await check()
        except BadRequest as refusal:
            faults[key] = refusal.message
        except trio.TooSlowError:
            faults[key] = f"no answer within {within:g} s"

    async with trio.open_nursery() as nursery:
        for key, check in looks:
            nursery.start_soon(look, key, check)
    if not faults:
        return Finding(Verdict.OK, f"{', '.join(key for key, _ in looks)}: issuers answer, secrets and keys can be read")
    told = "; ".join(f"{key}: {faults[key]}" for key, _ in looks if key in faults)
    return Finding(Verdict.FAIL, f"no one can sign in through {told}")


async def related_origins(postern: Postern, within: float = _PROVIDER_ANSWERS_WITHIN) -> Finding | None:
    """Asks the host that passkeys belong to for what browsers ask it for. None where they belong to the host of the pages alone."""
    party = postern.identity.passkeys.relying_party
    if isinstance(party, Obstacle):
        return None if postern.settings.passkey_id is None else Finding(Verdict.FAIL, PasskeysUnavailable(party).message)
    if not party.apart:
        return None
    address = f"https://{party.id}{RELATED_ORIGINS}"
    fault = await _fault_of_document(postern, address, party, within)
    if fault:
        told = "; browsers use no passkeys at " + ", ".join(party.apart)
        return Finding(Verdict.FAIL, f"{address} {fault}{told}: see docs/guides/running/move-passkeys.md")
    return Finding(Verdict.OK, f"of {party.id}, which names {', '.join(party.apart)}")


async def _fault_of_document(postern: Postern, address: str, party: RelyingParty, within: float) -> str:
    """What browsers would refuse of the document. Empty where there is nothing. A redirect counts as a fault: not all follow one."""
    request = OutboundRequest(destination(address), b"", {"accept": "application/json"})
    try:
        answer = await postern.foundation.operators_outbound.call("GET", request, timedelta(seconds=within))
    except OutboundFailed as failed:
        return f"does not answer ({failed.failure.value})"
    if answer.status != HTTPStatus.OK:
        return f"answers {answer.status}"
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or len(answer.body) > _LONGEST_DOCUMENT:
        return f"is not application/json of at most {_LONGEST_DOCUMENT} bytes"
    lacking = _lacking(answer.body, party.apart)
    if lacking is None:
        return "has no list of origins"
    return f"does not name {', '.join(lacking)}" if lacking else ""


def _lacking(document: bytes, origins: Sequence[str]) -> Sequence[str] | None:
    """The origins that the document does not name. None where it names none at all."""
    try:
        named = json.loads(document)["origins"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return [one for one in origins if one not in named] if isinstance(named, list) else None

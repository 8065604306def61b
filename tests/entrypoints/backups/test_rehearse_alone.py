"""A rehearsal on a PostgreSQL of its own: the folder, the ends, and nobody called."""

import json
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from threading import Thread

import psycopg
import pytest
import trio

from adapters.backup_folders import BackupFolder
from adapters.mail.transports import transport_for
from adapters.outbound.client import GuardedClient
from adapters.outbound.closed import closed_ways
from adapters.outbound.dialer import Dialer, SystemNames
from adapters.system import SystemClock
from core.frozen import replace
from entrypoints.cli.backups.create import create
from entrypoints.cli.upgrading import scratch
from entrypoints.failures import FAILURE, OK
from ports.mail import MailDelayed
from ports.outbound import OutboundFailed
from tests.e2e.postern import environment
from tests.e2e.warm.processes import COMMAND
from tests.entrypoints.backups.installation import KEY, BackedUp, database_beside, in_filling_place, name_of, settings_for
from tests.patience import PATIENCE
from tests.places import ROOT, open_directory
from tests.tools import needs


@pytest.fixture
def work() -> Iterator[Path]:
    with open_directory() as around:
        around.chmod(0o711)
        yield around


def begun(backup: BackedUp, work: Path, directory: Path, **more: str) -> "subprocess.Popen[str]":
    settings = {"POSTERN_DATABASE_URL": backup.url, "POSTERN_ENCRYPTION_KEYS": KEY.line(), **more}
    return subprocess.Popen(
        [*COMMAND, "upgrade", "rehearse", str(backup.folder.path), "--work", str(work), "--out", str(directory / "out.json")],
        env=environment(directory, settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        # A shell that runs the tests in its background lets them ignore Ctrl-C.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread of ours has a lock here
    )


def the_folder(process: "subprocess.Popen[str]", work: Path) -> Path:
    """When its database is there."""
    for _ in range(int(PATIENCE * 50)):
        found = [*work.glob(f"{scratch.PREFIX}*")]
        if found and (found[0] / "postgres" / "data" / "postmaster.pid").exists():
            return found[0]
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    pytest.fail("there is no folder")


def servers_on(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_killed_rehearsal_leaves_nothing_after_the_next_which_says_yes(backup: BackedUp, work: Path, tmp_path: Path) -> None:
    process = begun(backup, work, tmp_path)
    folder = the_folder(process, work)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    process.kill()
    process.communicate()
    assert folder.exists()
    assert servers_on(folder)
    done = begun(backup, work, tmp_path)
    page, _ = done.communicate(timeout=PATIENCE * 10)
    assert (done.returncode, "\nYes. " in page) == (OK, True), page
    assert json.loads((tmp_path / "out.json").read_text())["fsync"] is True
    assert list(work.iterdir()) == []
    assert servers_on(folder) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_folder_goes_when_somebody_stops_it(backup: BackedUp, work: Path, tmp_path: Path, number: signal.Signals) -> None:
    process = begun(backup, work, tmp_path)
    folder = the_folder(process, work)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE * 4)
    assert process.returncode != OK
    assert list(work.iterdir()) == []
    assert servers_on(folder) == []


def test_a_killed_one_leaves_its_database_to_the_next(backup: BackedUp, work: Path) -> None:
    """On a server of the operator's. A database that is in use stays."""
    left = f"{scratch._DATABASE}{'a' * 12}"
    used = f"{scratch._DATABASE}{'b' * 12}"

    async def made() -> None:
        async with scratch.scratch(backup.url, work, 0):
            pass

    with psycopg.connect(backup.url, autocommit=True) as connection, psycopg.connect(backup.url, application_name=used):
        connection.execute(f"create database {left}".encode())
        connection.execute(f"create database {used}".encode())
        try:
            trio.run(made)
            named = connection.execute("select datname from pg_database where datname in (%s, %s)", [left, used]).fetchall()
            assert named == [(used,)]
        finally:
            connection.execute(f"drop database if exists {left}".encode())
            connection.execute(f"drop database if exists {used}".encode())


class Sink:
    """A receiver on this machine. It counts who calls, by TCP or by UDP."""

    def __init__(self) -> None:
        self.calls = 0
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self._tcp.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self._tcp.accept()[0].close()
            except OSError:
                return
            self.calls += 1

    def close(self) -> None:
        self._tcp.close()


@needs("bwrap")
def test_a_full_disk_is_a_no_in_one_sentence(backup: BackedUp, work: Path, tmp_path: Path) -> None:
    done = in_filling_place(work, 160, backup, tmp_path, "upgrade", "rehearse")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("No. ")]
    sentence = f"No. No space is left in {work}, so the upgrade could not be rehearsed: name a larger place with --work."
    assert (done.returncode, line) == (FAILURE, sentence), done


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


async def test_every_way_out_is_refused_and_counted(sink: Sink) -> None:
    client = GuardedClient(Dialer(SystemNames(), [ip_network("127.0.0.1")]), None)
    mail = transport_for(f"smtp://127.0.0.1:{sink.port}", "postern@example.com", clock=SystemClock(), password=None)
    with closed_ways() as ways:
        dialer = Dialer(SystemNames(), [ip_network("127.0.0.1")])
        with pytest.raises(OutboundFailed):
            await dialer.connect("127.0.0.1", sink.port)
        refused = len(ways.refused)
        assert refused >= 1
        assert await SystemNames().addresses("postern.example") == ()
        assert await SystemNames().texts("postern.example") in {None, ()}
        with pytest.raises(MailDelayed):
            await mail.check()
        assert len(ways.refused) > refused
        with pytest.raises(OSError, match="looks up no name"):
            socket.getaddrinfo("postern.example", 443)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, pytest.raises(OSError, match="refused"):
            datagrams.sendto(b"x", ("127.0.0.1", sink.port))
    assert sink.calls == 0
    # Outside of the block, the way is open.
    opened, _ = await dialer.connect("127.0.0.1", sink.port)
    opened.close()
    await client.aclose()


def test_an_installation_that_calls_many_is_rehearsed_without_a_call(backup: BackedUp, sink: Sink, work: Path, tmp_path: Path) -> None:
    """Hooks, webhooks, SIEM, provisioning, sign-out notices, mails that wait, a payment provider and breached passwords."""
    there = f"http://127.0.0.1:{sink.port}"
    with database_beside(backup.restored, template=name_of(backup.restored)) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("set session_replication_role = replica")
            for table, column in (("webhooks", "url"), ("hooks", "address"), ("provisioning_connections", "base_url")):
                connection.execute(f"update {table} set {column} = %s".encode(), [f"{there}/{table}"])
            connection.execute("update services set backchannel_logout_uri = %s", [f"{there}/logout"])
            connection.execute("update hooks set counts_as = gen_random_uuid(), silence = 'refuse' where org_id is null")
        settings = settings_for(url, tmp_path)
        manifest = trio.run(create, settings, tmp_path / "calling")
        calling = replace(backup, settings=settings, folder=BackupFolder(tmp_path / "calling" / manifest.id))
        process = begun(
            calling,
            work,
            tmp_path,
            POSTERN_MAIL=f"smtp://127.0.0.1:{sink.port}",
            POSTERN_OUTBOUND_NETWORKS="127.0.0.1",
            POSTERN_PASSWORD_RANGES=f"{there}/range",
            POSTERN_BILLING_KEY="sk_test_made_up",
            POSTERN_BILLING_API_URL=there,
            POSTERN_TRACES_ENDPOINT=there,
        )
        page, _ = process.communicate(timeout=PATIENCE * 10)
    assert (process.returncode, "\nYes. " in page) == (OK, True), page
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["left_out"] == ["1 sign-in hooks of the installation"]
    assert sink.calls == 0

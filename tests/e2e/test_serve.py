"""`postern serve`, started and stopped in every way."""

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import psycopg
import pytest

from adapters.postgres.embedded import EmbeddedPostgres
from adapters.system import PASSWORD_LENGTH
from ops.free_ports import free_port
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, alive, command, environment, until
from tests.e2e.warm.processes import COMMAND
from tests.patience import PATIENCE
from tests.places import ROOT

Serve = Callable[..., Postern]
KEYS = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def test_the_first_start_prints_where_it_is_and_who_its_owner_is(installation: Installation) -> None:
    printed = installation.printed
    assert re.search(r"Base URL +http://127\.0\.0\.1:\d+\n", printed)
    assert re.search(r"API documentation +http://127\.0\.0\.1:\d+/docs\n", printed)
    assert re.search(r"Platform owner +owner@postern\.local\n", printed)
    assert re.search(rf"Password +\w{{{PASSWORD_LENGTH}}}\n", printed)
    assert re.search(r"Sign in +http://127\.0\.0\.1:\d+/ui/sign-in/link\?token=[\w-]{43}&to=%2Fui%2Ffirst-steps\n", printed)


def test_the_password_is_told_once_and_nowhere_else(installation: Installation, running: Postern) -> None:
    found = re.search(rf"Password +(\w{{{PASSWORD_LENGTH}}})\n", installation.printed)
    assert found is not None
    assert running.out.read_text() == f"Postern is ready at http://127.0.0.1:{running.port}\n"
    assert found[1] not in installation.logged + running.err.read_text()
    with psycopg.connect(EmbeddedPostgres(running.data_dir).application_url) as connection:
        row = connection.execute("select email, password_hash, is_platform_owner, email_verified_at is not null from users").fetchall()
    ((email, encoded, is_owner, is_verified),) = row
    assert (email, is_owner, is_verified) == ("owner@postern.local", True, True)
    assert encoded.startswith("$argon2id$")


def test_it_stops_with_its_postgres_and_a_second_start_keeps_the_data(serve: Serve) -> None:
    server = serve()
    keys, postgres = server.get("/.well-known/jwks.json").json(), server.postgres()
    assert len(keys["keys"]) >= 4
    assert server.stop(signal.SIGINT) == 0
    assert not alive(postgres)
    assert not (server.data_dir / "postgres" / "data" / "postmaster.pid").exists()
    assert serve().get("/.well-known/jwks.json").json() == keys


def test_a_stop_in_the_middle_of_the_start_leaves_nothing_behind(serve: Serve) -> None:
    server = serve(wait=False)
    until(lambda: server.logged("embedded_postgres_started"))
    assert server.stop() == 0
    assert server.logged("embedded_postgres_stopped")
    assert not (server.data_dir / "postgres" / "data" / "postmaster.pid").exists()


def test_a_second_one_on_the_same_data_says_so_and_ends(running: Postern, serve: Serve) -> None:
    second = serve(data_dir=running.data_dir, wait=False)
    assert second.ended() == 3
    assert "Another Postern process uses the data directory" in second.err.read_text()
    assert running.get("/health/ready").status == 200


def test_after_kill_9_the_next_start_finds_everything(serve: Serve) -> None:
    killed = serve()
    keys, postgres = killed.get("/.well-known/jwks.json").json(), killed.postgres()
    killed.kill()
    assert alive(postgres)
    # Its PostgreSQL still runs, and is taken over.
    taken_over = serve()
    assert taken_over.postgres() == postgres
    assert taken_over.get("/.well-known/jwks.json").json() == keys
    # Now both are killed, as by a power cut.
    taken_over.kill()
    os.kill(postgres, signal.SIGKILL)
    until(lambda: not alive(postgres))
    assert serve().get("/.well-known/jwks.json").json() == keys


def test_no_accepted_request_fails_when_it_is_told_to_stop(serve: Serve) -> None:
    """Only of connections from before the stop can a test know that they were accepted: the kernel resets a connection that arrives between
    the last accept and the end of the listening socket.
    """
    # A busy machine answers all these clients in more than the three seconds of the default.
    server = serve(POSTERN_SHUTDOWN_TIMEOUT=f"{PATIENCE:.0f}s", POSTERN_BODY_TIMEOUT=f"{PATIENCE:.0f}s")
    with ExitStack() as clients:

        def client(sends: bytes) -> socket.socket:
            made = clients.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE))
            made.sendall(sends)
            return made

        body = b'{"email": "nobody@example.org", "password": "wrong"}'
        head = b"POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
        begun = [client(b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body[:20])) for _ in range(3)]
        # Connections are accepted in the order of their arrival, so these three have been.
        assert server.get("/health/live").status == 200

        server.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, server.pid, os.WSTOPPED)
        # More than are accepted in the few rounds that pass before the process knows of the signal.
        waiting = [client(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") for _ in range(300)]
        until(lambda: _backlog(server.port) == len(waiting))
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGCONT)
        until(lambda: server.logged("stopping"))
        assert {_answer_to(one)[:13] for one in waiting} == {b"HTTP/1.1 200 "}
        # A request that has begun is waited for.
        assert server.process.poll() is None
        for one in begun:
            one.sendall(body[20:])
        assert {_answer_to(one)[:13] for one in begun} == {b"HTTP/1.1 401 "}
    assert server.ended() == 0


def _answer_to(client: socket.socket) -> bytes:
    return b"".join(iter(partial(client.recv, 4096), b""))


def _backlog(port: int) -> int:
    """How many connections the listening socket holds that nobody has accepted."""
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    # The local address, the state (0A listens), and the lengths of both queues, in hexadecimal digits.
    (queues,) = [fields[4] for fields in sockets if fields[1] == f"0100007F:{port:04X}" and fields[3] == "0A"]
    return int(queues.partition(":")[2], 16)


def test_its_postgres_is_started_again_when_it_dies(serve: Serve) -> None:
    server = serve()
    server.expected_errors |= {"embedded_postgres_died"}
    keys = server.get("/.well-known/jwks.json").json()
    postgres = server.postgres()
    os.kill(postgres, signal.SIGKILL)
    until(lambda: server.logged("embedded_postgres_revived"))
    until(lambda: server.get("/health/ready").status == 200)
    assert server.postgres() != postgres
    assert server.get("/.well-known/jwks.json").json() == keys


def test_a_database_elsewhere_may_go_away_and_come_back(e2e_directory: Path, serve: Serve) -> None:
    elsewhere = EmbeddedPostgres(e2e_directory / "elsewhere")
    with elsewhere:
        elsewhere.prepare_application()
    settings = {"POSTERN_DATABASE_URL": elsewhere.application_url, "POSTERN_ENCRYPTION_KEYS": KEYS, "POSTERN_MAIL": "console"}
    server = serve(data_dir=e2e_directory / "unused", wait=False, **settings)
    try:
        # The server waits for a database that is late …
        until(lambda: server.logged("database_awaited"))
        elsewhere.start()
        server.wait_until_ready()
        # … and if the database goes away, only requests that need it fail, not the process.
        elsewhere.stop()
        until(lambda: server.get("/health/ready").status == 503)
        assert server.get("/health/live").status == 200
        assert server.get("/.well-known/jwks.json").status == 200
        elsewhere.start()
        until(lambda: server.get("/health/ready").status == 200)
        assert server.stop() == 0
    finally:
        elsewhere.stop()
    assert not server.data_dir.exists()


def test_a_database_that_stays_away_ends_the_start_with_a_sentence(e2e_directory: Path, serve: Serve) -> None:
    url = f"postgresql://me:hunter2@127.0.0.1:{free_port()}/postern"
    settings = {"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEYS, "POSTERN_DATABASE_WAIT": "0"}
    server = serve(data_dir=e2e_directory / "unused", wait=False, **settings)
    assert server.ended() == 1
    said = server.err.read_text()
    assert "postern: The database cannot be reached: connection failed" in said
    assert "hunter2" not in said


def test_an_address_in_use_ends_the_start_with_a_sentence(running: Postern, serve: Serve) -> None:
    second = serve(wait=False, POSTERN_BIND=f"127.0.0.1:{running.port}")
    assert second.ended() == 1
    assert f"127.0.0.1:{running.port} is in use by another program" in second.err.read_text()


def test_a_full_disk_under_the_log_does_not_make_a_good_stop_a_bad_one(e2e_directory: Path) -> None:
    settings = {"POSTERN_BIND": f"127.0.0.1:{(port := free_port())}", "POSTERN_LOG_FORMAT": "json"}
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        server = subprocess.Popen(
            [*COMMAND, "serve"], env=environment(e2e_directory / "full", settings), cwd=ROOT, stdout=full, stderr=full, process_group=0
        )
    try:
        until(lambda: server.poll() is not None or answers_well(port))
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
    finally:
        server.kill()
        server.wait()


def answers_well(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_wrong_setting_ends_the_start_with_a_sentence(serve: Serve) -> None:
    server = serve(wait=False, POSTERN_BIDN="127.0.0.1:1")
    assert server.ended() == 2
    assert server.err.read_text() == "postern: POSTERN_BIDN is not a setting of Postern; did you mean POSTERN_BIND?\n"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"POSTERN_OWNER_EMAIL": "nobody"}, "POSTERN_OWNER_EMAIL must be an e-mail address"),
        ({"POSTERN_OWNER_PASSWORD": "password1"}, "POSTERN_OWNER_PASSWORD cannot be used: The password is among the most common"),
    ],
)
def test_what_only_the_first_start_finds_out_is_a_sentence_too(settings: dict[str, str], says: str, serve: Serve, clean: Path) -> None:
    server = serve(data_dir=clean, wait=False, **settings)
    assert server.ended() == 2
    assert says in server.err.read_text()


@pytest.fixture(scope="module")
def clean(e2e_directory: Path) -> Path:
    """A data directory with a current database and no owner yet."""
    directory = e2e_directory / "clean"
    done = command(directory, "migrate")
    assert done.returncode == 0, done.stderr
    return directory


def test_a_unix_socket_serves(e2e_directory: Path, serve: Serve) -> None:
    path = e2e_directory / "web.sock"
    server = serve(wait=False, POSTERN_BIND=f"unix:{path}")
    until(lambda: "ready" in server.out.read_text())
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert client.recv(64).startswith(b"HTTP/1.1 200 ")
    assert server.stop() == 0
    assert not path.exists()


def test_a_service_manager_is_kept_informed(e2e_directory: Path, serve: Serve) -> None:
    path = e2e_directory / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(path))
        heard: list[str] = []

        def listen() -> None:
            while "STOPPING=1" not in (said := listening.recv(4096).decode()):
                heard.append(said)
            heard.append(said)

        # The socket holds a dozen messages. Of a slow start, with nobody who reads, READY would find no room.
        reader = Thread(target=listen, daemon=True)
        reader.start()
        server = serve(NOTIFY_SOCKET=str(path), WATCHDOG_USEC="200000")
        until(lambda: "WATCHDOG=1" in "\n".join(heard).partition("READY=1")[2])
        assert f"READY=1\nSTATUS=Serving http://127.0.0.1:{server.port}" in heard
        server.process.send_signal(signal.SIGTERM)
        reader.join(PATIENCE)
        assert "STOPPING=1" in heard[-1]
        assert server.ended() == 0


def test_a_hangup_without_a_terminal_is_passed_over(running: Postern) -> None:
    running.process.send_signal(signal.SIGHUP)
    until(lambda: running.logged("signal_ignored"))
    assert running.get("/health/live").status == 200


def test_a_terminal_that_is_closed_stops_it(installation: Installation) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, "serve"],
        env=environment(installation.data_dir, {}),
        cwd=ROOT,
        preexec_fn=lambda: os.login_tty(theirs),  # noqa: PLW1509 - this test runs no threads
        pass_fds=(theirs,),
    )
    os.close(theirs)
    shown = b""
    while b"Postern is ready at http://" not in shown:
        shown += os.read(ours, 4096)
    assert b" info    embedded_postgres_started " in shown  # for people, not JSON
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    assert not EmbeddedPostgres(installation.data_dir).is_owned()
    assert not (installation.data_dir / "postgres" / "data" / "postmaster.pid").exists()


def test_a_second_interrupt_does_not_wait(serve: Serve) -> None:
    server = serve(POSTERN_SHUTDOWN_TIMEOUT="60s")
    with socket.socket() as client:
        client.connect(("127.0.0.1", server.port))
        client.sendall(b"GET /health/ready HTTP/1.1\r\nHost: x\r\n")  # half a request, which a stop waits for
        until(lambda: server.get("/health/live").status == 200)
        server.process.send_signal(signal.SIGINT)
        until(lambda: server.logged("stopping"))
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        server.ended()
    assert server.logged("embedded_postgres_stopped")


def test_a_person_who_starts_it_here_is_told_where_mail_can_be_read(installation: Installation, running: Postern) -> None:
    assert re.search(r"^  Mail +http://127\.0\.0\.1:\d+/dev/mail$", installation.printed, re.MULTILINE)
    answer = running.get("/dev/mail")
    assert answer.status == 200
    assert b"<h1>Emails</h1>" in answer.body


def test_a_server_whose_log_is_json_says_nothing_else(serve: Serve) -> None:
    server = serve(wait=False, POSTERN_LOG_FORMAT="json")
    until(lambda: '"event":"ready"' in server.err.read_text())
    server.stop()
    assert not server.out.read_text()
    lines = [json.loads(line) for line in server.err.read_text().splitlines()]
    (ready,) = [line for line in lines if line["event"] == "ready"]
    assert (ready["processes"], ready["listens"], ready["metrics"]) == (1, ready["url"].removeprefix("http://"), None)
    assert ready["milliseconds"] > 0
    assert ready["version"]

"""Orders the hosts that a connection string names and the time for each, and checks that a connection has a session of its own."""

import secrets
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TYPE_CHECKING, Final

import psycopg
import trio
from psycopg import OperationalError
from psycopg._conninfo_utils import get_param, get_param_def, is_ip_address, split_attempts
from psycopg.abc import ConnDict
from psycopg.conninfo import conninfo_to_dict, timeout_from_conninfo

if TYPE_CHECKING:
    from adapters.postgres.driver.connection import Connection


# Seconds for all addresses together, if the caller does not name a time.
HOST_PATIENCE: Final = 5.0
# Only a server that takes writes serves Postern. With one host, a proxy or an operator has decided which server that is.
_OF_SEVERAL: Final = {"target_session_attrs": "read-write"}
# The operator's own words for the same. Any other word says that a server without writes is wanted, or does not matter.
_WRITERS: Final = (None, "read-write", "primary")

# Words in the refusals of a server that will be ready in a moment. A refusal without these words does not end by waiting.
_SOON: Final = ("starting up", "shutting down", "recovery", "too many", "connection slots")

_Place = tuple[str, str, str]
# By the connection string and the place: whether it was silent the last time, and the negative number of its last success, which grows with
# each success of any place. It only decides the order of the next attempts.
_standing: Final[dict[tuple[str, _Place], tuple[bool, int]]] = {}
_UNKNOWN: Final = (False, 0)
_numbers: Final = count(1)
# A host that does not answer for so many seconds is silent, also if its share of the time is longer. A cancelled attempt may say so, too.
_SILENCE: Final = 1.0


class HostAttempt:
    """One address, and the seconds that it has to let us in."""

    __slots__ = ("_conninfo", "parameters", "timeout")

    def __init__(self, conninfo: str, parameters: ConnDict, timeout: float) -> None:
        self._conninfo = conninfo
        self.parameters = parameters
        self.timeout = timeout

    def succeeded(self) -> None:
        _standing[self._conninfo, _place(self.parameters)] = (False, -next(_numbers))

    def ended_after(self, seconds: float) -> None:
        """The attempt had no answer until then."""
        if seconds >= min(self.timeout, _SILENCE):
            key = self._conninfo, _place(self.parameters)
            _standing[key] = (True, _standing.get(key, _UNKNOWN)[1])

    def __str__(self) -> str:
        host, address, port = _place(self.parameters)
        return f"{host or address or 'the local socket'}:{port or 5432}"


async def attempts(conninfo: str, parameters: ConnDict, patience: float | None) -> list[HostAttempt]:
    """One for each address of each host: first the one that let us in last, at the end those that were silent. Raises `OperationalError`
    when no name can be resolved.

    One of several hosts may be silent: it accepts and never responds. So each host gets its share of the time. Otherwise checkouts that
    have little time left, because they waited in the pool's queue, would spend it at the silent host, one after the other.
    """
    addresses: list[ConnDict] = []
    failure: OSError | None = None
    hosts = split_attempts(parameters)
    for host in hosts:
        try:
            addresses += await resolved(host)
        except OSError as error:
            failure = error
    if not addresses:
        raise OperationalError(f"no host of the connection string could be resolved: {failure}") from failure
    timeout = float(timeout_from_conninfo(parameters))
    if len(addresses) > 1:
        timeout = min(timeout, (patience or HOST_PATIENCE) / len(addresses))
    if len(hosts) > 1 and get_param(parameters, "target_session_attrs") is None:
        addresses = [{**address, **_OF_SEVERAL} for address in addresses]
    # The sort is stable: hosts that we know nothing of stay in the operator's order.
    addresses.sort(key=lambda address: _standing.get((conninfo, _place(address)), _UNKNOWN))
    return [HostAttempt(conninfo, address, timeout) for address in addresses]


def hosts_of(conninfo: str) -> list[ConnDict]:
    """The hosts among which Postern finds the one that takes writes. Empty if there is one host, or if the operator wants another kind."""
    parameters = conninfo_to_dict(conninfo)
    hosts = split_attempts(parameters)
    if len(hosts) < 2 or get_param(parameters, "target_session_attrs") not in _WRITERS:
        return []
    return [{**host, "target_session_attrs": "any"} for host in hosts]


def name_of(host: ConnDict) -> str:
    """As an operator knows the host. It has nothing else of the connection string."""
    name, address, port = _place(host)
    name = name or address or "the local socket"
    return name if port in {"", "5432"} else f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


async def resolved(parameters: ConnDict) -> list[ConnDict]:
    """One for each address of the host. We resolve the names here, because libpq would block while it resolves them. Raises `OSError`."""
    host = get_param(parameters, "host")
    if not host or host.startswith(("/", "@")) or get_param(parameters, "hostaddr"):
        return [parameters]
    if is_ip_address(host):
        return [{**parameters, "hostaddr": host}]
    definition = get_param_def("port")
    port = get_param(parameters, "port") or (definition and definition.compiled) or "5432"
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM, proto=trio.socket.IPPROTO_TCP)
    return [{**parameters, "hostaddr": str(address[0])} for *_, address in found]


def _place(parameters: ConnDict) -> _Place:
    return str(parameters.get("host") or ""), str(parameters.get("hostaddr") or ""), str(parameters.get("port") or "")


def answered(error: OperationalError) -> bool:
    """Whether a server has answered the attempt to connect, although it has not let us in."""
    return "FATAL:" in str(error)


def refuses_for_good(error: OperationalError) -> bool:
    """Whether waiting is no use: a wrong password, a database that does not exist."""
    return answered(error) and not any(word in str(error) for word in _SOON)


# A busy pooler that shares sessions passes about one round of eight by luck. Three rounds let one connection of 600 through.
_ROUNDS: Final = 8
# Seconds for a second connection to get a session. A pooler in session mode lets it wait for as long as all sessions are taken.
OWN_SESSION_PATIENCE: Final = 2.0
_NAME: Final = b"select pg_backend_pid(), current_setting('postern.session', true)"
# The first statement of each connection also says where names are looked up, so this costs no round trip. A startup option would not reach
# the server behind PgBouncer. Otherwise a schema with the role's name, or a temporary table, would come before our tables.
_FIRST: Final = (
    b"select pg_backend_pid(), current_setting('postern.session', true), pg_catalog.set_config('search_path', 'public, pg_temp', false)"
)


class SharedSession(psycopg.OperationalError):
    """The connection leads to a pooler in transaction mode, which gives each transaction another session. Prepared statements,
    notifications and settings then go to somebody else's session, and answers come from there. So such a connection is refused before it
    carries any statement of ours. The message is one sentence for the operator.
    """

    def __init__(self) -> None:
        super().__init__(
            "The pooler before PostgreSQL gives each transaction another session, and Postern needs one for each connection: "
            "set pool_mode = session for this database (PgBouncer), or lead POSTERN_DATABASE_URL past the pooler"
        )


async def backend_of(connection: "Connection", connect: Callable[[], Awaitable["Connection"]]) -> int:
    """The process id of the session that this connection has to itself. `connect` opens another connection to the same place.

    Raises `SharedSession`. Without a pooler, the server has told the id when the connection began, and one question shows that.
    """
    backend, _ = await _session(connection, _FIRST)
    if backend == connection.info.backend_pid:
        return backend
    word = secrets.token_hex(8)
    # If there are too few sessions for two connections, the second one waits, so nothing is shared.
    with trio.move_on_after(OWN_SESSION_PATIENCE):
        async with await connect() as other:
            other.recovery = 0
            await connection.execute("select set_config('postern.session', %s, false)", [word], prepare=False)
            for _ in range(_ROUNDS):
                await _require_its_own(connection, other, word)
    return backend


async def _require_its_own(connection: "Connection", other: "Connection", word: str) -> None:
    mine = await _session(connection)
    try:
        async with other.transaction():
            # The session that the pooler took back from `connection` is the first that it gives away.
            theirs = await _session(other)
            again = await _session(connection)
    except psycopg.errors.ProtocolViolation:  # the pooler gives each statement another session, and refuses transactions
        raise SharedSession from None
    if theirs[0] == mine[0] or theirs[1] == word or mine != again or mine[1] != word:
        raise SharedSession


async def _session(connection: "Connection", question: bytes = _NAME) -> tuple[int, str | None]:
    row = await (await connection.execute(question, prepare=False)).fetchone()
    assert row is not None  # noqa: S101 - a select without from has a row
    return int(row[0]), row[1]

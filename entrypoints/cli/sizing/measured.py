"""What was measured, and on what: the one place of these figures. `python -m ops.drill sizing` measures them again, but for those of
tokens, which are in docs/benchmarks.md ("organizations", ten thousand of them).
"""

from typing import Final

from core.frozen import Frozen


class Measurements(Frozen):
    """Processor time is in milliseconds of one core, on few connections; under more load each request costs less."""

    on: str
    machine: str
    sign_in_ms: float
    """With a password, hashing included."""
    sign_in_database_ms: float
    token_ms: float
    """An application exchanges a code or a refresh token for tokens."""
    token_database_ms: float
    refresh_ms: float
    """A client of our own API renews its session."""
    refresh_database_ms: float
    read_ms: float
    """A request with a token: a profile, userinfo, an introspection."""
    read_database_ms: float
    idle_mib: float
    """One serving process."""
    loaded_mib: float
    """The same after a thousand sign-ins, the hashes of two workers included."""
    connections: float
    """What a process opened with the default of `POSTERN_POOL_SIZE`."""
    disk_bytes_a_person: float
    """An account with one session, and their indexes."""
    disk_bytes_a_sign_in: float
    """What a sign-in adds: its session and device, the sign-in with its place, its entry in the audit log."""
    wal_bytes_a_sign_in: float


MEASURED: Final = Measurements(
    on="2026-11-23",
    machine="Intel Xeon, 2 cores, 24 GiB, on which eight others worked",
    sign_in_ms=14.0,
    sign_in_database_ms=1.93,
    token_ms=2.34,
    token_database_ms=1.73,
    refresh_ms=0.64,
    refresh_database_ms=0.66,
    read_ms=0.315,
    read_database_ms=0.0883,
    idle_mib=119,
    loaded_mib=173,
    connections=10,
    disk_bytes_a_person=612,
    disk_bytes_a_sign_in=2670,
    wal_bytes_a_sign_in=3110,
)

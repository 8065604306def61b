"""What an operator may change about the HTTP server: limits against clients that are slow, large or many. Seconds and bytes throughout."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServerSettings:
    # Longer than the 60 s that common proxies keep an idle upstream connection, so that the proxy and not we end it.
    keep_alive: float = 75.0
    # From the first byte of a request to the end of its head.
    head_patience: float = 10.0
    most_head_bytes: int = 16 * 1024
    # A body, or an answer being read, may pause this long at a time, and may be waited for `transfer_patience` in all, and longer only as
    # its bytes earn it.
    silence: float = 10.0
    transfer_patience: float = 20.0
    least_bytes_a_second: int = 1024
    handshake: float = 10.0
    most_connections: int = 12_000
    most_requests: int = 1_000
    # How long requests in flight may take once shutdown is asked for.
    drain: float = 4.0
    # How often requests that take their time are looked at for a client that has left.
    watch_interval: float = 0.25
    # PEM files; with them every socket speaks TLS, without them none does.
    certificate: Path | None = None
    certificate_key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.certificate_key is None):
            raise ValueError("TLS takes both a certificate and its key")

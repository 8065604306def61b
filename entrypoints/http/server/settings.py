"""What an operator may change about the HTTP server: limits against clients that are slow, large or many. All in seconds and bytes."""

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from core.frozen import Frozen


class ServerSettings(Frozen):
    # Common proxies keep an idle upstream connection for 60 s. Our timeout is longer, so that the proxy closes the connection and not we.
    keep_alive: float = 75.0
    # From the first byte of a request to the end of its head.
    head_patience: float = 10.0
    most_head_bytes: int = 16 * 1024
    # For a head, and for the trailers after a body.
    most_header_lines: int = 100
    # A client that sends a body or reads an answer has to move this many bytes a second, over any period of `silence` seconds: it may also
    # pause for that long. A whole transfer may take `transfer_patience`, and longer only as far as its bytes earn it.
    silence: float = 10.0
    transfer_patience: float = 20.0
    least_bytes_a_second: int = 1024
    handshake: float = 10.0
    # Our proxies bring many clients each, so the bound on connections per address does not apply to them.
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    most_connections: int = 12_000
    most_connections_per_address: int = 2_000
    # Requests that are being worked on. Those whose client is being waited for do not count.
    most_requests: int = 1_000
    # Paths that are answered even beyond `most_requests`.
    probes: frozenset[bytes] = frozenset()
    # Requests whose client has kept us waiting for longer than `prompt`. Beyond these limits, the request that has waited longest is given
    # up.
    most_waiting: int = 1_000
    most_waiting_per_address: int = 125
    prompt: float = 1.0
    # How long requests in flight may take once shutdown is asked for.
    drain: float = 4.0
    # How often lengthy requests are checked for a client that has left.
    watch_interval: float = 0.25
    # PEM files. With them every socket speaks TLS, and without them no socket does.
    certificate: Path | None = None
    certificate_key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.certificate_key is None):
            raise ValueError("TLS takes both a certificate and its key")

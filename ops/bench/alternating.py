"""The latency of two servers on one connection each. Blocks of a few requests alternate, so that a slow moment of the machine affects both.

Blocking sockets, since an event loop would add its own time to each answer.
"""

import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from ops.bench.load import Target

BLOCK: Final = 25


class Refused(Exception):
    """The server gave no valid answer, or one other than 200."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """The median of all blocks of each server, in seconds; and the median ratio of a block of the first server to the neighbouring block of
    the second.
    """

    first: float
    second: float
    ratio: float


def alternate(first: Iterator[Target], second: Iterator[Target], pairs: int) -> Latencies:
    """Measures this many blocks of each server. A tenth more come first, to warm up. Each iterator belongs to one server and never ends.
    Raises `Refused`.
    """
    with _Connection.open(next(first)) as one, _Connection.open(next(second)) as other:
        _pairs(((one, first), (other, second)), pairs // 10)
        found = _pairs(((one, first), (other, second)), pairs)
    return Latencies(
        first=statistics.median(pair[0] for pair in found),
        second=statistics.median(pair[1] for pair in found),
        ratio=statistics.median(pair[0] / pair[1] for pair in found),
    )


def _pairs(sides: "tuple[_Side, _Side]", count: int) -> Sequence[tuple[float, float]]:
    """In one order and then in the other."""
    pairs = []
    for number in range(count):
        if number % 2:
            second = _block(sides[1])
            pairs.append((_block(sides[0]), second))
        else:
            pairs.append((_block(sides[0]), _block(sides[1])))
    return pairs


def _block(side: "_Side") -> float:
    connection, targets = side
    return statistics.median(connection.ask(next(targets)) for _ in range(BLOCK))


class _Connection:
    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream

    @classmethod
    def open(cls, target: Target) -> Self:
        stream = socket.create_connection((target.host, target.port), timeout=30)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def ask(self, target: Target) -> float:
        request = target.request()
        started = time.perf_counter()
        self._stream.sendall(request)
        answer = b""
        while not _is_whole(answer):
            data = self._stream.recv(65536)
            if not data:
                raise Refused("the connection ended")
            answer += data
        taken = time.perf_counter() - started
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise Refused(answer[:200].decode("latin-1"))
        return taken


_Side = tuple[_Connection, Iterator[Target]]


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return False
    if b"transfer-encoding: chunked" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    _, _, rest = head.lower().partition(b"\r\ncontent-length:")
    return len(body) >= int(rest.partition(b"\r\n")[0] or 0)

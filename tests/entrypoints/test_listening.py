"""Sockets to listen on, and the messages when one cannot be had."""

import socket
import sys
from pathlib import Path

import pytest

from entrypoints.failures import StartFailed
from entrypoints.listening import listen, release, with_real_port
from entrypoints.settings import read
from entrypoints.settings_forms import Address


def test_port_0_becomes_a_real_one_that_the_base_url_has() -> None:
    settings = read({"POSTERN_BIND": "127.0.0.1:0"})
    sockets = listen(settings.bind)
    real = with_real_port(settings, sockets)
    assert real.bind.port == sockets[0].getsockname()[1] != 0
    assert real.public_url == f"http://127.0.0.1:{real.bind.port}"
    release(settings.bind, sockets)


def test_several_sockets_share_one_port_and_all_get_connections() -> None:
    address = Address("127.0.0.1", 0)
    sockets = listen(address, 3)
    assert len({one.getsockname() for one in sockets}) == 1
    clients = [socket.create_connection(sockets[0].getsockname()) for _ in range(90)]
    for one in sockets:
        one.setblocking(False)
        one.accept()[0].close()
    for client in clients:
        client.close()
    release(address, sockets)


def test_where_connections_are_not_spread_several_processes_are_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(StartFailed, match=r"^--processes needs Linux, which spreads connections"):
        listen(Address("127.0.0.1", 0), 2)
    for address, count in ((Address("127.0.0.1", 0), 1), (Address("", 0, tmp_path / "socket"), 2)):
        release(address, listen(address, count))


@pytest.mark.parametrize("count", [1, 2])
def test_an_address_in_use_is_named_even_when_its_user_would_share(count: int) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            StartFailed, match=rf"^127\.0\.0\.1:{port} is in use by another program; choose another address with POSTERN_BIND"
        ):
            listen(Address("127.0.0.1", port), count)


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(StartFailed, match=r"^Cannot listen on 192\.0\.2\.1:8000: "):
        listen(Address("192.0.2.1", 8000))


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(StartFailed, match="POSTERN_BIND names a host that does not resolve: no such host"):
        listen(Address("no such host", 8000))


def test_ipv6_is_listened_on() -> None:
    address = Address("::1", 0)
    sockets = listen(address, 2)
    socket.create_connection(sockets[0].getsockname()[:2]).close()
    release(address, sockets)


def test_the_socket_of_a_killed_predecessor_is_replaced(tmp_path: Path) -> None:
    address = Address("", 0, tmp_path / "web.sock")
    listen(address)[0].close()  # closed, not released: the file stays
    sockets = listen(address, 2)
    assert sockets[0] is sockets[1]
    assert address.path is not None
    assert address.path.stat().st_mode & 0o777 == 0o660
    with pytest.raises(StartFailed, match=r"web\.sock is in use by another program"):
        listen(address)
    release(address, sockets)
    assert not address.path.exists()
    release(address, sockets)


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_text("data")
    with pytest.raises(StartFailed, match="this path exists and is not a socket"):
        listen(Address("", 0, file))
    assert file.read_text() == "data"


def test_a_path_that_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=r"Cannot listen on unix:.*No such file"):
        listen(Address("", 0, tmp_path / "none" / "web.sock"))
    with pytest.raises(StartFailed, match=r"Cannot listen on unix:.*too long"):
        listen(Address("", 0, tmp_path / ("long" * 40)))

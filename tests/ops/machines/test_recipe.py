"""The files of the recipe for three machines agree with each other, with Postern's settings, and with Patroni's."""

import re
from pathlib import Path

import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict

from entrypoints.settings import Settings, read
from ops.drill.proxies import FOLDER, MEMBERS, SERVING, Changed, replaced
from tests.places import ROOT

GUIDE = ROOT / "docs" / "guides" / "running" / "three-machines.md"


def lines(name: str) -> dict[str, str]:
    """The values of a file of `NAME=value` lines."""
    return dict(re.findall(r"^([A-Z0-9_]+)=(.*)$", (FOLDER / name).read_text(), re.MULTILINE))


def settings(tmp_path: Path) -> Settings:
    """As on machine-1, with the files that the recipe names."""
    given = lines("postern.conf")
    contents = {"database-url": (FOLDER / "database-url.example").read_text(), "encryption-keys": "a:b", "mail-password": "secret"}
    for name, value in given.items():
        if name.endswith("_FILE"):
            file = tmp_path / Path(value).name
            file.write_text(contents[file.name])
            given[name] = str(file)
    return read(given)


def seconds(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([sm]?)", text).groups()  # type: ignore[union-attr]
    return int(number) * (60 if unit == "m" else 1)


def test_postern_accepts_its_settings_and_trusts_both_proxies_alone(tmp_path: Path) -> None:
    accepted = settings(tmp_path)
    assert {str(network) for network in accepted.trusted_proxies} == {f"{address}/32" for address in SERVING}
    assert not accepted.migrate
    assert accepted.public_url == "https://id.example.com"
    assert lines("postern.conf")["POSTERN_BIND"] == f"{SERVING[0]}:8000"


def test_postern_knows_every_server_of_the_database(tmp_path: Path) -> None:
    url = settings(tmp_path).database_url
    assert url is not None
    assert conninfo_to_dict(url.reveal())["host"] == ",".join(MEMBERS)


@pytest.mark.parametrize("name", ["nginx.conf", "haproxy.cfg"])
def test_a_proxy_lets_go_of_connections_first_and_waits_longer_than_a_request_may_take(name: str, tmp_path: Path) -> None:
    text, accepted = (FOLDER / name).read_text(), settings(tmp_path)
    (idle,) = re.findall(r"^ *(?:keepalive_timeout|timeout http-keep-alive) (\w+)", text, re.MULTILINE)
    (longest,) = re.findall(r"^ *(?:proxy_read_timeout|timeout server) (\w+)", text, re.MULTILINE)
    assert seconds(idle) < accepted.keep_alive.total_seconds()
    assert seconds(longest) > accepted.request_timeout.total_seconds()


@pytest.mark.parametrize("name", ["nginx.conf", "haproxy.cfg"])
def test_a_proxy_leads_to_both_daemons(name: str) -> None:
    assert set(re.findall(r"^ *server (?:\S+ )?(\d+\.\d+\.\d+\.\d+):8000", (FOLDER / name).read_text(), re.MULTILINE)) == set(SERVING)


def test_a_machine_of_patroni_gives_what_its_file_leaves_open() -> None:
    given = lines("patroni.env")
    patroni = yaml.safe_load((ROOT / "ops" / "patroni" / "patroni.yaml").read_text())
    compose = (ROOT / "ops" / "patroni" / "compose.yaml").read_text()
    assert set(re.findall(r"^ +((?:PATRONI|DATABASE)_\w+):", compose, re.MULTILINE)) <= {*given, "PATRONI_ETCD3_HOSTS"}
    assert given["PATRONI_RESTAPI_CONNECT_ADDRESS"] == f"{MEMBERS[0]}:{patroni['restapi']['listen'].rpartition(':')[2]}"
    assert given["PATRONI_POSTGRESQL_CONNECT_ADDRESS"] == f"{MEMBERS[0]}:5432"
    # In the file, because `patronictl` has no other way to know them.
    assert patroni["etcd3"]["hosts"] == [f"{address}:2379" for address in MEMBERS]
    assert "PATRONI_ETCD3_HOSTS" not in given


def test_the_unit_of_haproxy_has_descriptors_for_both_ends_of_every_connection() -> None:
    (connections,) = re.findall(r"^ +maxconn (\d+)$", (FOLDER / "haproxy.cfg").read_text(), re.MULTILINE)
    (limit,) = re.findall(r"^LimitNOFILE=(\d+)$", (FOLDER / "haproxy.service.d.conf").read_text(), re.MULTILINE)
    # Beside these, HAProxy has some hundreds for its listeners, checks and threads.
    assert 2 * int(connections) + 1000 <= int(limit)


def test_every_machine_votes_in_etcd() -> None:
    given = lines("etcd.env")
    cluster = dict(one.split("=") for one in given["ETCD_INITIAL_CLUSTER"].split(","))
    assert list(cluster.values()) == [f"http://{address}:2380" for address in MEMBERS]
    assert cluster[given["ETCD_NAME"]] == given["ETCD_INITIAL_ADVERTISE_PEER_URLS"]


@pytest.mark.parametrize("name", ["patroni.env", "etcd.env", "postern.conf"])
def test_a_file_says_how_many_of_its_lines_differ_from_machine_to_machine(name: str) -> None:
    text = (FOLDER / name).read_text()
    numbers = {"One": 1, "Three": 3, "Five": 5}
    (told,) = re.findall(r"\b(One|Three|Five) lines? differs?\b", text)
    mine = [value for value in lines(name).values() if (MEMBERS[0] in value or value == "machine-1") and MEMBERS[1] not in value]
    assert len(mine) == numbers[told]


def test_the_unit_is_started_as_its_first_file_does_but_with_more_processes() -> None:
    started = re.findall(r"^ExecStart=(.+)$", (FOLDER / "postern.service.d.conf").read_text(), re.MULTILINE)
    usual = re.findall(r"^ExecStart=(.+)$", (ROOT / "ops" / "postern.service").read_text(), re.MULTILINE)
    assert [re.sub(r" --processes \d+$", "", one) for one in started] == usual


def test_the_guide_names_every_file_of_the_recipe() -> None:
    text = GUIDE.read_text()
    assert [file.name for file in FOLDER.iterdir() if f"ops/machines/{file.name}" not in text] == []


def test_a_line_that_is_not_there_any_more_is_missed() -> None:
    assert replaced("a a b", {"a": "c"}) == "c c b"
    with pytest.raises(Changed):
        replaced("b", {"a": "c"})

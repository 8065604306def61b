"""The whole recipe for three machines, with real etcd and Patroni, by its own files and the lines of its guide."""

import os
import re
import subprocess

import pytest
import trio

from adapters.crypto.passwords import usable_cores
from ops.bench.harness import directory
from ops.bench.receivers import receivers
from ops.bench.report import Figure, busyness
from ops.drill.machines import Recipe, figures_of, filled, standing, tried
from ops.drill.patroni import PROMPT, told
from ops.drill.proxies import FOLDER, Changed, haproxy
from ops.drill.visitors import Visitors
from tests.places import open_directory
from tests.tools import needs


async def quick(recipe: Recipe, _nursery: trio.Nursery) -> None:
    """A member of etcd goes away for good, somebody moves the primary, and a daemon is restarted."""
    leader = await recipe.database.leader()
    recipe.going.set()
    await trio.to_thread.run_sync(leader.kill_etcd)
    await recipe.database.switch_over()
    recipe.gone.set()
    await recipe.daemons[0].stop()
    await recipe.daemons[0].start()
    recipe.back = trio.current_time()


def _is_of_load(figure: Figure) -> bool:
    """Whether the only alert is that passwords wait for a processor. On a machine that has other work, they do."""
    return figure.what.endswith("alerts that wake somebody") and figure.beside == "PosternHashingSaturated"


@needs("etcd", "etcdctl", "patroni", "haproxy", "nginx", "openssl", "promtool")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start PostgreSQL as another user")
async def test_a_member_may_go_the_primary_may_move_and_a_daemon_may_restart_under_load() -> None:
    has_other_work = busyness() > usable_cores()
    with directory() as place:
        async with standing(place, processes_of_each=1) as (database, daemons, proxies), receivers() as sink:
            said = await database.typed("patronictl --config-file /etc/patroni/config.yml list")
            assert sorted(re.findall(r"\| (Leader|Sync Standby|Replica) +\| (?:running|streaming) ", said)) == [
                "Leader",
                "Replica",
                "Sync Standby",
            ]
            material = await filled(daemons[0], database, sink, 2_000)
            recipe = Recipe(daemons, proxies, database, Visitors(proxies, material))
            found = figures_of("quick", await tried(recipe, quick, place, before=1, after=3))
    missed = [figure for figure in found if not figure.held and not (has_other_work and _is_of_load(figure))]
    assert [(figure.what, figure.value, figure.beside) for figure in missed] == []
    assert not any(figure.beside not in {"", "none"} for figure in found if figure.what.endswith("tickets"))


@needs("haproxy", "openssl", "prlimit", "setpriv")
def test_haproxy_asks_for_no_more_descriptors_than_its_unit_gives() -> None:
    """It says how many it wants, where it gets few, and may not raise the limit by itself."""
    (given,) = re.findall(r"^LimitNOFILE=(\d+)$", (FOLDER / "haproxy.service.d.conf").read_text(), re.MULTILINE)
    (most,) = re.findall(r"^ +maxconn \d+$", (FOLDER / "haproxy.cfg").read_text(), re.MULTILINE)
    with open_directory() as place:
        command = haproxy(place, 443, 80, [8001, 8002])
        file = place / "haproxy.cfg"
        file.write_text(re.sub(r"^ +maxconn \d+$", most, file.read_text(), count=1, flags=re.MULTILINE))
        place.chmod(0o755)
        (place / "both.pem").chmod(0o644)
        drop = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        done = subprocess.run(
            ["prlimit", "--nofile=1000:1000", *drop, *command], capture_output=True, text=True, check=False, timeout=PROMPT
        )
    (wanted,) = re.findall(r"Cannot raise FD limit to (\d+)", done.stderr)
    assert 1000 < int(wanted) <= int(given)


def test_a_line_that_the_guide_has_no_more_is_missed() -> None:
    assert told("postern migrate --grant postern_app").startswith("POSTERN_ENCRYPTION_KEYS_FILE=")
    with pytest.raises(Changed):
        told("postern migrate --everything")

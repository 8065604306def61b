"""`postern size` says what an installation needs."""

import ast
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.frozen import names_of
from entrypoints.cli.main import main
from entrypoints.cli.sizing.size import BUSY, CONNECTIONS_OF_A_PROCESS, MEASURED, RUSH, Demand, Measurements, needs
from entrypoints.installation import connections_of
from entrypoints.settings import read
from ops.drill.sizing import COMMAND, PAGES, shown, with_figures
from tests.places import ROOT

DEMANDS = st.builds(
    Demand,
    people=st.integers(1, 10**8),
    sign_ins_a_day=st.integers(0, 10**8),
    peak_share=st.floats(0.01, 1.0),
    tokens=st.integers(0, 50),
    reads=st.integers(0, 1000),
    machines=st.integers(1, 20),
)
SMALL = Demand(people=500, sign_ins_a_day=500, peak_share=0.25, tokens=4, reads=50, machines=1)


@given(demand=DEMANDS, name=st.sampled_from(["people", "sign_ins_a_day", "tokens", "reads"]), more=st.integers(1, 10**6))
def test_more_of_anything_never_needs_less(demand: Demand, name: str, more: int) -> None:
    before, after = needs(demand), needs(replace(demand, **{name: getattr(demand, name) + more}))
    for field in names_of(before):
        assert getattr(after, field) >= getattr(before, field), field


@given(demand=DEMANDS)
def test_cores_that_are_left_when_one_machine_is_away_carry_the_busiest_second(demand: Demand) -> None:
    found = needs(demand)
    left = max(1, demand.machines - 1) * found.processes
    assert left * BUSY >= found.serving_cores * 0.999999
    assert found.connections > demand.machines * connections_of(read({}), found.processes)


def test_a_small_installation_fits_one_core() -> None:
    found = needs(SMALL)
    assert (found.processes, found.database_cores) == (1, 1)
    assert found.memory_mib + found.database_memory_mib < 1024
    assert found.disk_gib <= 3


def test_sign_ins_cost_their_hash_above_all() -> None:
    """A core signs in so many people a second; the rest of the table follows from that."""
    rate = 40.0
    demand = Demand(people=1, sign_ins_a_day=int(rate * 3600 / RUSH), peak_share=1.0, tokens=0, reads=0, machines=1)
    found = needs(demand)
    assert found.sign_ins_a_second == pytest.approx(rate)
    assert found.serving_cores == pytest.approx(rate * MEASURED.sign_in_ms / 1000)
    assert found.memory_mib == found.processes * MEASURED.loaded_mib
    assert found.processes * found.argon2_workers >= found.serving_cores


def test_the_connections_of_a_process_are_those_of_the_default_pool() -> None:
    assert connections_of(read({}), 1) == CONNECTIONS_OF_A_PROCESS


def test_the_command_needs_no_settings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTERN_NO_SUCH_SETTING", "1")
    assert main(["size", "--people", "100000"]) == 0
    told = capsys.readouterr().out
    assert "2 machines that serve, of which one can be offline" in told
    assert "max_connections" in told
    assert main(["size", "--people", "100000", "--machines", "1"]) == 0
    assert "1 machine that serves\n" in capsys.readouterr().out


def test_json_has_what_was_asked_what_is_needed_and_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "--people", "10", "--sign-ins-a-day", "20", "--peak-share", "0.5", "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["demand"] == {"people": 10, "sign_ins_a_day": 20, "peak_share": 0.5, "tokens": 4, "reads": 50, "machines": 2}
    assert told["needs"].keys() == set(names_of(needs(SMALL)))
    assert told["measured"]["on"] == MEASURED.on


@pytest.mark.parametrize("share", ["0", "0.0", "1.1", "-0.5", "nan", "1e-3", "half"])
def test_a_share_is_above_nothing_and_up_to_all(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["size", "--people", "10", "--peak-share", share])
    assert "above 0 and up to 1" in capsys.readouterr().err


def test_the_guide_shows_what_was_measured() -> None:
    page = (ROOT / "docs" / "guides" / "running" / "sizing.md").read_text()
    assert MEASURED.on in page
    for name in ("sign_in", "token", "refresh", "read"):
        ours, of_database = getattr(MEASURED, f"{name}_ms"), getattr(MEASURED, f"{name}_database_ms")
        assert f"| {ours:g} ms | {of_database:g} ms |" in page, name
    for value in (f"{MEASURED.idle_mib:g} MiB", f"{MEASURED.loaded_mib:g} MiB", f"{MEASURED.disk_bytes_a_sign_in:g} bytes"):
        assert value in page


def test_the_pages_show_the_figures_of_the_command_and_no_others() -> None:
    made: dict[str, Any] = {name: 7.5 if isinstance(getattr(MEASURED, name), float | int) else "today" for name in names_of(MEASURED)}
    others = Measurements(**made)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert shown(text, MEASURED) == text
        changed = shown(text, others)
        assert "7.5 MiB when idle" in changed or "| serving process, idle | 7.5 MiB |" in changed
        assert f"{MEASURED.loaded_mib:g} MiB" not in changed


def test_figures_take_the_places_of_those_of_before_in_the_command() -> None:
    source = COMMAND.read_text(encoding="utf-8")
    known = {name: getattr(MEASURED, name) for name in names_of(MEASURED)}
    assert table_of(with_figures(source, known)) == MEASURED
    told = {"on": "2027-01-01", "machine": "Two “cores”", "idle_mib": 141, "loaded_mib": 227.5}
    found = table_of(with_figures(source, told))
    assert {name: getattr(found, name) for name in told} == told
    assert found.sign_in_ms == MEASURED.sign_in_ms


def table_of(source: str) -> Measurements:
    (found,) = re.findall(r"^MEASURED: Final = Measurements\((.*?)^\)$", source, re.MULTILINE | re.DOTALL)
    return Measurements(**{name: ast.literal_eval(value) for name, value in re.findall(r"(\w+)=(.*),$", found, re.MULTILINE)})

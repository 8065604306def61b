"""`make near`: a change leads to the tests that ran it, that import it, and to those of its noun on every layer."""

from pathlib import Path

import pytest

import ops.near
from ops.near import ALL, ALWAYS, ROOT, WALKS, changed_since, near


@pytest.mark.parametrize(
    ("changed", "some"),
    [
        # The noun's name on every layer.
        (
            "core/usecases/tenancy/teams.py",
            {"tests/http/tenancy/test_teams.py"},
        ),
        ("adapters/postgres/tenancy/webhooks.py", {"tests/http/tenancy/test_webhooks.py"}),
        # A test that has another name and imports the module.
        ("core/domain/services/clients.py", {"tests/domain/services/test_redirect_uris.py", "tests/security/test_redirect_uris.py"}),
        # A module of the tests leads to the tests that use it.
        ("tests/http/federation/devices.py", {"tests/http/federation/test_device_flow.py", "tests/security/test_codes_under_way.py"}),
        ("tests/hostile_uris.py", {"tests/domain/services/test_redirect_uris.py", "tests/domain/federation/test_redirects.py"}),
        # What is no module leads by its place.
        ("adapters/postgres/migrations/0002_access_token_alg.sql", {"tests/adapters/postgres/tables", "tests/adapters/postgres/migrating"}),
        ("adapters/postgres/schema/replaceable.sql", {"tests/adapters/postgres/migrating"}),
        ("entrypoints/http/pages/account/devices/device.html", {"tests/http/pages/account/test_device_pages.py"}),
        ("adapters/texts/de.toml", {"tests/adapters/texts"}),
        # A test leads to itself.
        ("tests/http/test_health.py", {"tests/http/test_health.py"}),
    ],
)
def test_a_change_leads_to_the_tests_of_its_noun(changed: str, some: set[str]) -> None:
    assert some <= set(near({changed: ALL}, {}))


def test_a_change_of_one_noun_does_not_lead_to_everything() -> None:
    for changed in ("core/usecases/tenancy/teams.py", "core/frozen.py", "entrypoints/bootstrap.py", "README.md", "gone/with/the_change.py"):
        found = near({changed: ALL}, {})
        assert set(ALWAYS) <= set(found)
        assert len(found) < 60, changed


def test_what_is_printed_is_there() -> None:
    changed = ("core/usecases/tenancy/teams.py", "adapters/postgres/migrations/x.sql", "ops/prometheus/alerts.yaml", "ops/container/x")
    for one in near(dict.fromkeys(changed, ALL), {}):
        assert (ROOT / one).exists(), one


def test_what_is_not_committed_counts() -> None:
    new = ROOT / "ops" / "nobody_has_committed_this.py"
    new.touch()
    try:
        assert "ops/nobody_has_committed_this.py" in changed_since("HEAD")
    finally:
        new.unlink()


# A module whose functions are few, and seldom change.
MODULE = "core/domain/pagination.py"
MAP = {
    MODULE: {"one": ["tests/domain/test_email.py"], "Two.three": ["tests/http/test_health.py"], "everywhere": []},
}
SOURCE = """
LIMIT = 5
_FIRST = LIMIT + 1


def one(count):
    return count < _FIRST


class Two:
    @property
    def three(self):
        return 3


def everywhere():
    return 7


def new():
    return 8
"""


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    module = tmp_path / MODULE
    module.parent.mkdir(parents=True)
    module.write_text(SOURCE)
    for test in ("tests/domain/test_email.py", "tests/http/test_health.py", *WALKS):
        (tmp_path / test).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / test).touch()
    monkeypatch.setattr(ops.near, "ROOT", tmp_path)
    monkeypatch.setattr(ops.near, "_importers", dict)
    monkeypatch.setattr(ops.near, "_modules", tuple)
    return module


@pytest.mark.parametrize(
    ("line", "tests"),
    [
        ("    return count < _FIRST", {"tests/domain/test_email.py"}),
        # A decorator belongs to its method.
        ("    @property", {"tests/http/test_health.py"}),
        # A constant counts for whoever uses it, or something that is made of it.
        ("LIMIT = 5", {"tests/domain/test_email.py"}),
        # What nearly everything runs leads to the tests that walk the house.
        ("    return 7", {*WALKS}),
        # A function that the map does not know counts for its whole module.
        ("    return 8", {"tests/domain/test_email.py", "tests/http/test_health.py"}),
    ],
)
def test_a_changed_line_leads_to_the_tests_that_ran_it(source: Path, line: str, tests: set[str]) -> None:
    at = frozenset({source.read_text().splitlines().index(line) + 1})
    assert set(near({MODULE: at}, MAP)) == tests


@pytest.mark.usefixtures("source")
def test_a_new_or_removed_module_leads_to_all_that_its_name_is_known_for() -> None:
    assert set(near({MODULE: ALL}, MAP)) == {"tests/domain/test_email.py", "tests/http/test_health.py", *WALKS}

"""`make test-near`: a change leads to the tests that import it, and to those of its noun on every floor."""

import pytest

from ops.near import ALWAYS, ROOT, changed_since, near


@pytest.mark.parametrize(
    ("changed", "some"),
    [
        # The noun's name on every floor.
        (
            "core/usecases/tenancy/teams.py",
            {"tests/http/tenancy/test_teams.py"},
        ),
        ("adapters/postgres/tenancy/webhooks.py", {"tests/http/tenancy/test_webhooks.py"}),
        # A test that has another name and imports the module.
        ("core/domain/services/redirect_uris.py", {"tests/domain/services/test_redirect_uris.py", "tests/security/test_redirect_uris.py"}),
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
    assert some <= set(near({changed}))


def test_a_change_of_one_noun_does_not_lead_to_everything() -> None:
    for changed in ("core/usecases/tenancy/teams.py", "core/frozen.py", "entrypoints/bootstrap.py", "README.md", "gone/with/the_change.py"):
        found = near({changed})
        assert set(ALWAYS) <= set(found)
        assert len(found) < 60, changed


def test_what_is_printed_is_there() -> None:
    for one in near(
        {"core/usecases/tenancy/teams.py", "adapters/postgres/migrations/x.sql", "ops/prometheus/alerts.yaml", "ops/container/x"}
    ):
        assert (ROOT / one).exists(), one


def test_what_is_not_committed_counts() -> None:
    new = ROOT / "ops" / "nobody_has_committed_this.py"
    new.touch()
    try:
        assert "ops/nobody_has_committed_this.py" in changed_since("HEAD")
    finally:
        new.unlink()

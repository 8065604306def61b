"""Sweeps of the same thing, in two processes, do not wait for each other in circles."""

import re
from typing import Final

import pytest

from adapters.postgres.upkeep import purging as organization_remains
from adapters.postgres.upkeep import purging as service_remains

# They have no ids, and are found and locked in the order of their places in the table.
_WITHOUT_IDS: Final = "login_counts"


@pytest.mark.parametrize("parts", [organization_remains.ORGANIZATION_PARTS, service_remains.SERVICE_PARTS], ids=["organization", "service"])
def test_rows_are_locked_before_they_go(parts: dict[str, str]) -> None:
    """A statement that removes what it finds would lock it in whatever order the plan meets it."""
    unlocked = [part for part, statement in parts.items() if not re.search(r"for (no key )?update", statement.partition("gone as")[0])]
    assert [part for part in unlocked if part != _WITHOUT_IDS] == []

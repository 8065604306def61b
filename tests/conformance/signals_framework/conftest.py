"""The same modules without the profile of CAEP."""

from pathlib import Path
from typing import Final

import pytest

from tests.conformance.signals.conftest import polling, pushing, transmitters

__all__ = ["polling", "pushing", "transmitters"]  # fixtures

_HERE: Final = Path(__file__).parent
# The other modules that both plans have do not differ.
_IN_ORDINARY_RUNS: Final = frozenset({"test_openid_ssf_stream_control_happy_path"})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == _HERE and item.path.name == "test_shared.py" and item.name not in _IN_ORDINARY_RUNS:
            item.add_marker("only_whole")


@pytest.fixture(scope="session")
def is_interop() -> bool:
    return False

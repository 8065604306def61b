"""The modules of the basic plan, with the answer in a form."""

from pathlib import Path
from typing import Final

import pytest

_HERE: Final = Path(__file__).parent
# The other modules differ from those of the basic plan in nothing but the way of the answer, which these show.
_IN_ORDINARY_RUNS: Final = frozenset(
    {
        "test_oidcc_server",
        "test_oidcc_response_type_missing",
        "test_oidcc_prompt_none_not_logged_in",
        "test_oidcc_prompt_none_logged_in",
        "test_oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported",
        "test_oidcc_ensure_registered_redirect_uri",
    }
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == _HERE and item.name not in _IN_ORDINARY_RUNS:
            item.add_marker("only_whole")


@pytest.fixture(scope="session")
def response_mode() -> str:
    return "form_post"

"""One server for all modules of a process, and a browser of its own for each module."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ops.conformance.plans import module_of
from tests.conformance.kit.installation import AskedServer, SuiteClient, installed
from tests.conformance.kit.outcome import Outcome
from tests.conformance.kit.relying import Suite
from tests.conformance.kit.signals import receiver_of
from tests.e2e.conftest import Installation as Prepared
from tests.e2e.conftest import e2e_directory, installation
from tests.e2e.postern import copy

__all__ = ["e2e_directory", "installation"]  # fixtures

ONLY_WHOLE: Final = "only_whole"
_WHOLE: Final = os.environ.get("POSTERN_TEST_CONFORMANCE") == "every"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make conformance` runs every module. Ordinary runs leave out those that wait for the clock, and most of those that come twice."""
    for item in items:
        if not _WHOLE and item.get_closest_marker(ONLY_WHOLE) is not None:
            item.add_marker(pytest.mark.skip(reason="make conformance runs it"))


@pytest.fixture(scope="session")
def conformance(e2e_directory: Path, installation: Prepared) -> Iterator[AskedServer]:
    place = e2e_directory / "conformance"
    place.mkdir()
    with installed(place, copy(installation.data_dir, place / "data"), installation.owner_password) as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield
    outcome = getattr(item, "funcargs", {}).get("outcome")
    if isinstance(outcome, Outcome):
        item.user_properties += outcome.settle()


@pytest.fixture
def outcome(request: pytest.FixtureRequest) -> Outcome:
    return Outcome(module_of(request.node.originalname))


@pytest.fixture(scope="session")
def response_mode() -> str:
    return "default"


@pytest.fixture
def suite(conformance: AskedServer, outcome: Outcome, response_mode: str) -> Iterator[Suite]:
    with conformance.browser() as browser, conformance.client() as client:
        yield Suite(conformance, outcome, browser, client, response_mode)


@pytest.fixture(scope="session")
def receiver(conformance: AskedServer) -> SuiteClient:
    """The application that hears signals."""
    return receiver_of(conformance)

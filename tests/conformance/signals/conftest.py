"""The transmitter, by each delivery method that it offers."""

from collections.abc import Iterator, Sequence

import pytest

from tests.conformance.kit.installation import AskedServer, SuiteClient
from tests.conformance.kit.outcome import Outcome
from tests.conformance.kit.signals import PUSH, WELL_KNOWN, Transmitter, pushed


@pytest.fixture(scope="session")
def is_interop() -> bool:
    """Whether the profile of the suite's variant is that of CAEP."""
    return True


@pytest.fixture
def transmitters(conformance: AskedServer, receiver: SuiteClient, outcome: Outcome, is_interop: bool) -> Iterator[Sequence[Transmitter]]:
    with conformance.client() as client, pushed(conformance.certificates) as (port, heard):
        methods = client.get(WELL_KNOWN).json()["delivery_methods_supported"]
        made = [Transmitter(conformance, outcome, client, receiver, method, is_interop, port, heard) for method in methods]
        # What a module left that failed.
        for one in made[0].at_configuration("GET").json():
            made[0].at_configuration("DELETE", of=one["stream_id"])
        yield made


@pytest.fixture
def pushing(transmitters: Sequence[Transmitter]) -> Transmitter:
    (found,) = [one for one in transmitters if one.method == PUSH]
    return found


@pytest.fixture
def polling(transmitters: Sequence[Transmitter]) -> Transmitter:
    (found,) = [one for one in transmitters if one.method != PUSH]
    return found

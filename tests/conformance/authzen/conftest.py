"""What asks the decision point, with an API key as a bearer token (`pdp_auth_type=api_key`)."""

from collections.abc import Iterator

import pytest

from tests.conformance.kit.deciding import Decider
from tests.conformance.kit.installation import AskedServer
from tests.conformance.kit.outcome import Outcome


@pytest.fixture
def decider(conformance: AskedServer, outcome: Outcome) -> Iterator[Decider]:
    with conformance.client() as client:
        yield Decider(conformance, outcome, client)

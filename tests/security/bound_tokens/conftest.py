"""Applications with keys."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.federation.bound.proving import Proving
from tests.http.federation.devices import Sets
from tests.http.federation.resources.exchanging import Exchanging
from tests.http.people import People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people


@pytest.fixture
def proving(postern: Postern, people: People, log: CapturedLog) -> Proving:
    return Proving(postern, people, unlimited(postern), log)


class Between(Exchanging, Proving):
    """Services that call one another, with keys."""


@pytest.fixture
def between(postern: Postern, people: People, log: CapturedLog) -> Between:
    return Between(postern, people, unlimited(postern), log)


class KeyedSets(Sets, Proving):
    """Television sets with keys."""


@pytest.fixture
def sets(postern: Postern, people: People, log: CapturedLog) -> KeyedSets:
    return KeyedSets(postern, people, unlimited(postern), log)

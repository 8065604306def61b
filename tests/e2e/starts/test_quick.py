"""The programs that the console and the guides show for Flask, FastAPI, Django and Express run as they stand, and sign a person in. Those
that need a bundler are in test_bundled.py.
"""

import shutil
from collections.abc import Iterator

import httpx
import pytest

from ops.guides.tenants import Tenant, tenant
from ops.starts.installed import QUICK
from tests.e2e.starts.programs import begins_the_sign_in, console_of, running, signs_in_and_out
from tests.places import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / ".venv" / "frameworks").exists(), reason="make .venv/ready-dev installs the frameworks"),
]
needs_express = pytest.mark.skipif(
    shutil.which("node") is None or not (QUICK / "node_modules").exists(), reason="make .venv/ready-starts installs Express, by npm"
)


@pytest.fixture(scope="module")
def house() -> Iterator[Tenant]:
    with tenant() as made:
        yield made


@pytest.fixture(scope="module")
def ada(house: Tenant) -> Iterator[httpx.Client]:
    with console_of(house) as client:
        yield client


@pytest.mark.parametrize("key", ["flask", "fastapi", "django", pytest.param("express", marks=needs_express)])
def test_a_program_runs_as_it_stands_and_signs_a_person_in(key: str, house: Tenant, ada: httpx.Client) -> None:
    with running(house, ada, key) as program:
        signs_in_and_out(program, house.ada.email)
        begins_the_sign_in(house, program)

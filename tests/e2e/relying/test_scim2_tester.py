"""The SCIM endpoints of a running Postern, checked by another author's conformance tester."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from core.domain.federation.scim.groups import GROUP_SCHEMA, refuse_creation
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, copy
from tests.patience import PATIENCE


@pytest.fixture(scope="module", params=["organization", "teams"])
def scim(request: pytest.FixtureRequest, e2e_directory: Path, installation: Installation) -> Iterator[httpx.Client]:
    settings = {"POSTERN_RATE_LIMITS": "off", "POSTERN_ORG_AUTO_APPROVE": "on"}
    server = Postern(copy(installation.data_dir, e2e_directory / f"scim-{request.param}"), settings=settings)
    try:
        server.start()
        signed_in = server.post("/api/auth/login", {"email": "owner@postern.local", "password": installation.owner_password}).json()
        founded = server.post("/api/organizations", {"slug": "acme", "name": "Acme"}, token=signed_in["access_token"]).json()
        made = server.post("/api/organizations/acme/scim-tokens", {"name": "Tester"}, token=founded["access_token"])
        assert made.status == 200, made.body
        switched = httpx.patch(
            f"http://127.0.0.1:{server.port}/api/organizations/acme/scim/settings",
            json={"groups": request.param},
            headers={"Authorization": f"Bearer {founded['access_token']}"},
        )
        assert switched.status_code == 200, switched.text
        with httpx.Client(
            base_url=f"http://127.0.0.1:{server.port}/scim/v2",
            headers={"Authorization": f"Bearer {made.json()['token']}"},
            timeout=PATIENCE,
        ) as client:
            yield client
        assert server.stop() == 0
    finally:
        server.close()


def test_a_conformance_tester_finds_no_fault_but_what_the_interface_refuses(scim: httpx.Client) -> None:
    from tests.e2e.relying.scim_conformance import checked  # noqa: PLC0415 - its tester takes seconds to import

    results, successes = checked(scim)
    faults = [(one.title, one.resource_type, str(one.reason)) for one in results]
    if scim.get("/Schemas/" + GROUP_SCHEMA).json()["attributes"][0]["mutability"] == "readOnly":
        # Every test of groups begins by making one, which the interface answers with 501.
        assert {reason for _, kind, reason in faults if kind == "Group"} == {refuse_creation().message}
        faults = [fault for fault in faults if fault[1] != "Group"]
    assert faults == []
    assert successes > 40

"""The SCIM endpoints of a running Postern, as a conformance tester of others sees them."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from scim2_client import BaseSyncSCIMClient
from scim2_tester import Status, check_server, filling
from scim2_tester.checkers import patch_add, patch_replace

from core.domain.federation.scim.groups import refuse_creation
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, copy


class OverTheWire(BaseSyncSCIMClient):
    def __init__(self, client: httpx.Client) -> None:
        super().__init__()
        self.client = client

    def _stays_under_base_url(self, endpoint: str) -> bool:
        return str(self.client.build_request("GET", endpoint).url).startswith(str(self.client.base_url))

    def _parse_json(self, response: Any) -> Any:
        return response.json()

    def request(self, method: str, url: str, **kwargs: Any) -> httpx.Response:
        return self.client.request(method, url, **kwargs)


@pytest.fixture(scope="module")
def scim(e2e_directory: Path, installation: Installation) -> Iterator[httpx.Client]:
    settings = {"POSTERN_RATE_LIMITS": "off", "POSTERN_ORG_AUTO_APPROVE": "on"}
    server = Postern(copy(installation.data_dir, e2e_directory / "scim"), settings=settings)
    try:
        server.start()
        signed_in = server.post("/api/auth/login", {"email": "owner@postern.local", "password": installation.owner_password}).json()
        founded = server.post("/api/organizations", {"slug": "acme", "name": "Acme"}, token=signed_in["access_token"]).json()
        made = server.post("/api/organizations/acme/scim-tokens", {"name": "Tester"}, token=founded["access_token"])
        assert made.status == 200, made.body
        with httpx.Client(
            base_url=f"http://127.0.0.1:{server.port}/scim/v2", headers={"Authorization": f"Bearer {made.json()['token']}"}
        ) as client:
            yield client
        assert server.stop() == 0
    finally:
        server.close()


def test_a_conformance_tester_finds_no_fault_but_what_the_interface_refuses(scim: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    original = filling.generate_random_value

    def with_addresses(context: Any, path: Any, mutability: Any = None, required: Any = None) -> Any:
        """The userName is an address, and the one e-mail address is the primary one: the schema can only say so in words."""
        value = original(context, path, mutability, required)
        if value is not None and str(path).lower().endswith("emails"):
            value[0].primary = True
        return f"{uuid.uuid4()}@example.org" if value is not None and str(path).lower().endswith("username") else value

    for module in (filling, patch_add, patch_replace):
        monkeypatch.setattr(module, "generate_random_value", with_addresses)
    results = check_server(OverTheWire(scim))
    faults = [(one.title, one.resource_type, str(one.reason)) for one in results if one.status not in {Status.SUCCESS, Status.SKIPPED}]
    # Every test of groups begins by making one, which the interface answers with 501.
    assert [fault for fault in faults if fault[1] != "Group"] == []
    assert {reason for _, _, reason in faults} == {refuse_creation().message}
    assert sum(one.status is Status.SUCCESS for one in results) > 40

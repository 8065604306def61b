"""Another author's conformance tester, with the rules that our schema can only describe in words. Its import takes seconds, so tests import
this module only when they run.
"""

import uuid
from typing import Any

import httpx
import pytest
from scim2_client import BaseSyncSCIMClient
from scim2_tester import CheckResult, Status, check_server, filling
from scim2_tester.checkers import patch_add, patch_replace


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


def checked(scim: httpx.Client) -> tuple[list[CheckResult], int]:
    """The faults that the tester found, and the number of checks without fault."""
    original = filling.generate_random_value

    def with_addresses(context: Any, path: Any, mutability: Any = None, required: Any = None) -> Any:
        """The userName is an address, and the one e-mail address is the primary one. Users are active, since only these are in groups."""
        value = original(context, path, mutability, required)
        if value is not None and str(path).lower().endswith("emails"):
            value[0].primary = True
        if value is not None and str(path).lower().endswith("active"):
            return True
        return f"{uuid.uuid4()}@example.org" if value is not None and str(path).lower().endswith("username") else value

    with pytest.MonkeyPatch.context() as patch:
        for module in (filling, patch_add, patch_replace):
            patch.setattr(module, "generate_random_value", with_addresses)
        results = check_server(OverTheWire(scim))
    faults = [one for one in results if one.status not in {Status.SUCCESS, Status.SKIPPED}]
    return faults, sum(one.status is Status.SUCCESS for one in results)

"""The guides for single service providers: a reader who sends the requests of a guide gets a configuration with which people sign in."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.http.client import refused
from tests.http.federation.providing import Providing, metadata
from tests.places import ROOT

GUIDES: Final = ROOT / "docs" / "guides"
_BLOCK: Final = re.compile(r"^ *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_CALL: Final = re.compile(
    r'curl -s (-X POST )?"\$saml(/\w+)?"(?: -H \S+ ?\S* ?\S*"| -H \'[^\']+\')*(?: --json \'(.*?)\'| --data-binary (@)\S+)?$',
    re.MULTILINE | re.DOTALL,
)


def calls(guide: str, block: int) -> Sequence[tuple[str, Any]]:
    """The calls in a guide: the path of each below the service's SAML address, and its body."""
    text = _BLOCK.findall((GUIDES / f"saml-{guide}.md").read_text())[block]
    found = [(suffix, metadata() if file else json.loads(body) if body else None) for _, suffix, body, file in _CALL.findall(text)]
    assert len(found) == text.count('"$saml'), text
    return found


async def follow(provider: Providing, told: Sequence[tuple[str, Any]]) -> None:
    for suffix, body in told:
        await (provider.upload(body) if isinstance(body, bytes) else provider.call("POST", suffix, body))


WAYS: Final = {
    "gitlab": calls("gitlab", 0),
    "gitlab by its metadata": [*calls("gitlab", 1), ("/certificate", None)],
    "grafana": calls("grafana", 0),
    "nextcloud": calls("nextcloud", 0),
}


@pytest.mark.parametrize("way", WAYS)
async def test_whoever_follows_a_guide_can_sign_in(provider: Providing, way: str) -> None:
    await follow(provider, WAYS[way])
    configured = (await provider.call("GET")).ok()
    assert (configured["enabled"], configured["has_certificate"]) == (True, True)
    assert configured["entity_id"]
    assert configured["acs_url"]
    assert configured["attribute_mapping"]["email"] == "email"
    assert (await provider.unlimited.get("/saml/acme/app/metadata")).status == 200


@pytest.mark.parametrize("way", [way for way in WAYS if way.startswith("gitlab")])
async def test_both_ways_for_gitlab_come_to_the_same(provider: Providing, way: str) -> None:
    await follow(provider, WAYS[way])
    configured = (await provider.call("GET")).ok()
    assert (configured["name_id_format"].rpartition(":")[2], configured["attribute_mapping"]) == (
        "persistent",
        {"email": "email", "groups": "groups"},
    )


async def test_metadata_alone_enable_nothing(provider: Providing) -> None:
    (await provider.upload(metadata())).ok()
    assert refused(await provider.call("POST", "/certificate")) == (400, "BAD_REQUEST")
    assert (await provider.call("GET")).ok()["enabled"] is False
    assert (await provider.unlimited.get("/saml/acme/app/metadata")).status == 404

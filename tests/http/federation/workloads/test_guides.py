"""The guides for workloads: the rule of each, with tokens in the form that its issuer publishes."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.http.federation.relying import Relying, oauth
from tests.http.federation.workloads.issuing import Issuer, issuing, public_jwk
from tests.http.people import BASE_URL
from tests.places import ROOT

GUIDES: Final = ROOT / "docs" / "guides" / "workloads"
HOUR: Final = 3600
# The lifetime of each issuer's tokens in seconds, and its own claims.
TOKENS: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "github-actions": (
        6 * HOUR,
        {
            "sub": "repo:acme/shop:ref:refs/heads/main",
            "ref": "refs/heads/main",
            "ref_type": "branch",
            "ref_protected": "true",
            "sha": "7f93a73b8273af5d35fcd70661704c1cadc57054",
            "repository": "acme/shop",
            "repository_id": "74",
            "repository_owner": "acme",
            "repository_owner_id": "1342004",
            "repository_visibility": "private",
            "run_id": "1",
            "run_attempt": "1",
            "actor": "ada",
            "actor_id": "12",
            "event_name": "push",
            "job_workflow_ref": "acme/shop/.github/workflows/deploy.yml@refs/heads/main",
            "runner_environment": "github-hosted",
        },
    ),
    "gitlab-ci": (
        HOUR,
        {
            "sub": "project_path:acme/shop:ref_type:branch:ref:main",
            "namespace_id": "72",
            "namespace_path": "acme",
            "project_id": "20",
            "project_path": "acme/shop",
            "user_id": "1",
            "user_login": "ada",
            "pipeline_id": "574",
            "pipeline_source": "push",
            "job_id": "302",
            "ref": "main",
            "ref_type": "branch",
            "ref_path": "refs/heads/main",
            "ref_protected": "true",
            "runner_id": 1,
            "runner_environment": "self-hosted",
            "groups_direct": ["acme", "acme/web"],
        },
    ),
    "kubernetes": (
        HOUR,
        {
            "sub": "system:serviceaccount:shop:deployer",
            "aud": [BASE_URL],
            "kubernetes.io": {
                "namespace": "shop",
                "node": {"name": "one", "uid": "43ab"},
                "pod": {"name": "shop-5d8f", "uid": "5e0b"},
                "serviceaccount": {"name": "deployer", "uid": "3b1c"},
            },
        },
    ),
}


@pytest.fixture
async def issuer(relying: Relying) -> AsyncIterator[Issuer]:
    async with issuing(relying) as made:
        yield made


def rule_of(guide: str) -> dict[str, Any]:
    (text,) = re.findall(r"```json\n(.*?)```", (GUIDES / f"{guide}.md").read_text(), re.DOTALL)
    rule: dict[str, Any] = json.loads(text)
    return rule


@pytest.mark.parametrize("guide", TOKENS)
async def test_the_rule_of_the_guide_lets_its_workload_in(issuer: Issuer, guide: str) -> None:
    """The keys of a cluster are pasted; the others are fetched, here from loopback."""
    lifetime, claims = TOKENS[guide]
    rule = rule_of(guide)
    here = {"jwks": {"keys": [public_jwk()]}} if "jwks" in rule else {"issuer": issuer.address, "jwks_uri": issuer.jwks_uri}
    rule |= {**here, "audience": BASE_URL}
    (await issuer.relying.request("POST", "/api/organizations/acme/trusted-issuers", rule, by=issuer.owner)).ok(201)
    now = int(issuer.relying.postern.foundation.clock.now().timestamp())
    token = {"iss": rule["issuer"], "exp": now + lifetime, **claims}
    (await issuer.asks(issuer.token(**token))).ok()
    assert oauth(await issuer.asks(issuer.token(**{**token, "sub": f"{claims['sub']}-fork"}))) == (400, "invalid_grant")
    for name in rule.get("claims", {}):
        assert oauth(await issuer.asks(issuer.token(**{**token, name: "other"}))) == (400, "invalid_grant")


def test_every_guide_is_tried() -> None:
    assert {one.stem for one in GUIDES.glob("*.md")} == set(TOKENS)

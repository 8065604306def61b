"""Hooks in documents: what a document changes stands in shadow, no secret is in one, and it lets nothing count."""

from typing import Any, Final

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.configuration.test_configuration_endpoints import ACME, of_acme
from tests.http.configuration.test_risk_documents import RiskDocuments
from tests.http.people import People
from tests.http.signing_in import unlimited

PLACE: Final = "/organizations/acme/hook"
HOOK: Final = {"address": "https://127.0.0.1/hook", "silence": "refuse", "seconds": 3}


class HookDocuments(RiskDocuments):
    async def hook(self) -> dict[str, Any]:
        return dict((await self.request("GET", f"{ACME}/hooks/sign-in", None, by=self.owner)).ok())


@pytest.fixture
def shops(postern: Postern, people: People, log: CapturedLog) -> HookDocuments:
    return HookDocuments(postern, people, unlimited(postern), log)


async def test_a_document_makes_changes_and_ends_a_hook_in_shadow(shops: HookDocuments) -> None:
    assert await shops.applied(of_acme(hook=HOOK), by=shops.owner) == [PLACE]
    made = await shops.hook()
    assert (made["address"], made["silence"], made["seconds"], made["stands"]) == ("https://127.0.0.1/hook", "refuse", 3, "shadow")
    exported = (await shops.request("GET", f"{ACME}/configuration", None, by=shops.owner)).ok()["document"]
    assert exported["organizations"]["acme"]["hook"] == HOOK
    assert (await shops.send("plan", of_acme(hook=HOOK), by=shops.owner)).ok()["changes"] == []
    shops.people.change("update hooks set counts_as = gen_random_uuid()")
    assert await shops.applied(of_acme(hook={**HOOK, "silence": "go_on"}), by=shops.owner) == [PLACE]
    changed = await shops.hook()
    assert (changed["stands"], changed["silence"]) == ("shadow", "go_on")
    assert await shops.applied(of_acme(hook=None), by=shops.owner) == [PLACE]
    assert (await shops.hook())["id"] is None


async def test_nobody_but_an_owner_plans_or_applies_one_and_no_document_names_more(shops: HookDocuments) -> None:
    answer = await shops.send("apply", of_acme(hook=HOOK), by=shops.admin)
    assert answer.status != 200 or answer.json()["done"] == []
    answer = await shops.send("apply", of_acme(hook=HOOK), key=await shops.key("connections.manage", "webhooks.manage", by=shops.owner))
    assert answer.status != 200 or answer.json()["done"] == []
    shops.stale(shops.owner)
    answer = await shops.send("apply", of_acme(hook=HOOK), by=shops.owner)
    assert answer.status != 200 or answer.json()["done"] == []
    for more in ({"digest": "0" * 64}, {"secret": "whsec_x"}, {"stands": "counts"}):
        assert await shops.problems(of_acme(hook={**HOOK, **more}), by=shops.owner) != [], more
    assert shops.people.rows("select 1 from hooks") == []

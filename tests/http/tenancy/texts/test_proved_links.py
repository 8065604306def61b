"""Links of own texts follow the proofs of domains. A text stays as somebody wrote it, and is shown without links while a proof is gone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from core.domain.tenancy.domains import MOST_MISSES
from core.frozen import replace
from core.usecases.tenancy.domains import DomainProofs
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.people import People
from tests.http.tenancy.proving import proving
from tests.http.tenancy.test_domains import NAME, DomainScene
from tests.meanwhile import meanwhile

TEXTS: Final = "/api/organizations/acme/texts"
ROUTE: Final = "acme-route.example"
LINKED: Final = f"See [our page](https://www.{NAME}/imprint?x=1)."


class LinkScene(DomainScene):
    async def write(self, **texts: str) -> None:
        named = {key.replace("__", "."): text for key, text in texts.items()}
        assert (await self.request("PATCH", TEXTS, {"language": "en", "texts": named})).status == 200

    async def unlinked(self) -> dict[str, bool]:
        texts = (await self.request("GET", TEXTS)).ok()["texts"]
        return {one["key"]: one["unlinked"] for one in texts if one["own"] is not None}

    def digest(self) -> Any:
        return self.people.rows("select texts_digest from organizations where slug = 'acme'")[0]["texts_digest"]

    async def version(self) -> Any:
        return (await self.request("GET", TEXTS)).ok()["version"]


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[LinkScene]:
    async with proving(LinkScene, postern, people, log, tmp_path, NAME, ROUTE) as made:
        yield made


async def test_a_proof_that_is_lost_takes_its_links_until_it_is_back(scene: LinkScene) -> None:
    told = await scene.verified()
    await scene.write(own__footer=LINKED, own__notice="Closed on Monday")
    linked = scene.digest()
    scene.withdraw(told)
    for _ in range(MOST_MISSES):
        await scene.check()
    assert await scene.unlinked() == {"own.footer": True, "own.notice": False}
    assert linked != scene.digest() == await scene.version()
    (row,) = scene.people.rows("select text from organization_texts where key = 'own.footer'")
    assert row["text"] == LINKED
    scene.publish(told)
    assert (await scene.verify())["verified"]
    assert await scene.unlinked() == {"own.footer": False, "own.notice": False}
    assert scene.digest() == linked


async def test_a_domain_that_goes_takes_its_links(scene: LinkScene) -> None:
    await scene.verified()
    await scene.write(own__footer=LINKED)
    assert (await scene.ask("DELETE")).status == 204
    assert await scene.unlinked() == {"own.footer": True}
    await scene.verified()
    assert await scene.unlinked() == {"own.footer": False}
    # Another domain in its place.
    await scene.set("other.example")
    assert await scene.unlinked() == {"own.footer": True}


async def test_a_text_with_several_domains_needs_all_of_them(scene: LinkScene) -> None:
    await scene.verified()
    scene.people.change(
        "insert into domain_routes (id, org_id, domain, token, verified_at, next_check_at, login_policy, join_policy, created_at,"
        " updated_at) select gen_random_uuid(), id, %s, 'x', now(), now() + interval '1 day', 'password_allowed', 'off', now(), now()"
        " from organizations where slug = 'acme'",
        ROUTE,
    )
    await scene.write(own__footer=f"[a](https://{NAME}/) [b](https://{ROUTE}/)", own__notice=f"[b](https://{ROUTE}/)")
    (route,) = scene.people.rows("select id from domain_routes where domain = %s", ROUTE)
    assert (await scene.request("DELETE", f"/api/organizations/acme/domain-routes/{route['id']}")).status == 204
    assert await scene.unlinked() == {"own.footer": True, "own.notice": True}
    assert (await scene.ask("DELETE")).status == 204
    await scene.verified()
    # Its other domain is still not proved.
    assert await scene.unlinked() == {"own.footer": True, "own.notice": True}


async def test_a_text_that_is_written_while_a_proof_is_looked_for_is_followed(scene: LinkScene, monkeypatch: pytest.MonkeyPatch) -> None:
    told = await scene.verified()
    scene.withdraw(told)
    for _ in range(MOST_MISSES - 1):
        await scene.check()

    async def write() -> None:
        monkeypatch.undo()
        await scene.write(own__footer=LINKED)

    meanwhile(monkeypatch, DomainProofs, "_look", write)
    await scene.check()
    assert await scene.unlinked() == {"own.footer": True}
    assert scene.digest() == await scene.version()


async def test_a_link_that_the_operator_lists_needs_no_proof(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> None:
    tenancy = replace(postern.tenancy, own_texts=replace(postern.tenancy.own_texts, hosts=("house.example",)))
    async with proving(LinkScene, replace(postern, tenancy=tenancy), people, log, tmp_path, NAME) as scene:
        told = await scene.verified()
        await scene.write(own__footer=f"{LINKED} See [the house](https://house.example/).")
        scene.withdraw(told)
        for _ in range(MOST_MISSES):
            await scene.check()
        assert await scene.unlinked() == {"own.footer": True}
        scene.publish(told)
        assert (await scene.verify())["verified"]
        assert await scene.unlinked() == {"own.footer": False}

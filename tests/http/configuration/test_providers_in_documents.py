"""Further providers in documents: a draft, whatever `enabled` says, unless the document says `active`."""

from typing import Any, Final

import pytest

from core.domain.platform.configuration.planning import FieldChange
from entrypoints.bootstrap import Postern
from entrypoints.cli.configuration.planned_documents import plan_lines
from tests.conftest import CapturedLog
from tests.http.configuration.documents import SECRETS, WHOLE
from tests.http.configuration.test_documents_applied import DocumentScene
from tests.http.people import People

FORUM: Final[dict[str, Any]] = WHOLE["platform"]["providers"]["forum"]


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, monkeypatch: pytest.MonkeyPatch) -> DocumentScene:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
        log.remember(value)
    return DocumentScene(postern, people)


def document(**more: Any) -> dict[str, Any]:
    return {"postern": 1, "platform": {"providers": {"forum": {**FORUM, **more}}}}


def without_secret(tree: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in tree["platform"]["providers"]["forum"].items() if name != "client_secret"}
    return {"postern": 1, "platform": {"providers": {"forum": fields}}}


def state(scene: DocumentScene) -> tuple[str, bool]:
    (row,) = scene.people.rows("select state, enabled from further_providers")
    return row["state"], row["enabled"]


def activations(scene: DocumentScene) -> list[str]:
    rows = scene.people.rows("select details from audit_entries where action = 'platform.provider.activated' order by id")
    return [row["details"]["how"] for row in rows]


async def exported(scene: DocumentScene) -> dict[str, Any]:
    return {"postern": 1, "platform": {"providers": (await scene.export())["platform"]["providers"]}}


@pytest.mark.parametrize("more", [{}, {"enabled": True}, {"enabled": True, "active": False}])
async def test_without_active_it_is_a_draft_and_the_plan_says_so(scene: DocumentScene, more: dict[str, Any]) -> None:
    planned = await scene.plan(document(**more))
    (change,) = planned.plan.changes
    assert FieldChange("active", None, False) in change.fields
    assert any("active: false" in line for line in plan_lines(planned, colours=False))
    await scene.apply(document(**more))
    assert state(scene) == ("draft", False)
    assert activations(scene) == []
    # What waits is no difference, and neither is what was exported.
    for tree in (without_secret(document(**more)), await exported(scene)):
        assert (await scene.plan(tree)).plan.changes == ()


async def test_active_makes_it_active_and_the_log_says_so(scene: DocumentScene) -> None:
    await scene.apply(document(active=True))
    assert state(scene) == ("active", True)
    assert activations(scene) == ["request"]
    assert (await scene.plan(without_secret(document(active=True)))).plan.changes == ()
    assert (await scene.plan(await exported(scene))).plan.changes == ()
    # A document that says nothing of it leaves it.
    assert (await scene.plan(without_secret(document()))).plan.changes == ()


async def test_a_draft_becomes_active_by_a_later_document(scene: DocumentScene) -> None:
    await scene.apply(document())
    await scene.apply(without_secret(document(active=True)))
    assert state(scene) == ("active", True)
    assert activations(scene) == ["request"]
    await scene.apply(without_secret(document(active=False)))
    assert state(scene) == ("draft", False)
    await scene.apply(without_secret(document(active=True, enabled=False)))
    assert state(scene) == ("active", False)
    assert (await scene.plan(await exported(scene))).plan.changes == ()


async def test_what_was_exported_makes_the_same_elsewhere(scene: DocumentScene) -> None:
    await scene.apply(document(active=True, enabled=False))
    kept = await exported(scene)
    await scene.apply({"postern": 1, "platform": {"providers": {"whole": True, "entries": {}}}})
    assert scene.people.rows("select from further_providers") == []
    entry = kept["platform"]["providers"]["forum"]
    await scene.apply(document(**entry))
    assert state(scene) == ("active", False)
    assert await exported(scene) == kept


async def test_ids_keep_their_meaning(scene: DocumentScene) -> None:
    await scene.apply(document(active=True))
    scene.people.connect(scene.owner, "forum", FORUM["profile_url"], "4711")
    planned = await scene.plan(without_secret(document(subject="login")))
    applied = await scene.configuring().apply(planned)
    (refused,) = applied.refused
    assert refused.refusal.code == "CONFLICT"
    assert "(1)" in refused.refusal.message

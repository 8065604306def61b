"""Documents that are applied: every kind of object is made, found again and left alone."""

from pathlib import Path
from typing import Any

import pytest
import trio

from core.domain.mail import Email
from core.domain.platform.configuration.planning import PlannedAction
from entrypoints.bootstrap import Postern
from entrypoints.cli.configuration.files import read_files
from entrypoints.cli.configuration.operators import DocumentOperator
from entrypoints.http.routes.configuration.applying import Applied, Configuring, Planned
from entrypoints.http.routes.configuration.exporting import exported, wholly
from entrypoints.http.routes.configuration.registry import KINDS
from tests.conftest import CapturedLog
from tests.http.configuration.documents import SECRETS, WHOLE, resolve
from tests.http.people import People
from tests.places import ROOT

OWNER = "ada@example.org"


class DocumentScene:
    """An operator who plans and applies documents."""

    def __init__(self, postern: Postern, people: People) -> None:
        self.postern = postern
        self.people = people
        self.owner = people.add(OWNER)

    def configuring(self) -> Configuring:
        return Configuring(DocumentOperator(self.postern, {slug: Email(OWNER) for slug in ("acme", "beta")}))

    async def plan(self, tree: Any) -> Planned:
        return await self.configuring().plan(tree, resolve)

    async def apply(self, tree: Any) -> Applied:
        configuring = self.configuring()
        planned = await configuring.plan(tree, resolve)
        assert [(one.steps, one.message) for one in planned.problems] == []
        applied = await configuring.apply(planned)
        assert [(str(one.change.place), one.refusal.message) for one in applied.refused] == []
        return applied

    async def export(self) -> dict[str, Any]:
        slugs = await self.postern.platform.configurations.slugs()
        return await exported(DocumentOperator(self.postern, {}), slugs, with_platform=True)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, monkeypatch: pytest.MonkeyPatch) -> DocumentScene:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
        log.remember(value)
    return DocumentScene(postern, people)


async def test_a_document_makes_everything_and_finds_it_again(scene: DocumentScene) -> None:
    applied = await scene.apply(WHOLE)
    assert {one.act for one in applied.done} == {PlannedAction.MAKE, PlannedAction.CHANGE}
    again = await scene.plan(WHOLE)
    changes = [(str(one.place), one.fields) for one in again.plan.changes if not one.only_sets_secrets]
    assert (changes, again.problems) == ([], ())
    assert again.is_empty
    export = await scene.export()
    same = await scene.plan(export)
    assert ([(str(one.place), one.fields) for one in same.plan.changes], same.problems) == ([], ())
    same = await scene.plan(wholly(export))
    assert ([(str(one.place), one.fields) for one in same.plan.changes], same.problems) == ([], ())
    assert not any(secret in str(export) for secret in SECRETS.values())


async def test_the_guides_example_is_what_it_says(scene: DocumentScene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACME_MAIL_PASSWORD", "correct horse")
    guide = (ROOT / "docs/guides/configuration.md").read_text()
    (tmp_path / "acme.yaml").write_text(guide.partition("```yaml\n")[2].partition("```")[0])
    document = read_files([str(tmp_path / "acme.yaml")]).tree
    await scene.apply(document)
    assert (await scene.plan(document)).is_empty
    export = await scene.export()
    assert export["organizations"]["acme"]["services"]["billing"]["assignments"] == {
        "editor to role admin": {},
        "editor to team helpers": {},
    }


async def test_what_a_service_began_with_and_lost_stays_lost(scene: DocumentScene) -> None:
    service = {"name": "Shop", "service_type": "web", "plans": {"whole": True, "entries": {}}}
    await scene.apply({"postern": 1, "organizations": {"acme": {"name": "Acme", "services": {"shop": service}}}})
    assert scene.people.rows("select from plans where deleted_at is null") == []
    export = await scene.export()
    assert export["organizations"]["acme"]["services"]["shop"]["plans"] == {"whole": True, "entries": {}}
    assert (await scene.plan(export)).is_empty


async def test_an_object_that_a_directory_made_is_neither_exported_nor_ended(scene: DocumentScene) -> None:
    await scene.apply({"postern": 1, "organizations": {"acme": {"name": "Acme", "teams": {"ours": {"name": "Ours"}}}}})
    scene.people.change(
        "insert into teams (id, org_id, slug, name, source, created_at, updated_at)"
        " select gen_random_uuid(), id, 'theirs', 'Theirs', 'directory', now(), now() from organizations"
    )
    assert (await scene.export())["organizations"]["acme"]["teams"] == {"ours": {"name": "Ours", "role": None}}
    whole = {"postern": 1, "organizations": {"acme": {"teams": {"whole": True, "entries": {"ours": {}}}}}}
    assert (await scene.plan(whole)).is_empty


async def test_two_applications_at_once_end_as_one_after_the_other_would(scene: DocumentScene) -> None:
    await scene.apply({"postern": 1, "organizations": {"acme": {"name": "Acme"}}})
    planned = []
    for _ in range(2):
        configuring = scene.configuring()
        planned.append((configuring, await configuring.plan(WHOLE, resolve)))
    outcomes: list[Applied] = []

    async def apply(configuring: Configuring, plan: Planned) -> None:
        outcomes.append(await configuring.apply(plan))

    async with trio.open_nursery() as nursery:
        for configuring, plan in planned:
            nursery.start_soon(apply, configuring, plan)
    # Whoever came second is told that the thing is there.
    assert {one.refusal.code for outcome in outcomes for one in outcome.refused} <= {"CONFLICT", "BAD_REQUEST"}
    assert (await scene.plan(WHOLE)).is_empty


async def test_what_is_stored_of_an_object_is_all_that_its_entry_may_say(scene: DocumentScene) -> None:
    """A field that an endpoint gets must also be read, or each plan would change it again."""
    await scene.apply(WHOLE)
    provide(scene)
    configurations = scene.postern.platform.configurations
    for kind in KINDS:
        stored = await configurations.stored([kind.id], ["acme"])
        assert stored, kind.id
        assert {name for one in stored for name in one.fields} == set(kind.entry.__struct_fields__) - set(kind.secrets), kind.id


async def test_an_upstream_provider_is_named_by_its_name_and_its_secret_set_anew(
    scene: DocumentScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.apply({"postern": 1, "organizations": {"acme": {"name": "Acme"}}})
    provide(scene)
    monkeypatch.setenv("PROVIDER", "the secret of the client")
    provider = {"issuer": "https://login.acme.example", "client_id": "postern", "client_secret": "env:PROVIDER"}
    route = {"upstream_provider": "upstream_providers/Acme login", "login_policy": "upstream_only"}
    document = {
        "postern": 1,
        "organizations": {"acme": {"upstream_providers": {"Acme login": provider}, "domain_routes": {"acme.example": route}}},
    }
    assert [one.place.kind for one in (await scene.plan(document)).plan.changes] == ["upstream_providers", "domain_routes"]
    await scene.apply(document)
    assert [one.place.kind for one in (await scene.plan(document)).plan.changes] == ["upstream_providers"]
    assert (await scene.plan(await scene.export())).is_empty
    monkeypatch.setenv("PROVIDER", "another secret")
    (change,) = (await scene.plan(document)).plan.changes
    assert [(one.name, one.is_secret, one.after) for one in change.fields] == [("client_secret", True, None)]
    await scene.apply(document)
    sealed = scene.people.rows("select id, sealed_client_secret from upstream_providers")[0]
    context = f"upstream_providers.sealed_client_secret:{sealed['id']}"
    assert scene.people.opened(sealed["sealed_client_secret"], context) == "another secret"
    wrong = {**document["organizations"]["acme"], "domain_routes": {"b.example": {"upstream_provider": "upstream_providers/None"}}}  # type: ignore[index]  # a document
    configuring = scene.configuring()
    planned = await configuring.plan({"postern": 1, "organizations": {"acme": wrong}}, resolve)
    assert [one.refusal.code for one in (await configuring.apply(planned)).refused] == ["BAD_REQUEST"]
    moved = {"postern": 1, "organizations": {"acme": {"upstream_providers": {"Acme login": {"issuer": "https://other.example"}}}}}
    assert [one.message for one in (await scene.plan(moved)).problems] == ["it cannot be changed: delete this object, and create another"]


def provide(scene: DocumentScene) -> None:
    """Acme has a provider of its own. To make one, the provider itself would have to answer."""
    identifier = scene.postern.foundation.ids.new()
    scene.people.change(
        "insert into upstream_providers (id, org_id, name, issuer, client_id, sealed_client_secret, scopes, enabled, created_at,"
        " updated_at)"
        " select %s, id, 'Acme login', 'https://login.acme.example', 'postern', %s, '{}', true, now(), now() from organizations",
        identifier,
        scene.people.sealed("the secret of the client", f"upstream_providers.sealed_client_secret:{identifier}"),
    )

"""Directories by SAML in documents: what administrators set is in them, and what the directory's metadata bring is not."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from core.domain.platform.configuration.planning import LACKS, NEEDED, NEVER_CHANGES
from entrypoints.cli.configuration.operators import DocumentOperator
from entrypoints.http.routes.configuration.applying import Applied, Configuring, Planned
from entrypoints.http.routes.configuration.exporting import exported
from ops.stand_ins.saml import pair
from tests.http.client import refused
from tests.http.configuration.documents import CERTIFICATE, resolve
from tests.http.connections import conftest as connections
from tests.http.connections.refreshing import ADDRESS, NEW, NEXT, OLD, fingerprint, metadata, refreshing_of
from tests.http.connections.scene import PATH, ConnectionScene

postern, scene, fakes, quick_keys = connections.postern, connections.scene, connections.fakes, connections.quick_keys
NAME: Final = "Acme directory"


class Directories:
    def __init__(self, scene: ConnectionScene) -> None:
        self.scene = scene
        self._acting = DocumentOperator(scene.postern, {})
        scene.people.change("update organizations set owner_user_id = %s where slug = 'acme'", scene.speaker.user)

    async def export(self) -> dict[str, Any]:
        document = await exported(self._acting, ["acme"], with_platform=False)
        held: dict[str, Any] = document["organizations"]["acme"]["upstream_providers"]
        return held

    async def plan(self, providers: Mapping[str, Any], **more: Any) -> tuple[Configuring, Planned]:
        configuring = Configuring(DocumentOperator(self.scene.postern, {}))
        document = {"postern": 1, "organizations": {"acme": {"upstream_providers": providers, **more}}}
        return configuring, await configuring.plan(document, resolve)

    async def changes(self, **fields: Any) -> dict[str, Any]:
        _, planned = await self.plan({NAME: fields})
        assert planned.problems == ()
        return {one.name: one.after for change in planned.plan.changes for one in change.fields}

    async def apply(self, providers: Mapping[str, Any], **more: Any) -> Applied:
        configuring, planned = await self.plan(providers, **more)
        assert [(one.steps, one.message) for one in planned.problems] == []
        return await configuring.apply(planned)

    async def record(self, name: str = NAME) -> dict[str, Any]:
        return next(one for one in (await self.scene.request("GET", PATH)).json() if one["name"] == name)

    async def fingerprints(self) -> list[tuple[str, str]]:
        return [(one["fingerprint"], one["source"]) for one in (await self.record())["saml"]["certificates"]]


@pytest.fixture
def directories(scene: ConnectionScene) -> Directories:
    return Directories(scene)


async def test_what_the_metadata_bring_by_their_address_is_no_change(directories: Directories) -> None:
    scene = directories.scene
    refreshing = await refreshing_of(scene)
    given = (await scene.request("POST", f"{PATH}/{refreshing.provider}/certificate", {"certificate": pair(NEXT).certificate})).ok()
    assert given["state"] == "active"
    before = await directories.export()
    refreshing.publish(metadata(OLD, NEW))
    assert await refreshing.sweep() == 1
    old, new, by_hand = ((fingerprint(OLD), "metadata"), (fingerprint(NEW), "metadata"), (fingerprint(NEXT), "hand"))
    assert await directories.fingerprints() == [old, by_hand, new]
    exported = await directories.export()
    assert exported == before
    assert exported[NAME]["metadata_url"] == ADDRESS
    assert exported[NAME]["certificates"] == [pair(NEXT).certificate]
    assert not exported[NAME].keys() & {"enabled", "state", "client_id", "scopes", "client_secret"}
    _, planned = await directories.plan(exported)
    assert planned.is_empty
    # Our own keys and certificates are in no document.
    assert (await directories.record())["saml"]["certificate"] not in str(exported)
    # Another one by hand leaves those of the metadata, in their places, and makes a draft, as the endpoint does.
    another = pair("another by hand").certificate
    assert (await directories.apply({NAME: {"certificates": [another]}})).refused == []
    assert [one for one, _ in await directories.fingerprints()] == [old[0], new[0], fingerprint("another by hand")]
    assert ((await directories.record())["state"], (await directories.record())["enabled"]) == ("draft", False)
    # Without an address, the document says all of them.
    assert (await directories.apply({NAME: {"metadata_url": "", "certificates": [another]}})).refused == []
    assert await directories.fingerprints() == [(fingerprint("another by hand"), "hand")]
    _, planned = await directories.plan({NAME: {"metadata_url": "", "certificates": [another]}})
    assert planned.is_empty


async def test_a_certificate_of_the_metadata_that_a_document_names_is_given_by_hand(directories: Directories) -> None:
    provider = await directories.scene.active(metadata_url=ADDRESS)
    document = {NAME: {"certificates": [pair(OLD).certificate]}}
    assert (await directories.apply(document)).refused == []
    assert await directories.fingerprints() == [(fingerprint(OLD), "hand")]
    # The same certificates were tested, so people go on signing in.
    assert (await directories.record())["state"] == "active"
    _, planned = await directories.plan(document)
    assert planned.is_empty
    listed = (await directories.scene.request("PATCH", f"{PATH}/{provider}", {"certificates": []})).ok()["saml"]["certificates"]
    assert listed == []


async def test_a_directory_is_made_again_as_a_draft_from_its_export(directories: Directories) -> None:
    scene = directories.scene
    provider = await scene.active()
    # Metadata that came as a file have no address, so their certificates are in the document.
    first = await directories.export()
    assert first[NAME]["certificates"] == [pair(OLD).certificate]
    assert (await scene.request("DELETE", f"{PATH}/{provider}")).status == 204
    assert (await directories.apply(first)).refused == []
    assert await directories.export() == first
    made = await directories.record()
    assert (made["state"], made["enabled"], made["issuer"]) == ("draft", False, scene.directory.issuer)
    # No domain route leads to a draft.
    routes = {"acme.example": {"upstream_provider": f"upstream_providers/{NAME}", "login_policy": "upstream_only"}}
    assert [one.refusal.code for one in (await directories.apply({}, domain_routes=routes)).refused] == ["BAD_REQUEST"]
    # It is complete: after a test and an owner's word, people sign in.
    assert b"All checks passed" in (await scene.test(made["id"])).body
    (await scene.activate(made["id"])).ok()
    assert (await directories.apply(first, domain_routes=routes)).refused == []
    _, planned = await directories.plan(first, domain_routes=routes)
    assert planned.is_empty
    await directories.apply({NAME: {"sso_url": "https://login.acme.example/elsewhere"}})
    assert (await directories.record())["state"] == "draft"


async def test_a_change_of_the_product_leaves_the_sources_that_the_document_names(directories: Directories) -> None:
    await directories.scene.draft()
    document = {"preset": "entra_id", "subject_source": "name_id", "email_sources": ["name_id"]}
    assert (await directories.apply({NAME: document})).refused == []
    _, planned = await directories.plan({NAME: document})
    assert planned.is_empty
    # Connected people are known by the issuer only once somebody could sign in.
    assert await directories.changes(issuer="https://other.example/saml") == {"issuer": "https://other.example/saml"}


async def test_each_sort_of_provider_has_its_own_fields(directories: Directories) -> None:
    provider = await directories.scene.active()
    cases: list[tuple[str, Mapping[str, Any], list[tuple[str, str]]]] = [
        ("new", {}, [("client_id", NEEDED), ("client_secret", NEEDED), ("issuer", NEEDED)]),
        ("new", {"kind": "saml", "client_id": "x", "enabled": True}, [(one, LACKS.format("saml")) for one in ("client_id", "enabled")]),
        (NAME, {"enabled": False, "scopes": ["x"]}, [(one, LACKS.format("saml")) for one in ("enabled", "scopes")]),
        (NAME, {"kind": "oidc", "client_id": "x"}, [("kind", NEVER_CHANGES)]),
    ]
    for name, fields, expected in cases:
        _, planned = await directories.plan({name: fields})
        assert [(one.steps[-1], one.message) for one in planned.problems] == expected, fields
    # What people are known by is refused by the endpoint, and the rest of the document goes on.
    for wrong in ({"issuer": "https://other.example/saml"}, {"subject_source": "mail"}, {"certificates": ["none"]}):
        applied = await directories.apply({NAME: wrong, "Second": {"kind": "saml"}})
        assert [(one.change.place.name, one.refusal.code) for one in applied.refused] == [(NAME, "BAD_REQUEST")], wrong
    assert (await directories.record())["state"] == "active"
    path = f"{PATH}/{provider}"
    for body in ({"certificates": [CERTIFICATE] * 11}, {"certificates": [""]}, {"slo_response_url": "http://login.acme.example"}):
        assert refused(await directories.scene.request("PATCH", path, body)) == (400, "BAD_REQUEST"), body
    own = await directories.scene.own_provider(domain="")
    assert refused(await directories.scene.request("PATCH", f"{PATH}/{own}", {"certificates": [CERTIFICATE]})) == (400, "BAD_REQUEST")

"""The logo of an application: uploaded, shown where people allow it something, and gone with it."""

from functools import partial
from typing import Any, Final

import pytest
import trio

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.services.services import ServiceType, with_logo
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.pages.kit import FOREVER
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.pictures import chunk, drawn_png, gif

SERVICE: Final = "/api/organizations/acme/services/app"


class LogoScene(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.speaker = self.resident(self.acme, "owner")
        self.member = self.resident(self.acme, "member")
        self.stranger = self.resident(self.globex, "owner")
        self.tenants.service(self.acme, "app")
        self.tenants.service(self.globex, "app")

    async def put(self, content: bytes, kind: str = "image/png", *, by: Person | None = None, of: str = "acme") -> Received:
        token = await self.tenants.token(by or self.owner)
        path = f"/api/organizations/{of}/services/app/logo"
        return await self.client.request("PUT", path, body=content, token=token, headers=[("content-type", kind)])

    async def remove(self, *, by: Person | None = None) -> Received:
        token = await self.tenants.token(by or self.owner)
        return await self.client.request("DELETE", f"{SERVICE}/logo", token=token)

    async def logo(self) -> Any:
        return (await self.request("GET", SERVICE)).ok()["logo"]


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> LogoScene:
    return LogoScene(postern, people, unlimited(postern), log)


async def test_a_logo_is_uploaded_shown_to_everybody_and_removed(scene: LogoScene) -> None:
    assert await scene.logo() is None
    told = (await scene.put(drawn_png())).ok()
    assert told["logo"] == await scene.logo()
    shown = await scene.client.get(told["logo"])
    assert (shown.status, shown.header("content-type"), shown.header("cache-control")) == (200, "image/png", FOREVER)
    # The same again changes nothing, and is not on record.
    assert (await scene.put(drawn_png())).ok() == told
    listed = (await scene.request("GET", "/api/organizations/acme/services")).ok()["services"]
    assert [one["logo"] for one in listed] == [told["logo"]]
    for _ in range(2):
        assert (await scene.remove()).status == 204
    assert await scene.logo() is None
    assert (await scene.client.get(told["logo"])).status == 404
    assert scene.people.rows("select from service_logos") == []
    assert [entry["details"]["changed"] for entry in scene.audited("service.updated")] == [["logo"], ["logo"]]


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/png", 400),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", 415),
        (gif(), "image/png", 400),
        (drawn_png(), "image/webp", 400),
        (drawn_png()[:40], "image/png", 400),
        (drawn_png(2, 2, chunk(b"acTL", bytes(8))), "image/png", 400),
        (drawn_png(2049, 1), "image/png", 400),
        (drawn_png() + bytes(256 << 10), "image/png", 413),
    ],
)
async def test_what_is_no_picture_is_no_logo(content: bytes, kind: str, status: int, scene: LogoScene) -> None:
    assert (await scene.put(content, kind)).status == status
    assert scene.people.rows("select from service_logos") == []


async def test_only_who_manages_applications_changes_their_logos(scene: LogoScene) -> None:
    for person in (scene.member, scene.stranger):
        assert (await scene.put(drawn_png(), by=person)).status == 403
        assert (await scene.remove(by=person)).status == 403
    assert (await scene.put(drawn_png(), of="globex")).status == 403
    assert scene.people.rows("select from service_logos") == []
    token = await scene.tenants.token(scene.owner)
    assert (await scene.client.request("DELETE", "/api/organizations/acme/services/other/logo", token=token)).status == 404


async def test_an_application_that_nobody_registered_has_no_logo(scene: LogoScene) -> None:
    """The domain decides it; the rows of such an application are made by its document."""
    service = await scene.postern.services.services.lookup.find(OrganizationId(scene.acme.id), "app")
    assert service is not None
    described = replace(service, service_type=ServiceType.METADATA)
    with pytest.raises(BadRequest, match="registered"):
        with_logo(described, "0f" * 32, service.updated_at)
    assert with_logo(described, None, service.updated_at) is described


async def test_of_two_logos_at_once_one_is_shown(scene: LogoScene) -> None:
    async with trio.open_nursery() as nursery:
        for size in (2, 3, 4):
            nursery.start_soon(partial(scene.put, drawn_png(size, size)))
    (row,) = scene.people.rows("select digest from service_logos")
    assert await scene.logo() == f"/logos/{row['digest']}"


async def test_a_logo_is_shown_while_application_and_organization_live(scene: LogoScene) -> None:
    logo = (await scene.put(drawn_png())).ok()["logo"]
    scene.people.change("update organizations set status = 'suspended' where slug = 'acme'")
    assert (await scene.client.get(logo)).status == 404
    scene.people.change("update organizations set status = 'active' where slug = 'acme'")
    assert (await scene.client.get(logo)).status == 200
    scene.people.change("update all_services set deleted_at = now() where slug = 'app' and org_id = %s", scene.acme.id)
    assert (await scene.client.get(logo)).status == 404


async def test_round_trips(scene: LogoScene) -> None:
    for ask in (partial(scene.put, drawn_png()), scene.remove):
        await ask()
        assert scene.log.events("request")[-1]["db_round_trips"] <= 5

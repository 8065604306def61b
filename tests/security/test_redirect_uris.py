"""Open redirects: an address is registered byte for byte as it was sent, or refused, by every endpoint, for every type of service."""

from collections.abc import Iterable
from typing import Any, Final

import pytest

from core.domain.services.services import ServiceType
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.domain.services.test_redirect_uris import GOOD, GOOD_ON_A_PHONE
from tests.hostile_uris import ALWAYS, FOR_THE_WEB
from tests.http import conftest as http
from tests.http.cast import Cast
from tests.http.client import Client, Received
from tests.http.people import People

database_url, postern, people, client = http.database_url, http.postern, http.people, http.client

SERVICES: Final = "/api/organizations/acme/services"
# Nobody makes a client by document here, and behind a proxy the hosts say where people come back to.
MADE: Final = tuple(one for one in ServiceType if one not in {ServiceType.METADATA, ServiceType.PROXY})


class RedirectUriScene(Cast):
    """Acme with a service of each type. Each service has one good redirect URI."""

    def __post_init__(self) -> None:
        super().__post_init__()
        acme = self.tenants.add("acme")
        self.speaker = self.resident(acme, "owner")
        for service_type in MADE:
            self.tenants.service(acme, service_type.value, service_type.value)
        self.people.change("update all_organizations set max_services = 100")
        self.people.change("update services set redirect_uris = '{https://app.example.com/callback}'")

    async def ask(self, method: str, path: str, body: dict[str, Any]) -> Received:
        return await self.request(method, SERVICES + path, body)

    async def is_refused(self, service_type: ServiceType, said: dict[str, Any], complaint: str) -> None:
        create = {"slug": "new", "name": "New", "service_type": service_type, **said}
        for answer in (await self.ask("PATCH", f"/{service_type}", said), await self.ask("POST", "", create)):
            assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), (service_type, said)
            assert answer.json()["error"].startswith(complaint), (service_type, said)

    def kept(self) -> set[tuple[str, tuple[str, ...], str | None, str | None]]:
        rows = self.people.rows("select slug, redirect_uris, device_activation_uri, initiate_login_uri from services")
        return {(row["slug"], tuple(row["redirect_uris"]), row["device_activation_uri"], row["initiate_login_uri"]) for row in rows}


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> RedirectUriScene:
    return RedirectUriScene(postern, people, client, log)


def hostile_to(service_type: ServiceType) -> Iterable[str]:
    return ALWAYS if service_type in {ServiceType.MOBILE, ServiceType.DESKTOP} else (*ALWAYS, *FOR_THE_WEB)


async def test_no_hostile_redirect_uri_is_registered(scene: RedirectUriScene) -> None:
    before = scene.kept()
    # Each type refuses all. Two types get the addresses in one list beside a good address, so that this takes one second, not four.
    for service_type in (ServiceType.WEB, ServiceType.MOBILE):
        for hostile in hostile_to(service_type):
            await scene.is_refused(service_type, {"redirect_uris": [hostile]}, "redirect_uris[0]: ")
    for service_type in (ServiceType.API, ServiceType.DESKTOP):
        good = ["https://app.example.com/callback"]
        answer = await scene.ask("PATCH", f"/{service_type}", {"redirect_uris": [*good, *hostile_to(service_type)][:100]})
        assert answer.status == 400
        for hostile in list(hostile_to(service_type))[::9]:
            await scene.is_refused(service_type, {"redirect_uris": [*good, hostile]}, "redirect_uris[1]: ")
    assert scene.kept() == before


async def test_no_hostile_page_is_registered(scene: RedirectUriScene) -> None:
    before = scene.kept()
    # A scheme of an application's own opens no page, so it is hostile here for phones too.
    for hostile in (*ALWAYS, *FOR_THE_WEB):
        await scene.is_refused(ServiceType.MOBILE, {"device_activation_uri": hostile}, "device_activation_uri: ")
        await scene.is_refused(ServiceType.MOBILE, {"initiate_login_uri": hostile}, "initiate_login_uri: ")
    assert scene.kept() == before


async def test_a_good_one_is_kept_and_given_back_byte_for_byte(scene: RedirectUriScene) -> None:
    for service_type in MADE:
        good = [*GOOD, *(() if service_type.is_confidential else GOOD_ON_A_PHONE)]
        said = {"redirect_uris": good, "device_activation_uri": good[5], "initiate_login_uri": good[5]}
        answer = await scene.ask("PATCH", f"/{service_type}", said)
        assert answer.status == 200, answer.body
        assert {name: answer.json()[name] for name in said} == said
        assert (service_type.value, tuple(good), good[5], good[5]) in scene.kept()


async def test_nothing_is_read_past_the_end_of_a_list(scene: RedirectUriScene) -> None:
    answer = await scene.ask("PATCH", "/web", {"redirect_uris": [["https://app.example.com/"]]})
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    for odd in ({"0": "https://app.example.com/"}, "https://app.example.com/", 7, True):
        answer = await scene.ask("PATCH", "/web", {"redirect_uris": odd})
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")

"""The metrics page over HTTP: its content, its readers, and its address."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from core.domain.secrets import Secret
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import MetricsApplication, PosternApplication, build_application
from entrypoints.http.routes import ROUTES
from entrypoints.http.scrapes import Scrapes
from tests.http.client import Client
from tests.http.conftest import SETTINGS

TOKEN = "a-token-for-scrapers"


class CountedPage:
    """A metrics page that takes a while to make, and contains its own number."""

    def __init__(self) -> None:
        self.made = 0

    def render(self) -> bytes:
        self.made += 1
        return b"%d" % self.made


@pytest.fixture
def asks_for_token(lonely_postern: Postern) -> Postern:
    return replace(
        lonely_postern, foundation=replace(lonely_postern.foundation, scrapes=Scrapes(lonely_postern.foundation.metrics, Secret(TOKEN)))
    )


def beside(postern: Postern) -> Client:
    """A client of the separate listener for metrics."""
    client = Client(build_application(postern, SETTINGS))
    client.application = MetricsApplication(postern)  # type: ignore[assignment]  # an ASGI application like the other
    return client


async def test_the_page_has_the_content_type_of_the_text_format(lonely_client: Client) -> None:
    answer = await lonely_client.get("/metrics")
    assert (answer.status, answer.header("content-type")) == (200, "text/plain; version=0.0.4")
    assert answer.body.startswith(b"# HELP ")


async def test_requests_are_counted_by_template_and_class_of_status(lonely_client: Client) -> None:
    for target in ("/health/live", "/health/live", "/api/user", "/wp-admin.php", "/docs", "/assets/x/y.css"):
        await lonely_client.get(target)
    await lonely_client.request("BREW", "/health")
    page = (await lonely_client.get("/metrics")).body.decode()
    for method, route, status, count in (
        ("GET", "/health/live", "2xx", 2),
        ("GET", "/api/user", "4xx", 1),
        ("GET", "unmatched", "4xx", 1),
        ("GET", "/docs", "2xx", 1),
        ("GET", "/assets/{digest}/{name}", "4xx", 1),
        ("OTHER", "/health", "4xx", 1),
    ):
        labels = f'method="{method}",route="{route}",status_class="{status}"'
        assert f"sso_http_request_duration_seconds_count{{{labels}}} {count}.0" in page
    # The scrape itself is the only request in flight.
    assert "sso_http_requests_in_flight 1.0" in page


async def test_strange_methods_and_paths_make_no_series_of_their_own(lonely_client: Client) -> None:
    for number in range(20):
        await lonely_client.request(f"M{number}", f"/nothing/{number}")
    page = (await lonely_client.get("/metrics")).body.decode()
    assert page.count("sso_http_request_duration_seconds_count") == 2  # these, and the one that the page starts with


def test_probes_and_scrapes_are_under_no_limit() -> None:
    open_ones = [one for one in ROUTES if one.path.startswith("/health") or one.path == "/metrics"]
    assert len(open_ones) == 4
    assert all(not one.limits for one in open_ones)


@pytest.mark.parametrize("served", [lambda services: Client(build_application(services, SETTINGS)), beside], ids=["here", "on its own"])
async def test_where_a_token_is_asked_for_only_who_brings_it_reads_the_page(
    asks_for_token: Postern, served: Callable[[Postern], Client]
) -> None:
    client = served(asks_for_token)
    for headers, challenge in (
        ([], "Bearer"),
        ([("authorization", "")], "Bearer"),
        ([("authorization", f"Basic {TOKEN}")], "Bearer"),
        ([("authorization", "Bearer")], 'Bearer error="invalid_token"'),
        ([("authorization", f"Bearer {TOKEN}x")], 'Bearer error="invalid_token"'),
        ([("authorization", f"Bearer {TOKEN[:-1]}")], 'Bearer error="invalid_token"'),
    ):
        refused = await client.get("/metrics", headers=headers)
        assert (refused.status, refused.header("www-authenticate")) == (401, challenge), headers
        assert b"sso_" not in refused.body
        assert TOKEN.encode() not in refused.body
    for scheme in ("Bearer", "bearer"):
        answer = await client.get("/metrics", headers=[("authorization", f"{scheme} {TOKEN}")])
        assert answer.status == 200
        assert b"sso_" in answer.body


async def test_the_page_is_made_once_a_second_however_many_ask() -> None:
    page, now = CountedPage(), 100.0
    scrapes = Scrapes(page, now=lambda: now)
    texts: list[bytes] = []

    async def ask() -> None:
        texts.append(await scrapes.text())

    for moment in (100.0, 100.9, 101.0, 101.99, 102.5):
        now = moment
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ask)
    assert texts == [b"1"] * 40 + [b"2"] * 40 + [b"3"] * 20


async def test_a_page_that_fails_once_is_made_again() -> None:
    class Failing(CountedPage):
        def render(self) -> bytes:
            if super().render() == b"1":
                raise OSError
            return b"made"

    scrapes = Scrapes(Failing(), now=lambda: 100.0)
    with pytest.raises(OSError):  # noqa: PT011 - the one raised above
        await scrapes.text()
    assert await scrapes.text() == b"made"


async def test_with_a_listener_of_its_own_the_page_is_found_there_and_nothing_else_is(lonely_postern: Postern) -> None:
    elsewhere = Client(PosternApplication(lonely_postern, replace(SETTINGS, metrics_elsewhere=True)))
    assert (await elsewhere.get("/metrics")).status == 404
    assert (await elsewhere.get("/health")).status == 200
    document: Any = (await elsewhere.get("/openapi.json")).json()
    assert "/metrics" not in document["paths"]
    own = beside(lonely_postern)
    answer = await own.get("/metrics")
    assert (answer.status, answer.header("content-type")) == (200, "text/plain; version=0.0.4")
    assert b"sso_http_requests_in_flight" in answer.body
    for path in ("/", "/health", "/docs", "/openapi.json", "/api/user", "/metrics/x"):
        assert (await own.get(path)).status == 404, path
    assert (await own.post("/metrics")).status == 405

"""The metrics page over HTTP."""

from entrypoints.http.application import ROUTES
from tests.http.client import Client


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
        ("GET", "/assets/<digest>/<name>", "4xx", 1),
        ("OTHER", "/health", "4xx", 1),
    ):
        labels = f'method="{method}",route="{route}",status_class="{status}"'
        assert f"sso_http_request_duration_seconds_count{{{labels}}} {count}.0" in page
    # The scrape itself is the one request in flight.
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

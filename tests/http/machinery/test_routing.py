"""The route that a path belongs to."""

import pytest

from entrypoints.http.machinery.endpoints import InvalidDeclaration
from entrypoints.http.machinery.routing import Router

TEMPLATES = [
    ("GET", "/"),
    ("GET", "/health"),
    ("GET", "/shops/{shop}"),
    ("PATCH", "/shops/{shop}"),
    ("GET", "/shops/new"),
    ("GET", "/shops/{shop}/orders/{id}"),
    ("GET", "/shops/new/terms"),
    ("GET", "/{page}/about"),
]


@pytest.fixture
def router() -> Router[str]:
    return Router((method, template, f"{method} {template}") for method, template in TEMPLATES)


@pytest.mark.parametrize(
    ("path", "template", "values"),
    [
        (b"/", "/", {}),
        (b"/health", "/health", {}),
        (b"/shops/acme", "/shops/{shop}", {"shop": "acme"}),
        (b"/shops/new", "/shops/new", {}),
        (b"/shops/n%65w", "/shops/new", {}),
        (b"/shops/new/terms", "/shops/new/terms", {}),
        (b"/shops/new/orders/7", "/shops/{shop}/orders/{id}", {"shop": "new", "id": "7"}),
        (b"/shops/a%2Fb/orders/%E2%82%AC", "/shops/{shop}/orders/{id}", {"shop": "a/b", "id": "€"}),
        (b"/shops/about", "/shops/{shop}", {"shop": "about"}),
        (b"/health/about", "/{page}/about", {"page": "health"}),
        (b"/shops/%2e%2e", "/shops/{shop}", {"shop": ".."}),
        (b"/shops/a+b", "/shops/{shop}", {"shop": "a+b"}),
        (b"http://elsewhere.example/health", "/health", {}),
        (b"https://elsewhere.example", "/", {}),
    ],
)
def test_a_path_finds_its_route_and_values(router: Router[str], path: bytes, template: str, values: dict[str, str]) -> None:
    route, found = router.find(path)
    assert route is not None
    assert (route.template, found) == (template, values)


@pytest.mark.parametrize(
    "path",
    [b"", b"*", b"health", b"/Health", b"/health/", b"//health", b"/shops", b"/shops/", b"/shops//orders/7", b"/shops/a/b", b"/shops/%FF",
     b"/shops/a%00b", b"/shops/\xff", b"/shops/a/orders/7/x", b"ftp://x/health"],
)  # fmt: skip
def test_a_path_of_no_route_finds_none(router: Router[str], path: bytes) -> None:
    assert router.find(path) == (None, {})


def test_a_route_knows_its_methods(router: Router[str]) -> None:
    route, _ = router.find(b"/shops/acme")
    assert route is not None
    assert route.allowed == ("GET", "HEAD", "PATCH", "OPTIONS")
    assert route.targets["HEAD"] == "GET /shops/{shop}"


def test_one_path_under_two_sets_of_names_is_refused() -> None:
    with pytest.raises(InvalidDeclaration, match="the same path"):
        Router([("GET", "/shops/{shop}", 1), ("PATCH", "/shops/{slug}", 2)])

"""A change keeps what it does not name: what the answer left out, such as secrets, and what the next request does not repeat. Each PATCH
of an organization's things is tried with each of its fields, and with everything that an answer had shown.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

from core.domain.identity.upstream.ldap.settings import LdapChange
from core.frozen import names_of
from entrypoints.bootstrap import Postern
from entrypoints.http.routes import ROUTES
from tests.http import conftest as http
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenants
from tests.security.organizations.walk import ORGANIZATION, SHOP, OrganizationWalker, Step
from tests.security.organizations.world import Row, World

database_url, postern, people = http.database_url, http.postern, http.people

_PROVIDER: Final = f"{ORGANIZATION}/upstream-providers/{{provider_id}}"
_ROUTE: Final = f"{ORGANIZATION}/domain-routes/{{domain_id}}"
_VALUES_OF: Final = f"{ORGANIZATION}/users/{{user_id}}/profile"
_USER: Final = "/api/service/users/{user_id}"
_NAMED: Final[Mapping[str, Mapping[str, str]]] = {
    f"{ORGANIZATION}/profile-fields/{{key}}": {"key": "department"},
    f"{SHOP}/proxy": {"service_slug": "app"},
}
# Values in place of the examples that name what this organization lacks.
_VALUES: Final[Mapping[tuple[str, str], Any]] = {
    (SHOP, "profile"): "standard",  # another sets what it holds, and ends codes (0209)
    (f"{SHOP}/claims/{{claim_id}}", "argument"): "department",
    (f"{SHOP}/roles/{{role_slug}}", "permissions"): ["read"],
    (f"{ORGANIZATION}/teams/{{team_slug}}", "role"): "clerk",
    (f"{ORGANIZATION}/members/{{user_id}}", "role"): "clerk",
    (_ROUTE, "upstream_provider_id"): "codehost",
    (f"{ORGANIZATION}/resource-servers/{{resource_id}}", "admitted_services"): ["app", "shop"],
    (f"{ORGANIZATION}/resource-servers/{{resource_id}}", "exchanges"): ["app", "shop"],
    (f"{SHOP}/user-key-settings", "resource"): "https://api.example/",
    (f"{SHOP}/proxy", "rules"): ["/public open", "/admin role editor"],
    (f"{ORGANIZATION}/scim/settings", "profile_mapping"): {"title": "department"},
    (_VALUES_OF, "values"): {"department": "Sales"},
    (_USER, "profile"): {"department": "Sales"},
    ("/api/service/subscriptions/{user_id}", "current_period_end"): "2096-04-01T00:00:00Z",
}
# Refused here, with the reason that a test of its own is about.
_REFUSED: Final = {
    (SHOP, "jwks_uri"): 400,  # its keys would be fetched
    (f"{SHOP}/proxy", "hosts"): 400,  # their domain is not proved
    (f"{ORGANIZATION}/trusted-issuers/{{rule_id}}", "jwks_uri"): 400,
    (f"{SHOP}/claims/{{claim_id}}", "source"): 400,  # no field has the argument that stands beside it
    (f"{ORGANIZATION}/scim/settings", "groups"): 400,  # the directory fills teams
    (f"{ORGANIZATION}/branding", "logo_url"): 400,  # its picture would be fetched
    (_USER, "email"): 403,  # the account is the person's own
    (f"{ORGANIZATION}/sign-in-rules", "mfa_policy"): 403,  # whoever asks for a second factor has one
    (f"{ORGANIZATION}/sign-in-rules", "admin_factor"): 403,
    (f"{ORGANIZATION}/sign-in-rules", "all_factor"): 403,
    (f"{ORGANIZATION}/sign-in-rules", "all_factor_role"): 400,  # the demand is none of those with a role
    **{
        (_PROVIDER, name): 400  # of a directory by SAML alone, or fetched
        for name in ("issuer", "sso_url", "slo_url", "slo_response_url", "slo_binding", "metadata_url", "preset", "subject_source")
    },
    **{(_PROVIDER, name): 400 for name in ("email_sources", "wants_encrypted", "requested_contexts", "certificates")},
    **{(_PROVIDER, name): 400 for name in (*names_of(LdapChange), "bind_password")},  # of a directory by LDAP alone
}
# The columns of one value: a route leads to a provider of the organization's own, or to one of the installation's.
_ONE_OF: Final = {(_ROUTE, "upstream_provider_id"): ("domain_routes", "own_provider")}
# Where the thing stands within its answer.
_WITHIN: Final = {ORGANIZATION: "organization", f"{ORGANIZATION}/members/{{user_id}}": "membership"}
# What the colour is too pale for follows from the colour.
_OF_THE_CHANGE: Final = frozenset(("updated_at", "last_used_at", "last_seen_at", "pale_uses"))
_RECORDS: Final = frozenset(
    (
        *("audit_entries", "audit_personal", "audit_links", "audit_pending", "events", "jobs", "webhook_deliveries", "sessions"),
        *("management_keys", "api_keys"),
        "relations",  # a right is a row of its own, which another right replaces
    )
)
_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})


@pytest.fixture
def world(postern: Postern, people: People) -> World:
    return World(postern, people)


@pytest.fixture
def walker(world: World, postern: Postern, people: People) -> OrganizationWalker:
    return OrganizationWalker(world, people, Tenants(postern, people), unlimited(postern))


# Its fields say together which texts change: `tests/http/tenancy/texts` says what stays.
_NO_FIELDS: Final = frozenset({f"{ORGANIZATION}/texts"})
_PATHS: Final = [
    one.path
    for one in ROUTES
    if one.method == "PATCH" and one.path not in _NO_FIELDS and ("org_slug" in one.path or one.path.startswith("/api/service/"))
]


def _step(method: str, path: str, body: Any = None) -> Step:
    return Step(method, path, body, by="key" if path.startswith("/api/service/") else "owner", ids=_NAMED.get(path))


async def _examples(postern: Postern, path: str) -> dict[str, Any]:
    """A value for each field of the body, from the API's own document."""
    document = (await unlimited(postern).get("/openapi.json")).json()
    told = document["paths"][path]["patch"]["requestBody"]["content"]["application/json"]["example"]
    return {name: _VALUES.get((path, name), value) for name, value in told.items()}


def _kept(rows: Iterable[Row]) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of things, by their table and by what names them for as long as they live."""
    kept = {}
    for table, _, text in rows:
        if table not in _RECORDS:
            row = json.loads(text)
            names = [str(value) for name, value in row.items() if name == "id" or (name.endswith("_id") and "id" not in row)]
            kept[table, " ".join(names)] = row
    return kept


def _changed(before: Iterable[Row], after: Iterable[Row]) -> dict[tuple[str, str], tuple[Any, Any]]:
    """The columns that another value has now."""
    old, new = _kept(before), _kept(after)
    return {
        (f"{place[0]}", name): (value, new.get(place, {}).get(name))
        for place, row in old.items()
        for name, value in row.items()
        if new.get(place, {}).get(name) != value and name not in _OF_THE_CHANGE
    }


async def _shown(walker: OrganizationWalker, path: str) -> dict[str, Any]:
    """The thing as its own answer shows it. Empty for what only a list shows."""
    answer = await walker.ask(_step("GET", path))
    told: dict[str, Any] = answer.json() if answer.status == 200 else {}
    return dict(told[_WITHIN[path]]) if path in _WITHIN else told


@pytest.mark.parametrize("path", _PATHS)
async def test_each_field_alone_and_all_that_was_shown(
    world: World, walker: OrganizationWalker, postern: Postern, people: People, path: str
) -> None:
    faults: list[tuple[Any, ...]] = []
    if path == f"{SHOP}/proxy":
        people.change("update all_services set service_type = 'proxy' where slug = 'app'")
    fields = await _examples(postern, path)
    for name, value in fields.items():
        shown, before = await _shown(walker, path), world.rows()
        answer = await walker.ask(_step("PATCH", path, {name: value}))
        assert answer.status == _REFUSED.get((path, name), 200), (name, answer.body)
        changed = _changed(before, world.rows())
        changed.pop(_ONE_OF.get((path, name), ("", "")), None)
        faults += [(name, place, old, new) for place, (old, new) in changed.items() if new in _NOTHING and value not in _NOTHING]
        if answer.status == 200:
            now = await _shown(walker, path)
            apart = {*_OF_THE_CHANGE, name}
            faults += [(name, other, shown[other], now[other]) for other in shown if other not in apart and shown[other] != now[other]]
        else:
            assert changed == {}
    shown, before = await _shown(walker, path), world.rows()
    again = {name: value for name, value in shown.items() if name in fields and (path, name) not in _REFUSED}
    if again:
        answer = await walker.ask(_step("PATCH", path, again))
        assert answer.status == 200, answer.body
        faults += [("all", place, *values) for place, values in _changed(before, world.rows()).items()]
    assert faults == []

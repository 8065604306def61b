"""SECURITY 58: an endpoint that names an organization in its body or query asks the same question as one that names it in its path.

The endpoints follow from the declarations. To a person without a tie, an organization that is there answers as one that is not, and no row,
count or entry of it changes. Doors for strangers stand here by name, with what each tells, and with the tables that it writes for the
organization. A new endpoint that names an organization fails the first test until it stands in one of the lists.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args
from urllib.parse import urlencode
from uuid import uuid4

import msgspec
import pytest

from entrypoints.bootstrap import Postern
from entrypoints.http.application import PAGES
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.routes import ROUTES
from ops.browser.page_reader import PageReader
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tab, Tabs
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, unlimited
from tests.security.organizations.test_console_pages import ConsoleWalk
from tests.security.organizations.world import Row, World

database_url, postern, people = http.database_url, http.postern, http.people

EMAIL: Final = "stranger@nowhere.example"
# The world has used others, and a version is used once.
VERSION: Final = "77"
CHALLENGE: Final = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
CLOSED: Final = {"sign_in_policy": "members", "redirect_uris": ["https://shop.example/callback"]}
# A part of a field's name: the field names an organization, or a thing that only an organization has.
_PARTS: Final = frozenset(
    {
        *("answers", "audience", "client", "connection", "invitation", "org", "organization", "organizations", "plan", "resource"),
        *("service", "services", "slug", "team", "tenant", "terms"),
    }
)


def _parts_of(kind: Any) -> Iterator[Any]:
    yield kind
    for one in get_args(kind):
        yield from _parts_of(one)


def _fields(kind: Any, seen: set[Any]) -> Iterator[str]:
    """The names of all fields, and of those within them."""
    for one in _parts_of(kind):
        if isinstance(one, type) and issubclass(one, msgspec.Struct) and one not in seen:
            seen.add(one)
            for each in msgspec.structs.fields(one):
                yield each.encode_name
                yield from _fields(each.type, seen)


def names_an_organization(one: Endpoint) -> bool:
    """In body or query. In the path, the caller rule asks for the tie."""
    if {"org_slug", "org_id"} & set(parameters(one.path)):
        return False
    named = (name for kind in (one.query_type, one.body_type) for name in _fields(kind, set()))
    return any(not _PARTS.isdisjoint(re.split(r"[_-]", name)) for name in named if "__" not in name)


NAMING: Final[Mapping[str, Endpoint]] = {str(one): one for one in (*ROUTES, *PAGES) if names_an_organization(one)}


@dataclass(frozen=True)
class AskedPlace:
    """What a person without a tie sends. Words in braces are the organization's, or those of one that is not there."""

    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NamedGate(AskedPlace):
    """A door for strangers, by intent."""

    tells: str = ""
    writes: frozenset[str] = frozenset()
    """The tables whose rows of the organization it may change, although it is closed to the stranger."""


ASKS_FOR_A_TIE: Final[Mapping[str, AskedPlace]] = {
    "GET /api/user/terms": AskedPlace(query={"organization": "{org}"}),
    "POST /api/user/terms": AskedPlace({"organization": "{org}", "version": VERSION}),
    "GET /ui/terms": AskedPlace(query={"organization": "{org}"}),
    "POST /ui/terms": AskedPlace({"terms": "{terms}", "organization": "{org}"}),
    "GET /api/user/profile": AskedPlace(query={"organization": "{org}"}),
    "PATCH /api/user/profile": AskedPlace({"organization": "{org}", "values": {"badge": "x"}}),
    "POST /ui/choose-organization": AskedPlace({"organization": "{org}"}),
    "POST /ui/organizations/invitations/{invitation_id}": AskedPlace(
        {"invitation": "{invitation}", "answer": "accept"}, ids={"invitation_id": "{invitation}"}
    ),
    # These are for platform owners, for applications with a key, and for whoever holds a link: a person is refused before the name is read.
    "POST /api/platform/impersonate/{user_id}": AskedPlace(
        {"reason": "x", "org_slug": "{org}", "service_slug": "shop"}, ids={"user_id": "{member}"}
    ),
    "PUT /api/platform/risk-policies": AskedPlace({"policies": [], "exceptions": []}),
    "POST /access/v1/evaluation": AskedPlace(
        {"subject": {"type": "user", "id": "{member}"}, "action": {"name": "x"}, "resource": {"type": "organization", "id": "{org}"}}
    ),
    "POST /access/v1/evaluations": AskedPlace(
        {"subject": {"type": "user", "id": "{member}"}, "action": {"name": "x"}, "resource": {"type": "organization", "id": "{org}"}}
    ),
    "POST /access/v1/search/subject": AskedPlace(
        {"subject": {"type": "user"}, "action": {"name": "x"}, "resource": {"type": "organization", "id": "{org}"}}
    ),
    "POST /access/v1/search/action": AskedPlace(
        {"subject": {"type": "user", "id": "{member}"}, "resource": {"type": "organization", "id": "{org}"}}
    ),
    "POST /api/service/subscriptions": AskedPlace({"user_id": "{member}", "plan_id": "{plan}"}),
    "POST /ui/platform/risk/rule": AskedPlace({"name": "x", "services": "{service}"}),
}
# The same, on the pages on the way of a sign-in, in their order.
ASKS_IN_A_FLOW: Final[Mapping[str, Mapping[str, str]]] = {
    "POST /ui/accept-terms": {"terms": "{terms}"},
    "POST /ui/confirm-membership": {"answers": "yes:{org_id}"},
}
_LOGS: Final = frozenset({"audit_entries", "audit_pending", "audit_personal", "events", "webhook_deliveries"})
DOORS: Final[Mapping[str, NamedGate]] = {
    "POST /api/auth/register": NamedGate(
        {
            "email": "new-{org}@nowhere.example",
            "password": PASSWORD,
            "org_slug": "{org}",
            "accept_terms": [{"organization": "{org}", "version": VERSION}],
        },
        tells="Whether the organization asks for terms, by their version; whether a service is there. The mail has its name and colour.",
        writes=frozenset({"terms_acceptances"}) | _LOGS,
    ),
    "GET /ui/register": NamedGate(
        query={"org_slug": "{org}"}, tells="The looks of an active organization, its terms, and who may register."
    ),
    "POST /ui/register": NamedGate(tells="As the page. It accepts the terms that the page has named, as the new account."),
    "POST /api/auth/resend-verification": NamedGate(
        {"email": EMAIL, "org_slug": "{org}"}, tells="Nothing: the mail has its name and colour."
    ),
    "POST /api/auth/forgot-password": NamedGate({"email": EMAIL, "org_slug": "{org}"}, tells="Nothing: the mail has its name and colour."),
    "GET /ui/forgot-password": NamedGate(query={"org_slug": "{org}"}, tells="The looks of an active organization."),
    "POST /api/auth/login": NamedGate(
        {"email": EMAIL, "password": PASSWORD, "org_slug": "{org}", "service_slug": "shop"},
        tells="Whether the service is there, and to who signs in, whether it lets them in. The organization sees the attempt.",
        writes=frozenset({"login_events", "login_event_pending", "sign_in_pending"}) | _LOGS,
    ),
    "POST /api/auth/passkeys": NamedGate(tells="As the sign-in by password."),
    "POST /api/auth/magic-link": NamedGate(
        {"email": EMAIL, "org_slug": "{org}", "service_slug": "shop", "redirect_uri": "https://shop.example/callback"},
        tells="Whether the service is there, and takes this address to send people back to. The mail has the looks of the organization.",
    ),
    "GET /ui/sign-in/link": NamedGate(query={"client_id": "{client}", "token": "x"}, tells="The looks of the application's organization."),
    "GET /auth/{provider}": NamedGate(
        query={"org": "{org}", "service": "shop", "redirect_uri": "https://shop.example/callback"},
        ids={"provider": "codehost"},
        tells="Whether the service is there, and takes this address to send people back to. It leads to the provider.",
        writes=frozenset({"flows"}),
    ),
    "GET /saml/sp/{connection_id}/start": NamedGate(
        query={"service": "shop"},
        ids={"connection_id": "{provider}"},
        tells="Whether the provider has such a service. It leads there.",
    ),
    "GET /oauth/authorize": NamedGate(
        query={
            "client_id": "{client}",
            "redirect_uri": "https://shop.example/callback",
            "response_type": "code",
            "scope": "openid",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        },
        tells="The application's name, its organization's looks, and whether it lets the person in. Its record keeps the refusal.",
        writes=frozenset({"flows", "authorization_refusals"}),
    ),
    "GET /oauth/logout": NamedGate(query={"client_id": "{client}"}, tells="The looks of the application's organization."),
    "POST /oauth/logout/confirm": NamedGate(tells="As the page."),
    "POST /auth/device/code": NamedGate(
        {"org": "{org}", "service": "shop", "client_id": "{client}"},
        tells="Whether the client is there: with its id alone, if it has no secret. It gives codes, which open nothing before a yes.",
        writes=frozenset({"device_codes"}),
    ),
    **{
        f"POST {path}": NamedGate(
            {"client_id": "{client}", "grant_type": "authorization_code", "code": "x", "token": "x"},
            tells="To whoever authenticates as the client, what is the client's. Without its secret, that the client is refused.",
            writes=frozenset({"authorization_refusals"}),
        )
        for path in ("/auth/token", "/oauth/token", "/oauth/introspect", "/auth/revoke", "/oauth/revoke")
    },
    "POST /oauth/par": NamedGate(
        {"client_id": "{client}", "response_type": "code", "redirect_uri": "https://shop.example/callback"},
        tells="As the authorization request, to whoever authenticates as the client.",
        writes=frozenset({"authorization_refusals"}),
    ),
    "POST /oauth/bc-authorize": NamedGate(
        {"client_id": "{client}", "scope": "openid", "login_hint": EMAIL},
        tells="As the authorization request, to whoever authenticates as the client.",
        writes=frozenset({"authorization_refusals"}),
    ),
    "POST /api/organizations": NamedGate(
        {"slug": "{org}", "name": "Mine"}, tells="Whether the slug is in use: slugs are unique, and stand in addresses of pages."
    ),
    "POST /ui/organizations/~new": NamedGate({"slug": "{org}", "name": "Mine"}, tells="As the endpoint."),
}
# The words of these mean something else.
NAMES_NONE: Final[Mapping[str, str]] = {
    "POST /oauth/register": "the name of a client that belongs to no organization",
    "POST /api/platform/providers": "the installation's id at a provider, and whether organizations may use it",
    "PATCH /api/platform/providers/{key}": "as above",
    "POST /ui/platform/providers/~new": "as above",
    "POST /ui/platform/providers/{key}/change": "as above",
    "POST /ui/platform/providers/{key}/protocol": "as above",
    "POST /ui/setup/of/{link_id}/connection/client": "the customer's id at its own provider; the link names the organization",
}


def test_each_endpoint_that_names_an_organization_asks_for_a_tie_or_is_a_door_by_intent() -> None:
    lists = (ASKS_FOR_A_TIE, ASKS_IN_A_FLOW, DOORS, NAMES_NONE)
    listed = [name for one in lists for name in one]
    assert len(listed) == len(set(listed)), "an endpoint stands in two lists"
    assert NAMING.keys() - set(listed) == set(), "these name an organization: ask for a tie, or say what the door tells and writes"
    assert set(listed) - NAMING.keys() == set(), "these are gone, or name nothing any more"
    assert all(door.tells for door in DOORS.values())


class Stranger:
    """Somebody with an account and a proved address, and no tie to the organization, of whose applications none lets anybody in."""

    def __init__(self, postern: Postern, people: People) -> None:
        self.people = people
        self.world = World(postern, people)
        self.house = self.world.asked
        self.client = unlimited(postern)
        self.walk = ConsoleWalk(self.world, people, postern)
        self.person: Person
        self.tabs: Tabs

    async def begin(self) -> "Stranger":
        self.person = await self.people.with_password(PASSWORD, EMAIL)
        owner = await self.people.token(self.people.session_of(self.house.owner))
        place = f"/api/organizations/{self.house.slug}"
        for one in self.people.rows("select slug from services where org_id = %s", self.house.tenant.id):
            answer = await self.client.request("PATCH", f"{place}/services/{one['slug']}", body=CLOSED, token=owner)
            assert answer.status == 200, answer.body
        terms = {"version": VERSION, "address": "https://terms.example/", "due_at": "2099-01-01T00:00:00Z"}
        (await self.client.request("PUT", f"{place}/terms", body=terms, token=owner)).ok()
        tab = await self.signs_in()
        assert tab.place == "/ui", tab.page.text
        self.tabs = tab.tabs
        self.token = await self.people.token(self.people.session_of(self.person))
        page = PageReader((await self.tabs.request("GET", "/ui/organizations/~new")).body)
        self.form_token = next(one.fields["form_token"] for one in page.forms if "slug" in one.fields or one.action.endswith("~new"))
        return self

    async def signs_in(self) -> Tab:
        tab = await Tabs(self.client).tab().open("/ui/sign-in")
        await tab.send(email=EMAIL)
        return await tab.send(password=PASSWORD)

    def real(self) -> Mapping[str, str]:
        kept = [(table, json.loads(text)) for table, _, text in sorted(self.theirs())]
        terms, plan, invitation, provider = (
            next(row["id"] for table, row in kept if table == wanted and not row.get("ended_at"))
            for wanted in ("terms", "plans", "invitations", "upstream_providers")
        )
        return {
            "org": self.house.slug,
            "org_id": str(self.house.tenant.id),
            "terms": terms,
            "service": str(self.house.shop.id),
            "client": self.house.client,
            "member": str(self.house.member.user),
            "plan": plan,
            "invitation": invitation,
            "provider": provider,
        }

    def gone(self) -> Mapping[str, str]:
        return {name: "not-there" if name == "org" else str(uuid4()) for name in self.real()}

    async def ask(self, one: Endpoint, asked: AskedPlace, named: Mapping[str, str]) -> Received:
        def filled(value: Any) -> Any:
            if isinstance(value, str):
                return value.format(**named)
            if isinstance(value, Mapping):
                return {name: filled(each) for name, each in value.items()}
            return [filled(each) for each in value] if isinstance(value, list) else value

        path = one.path.format(**filled(asked.ids)) + (f"?{urlencode(filled(asked.query))}" if asked.query else "")
        body = None if asked.body is None else filled(asked.body)
        if one.is_page:
            return await self.tabs.request(one.method, path, None if body is None else {**body, "form_token": self.form_token})
        headers = []
        if body is not None and isinstance(one.accepts, Form):
            body, headers = urlencode(body).encode(), [("content-type", one.accepts.media_type)]
        public = not path.startswith(("/api/user", "/api/organizations", "/api/platform", "/api/service", "/access"))
        return await self.client.request(one.method, path, body=body, headers=headers, token=None if public else self.token)

    def theirs(self) -> frozenset[Row]:
        return frozenset(row for row in self.world.rows() if row[1] == str(self.house.tenant.id))


_VARIES: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-Za-z_.-]{24,}"
)


def told(answer: Received, named: Mapping[str, str]) -> tuple[int, str, str]:
    """The answer without what was sent, and without times and ids."""
    text, place = answer.body.decode(), answer.header("location") or ""
    for value in sorted(named.values(), key=len, reverse=True):
        text, place = text.replace(value, "…"), place.replace(value, "…")
    return answer.status, _VARIES.sub("…", text), _VARIES.sub("…", place)


@pytest.fixture
async def stranger(postern: Postern, people: People, log: CapturedLog) -> Stranger:  # noqa: ARG001 - it fails for what is logged as an error
    return await Stranger(postern, people).begin()


async def test_without_a_tie_it_answers_as_one_that_is_not_there_and_nothing_of_it_changes(stranger: Stranger) -> None:
    wrong: list[str] = []
    for name, asked in ASKS_FOR_A_TIE.items():
        one, real, gone, before = NAMING[name], stranger.real(), stranger.gone(), stranger.theirs()
        there, nowhere = await stranger.ask(one, asked, real), await stranger.ask(one, asked, gone)
        # A request that is malformed asks nothing.
        assert there.status != 400, (name, there.body)
        if told(there, real) != told(nowhere, gone):
            wrong.append(f"{name}: {told(there, real)} where one that is not there says {told(nowhere, gone)}")
        if changed := {table for table, _, _ in before ^ stranger.theirs()}:
            wrong.append(f"{name} has changed {changed}")
        if stranger.house.slug.title().encode() in there.body:
            wrong.append(f"{name} names the organization")
    assert wrong == []


async def test_on_the_way_of_a_sign_in_neither(stranger: Stranger) -> None:
    """Another organization lists the person, and the installation asks for terms, so that the sign-in asks for both."""
    client, world, body = stranger.client, stranger.world, {"userName": EMAIL}
    (await client.request("POST", "/scim/v2/Users", body=body, token=world.others[0].directory)).ok(201)
    governor = await stranger.people.token(stranger.people.session_of(world.governor))
    terms = {"version": VERSION, "address": "https://terms.example/", "due_at": "2099-01-01T00:00:00Z"}
    (await client.request("PUT", "/api/platform/terms", body=terms, token=governor)).ok()
    before = stranger.theirs()
    for name, fields in ASKS_IN_A_FLOW.items():
        answers = []
        for named in (stranger.real(), stranger.gone()):
            tab = await stranger.signs_in()
            at = NAMING[name].path
            if not tab.place.startswith(at):
                await tab.send(0)
            assert tab.place.startswith(at), tab.place
            await tab.send(0, **{field: text.format(**named) for field, text in fields.items()})
            # The page of the account, to which a sign-in leads in the end, says when.
            answers.append((tab.status, tab.place.partition("?")[0], "" if tab.place == "/ui" else tab.page.text))
        assert answers[0] == answers[1], name
        assert stranger.theirs() == before, name


async def test_doors_for_strangers_write_no_more_than_they_say(stranger: Stranger) -> None:
    wrong: list[str] = []
    for name, door in DOORS.items():
        if door.body is None and not door.query:
            continue
        before = stranger.theirs()
        answer = await stranger.ask(NAMING[name], door, stranger.real())
        changed = {table for table, _, _ in before ^ stranger.theirs()}
        if not changed <= door.writes:
            wrong.append(f"{name} ({answer.status}) has changed {changed - door.writes}")
    assert wrong == []

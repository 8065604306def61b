"""The console's pages about the organizations of the world, and browsers of the people in it."""

from collections.abc import Mapping, Sequence
from typing import Final

from core.domain.tenancy.roles import BuiltInRole, Capability
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.console.pages import CONSOLE
from entrypoints.http.machinery.callers import CallerRule, MemberRule, SessionRule
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from tests.http.browsing import Tabs
from tests.http.client import Client
from tests.http.people import People, Person
from tests.http.tenants import Tenants
from tests.security.organizations.walk import named_in
from tests.security.organizations.world import FilledOrganization, World

COOKIE: Final = "__Host-postern_session"
ACTING: Final = "__Host-postern_acting"
OF_ORGANIZATION: Final = "/ui/o/{org_slug}"
OF_PLATFORM: Final = "/ui/platform"
# Parameters that only addresses of the console have, or that name something else there than in the API.
_NAMED: Final[Mapping[str, str]] = {
    "key": "department",
    # Own texts.
    "place": "sign_in",
    "language": "de",
    "page": "sign_in",
    "mail": "invitation",
    **dict.fromkeys(("job_id", "session_id"), "0199d3a0-0000-7000-8000-000000000001"),
}
_OF_PLATFORM: Final[Mapping[str, str]] = {"key_id": "management_keys", "entry_id": "audit_entries", "budget_id": "mail_budgets"}
# How the addresses of files end.
FILES: Final = ("/~export", "/~csv", "/~lines")
# Queries without which a page has little to show. A link fills the field of the search, and looks for nothing (`test_asking.py` asks).
QUERIES: Final[Mapping[str, str]] = {f"{OF_ORGANIZATION}/search": "?q=b"}
# Pages whose use case asks for more than the rule of their endpoint.
STRICTER: Final[Mapping[str, Capability]] = {f"{OF_ORGANIZATION}/people/{{user_id}}/fields": Capability.MEMBERS_MANAGE}


def pages_of(method: str, *, organization: bool = True) -> Sequence[Endpoint]:
    """The pages about an organization, or those about the installation."""
    return [one for one in CONSOLE if one.method == method and ("org_slug" in parameters(one.path)) is organization]


# What a page's script asks for and puts into the page.
PARTS: Final = ("/first-sign-in/now",)


def shown_in_windows() -> Sequence[Endpoint]:
    """The pages about an organization, without those that a browser saves as a file, and without parts of pages."""
    return [one for one in pages_of("GET") if not one.path.endswith((*FILES, *PARTS))]


def names_of(one: Endpoint, world: World, scene: FilledOrganization) -> Mapping[str, str]:
    """What the parameters of the path name. Below an address of the platform, they name something of the installation."""
    named = {**named_in(world, scene, one.path), **_NAMED}
    if one.path.startswith((OF_PLATFORM, "/api/platform")):
        named |= {"key": "badge"} | {name: str(world.of_platform[of]) for name, of in _OF_PLATFORM.items()}
    return named


def address(one: Endpoint, world: World, scene: FilledOrganization, **instead: str) -> str:
    named = {**names_of(one, world, scene), **instead}
    path = one.path
    for name in parameters(path):
        assert name in named, f"{one}: `_NAMED` of this module does not say what {name} names"
        path = path.replace(f"{{{name}}}", named[name])
    return path + QUERIES.get(one.path, "")


class Reader(Frozen):
    """Somebody with a session in a browser."""

    name: str
    tabs: Tabs
    capabilities: frozenset[Capability] | None = None
    """None for a person who is no member."""
    is_owner: bool = False
    is_impersonated: bool = False
    is_platform_owner: bool = False

    def is_admitted(self, one: Endpoint) -> bool:
        """By the words of the rule of the endpoint that the page offers."""
        rule: CallerRule = one.caller.of  # type: ignore[attr-defined]  # the rules of the console are made of those of its endpoints
        assert isinstance(rule, MemberRule | SessionRule)
        if self.is_impersonated and not rule.admitted.impersonated:
            return False
        if isinstance(rule, SessionRule):
            return self.is_platform_owner or not rule.platform_owner
        if self.capabilities is None or (rule.owner and not self.is_owner):
            return False
        return {rule.capability, STRICTER.get(one.path)} - {None} <= self.capabilities


class Readers:
    """Browsers of people in the organization that is asked, and of others."""

    def __init__(self, world: World, people: People, postern: Postern, client: Client) -> None:
        self._people, self._postern, self._client = people, postern, client
        tenants, scene = Tenants(postern, people), world.asked
        role = tenants.role(scene.tenant, "auditor", [Capability.AUDIT_LOGS_VIEW])
        auditor = tenants.join(people.add("auditor@people.example"), scene.tenant, role)
        owner, admin, member = (one.capabilities for one in BuiltInRole)
        opener, impersonated = people.session_of(world.governor), people.session_of(scene.admin)
        people.change(
            "update sessions set impersonator_id = %s, impersonation_id = %s, parent_id = %s, depth = 1 where id = %s",
            *(world.governor.user, postern.foundation.ids.new(), opener.session, impersonated.session),
        )
        self.owner = Reader(name="owner", tabs=self.browser(world.ada), capabilities=owner, is_owner=True)
        self.admin = Reader(name="admin", tabs=self.browser(scene.admin), capabilities=admin)
        self.member = Reader(name="member", tabs=self.browser(world.bob), capabilities=member)
        self.auditor = Reader(name="auditor", tabs=self.browser(auditor), capabilities=frozenset({Capability.AUDIT_LOGS_VIEW}))
        self.user = Reader(name="user of the shop", tabs=self.browser(world.cleo))
        self.stranger = Reader(name="administrator elsewhere", tabs=self.browser(world.others[0].admin))
        self.governor = Reader(name="platform owner", tabs=self.browser(world.governor), is_platform_owner=True)
        acting = self.browser(opener)
        acting.cookies[ACTING] = signed_in(postern, people, impersonated)
        self.acting = Reader(name="platform owner as admin", tabs=acting, capabilities=admin, is_impersonated=True)
        self.all = (self.owner, self.admin, self.member, self.auditor, self.user, self.stranger, self.governor, self.acting)

    def browser(self, person: Person) -> Tabs:
        tabs = Tabs(self._client)
        tabs.cookies[COOKIE] = signed_in(self._postern, self._people, person)
        return tabs


def signed_in(postern: Postern, people: People, person: Person) -> str:
    """The cookie of a browser that has the person's session."""
    cookie = postern.foundation.secrets.token()
    people.change("insert into browser_sessions (digest, session_id) values (%s, %s)", cookie.digest(), person.session)
    return cookie.reveal()

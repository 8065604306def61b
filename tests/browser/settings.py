"""The five settings in which pages are looked at. Each kind of page, one for each handler, is visited in one of them in turn; forty, which
people see most, are visited in all.
"""

from collections.abc import Sequence
from typing import Final

from core.domain.languages import Language
from core.frozen import Frozen
from entrypoints.http.application import PAGES
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from ops.browser.page import NARROW, WIDE, Page, Scheme
from tests.browser.checks import EVERY
from tests.security.organizations.console import OF_ORGANIZATION, OF_PLATFORM


class Setting(Frozen):
    name: str
    width: int
    scheme: Scheme = "light"
    language: Language = Language.ENGLISH

    async def show(self, page: Page) -> None:
        """From the next page on."""
        await page.show(width=self.width, scheme=self.scheme, language=self.language.value)


SETTINGS: Final = (
    Setting(name="1280", width=WIDE),
    Setting(name="390", width=NARROW),
    Setting(name="dark", width=WIDE, scheme="dark"),
    # The console speaks English then, as it speaks four languages alone.
    Setting(name="Arabic", width=NARROW, language=Language.ARABIC),
    # Of a window of 1280 pixels, so many are left for a page.
    Setting(name="200%", width=WIDE // 2),
)
FORTY: Final = frozenset(
    {
        *(
            f"{OF_ORGANIZATION}{place}"
            for place in (
                "",
                "/ends-soon",
                "/search",
                "/people",
                "/people/{user_id}",
                "/people/invitations/~new",
                "/people/teams/{team_slug}",
                "/people/roles/~new",
                "/applications",
                "/applications/~new",
                "/applications/{service_slug}",
                "/applications/{service_slug}/sign-in",
                "/applications/{service_slug}/access",
                "/applications/{service_slug}/tokens",
                "/applications/{service_slug}/proxy",
                "/directories",
                "/directories/~new",
                "/directories/{provider_id}",
                "/directories/domains/{domain_id}",
                "/sign-ins",
                "/sign-in",
                "/sign-in/risk",
                "/events",
                "/events/~new",
                "/keys/~new",
                "/audit-log",
                "/settings",
                "/settings/looks",
                "/settings/texts",
            )
        ),
        *(
            f"{OF_PLATFORM}{place}"
            for place in ("", "/organizations", "/organizations/{org_id}", "/providers", "/providers/~new", "/health")
        ),
        *("/ui", "/ui/profile", "/ui/second-factor", "/ui/organizations", "/ui/applications"),
    }
)


def settings_of(path: str, number: int) -> Sequence[Setting]:
    """In which settings a test visits the page of this handler."""
    return SETTINGS if EVERY or path in FORTY else SETTINGS[number % len(SETTINGS) :][:1]


def of_ones_own() -> Sequence[Endpoint]:
    """The pages that lead to nothing else: those of a person's own, and those for whoever signs in, registers or answers a link."""
    console = (OF_ORGANIZATION, OF_PLATFORM)
    return [one for one in PAGES if one.method == "GET" and one.path.startswith("/ui") and not one.path.startswith(console)]


def own_address(one: Endpoint, named: dict[str, str]) -> str:
    """With what the path names; nothing is there under a name that nobody gave."""
    path = one.path
    for name in parameters(path):
        path = path.replace(f"{{{name}}}", named.get(name, "none"))
    return path

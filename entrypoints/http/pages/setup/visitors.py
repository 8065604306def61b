"""Caller rules of the pages behind a set-up link. The browser that pressed the button owns the link, by a cookie of its own. Whoever holds
the link alone sees the page with the button, or learns why there is none.
"""

from typing import Final
from uuid import UUID

from core.domain.errors import Refusal
from core.domain.identifiers import SetupLinkId
from core.domain.secrets import Token
from core.domain.tenancy.setup import KnownSetupLink, SetupLinkRefused, SetupLinkUnknown
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browser_cookies import setup_secret
from entrypoints.http.machinery.callers import CallerRule, SecurityScheme
from entrypoints.http.machinery.calls import Request


class _SetupBrowser:
    """Any browser, before it owns a link."""

    name = "setup_browser"
    scheme: SecurityScheme | None = None
    refuses: tuple[type[Refusal], ...] = (SetupLinkRefused, SetupLinkUnknown)
    reads: tuple[str, ...] = ()

    def owes_limit(self, _method: str) -> bool:
        return True

    async def admit(self, request: Request, postern: Postern) -> KnownSetupLink | None:  # noqa: ARG002 - the other rule looks the link up
        return None

    def secret(self, request: Request, postern: Postern, flow: str) -> tuple[Token, str] | None:  # noqa: ARG002 - only flows need it
        secret = setup_secret(request, postern.foundation.public_url)
        return None if secret is None else (secret, "setup")

    def former_secret(self, request: Request, postern: Postern) -> tuple[Token, str] | None:  # noqa: ARG002
        return None


class _SetupVisitor(_SetupBrowser):
    """The browser that owns the link of the path. In the audit log the link acts, under its own name."""

    name = "setup_visitor"
    reads = ("link_id",)

    async def admit(self, request: Request, postern: Postern) -> KnownSetupLink:
        try:
            link = SetupLinkId(UUID(request.path_values["link_id"]))
        except ValueError:
            raise SetupLinkUnknown from None
        known = await postern.tenancy.setup_links.enter(link, setup_secret(request, postern.foundation.public_url))
        request.acting_key = known.link.acting
        request.spoken = known.branding.languages
        return known


SETUP_BROWSER: Final[CallerRule] = _SetupBrowser()
SETUP_VISITOR: Final[CallerRule] = _SetupVisitor()

"""The applications: one of declared endpoints and pages, and one on the address of `POSTERN_METRICS_BIND`, with `/metrics` alone."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from core.domain.identity.passkeys import RelyingParty
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.console.pages import CONSOLE
from entrypoints.http.console.platform.people import stop_acting
from entrypoints.http.description.description import Description
from entrypoints.http.machinery.addresses import ClientAddresses, Network
from entrypoints.http.machinery.answers import CrossOrigin, security_headers
from entrypoints.http.machinery.dispatch import Dispatcher, Routes
from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.machinery.errors import OURS, Refusing
from entrypoints.http.machinery.limits import Limiter
from entrypoints.http.pages import accounts, device, directory, look_pages, mailed, newcomers, pictures, proxied, setup
from entrypoints.http.pages.account import connections, details, devices, factors, organizations, overview_pages, profile_pages, terms
from entrypoints.http.pages.account.connections import application_pages
from entrypoints.http.pages.account.factors import own_passkey_pages
from entrypoints.http.pages.account.organizations import membership_pages
from entrypoints.http.pages.authorization import authorization_pages, interim_pages, logout_pages
from entrypoints.http.pages.development import MailPages
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import NO_SUCH_PAGE, PLAIN
from entrypoints.http.pages.mailed import address_proof_pages, invitation_pages
from entrypoints.http.pages.saml import logout_pages as saml_logout_pages
from entrypoints.http.pages.saml import open_pages as saml_open_pages
from entrypoints.http.pages.saml import sign_in_pages as saml_sign_in_pages
from entrypoints.http.pages.setup import connection_pages as setup_connection_pages
from entrypoints.http.pages.setup import part_pages
from entrypoints.http.pages.sign_in import (
    after_sign_in_pages,
    bound_sessions,
    passkey_pages,
    registration_pages,
    sign_in_link_pages,
    sign_in_pages,
    sign_out_pages,
    upstream_pages,
)
from entrypoints.http.quart_application import DispatchedApplication, with_routes
from entrypoints.http.request_spans import RequestSpans
from entrypoints.http.routes import ROUTES, metrics

METRICS_ROUTES: Final = Endpoints.of(metrics)
_METRICS_DEADLINE: Final = 30.0


class MetricsApplication(DispatchedApplication):
    def __init__(self, postern: Postern) -> None:
        super().__init__(with_routes(METRICS_ROUTES))
        common = security_headers(https=False)
        self.dispatcher = Dispatcher(
            Routes(tuple(METRICS_ROUTES), common, body_limit=0),
            postern,
            # The application has no pages, so browsers also get errors in JSON.
            people=Refusing(OURS, common),
            origin="",
            addresses=ClientAddresses(()),
            cross_origin=CrossOrigin(()),
            limiter=None,
            deadline=_METRICS_DEADLINE,
            most_requests=1,
        )


_ACCOUNT_AND_FLOW_PAGES: Final = Endpoints.of(
    pictures,
    mailed,
    address_proof_pages,
    invitation_pages,
    after_sign_in_pages,
    sign_in_pages,
    passkey_pages,
    bound_sessions,
    sign_in_link_pages,
    upstream_pages,
    directory,
    interim_pages,
    sign_out_pages,
    registration_pages,
    newcomers,
    membership_pages,
    details,
    own_passkey_pages,
    terms,
    authorization_pages,
    accounts,
    saml_sign_in_pages,
    saml_open_pages,
    saml_logout_pages,
    proxied,
    logout_pages,
    device,
    setup,
    part_pages,
    setup_connection_pages,
    overview_pages,
    profile_pages,
    factors,
    devices,
    organizations,
    application_pages,
    connections,
    look_pages,
)
PAGES: Final = Endpoints([*_ACCOUNT_AND_FLOW_PAGES, stop_acting, *CONSOLE])
"""Pages for people. Pages are no part of the API."""


class HttpSettings(Frozen, kw_only=True):
    base_url: str
    frontend_url: str
    version: str
    trusted_proxies: Sequence[Network] = ()
    cors_origins: Sequence[str] = ()
    rate_limits: bool = True
    body_limit: int = 64 << 10
    request_deadline: float = 30.0
    most_requests: int = 512
    # When true, `/metrics` has a listener of its own, and this application answers 404 there.
    metrics_elsewhere: bool = False
    # When mail goes into this directory, `/dev/mail` shows it.
    mail_directory: Path | None = None


class _Served:
    """The endpoints and routes. They are independent of the services behind them, so several applications can share them."""

    def __init__(self, described: Endpoints, *, base_url: str, version: str, body_limit: int) -> None:
        self.endpoints: Final = Description(described, shipped_pages(), base_url=base_url, version=version).endpoints
        self.routes: Final = Routes(tuple(self.endpoints), security_headers(https=base_url.startswith("https://")), body_limit)
        self.registered: Final = with_routes(self.endpoints)


# Registering hundreds of routes takes most of the time of making an application. A process makes one application, but the tests make
# thousands, mostly with the same routes, so the result is cached.
@lru_cache(maxsize=8)
def _served(routes: Endpoints, *, base_url: str, version: str, body_limit: int, metrics_elsewhere: bool, mail: Path | None) -> _Served:
    if metrics_elsewhere:
        routes = routes.without(METRICS_ROUTES)
    mails = () if mail is None else MailPages(shipped_pages(), mail).endpoints
    return _Served(Endpoints([*routes, *PAGES, *mails]), base_url=base_url, version=version, body_limit=body_limit)


class PosternApplication(DispatchedApplication):
    def __init__(self, postern: Postern | None, settings: HttpSettings, routes: Endpoints = ROUTES) -> None:
        """Without `postern`, the lifespan opens it and calls `serve`."""
        self._served: Final = _served(
            routes,
            base_url=settings.base_url,
            version=settings.version,
            body_limit=settings.body_limit,
            metrics_elsewhere=settings.metrics_elsewhere,
            mail=settings.mail_directory,
        )
        super().__init__(self._served.registered)
        self._settings: Final = settings
        self.endpoints: Final = self._served.endpoints
        # The limit of Quart's stock connection class must not be below any limit of ours.
        self.config["MAX_CONTENT_LENGTH"] = max(self.config["MAX_CONTENT_LENGTH"], settings.body_limit)
        if postern is not None:
            self.serve(postern)

    def serve(self, postern: Postern) -> None:
        """Answer requests from now on."""
        settings, routes = self._settings, self._served.routes
        party = postern.identity.passkeys.relying_party
        shipped_pages().speak_for(postern.foundation.installation_words)
        shipped_pages().passkeys_elsewhere = party.id if isinstance(party, RelyingParty) and party.is_related else ""
        addresses, tracing = ClientAddresses(settings.trusted_proxies), postern.foundation.tracing
        self.dispatcher = Dispatcher(
            routes,
            postern,
            people=Refusing(NO_SUCH_PAGE, routes.common_headers, PLAIN),
            origin=settings.base_url,
            addresses=addresses,
            cross_origin=CrossOrigin(settings.cors_origins),
            limiter=Limiter(postern.foundation.shared_buckets, postern.foundation.metrics) if settings.rate_limits else None,
            deadline=settings.request_deadline,
            most_requests=settings.most_requests,
            spans=None if tracing is None else RequestSpans(tracing.traces, addresses, heeds_proxies=postern.settings.traces_from_proxies),
        )


def build_application(postern: Postern, settings: HttpSettings) -> PosternApplication:
    return PosternApplication(postern, settings)

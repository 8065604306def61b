"""The application: the declared endpoints, and around them Quart with its pages, put together from services and settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope
from quart import Response
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from core.domain.errors import BadRequest, NotFound, PayloadTooLarge, Refusal, UnsupportedMediaType
from entrypoints.bootstrap import Services
from entrypoints.http.addresses import ClientAddresses, Network
from entrypoints.http.cors import CrossOrigin
from entrypoints.http.decoding import Receive
from entrypoints.http.description import Description
from entrypoints.http.dispatch import Dispatcher, Send
from entrypoints.http.endpoints import Endpoints
from entrypoints.http.errors import BodyTimeout, headers_of, refusal_of, status_of
from entrypoints.http.headers import api_headers, security_headers
from entrypoints.http.invitation_pages import InvitationPages
from entrypoints.http.limits import Limiter
from entrypoints.http.page_guard import LONGEST_FORM, PageGuard
from entrypoints.http.pages import shipped_pages
from entrypoints.http.password_pages import PasswordPages
from entrypoints.http.routes import (
    accounts,
    api_keys,
    audit,
    client_secrets,
    devices,
    end_users,
    governance,
    health,
    impersonation,
    invitations,
    keys,
    members,
    metrics,
    mfa,
    organizations,
    passwords,
    plans,
    platform_users,
    roles,
    service_info,
    service_subscriptions,
    service_users,
    services,
    sessions,
    sign_in,
    subscriptions,
)

ROUTES: Final = Endpoints.of(
    health,
    metrics,
    keys,
    accounts,
    passwords,
    devices,
    mfa,
    sign_in,
    sessions,
    impersonation,
    services,
    client_secrets,
    api_keys,
    plans,
    subscriptions,
    service_users,
    service_subscriptions,
    service_info,
    end_users,
    organizations,
    members,
    roles,
    invitations,
    governance,
    platform_users,
    audit,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    base_url: str
    frontend_url: str
    version: str
    trusted_proxies: Sequence[Network] = ()
    cors_origins: Sequence[str] = ()
    rate_limits: bool = True
    body_limit: int = 64 << 10
    request_deadline: float = 30.0
    most_requests: int = 512


class PosternApplication(QuartTrio):
    """Serves declared endpoints from the ASGI call itself; Quart makes its request objects for pages only."""

    def __init__(self, services: Services, settings: HttpSettings, routes: Endpoints = ROUTES) -> None:
        super().__init__(__name__, static_folder=None)
        self.config["MAX_CONTENT_LENGTH"] = min(LONGEST_FORM, settings.body_limit)
        description = Description(routes, shipped_pages(), base_url=settings.base_url, version=settings.version)
        self.endpoints: Final = description.endpoints
        common = security_headers(https=settings.base_url.startswith("https://"))
        self._error_headers = api_headers(common, None)
        limiter = Limiter(services.shared_buckets, services.metrics) if settings.rate_limits else None
        self._dispatcher = Dispatcher(
            tuple(self.endpoints),
            services,
            self,
            addresses=ClientAddresses(settings.trusted_proxies),
            cross_origin=CrossOrigin(settings.cors_origins),
            limiter=limiter,
            common_headers=common,
            body_limit=settings.body_limit,
            deadline=settings.request_deadline,
            most_requests=settings.most_requests,
        )
        # `/docs/` is `/docs`.
        self.url_map.strict_slashes = False
        self._map = self.url_map.bind("")
        self.register_error_handler(HTTPException, self._answer_http_exception)
        self.register_error_handler(Exception, self._answer_error)
        description.add_to(self)
        guard = PageGuard(shipped_pages(), limiter, settings.base_url)
        PasswordPages(shipped_pages(), services.account_passwords).add_to(self, guard)
        InvitationPages(shipped_pages(), services.invitations).add_to(self, guard)

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "http":
            await self._dispatcher(scope, receive, cast("Send", send))
        else:
            await super().__call__(scope, receive, send)

    def find(self, path: str) -> tuple[str, tuple[str, ...]] | None:
        # Empty also for a path that Werkzeug would redirect to a tidier one: its Location would be made of the Host header.
        methods = sorted(self._map.allowed_methods(path))
        if not methods:
            return None
        try:
            rule, _ = self._map.match(path, method=methods[0], return_rule=True)
        except RequestRedirect:
            return None  # `/docs//` has methods and is redirected all the same
        return str(rule.rule), tuple(methods)

    async def serve(self, scope: Any, receive: Receive, send: Send) -> None:
        await super().__call__(scope, receive, cast("ASGISendCallable", send))

    async def _answer_http_exception(self, error: HTTPException) -> Response:
        return self._answer_refusal(_refusal_for(error))

    async def _answer_error(self, error: Exception) -> Response:
        return self._answer_refusal(refusal_of(error))

    def _answer_refusal(self, refusal: Refusal) -> Response:
        response = Response(self._dispatcher.error_body(refusal), status=status_of(refusal), content_type="application/json")
        for name, value in (*self._error_headers, *headers_of(refusal)):
            response.headers[name.decode()] = value.decode()
        return response


def _refusal_for(error: HTTPException) -> Refusal:
    match error.code:
        case 404:
            return NotFound()
        case 408:
            return BodyTimeout()
        case 413:
            return PayloadTooLarge()
        case 415:
            return UnsupportedMediaType()
        case _:
            return BadRequest()


def build_application(services: Services, settings: HttpSettings) -> PosternApplication:
    return PosternApplication(services, settings)

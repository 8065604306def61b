"""Django: every request needs an access token, but those to views that say `@open_to_anyone`.

    # settings.py
    MIDDLEWARE = ["django_guard.guard", ...]
    POSTERN_TOKENS = Tokens("https://id.example.com", audience=["service:acme/shop"], ids=[SERVICE_ID, ORG_ID])

    # views.py
    @needs("payments:write", max_age=300)
    def pay(request): return JsonResponse({"by": request.claims["sub"]})

    # urls.py, with a view that is a class
    path("health", open_to_anyone(Health.as_view()))

There is no list of paths: Django finds the view first, and then the view decides.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import quote

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from postern_tokens import Refused, require


def guard(get_response: Callable[[HttpRequest], HttpResponse]) -> Any:
    def middleware(request: HttpRequest) -> HttpResponse:
        return get_response(request)

    def process_view(request: HttpRequest, view: Any, _arguments: Any, _named: Any) -> HttpResponse | None:
        if getattr(view, "is_open_to_anyone", False):
            return None
        given, proof = request.META.get("HTTP_AUTHORIZATION"), request.META.get("HTTP_DPOP")
        try:
            # WSGI servers join several headers by a comma, which no token has.
            heads = [[] if one is None else one.split(",") for one in (given, proof)]
            request.claims = settings.POSTERN_TOKENS.claims(*heads, request.method or "", quote(request.path, "/!$&'()*+,;=:@"))
        except Refused as refused:
            return refusal(refused)
        return None

    def process_exception(_request: HttpRequest, error: Exception) -> HttpResponse | None:
        return refusal(error) if isinstance(error, Refused) else None

    middleware.process_view, middleware.process_exception = process_view, process_exception  # type: ignore[attr-defined]
    return middleware


def refusal(refused: Refused) -> HttpResponse:
    headers = {"WWW-Authenticate": refused.challenge, "Cache-Control": "no-store"}
    return JsonResponse(refused.body, status=refused.status, headers=headers)


def open_to_anyone(view: Any) -> Any:
    """The mark is on a function of its own: at its other addresses, the view stays closed."""

    @wraps(view)
    async def awaited(request: HttpRequest, *arguments: Any, **named: Any) -> Any:
        return await view(request, *arguments, **named)

    @wraps(view)
    def called(request: HttpRequest, *arguments: Any, **named: Any) -> Any:
        return view(request, *arguments, **named)

    opened: Any = awaited if iscoroutinefunction(view) else called
    opened.is_open_to_anyone = True
    return opened


def needs(*scopes: str, max_age: int | None = None, two_factors: bool = False) -> Callable[[Any], Any]:
    def decorated(view: Any) -> Any:
        @wraps(view)
        def checked(request: HttpRequest, *arguments: Any, **named: Any) -> Any:
            require(getattr(request, "claims", None), *scopes, max_age=max_age, two_factors=two_factors)
            return view(request, *arguments, **named)

        return checked

    return decorated

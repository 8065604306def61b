"""Flask: every request needs an access token, but those to views that say `@open_to_anyone`.

    guard(app, Tokens("https://id.example.com", audience=["service:acme/shop"], ids=[SERVICE_ID, ORG_ID]))

    @app.get("/health")
    @open_to_anyone
    def health(): ...

    @app.post("/payments")
    @needs("payments:write", max_age=300)
    def pay(): return {"by": g.claims["sub"]}

There is no list of paths: Flask's router finds the view first, and then the view decides. Both decorators go below `@app.route`.
"""

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any
from urllib.parse import quote

from flask import Flask, g, jsonify, request
from flask.typing import ResponseReturnValue
from postern_tokens import Refused, Tokens, require


def guard(app: Flask, tokens: Tokens) -> None:
    def check() -> None:
        view = app.view_functions.get(request.endpoint or "")
        if not getattr(view, "is_open_to_anyone", False):
            given, proofs = (request.headers.getlist(name) for name in ("Authorization", "DPoP"))
            # WSGI servers join several headers by a comma, which no proof has.
            g.claims = tokens.claims(
                given, ",".join(proofs).split(",") if proofs else (), request.method, quote(request.path, "/!$&'()*+,;=:@")
            )

    def refuse(refused: Refused) -> ResponseReturnValue:
        return jsonify(refused.body), refused.status, {"WWW-Authenticate": refused.challenge, "Cache-Control": "no-store"}

    # Before anything that the application registered earlier.
    app.before_request_funcs.setdefault(None, []).insert(0, check)
    app.register_error_handler(Refused, refuse)


def open_to_anyone(view: Any) -> Any:
    """The mark is on a function of its own: at its other addresses, the view stays closed."""

    @wraps(view)
    async def awaited(*arguments: Any, **named: Any) -> Any:
        return await view(*arguments, **named)

    @wraps(view)
    def called(*arguments: Any, **named: Any) -> Any:
        return view(*arguments, **named)

    opened: Any = awaited if iscoroutinefunction(view) else called
    opened.is_open_to_anyone = True
    return opened


def needs(*scopes: str, max_age: int | None = None, two_factors: bool = False) -> Callable[[Any], Any]:
    def decorated(view: Any) -> Any:
        @wraps(view)
        def checked(*arguments: Any, **named: Any) -> Any:
            require(g.get("claims"), *scopes, max_age=max_age, two_factors=two_factors)
            return view(*arguments, **named)

        return checked

    return decorated

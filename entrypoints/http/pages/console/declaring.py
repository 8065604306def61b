"""`console.get` and `console.post` declare pages of the console. A page names the endpoint that it offers, and takes caller, limits, fresh
proof and refusals from the endpoint's declaration.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.browsers import in_browser
from entrypoints.http.machinery.callers import CallerRule
from entrypoints.http.machinery.endpoints import Endpoint, Handler
from entrypoints.http.machinery.headers import PagePolicy
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.routes.configuration.kinds import ObjectKind
from entrypoints.http.routes.configuration.managed import kind_offered, mark_of

LONG_FORM: Final = Form(limit=64 << 10, most_fields=300)


def _marked(handler: Handler, kind: ObjectKind) -> Handler:
    """The page says whether a configuration document manages its object: a change by hand lasts until the document is applied again."""

    @wraps(handler)
    async def marked(call: Any, postern: Postern) -> Any:
        call.request.managed = await mark_of(postern, kind, call.request.path_values)
        answer = handler(call, postern)
        return await answer if inspect.isawaitable(answer) else answer

    return marked


class Console:
    """The pages of the console, and the endpoints that each page offers."""

    def __init__(self) -> None:
        self.offers: dict[str, tuple[Endpoint, ...]] = {}
        """By the page, as `GET /ui/o/{org_slug}/people`."""

    def get(
        self, path: str, *, of: Endpoint | CallerRule, also: Sequence[Endpoint] = (), policy: PagePolicy = WITH_FORM, **stated: Any
    ) -> Callable[[Handler], Endpoint]:
        """A page that shows what the endpoint `of` answers, or the form for it. `also` has further endpoints that the page offers. A page
        that no endpoint stands for names its rule.
        """
        return self._declared(page.get, path, of, also, {"limit": PAGE_LOADS, "policy": policy, **stated})

    def post(
        self, path: str, *, of: Endpoint | CallerRule, also: Sequence[Endpoint] = (), policy: PagePolicy = WITH_FORM, **stated: Any
    ) -> Callable[[Handler], Endpoint]:
        """A form that calls the endpoint `of`."""
        limits = of.limits if isinstance(of, Endpoint) else ()
        if isinstance(of, Endpoint) and of.attempt is not None:
            stated["attempt"] = of.attempt
        return self._declared(page.post, path, of, also, {"limit": (PAGE_STEPS, *limits), "policy": policy, "accepts": LONG_FORM, **stated})

    def _declared(
        self, declare: Any, path: str, of: Endpoint | CallerRule, also: Sequence[Endpoint], stated: dict[str, Any]
    ) -> Callable[[Handler], Endpoint]:
        offered = (of, *also) if isinstance(of, Endpoint) else tuple(also)
        rule = of.caller if isinstance(of, Endpoint) else of
        if isinstance(of, Endpoint):
            stated.setdefault("refuses", of.stated_refusals)
            if of.step_up is not None:
                stated["step_up"] = of.step_up

        kind = kind_offered(of, path) if isinstance(of, Endpoint) else None

        def declared(handler: Handler) -> Endpoint:
            shown: Endpoint = declare(path, caller=in_browser(rule), **stated)(handler if kind is None else _marked(handler, kind))
            self.offers[str(shown)] = offered
            return shown

        return declared


console: Final = Console()


def offers() -> Mapping[str, tuple[Endpoint, ...]]:
    """The endpoints that each page of the console offers."""
    return console.offers

"""What is set of an application behind a proxy: its hosts, what each path asks for, what the application is told; and a try of a path."""

from typing import Any, Final

import msgspec

from core.domain.errors import Refusal
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import listed, listed_in_words, number
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Asked, shape
from entrypoints.http.console.kit.resource_pages import record_page, section_pages
from entrypoints.http.console.kit.resources import Resource, Section
from entrypoints.http.console.kit.sent_forms import explained
from entrypoints.http.console.kit.undo import undo_pages
from entrypoints.http.console.kit.visit import NO_ERRORS, Head, Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications import APPLICATION_LIST, slug_of
from entrypoints.http.console.organization.applications.proxy.proxy_rows import (
    HEADER_ROWS,
    RULE_ROWS,
    demand_in_words,
    header_rows,
    headers_of,
    headers_said,
    rule_rows,
    rules_of,
    rules_said,
)
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, ServicePath
from entrypoints.http.routes.services.proxies import change_proxy, get_proxy, preview_proxy
from entrypoints.http.routes.services.services import list_services

_HOSTS: Final = Asked("hosts", label="console.proxy.hosts", hint="console.proxy.hosts_hint")
_RULES: Final = Asked(
    "rules", label="console.proxy.rules", hint="console.proxy.rules_hint", rows=RULE_ROWS, shown=rule_rows, stands_for=rules_of
)
_HEADERS: Final = Asked(
    "headers", label="console.proxy.headers", hint="console.proxy.headers_hint", rows=HEADER_ROWS, shown=header_rows, stands_for=headers_of
)
_IDLE: Final = Asked("idle_minutes", label="console.proxy.idle_minutes", hint="console.proxy.idle_hint")


class ProxyPreviewLink(msgspec.Struct, frozen=True):
    path: Line = ""
    """The path to try."""


PROXY: Final = Resource(
    name="proxy",
    position=applications.SIGN_IN_POSITION,
    at=applications.LIST,
    page=applications.PROXY,
    listed=list_services,
    columns=APPLICATION_LIST.columns,
    parameter="service_slug",
    key=slug_of,
    called=lambda _settings: "",
    record=get_proxy,
    facts=(
        listed(_HOSTS),
        listed("closed_hosts", "console.proxy.closed_hosts"),
        listed("approved_hosts", "console.proxy.approved_hosts"),
        listed_in_words(rules_said, _RULES.label),
        listed_in_words(headers_said, _HEADERS.label),
        number(_IDLE),
    ),
    sections=(Section("change", shape(change_proxy, _HOSTS, _RULES, _HEADERS, _IDLE)),),
    below=(("console.proxy.preview", applications.PROXY_PREVIEW, preview_proxy),),
    crumbs=applications.above,
    titled=lambda visit, _settings: visit.text("console.proxy.title"),
)


@console.get(applications.PROXY_PREVIEW, of=preview_proxy, also=(get_proxy,))
async def show_proxy_preview(call: Call[None, ProxyPreviewLink, ServicePath, Any], postern: Postern) -> Page:
    """Show what a path of an application behind a proxy asks for."""
    visit, path = PageVisit(call, postern), call.query.path.strip()
    found, errors, status = None, NO_ERRORS, 200
    if path:
        try:
            found = await visit.ask(preview_proxy, query={"path": path})
        except Refusal as problem:
            said, status = explained(visit, problem)
            errors = {"path": " ".join(said.values())}
    else:
        await visit.ask(get_proxy)
    head = Head(
        title=visit.text("console.proxy.preview"),
        crumbs=(*applications.above(visit), (visit.text("console.proxy.title"), visit.here(applications.PROXY))),
        curl=visit.curl(preview_proxy, query={"path": path or "/admin/x"}),
        errors=errors,
    )
    page = visit.show(
        "organization/applications/proxy/preview.html",
        applications.SIGN_IN_POSITION,
        head,
        at=visit.here(applications.PROXY_PREVIEW),
        asked=path,
        found=found,
        demands=() if found is None else [_in_words(visit, demand) for demand in found.demands],
    )
    return Answer(page, status)


def _in_words(visit: PageVisit, demand: str) -> str:
    kind, _, name = demand.partition(" ")
    return demand_in_words(visit.text, kind, name)


PAGES: Final = (
    record_page(PROXY),
    *(one for section in PROXY.sections for one in section_pages(PROXY, section)),
    *(one for undoable in PROXY.undoables for one in undo_pages(undoable)),
    show_proxy_preview,
)

"""Identity assertions of an organization's own provider: whether they count, and what would come of one."""

import json
from collections.abc import Mapping
from typing import Any, Final

from core.domain.errors import NotFound, Refusal
from core.domain.identity.upstream.identity_assertions import DRAFT, SUBJECT
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.pages.console.cells import Cell
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.connections.connection_pages import EXCHANGES_AT, ONE, above
from entrypoints.http.pages.console.organization.organization_tabs import DIRECTORIES_ENTRY, DIRECTORIES_TAB, position
from entrypoints.http.pages.console.sent_forms import explained
from entrypoints.http.pages.console.visit import NO_ERRORS, DoneLink, Head, Page, PageVisit
from entrypoints.http.routes.federation.identity_assertions import (
    AssertionSettingsBody,
    AssertionVerdictRecord,
    PresentedAssertion,
    check_provider_assertion,
    set_provider_assertions,
)
from entrypoints.http.routes.tenancy.connections import list_connection_exchanges
from entrypoints.http.routes.tenancy.upstream_providers import UpstreamProviderPath, list_upstream_providers

ASSERTIONS: Final = f"{ONE}/assertions"
_CHECK: Final = f"{ASSERTIONS}/check"
_POSITION: Final = position(DIRECTORIES_ENTRY, DIRECTORIES_TAB)


class AssertionSettingsForm(BoundForm, frozen=True, kw_only=True):
    issues: str = ""
    subject: str = ""
    issuer: str = ""
    jwks_uri: str = ""
    jwks: str = ""
    """As JSON."""


class PresentedAssertionForm(BoundForm, frozen=True, kw_only=True):
    assertion: str = ""


async def _shown(
    visit: PageVisit,
    *,
    done: str = "",
    errors: Mapping[str, str] = NO_ERRORS,
    sent: Mapping[str, Any] | None = None,
    verdict: AssertionVerdictRecord | None = None,
) -> bytes:
    """`sent` is what a refused form said."""
    providers = await visit.ask(list_upstream_providers)
    provider = next((one for one in providers if str(one.id) == visit.path["provider_id"]), None)
    if provider is None:
        raise NotFound
    jwks = provider.assertion_jwks
    kept = {
        "issues": provider.issues_assertions,
        "subject": provider.assertion_subject,
        "issuer": provider.assertion_issuer,
        "jwks_uri": provider.assertion_jwks_uri,
        "jwks": "" if jwks is None else json.dumps(jwks, indent=2),
    }
    return visit.show(
        "organization/connections/assertions.html",
        _POSITION,
        Head(
            title=visit.text("console.assertions.title"),
            crumbs=(*above(visit)[:1], (provider.name, visit.here(ONE))),
            curl=visit.curl(set_provider_assertions),
            done=done,
            errors=errors,
        ),
        provider=provider,
        draft=DRAFT,
        ours=[(visit.text("console.assertions.audience"), Cell("copy", visit.postern.foundation.public_url))],
        kept=sent or kept,
        may_decide=visit.may(set_provider_assertions),
        may_check=visit.may(check_provider_assertion),
        save=visit.here(ASSERTIONS),
        check=visit.here(_CHECK),
        exchanges=visit.here(EXCHANGES_AT) if visit.may(list_connection_exchanges) else "",
        verdict=verdict,
    )


@console.get(ASSERTIONS, of=list_upstream_providers, also=(set_provider_assertions, check_provider_assertion, list_connection_exchanges))
async def show_assertions(call: Call[None, DoneLink, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Show whether a provider issues identity assertions."""
    return Answer(await _shown(PageVisit(call, postern), done=call.query.done), 200)


@console.post(ASSERTIONS, of=set_provider_assertions, also=(list_upstream_providers,))
async def save_assertions(call: Call[AssertionSettingsForm, None, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Decide whether a provider issues identity assertions."""
    visit, form = PageVisit(call, postern), call.body
    sent = {name: getattr(form, name) for name in AssertionSettingsBody.__struct_fields__}
    try:
        keys = json.loads(form.jwks) if form.jwks.strip() else None
    except (ValueError, RecursionError):
        keys = ""
    if keys is not None and not isinstance(keys, dict):
        return Answer(await _shown(visit, errors={"jwks": visit.text("console.assertions.no_keys")}, sent=sent), 400)
    body = AssertionSettingsBody(
        issues=bool(form.issues),
        subject=form.subject.strip() or SUBJECT,
        issuer=form.issuer.strip(),
        jwks_uri=form.jwks_uri.strip(),
        jwks=keys,
    )
    try:
        await visit.ask(set_provider_assertions, body=body)
    except Refusal as problem:
        said, status = explained(visit, problem)
        return Answer(await _shown(visit, errors={"": " ".join(said.values())}, sent=sent), status)
    return redirect(f"{visit.here(ASSERTIONS)}?done=saved")


@console.post(_CHECK, of=check_provider_assertion, also=(list_upstream_providers,))
async def check_assertion(call: Call[PresentedAssertionForm, None, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Check an identity assertion of a provider."""
    visit = PageVisit(call, postern)
    verdict = await visit.ask(check_provider_assertion, body=PresentedAssertion(assertion=call.body.assertion.strip()))
    return Answer(await _shown(visit, verdict=verdict), 200)


PAGES: Final = (show_assertions, save_assertions, check_assertion)

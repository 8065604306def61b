"""The last refused requests of an application and the people whom it did not admit, each with the reason and the mend."""

from typing import Annotated, Any, Final

import msgspec

from core.domain.federation.authorization_refusals import MOST_REFUSALS
from core.domain.federation.oauth.refusals import RefusalReason
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import ServicePath
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.organization.organization_tabs import PEOPLE, TRUSTED_ISSUERS
from entrypoints.http.pages.console.resources import ON_A_PAGE_OF_LOG
from entrypoints.http.pages.console.visit import Head, Page, PageVisit
from entrypoints.http.routes.federation.authorization_refusals import list_authorization_refusals

_MEND: Final = {
    RefusalReason.REDIRECT_UNREGISTERED: application_tabs.SIGN_IN,
    RefusalReason.REDIRECT_MISSING: application_tabs.SIGN_IN,
    RefusalReason.REDIRECT_DIFFERS: application_tabs.SIGN_IN,
    RefusalReason.NOT_MEMBER: f"{PEOPLE}/invitations/~new",
    RefusalReason.NO_ROLE: application_tabs.ASSIGNMENTS,
    RefusalReason.SECRET_WRONG: application_tabs.SECRETS,
    RefusalReason.SECRET_OWED: application_tabs.SECRETS,
    RefusalReason.CREDENTIAL_MISSING: application_tabs.SECRETS,
    RefusalReason.GRANT_NOT_ALLOWED: application_tabs.SECRETS,
    RefusalReason.PKCE_MISSING: application_tabs.SECRETS,
    RefusalReason.KEYS_MISSING: application_tabs.PUBLIC_KEYS,
    RefusalReason.ASSERTION_REFUSED: application_tabs.PUBLIC_KEYS,
    RefusalReason.SAML: application_tabs.SAML_EXCHANGES,
    **dict.fromkeys((one for one in RefusalReason if one.startswith("workload_")), TRUSTED_ISSUERS),
}
"""The page where what is registered can be changed."""


class RefusalsQuery(msgspec.Struct, frozen=True):
    page: Annotated[int, msgspec.Meta(ge=1, le=MOST_REFUSALS)] = 1


@console.get(application_tabs.REFUSALS, of=list_authorization_refusals)
async def show_refusals(call: Call[None, RefusalsQuery, ServicePath, Any], postern: Postern) -> Page:
    """Show the last refused requests of an application."""
    visit, number = PageVisit(call, postern), call.query.page
    refusals = (await visit.ask(list_authorization_refusals)).refusals
    last = number * ON_A_PAGE_OF_LOG
    shown = refusals[last - ON_A_PAGE_OF_LOG : last]
    head = Head(
        title=visit.text("console.refusals.title"), crumbs=application_tabs.above(visit), curl=visit.curl(list_authorization_refusals)
    )
    page = visit.show(
        "organization/applications/refusals.html",
        application_tabs.SIGN_IN_POSITION,
        head,
        refusals=[(one, *_words(visit, one), visit.here(_MEND[one.reason]) if one.reason in _MEND else "") for one in shown],
        at=visit.here(application_tabs.REFUSALS),
        older={"page": str(number + 1)} if len(refusals) > last else None,
        newer={"page": str(number - 1)} if number > 1 else None,
    )
    return Answer(page, 200)


def _words(visit: PageVisit, one: Any) -> tuple[str, str]:
    """The reason and the mend in the reader's language. The recorder of SAML writes both in English."""
    if one.reason is RefusalReason.SAML:
        return one.because, one.advice
    return visit.text(f"console.refusals.{one.reason}"), visit.text(f"console.refusals.{one.reason}_mend")


PAGES: Final = (show_refusals,)

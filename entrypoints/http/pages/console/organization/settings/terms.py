"""The terms that an organization asks people to accept."""

from typing import Any, Final

from entrypoints.http.pages.console.cells import code, listed, number, plain, when
from entrypoints.http.pages.console.forms import Asked, shape
from entrypoints.http.pages.console.organization.organization_tabs import SETTINGS, SETTINGS_ENTRY, TERMS_TAB, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Resource, Section
from entrypoints.http.routes.tenancy.terms.terms import TermsBody, end_terms, get_terms, set_terms


class TermsShown(TermsBody, frozen=True, kw_only=True):
    """The version in force, with the earlier ones in short."""

    set_at: Any
    accepted: int
    earlier: list[str]


def shown(answer: Any) -> Any:
    """The version in force. None when people are asked for nothing."""
    now = answer.in_force
    if now is None:
        return None
    earlier = [f"{one.version} · {one.address}" for one in answer.versions if one.ended_at is not None]
    return TermsShown(
        version=now.version, address=now.address, due_at=now.due_at, set_at=now.set_at, accepted=now.accepted, earlier=earlier
    )


COLUMNS: Final = (
    plain("version", "console.terms.version"),
    code("address", "console.terms.address"),
    when("due_at", "console.terms.due_at"),
    when("set_at", "console.terms.set_at"),
    number("accepted", "console.terms.accepted"),
    listed("earlier", "console.terms.earlier"),
)
ASKED: Final = (
    Asked("version", label="console.terms.version", hint="console.terms.version_hint"),
    Asked("address", label="console.terms.address", hint="console.terms.address_hint"),
    Asked("due_at", label="console.terms.due_at", hint="console.terms.due_hint"),
)

TERMS: Final = Resource(
    name="terms",
    position=position(SETTINGS_ENTRY, TERMS_TAB),
    at=f"{SETTINGS}/terms",
    is_single=True,
    listed=get_terms,
    of_record=shown,
    columns=COLUMNS,
    # A version is used once, so nothing can be put back.
    sections=(Section("change", shape(set_terms, *ASKED), whole=True, undone=False),),
    ending=Ending(end_terms),
)

PAGES: Final = pages(TERMS)

"""The organization's own domain, with the proof to publish."""

from typing import Any, Final

from entrypoints.http.pages.console.cells import Tone, code, copied, plain, when
from entrypoints.http.pages.console.forms import shape
from entrypoints.http.pages.console.organization.organization_tabs import DOMAIN_TAB, SETTINGS, SETTINGS_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Resource, Section
from entrypoints.http.routes.tenancy.domains import get_domain, remove_domain, set_domain, verify_domain

_STATES: Final = {True: ("console.state.proved", Tone.GOOD), False: ("console.state.not_proved", Tone.WARN)}


def _set(answer: Any) -> Any:
    return answer if answer.domain else None


OWN_DOMAIN: Final = Resource(
    name="own_domain",
    position=position(SETTINGS_ENTRY, DOMAIN_TAB),
    at=f"{SETTINGS}/domain",
    is_single=True,
    listed=get_domain,
    of_record=_set,
    columns=(
        plain("domain"),
        copied("txt_name"),
        copied("txt_value"),
        code("file_url"),
        copied("file_content"),
        when("verified_at"),
        when("checked_at"),
    ),
    state=(lambda domain: domain.verified, _STATES.__getitem__),
    sections=(Section("change", shape(set_domain, "domain"), undone=False),),
    acts=(Act("verify", verify_domain, said=lambda tried: (tried.verified, tried.message)),),
    ending=Ending(remove_domain),
)

PAGES: Final = pages(OWN_DOMAIN)

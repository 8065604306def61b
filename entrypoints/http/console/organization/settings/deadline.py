"""The deadlines within which receivers have to hear of an act that ends or weakens somebody's access."""

from typing import Any, Final

from entrypoints.http.console.kit.cells import number
from entrypoints.http.console.kit.forms import Asked, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Ending, Resource, Section
from entrypoints.http.console.organization.organization_tabs import LOGS_ENTRY, OFFBOARDING, OFFBOARDING_TAB, position
from entrypoints.http.routes.tenancy.offboarding import get_offboarding_deadline, remove_offboarding_deadline, set_offboarding_deadline


def _set(answer: Any) -> Any:
    return answer if answer.configured else None


OFFBOARDING_DEADLINE: Final = Resource(
    name="offboarding_deadline",
    position=position(LOGS_ENTRY, OFFBOARDING_TAB),
    at=OFFBOARDING,
    is_single=True,
    listed=get_offboarding_deadline,
    of_record=_set,
    columns=(number("removal_minutes"), number("access_minutes"), number("security_minutes")),
    sections=(
        Section(
            "change",
            shape(
                set_offboarding_deadline,
                Asked("removal_minutes", hint="console.offboarding_deadline.removal_hint"),
                Asked("access_minutes", hint="console.offboarding_deadline.access_hint"),
                Asked("security_minutes", hint="console.offboarding_deadline.security_hint"),
            ),
            whole=True,
        ),
    ),
    ending=Ending(remove_offboarding_deadline),
)


PAGES: Final = (*pages(OFFBOARDING_DEADLINE),)

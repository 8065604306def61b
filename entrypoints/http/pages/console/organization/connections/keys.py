"""Management keys of the organization."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from core.domain.tenancy.roles import Capability
from entrypoints.http.pages.console.cells import Tone, code, listed, plain, state, when, words, yes_or_no
from entrypoints.http.pages.console.forms import Asked, shape
from entrypoints.http.pages.console.organization.organization_tabs import KEYS, KEYS_ENTRY, KEYS_TAB, position
from entrypoints.http.pages.console.organization.people.choices import capabilities
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Making, Resource
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.tenancy.management_keys import (
    adopt_management_key,
    create_management_key,
    end_management_key,
    get_management_key,
    list_management_keys,
)

_DAYS: Final = Asked("expires_in_days", hint="console.keys.days_hint")
ADOPTED: Final = {True: ("console.state.adopted", Tone.GOOD), False: ("console.state.of_its_maker", Tone.PLAIN)}


def _key(found: Any) -> Any:
    """A row of the list is the key itself; the record has the key beside what it made."""
    return getattr(found, "management_key", found)


async def _made(_visit: PageVisit, found: Any) -> Sequence[tuple[str, int]]:
    sent = [one.accepted for one in found.made.invitations]
    return (
        ("console.keys.api_keys", len(found.made.api_keys)),
        ("console.keys.client_secrets", len(found.made.client_secrets)),
        ("console.keys.invitations", sent.count(False)),
        ("console.keys.members", sent.count(True)),
    )


def _sent(*, accepted: bool) -> Callable[[Any], Sequence[str]]:
    return lambda found: [f"{one.email or one.id}: {one.role}" for one in found.made.invitations if one.accepted is accepted]


KEYS_OF_ORGANIZATION: Final = Resource(
    name="keys",
    position=position(KEYS_ENTRY, KEYS_TAB),
    at=KEYS,
    listed=list_management_keys,
    rows="management_keys",
    columns=(
        plain("name"),
        code("prefix"),
        plain("maker_email", "console.field.maker"),
        state(lambda key: key.adopted_at is not None, ADOPTED),
        when("last_used_at"),
        when("expires_at"),
    ),
    parameter="key_id",
    key=lambda found: _key(found).id,
    called=lambda found: _key(found).name,
    record=get_management_key,
    state=(lambda found: _key(found).adopted_at is not None, ADOPTED.__getitem__),
    facts=(
        code("management_key.prefix"),
        words("management_key.capabilities", Capability),
        when("management_key.last_used_at"),
        when("management_key.expires_at"),
        plain("management_key.maker_email", "console.field.maker"),
        yes_or_no("management_key.maker_is_here", "console.field.maker_is_member", good=True),
        when("management_key.adopted_at"),
        when("management_key.former_secret_until"),
        listed(lambda found: [f"{one.service_slug}: {one.name}" for one in found.made.api_keys], "console.field.made_api_keys"),
        listed(lambda found: [f"{one.service_slug}: {one.prefix}" for one in found.made.client_secrets], "console.field.made_secrets"),
        listed(_sent(accepted=False), "console.field.made_invitations"),
        listed(_sent(accepted=True), "console.field.made_members"),
        when("management_key.created_at"),
    ),
    making=Making(
        shape(
            create_management_key,
            "name",
            Asked("capabilities", choices=capabilities),
            Asked("expires_in_days", hint="console.keys.days_hint"),
        ),
        secret="key",  # noqa: S106 - the name of a field
    ),
    acts=(
        Act(
            "adopt",
            adopt_management_key,
            asks=True,
            secret="key",  # noqa: S106 - the name of a field
            shows=lambda found: _key(found).adopted_at is None,
        ),
    ),
    ending=Ending(end_management_key, counts=_made),
)

PAGES: Final = pages(KEYS_OF_ORGANIZATION)

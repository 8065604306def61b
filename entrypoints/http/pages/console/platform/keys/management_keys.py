"""Keys with which programs govern the installation."""

from typing import Final

from core.domain.tenancy.management_keys import PlatformCapability
from entrypoints.http.pages.console.cells import Tone, code, copied, plain, state, when, words, yes_or_no
from entrypoints.http.pages.console.forms import Asked, shape
from entrypoints.http.pages.console.platform.platform_tabs import KEYS, KEYS_ENTRY, KEYS_TAB, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Making, Resource
from entrypoints.http.routes.platform.management_keys import (
    adopt_platform_key,
    create_platform_key,
    end_platform_key,
    get_platform_key,
    list_platform_keys,
)

_ADOPTED: Final = {True: ("console.state.adopted", Tone.GOOD), False: ("console.state.of_its_maker", Tone.PLAIN)}

PLATFORM_KEYS: Final = Resource(
    name="platform_keys",
    position=position(KEYS_ENTRY, KEYS_TAB),
    at=KEYS,
    listed=list_platform_keys,
    rows="management_keys",
    columns=(
        plain("name"),
        code("prefix"),
        plain("maker_email", "console.field.maker"),
        state(lambda key: key.adopted_at is not None, _ADOPTED),
        words("capabilities", PlatformCapability),
        when("last_used_at"),
        when("expires_at"),
    ),
    parameter="key_id",
    record=get_platform_key,
    state=(lambda key: key.adopted_at is not None, _ADOPTED.__getitem__),
    facts=(
        code("prefix"),
        words("capabilities", PlatformCapability),
        copied("id"),
        when("last_used_at"),
        when("created_at"),
        when("expires_at"),
        plain("maker_email", "console.field.maker"),
        yes_or_no("maker_is_here", "console.field.maker_is_owner", good=True),
        when("adopted_at"),
        when("former_secret_until"),
    ),
    making=Making(
        shape(create_platform_key, "name", "capabilities", Asked("expires_in_days", hint="console.platform_keys.days_hint")),
        secret="key",  # noqa: S106 - the name of a field
    ),
    acts=(
        Act(
            "adopt",
            adopt_platform_key,
            asks=True,
            secret="key",  # noqa: S106 - the name of a field
            shows=lambda key: key.adopted_at is None,
        ),
    ),
    ending=Ending(end_platform_key),
)

PAGES: Final = tuple(pages(PLATFORM_KEYS))

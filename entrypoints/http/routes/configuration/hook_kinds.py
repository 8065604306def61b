"""The hook of an organization and of the installation as an object of configuration files."""

from typing import Final

from core.domain.platform.configuration.objects import HOOK, PLATFORM_HOOK, ObjectPlace
from core.domain.tenancy.hooks import DEFAULT_SECONDS
from entrypoints.http.routes.configuration.kinds import Fields, ObjectKind, References, Within, entry
from entrypoints.http.routes.tenancy import hooks


async def _as_it_stands(fields: Fields, place: ObjectPlace, references: References) -> Fields:
    """A document is the word of whoever applies it, so it goes by what stands at this moment."""
    standing = await references.hook(place.organization)
    return {"seconds": DEFAULT_SECONDS, **fields, "digest": None if standing is None else standing.digest}


# A configuration file names the hook's settings and no secret. What it changes becomes report-only, and it enforces nothing: an owner does,
# by the report.
HOOK_KIND: Final = ObjectKind(
    name=HOOK,
    within=Within.ORGANIZATION,
    entry=entry("HookEntry", hooks.HookBody, without=("digest",)),
    shown_by=hooks.get_sign_in_hook,
    change=hooks.set_sign_in_hook,
    end=hooks.remove_sign_in_hook,
    is_single=True,
    sends_all=True,
    translate=_as_it_stands,
)

PLATFORM_HOOK_KIND: Final = ObjectKind(
    name=HOOK,
    stored_as=PLATFORM_HOOK,
    within=Within.PLATFORM,
    entry=entry("PlatformHookEntry", hooks.HookBody, without=("digest",)),
    shown_by=hooks.get_installation_sign_in_hook,
    change=hooks.set_installation_sign_in_hook,
    end=hooks.remove_installation_sign_in_hook,
    is_single=True,
    sends_all=True,
    translate=_as_it_stands,
)

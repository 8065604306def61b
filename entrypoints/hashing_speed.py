"""Says at the start how fast passwords are hashed, where the published wheel of Argon2 hashes them: it is made for processors of 2003."""

from functools import partial
from typing import Final

import structlog
import trio

from adapters.crypto.password_digests import binding
from adapters.crypto.passwords import rate
from entrypoints.assembly.configured import argon2_parameters
from entrypoints.settings import Settings, SettingsError

log = structlog.get_logger()

_SECONDS: Final = 0.2


async def tell_hashing_speed(settings: Settings) -> None:
    found = binding()
    if not found.is_published:
        return
    try:
        parameters = argon2_parameters(settings)
    except SettingsError:
        return  # The start itself says what is wrong.
    measured = partial(rate, _SECONDS, parameters)
    per_second = await trio.to_thread.run_sync(measured, abandon_on_cancel=True)
    log.warning("passwords_hashed_by_wheel", per_second=round(per_second), mend=found.mend)

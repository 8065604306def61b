"""The first start makes the signing keys and the first platform owner. Every start checks the encryption keys and how
passwords are hashed, and prints the address.
"""

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final, TextIO

import structlog
import trio

from adapters.crypto.password_digests import binding
from adapters.crypto.passwords import rate
from core.domain.errors import BadRequest
from core.domain.formats import timestamp
from core.domain.secrets import Password, Secret
from core.frozen import Frozen
from core.usecases.keys import REENCRYPTION_JOB, reencryption_job
from entrypoints.assembly.configured import argon2_parameters
from entrypoints.bootstrap import Postern
from entrypoints.failures import StartFailed
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


_LINE: Final = "─"
FIRST_STEPS: Final = "/ui/first-steps"
"""The page that says what to do next."""


class FirstOwner(Frozen):
    """The first platform owner. `password` is set only when Postern generated the password, and can be shown only now."""

    email: str
    password: Password | None
    link: Secret | None = None
    """A sign-in link, which works once."""


async def complete(postern: Postern, settings: Settings) -> FirstOwner | None:
    """Makes the signing keys and the first platform owner if they do not exist. Returns None when a platform owner exists, because then
    this is not the first start. Raises `StartFailed`, `SettingsError`.
    """
    await postern.foundation.signing_keys.ensure()
    await require_encryption_keys(postern)
    await _queue_reencryption(postern)
    if await postern.platform.platform_owners.exist():
        return None
    try:
        email = postern.foundation.email_syntax.parse(settings.owner_email)
    except BadRequest:
        raise SettingsError(f"POSTERN_OWNER_EMAIL must be an e-mail address, not {settings.owner_email!r}") from None
    given = settings.owner_password
    password = postern.foundation.secrets.password() if given is None else given
    try:
        made = await postern.platform.platform_owners.create_first(email, password)
    except BadRequest as error:
        raise SettingsError(f"POSTERN_OWNER_PASSWORD cannot be used: {error.message}") from None
    if made is None:
        return None
    return FirstOwner(email.address, password if given is None else None, await postern.identity.sign_in_links.issue(email, to=FIRST_STEPS))


async def require_encryption_keys(postern: Postern) -> None:
    """Raises `StartFailed` when the key ring does not decrypt the signing keys. With the key ring of another database, or a new key ring in
    place of a lost one, the process would look healthy and be unable to sign tokens.
    """
    if await postern.foundation.key_care.unreadable():
        raise StartFailed(
            f"The encryption keys ({', '.join(postern.foundation.keyring.key_ids())}) do not belong to this database: "
            "they do not decrypt its signing keys. Restore the POSTERN_ENCRYPTION_KEYS, or the file encryption.keys, that it was used with"
        )


async def _queue_reencryption(postern: Postern) -> None:
    """Queues the re-encryption after a rotation. A restart rotates a key ring that is a setting: the process that starts with a new first
    key re-encrypts the values that the old key encrypted.
    """
    if await postern.foundation.reencryption.is_finished():
        return
    if any(state.kind == REENCRYPTION_JOB and state.waiting for state in await postern.foundation.jobs.state()):
        return
    async with postern.foundation.unit_of_work() as uow:
        await uow.jobs.add(reencryption_job(postern.foundation.keyring))
        await uow.commit()


def announce(settings: Settings, owner: FirstOwner | None, out: TextIO | None = None, *, shows_mail: bool = False) -> None:
    """Prints to standard output: a box after the first start, a line after any other. Where the log is to be JSON, the first start prints
    one JSON line instead, and any other prints nothing, since the event `ready` is in the log.
    """
    if settings.log_format == "json":
        if owner is not None:
            _write(_first_owner_line(settings, owner), out)
        return
    url = settings.public_url
    where = f"unix:{settings.bind.path}" if settings.bind.path is not None else url
    if owner is None:
        text = f"Postern is ready at {where}\n"
    else:
        # The password is shown here once, to the person who started Postern, because no other channel to that person exists.
        password = owner.password.reveal() if owner.password is not None else "as set by POSTERN_OWNER_PASSWORD"
        rows = [
            ("Base URL", url),
            ("API documentation", f"{url}/docs"),
            *([("Mail", f"{url}/dev/mail")] if shows_mail else []),
            ("Platform owner", owner.email),
            ("Password", password),
        ]
        if owner.password is not None:
            rows.append(("", "shown only once, and stored nowhere"))
        if owner.link is not None:
            rows += [("Sign in", owner.link.reveal()), ("", "works once, for 10 minutes; postern owner link prints another")]
        text = _box("Postern is ready", rows)
    _write(text, out)


def _write(text: str, out: TextIO | None) -> None:
    stream = out if out is not None else sys.stdout
    with suppress(OSError):  # a closed output must not stop the server
        stream.write(text)
        stream.flush()


def _first_owner_line(settings: Settings, owner: FirstOwner) -> str:
    """The password and the link are shown here once, as in the box, and never in the log itself."""
    line = {
        "timestamp": timestamp(datetime.now(UTC)),
        "level": "info",
        "event": "first_owner",
        "url": settings.public_url,
        "email": owner.email,
        "password": owner.password.reveal() if owner.password is not None else None,
        "sign_in_url": owner.link.reveal() if owner.link is not None else None,
    }
    return json.dumps(line) + "\n"


def _box(title: str, rows: list[tuple[str, str]]) -> str:
    widest = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{widest}}  {value}" for name, value in rows]
    rule = _LINE * max(map(len, (title, *lines)))
    return "\n".join(["", rule, f"  {title}", "", *lines, rule, "", ""])

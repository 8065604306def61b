"""What the first start of an installation makes, what every start makes sure of, and what it tells whoever began it."""

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TextIO

from core.domain.errors import BadRequest
from core.domain.secrets import Password
from core.usecases.encryption import REENCRYPTION_JOB, reencryption_job
from entrypoints.bootstrap import Services, unreadable
from entrypoints.failures import StartFailed
from entrypoints.settings import Settings, SettingsError

_LINE: Final = "─"


@dataclass(frozen=True, slots=True)
class FirstOwner:
    """`password` is there only when we made it, and this is the one time it can be told."""

    email: str
    password: Password | None


async def complete(services: Services, settings: Settings) -> FirstOwner | None:
    """The signing keys and the first platform owner, unless they are there. None when they were: it was not the first start.
    Raises `StartFailed`, `SettingsError`.
    """
    await services.signing_keys.ensure()
    await _require_encryption_keys(services)
    await _queue_reencryption(services)
    if await services.platform_owners.exist():
        return None
    try:
        email = services.email_syntax.parse(settings.owner_email)
    except BadRequest:
        raise SettingsError(f"POSTERN_OWNER_EMAIL must be an e-mail address, not {settings.owner_email!r}") from None
    given = settings.owner_password
    password = services.secrets.password() if given is None else given
    try:
        made = await services.platform_owners.create_first(email, password)
    except BadRequest as error:
        raise SettingsError(f"POSTERN_OWNER_PASSWORD cannot be used: {error.message}") from None
    return None if made is None else FirstOwner(email.address, password if given is None else None)


async def _require_encryption_keys(services: Services) -> None:
    """With a ring that is not this database's, above all one that was lost and made anew, we would look well, and sign nothing."""
    if await unreadable(services.signing_keys, services.keyring):
        raise StartFailed(
            f"The encryption keys ({', '.join(services.keyring.key_ids())}) are not those of this database: "
            "they do not open its signing keys. Bring back the POSTERN_ENCRYPTION_KEYS, or the file encryption.keys, that it was used with"
        )


async def _queue_reencryption(services: Services) -> None:
    """A ring that is a setting is rotated by restarting: whoever comes up with a new first key sees to what is under the old one."""
    if await services.reencryption.is_finished():
        return
    if any(state.kind == REENCRYPTION_JOB and state.waiting for state in await services.jobs.state()):
        return
    async with services.unit_of_work() as uow:
        await uow.jobs.add(reencryption_job(services.keyring))
        await uow.commit()


def announce(settings: Settings, owner: FirstOwner | None, out: TextIO | None = None) -> None:
    """On standard output: after the first start a box, after any other a line."""
    url = settings.public_url
    where = f"unix:{settings.bind.path}" if settings.bind.path is not None else url
    if owner is None:
        text = f"Postern is ready at {where}\n"
    else:
        # Revealed here, once, to the person who started it: there is no other way to hand it over.
        password = owner.password.reveal() if owner.password is not None else "as set by POSTERN_OWNER_PASSWORD"
        rows = [
            ("Base URL", url),
            ("API documentation", f"{url}/docs"),
            ("Platform owner", owner.email),
            ("Password", password),
        ]
        if owner.password is not None:
            rows.append(("", "shown this once, and kept nowhere"))
        text = _box("Postern is ready", rows)
    stream = out if out is not None else sys.stdout
    with suppress(OSError):  # nobody reads it: no reason not to serve
        stream.write(text)
        stream.flush()


def _box(title: str, rows: list[tuple[str, str]]) -> str:
    widest = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{widest}}  {value}" for name, value in rows]
    rule = _LINE * max(map(len, (title, *lines)))
    return "\n".join(["", rule, f"  {title}", "", *lines, rule, "", ""])

"""`postern keys list`, `postern keys rotate` and `postern keys reencrypt`."""

import argparse
from collections.abc import Collection, Sequence
from datetime import datetime

import trio

from adapters.crypto.key_ring import generate_key
from core.domain.federation.open_registrations import KEPT_FOR, RegistrationKey, signing, verifying
from core.domain.record.events import SYSTEM
from core.domain.tokens import SigningKey
from core.usecases.keys import queue_reencryption
from entrypoints.assembly.configured import key_file
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.cli.opening import opened_postern, require_schema
from entrypoints.cli.output.printing import print_json, tell
from entrypoints.cli.output.progress import progress
from entrypoints.encryption_keys import prepend_key
from entrypoints.failures import FAILURE, OK
from entrypoints.first_start import require_encryption_keys
from entrypoints.installation import reachable_database
from entrypoints.settings import Settings

_HOW_TO_ROTATE_A_SETTING = """\
The encryption keys are a setting here. To put a new one in force without downtime:
  1. Add this at the end of POSTERN_ENCRYPTION_KEYS, and restart every process:
     {line}
  2. Move it to the front, and restart every process. Stored secrets are then re-encrypted in the background.
  3. When `postern keys list` says that everything is under the first key, remove the others."""


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    kinds = ("signing", "encryption", "registrations")
    named = {kind for kind in kinds if getattr(arguments, kind, False)} or {*kinds}
    if arguments.action == "list":
        trio.run(_list, settings, arguments.json)
    elif arguments.action == "reencrypt":
        return trio.run(_reencrypt_now, settings, arguments.json)
    else:
        trio.run(_rotate, settings, named, arguments.json)
    return OK


async def _list(settings: Settings, as_json: bool) -> None:  # noqa: FBT001 - trio.run passes by position
    async with opened_postern(settings) as postern:
        now = postern.foundation.clock.now()
        in_force = [key for key in await postern.foundation.signing_keys.list() if key.verifies(now)]
        if as_json:
            await _print_keys(postern, in_force)
            return
        for key in sorted(in_force, key=lambda key: (key.purpose, key.state)):
            print(f"signing     {key.purpose:<7} {key.state:<9} {key.id}  {_age(key.age(now).days)}{_until(key.retires_at)}")
        for key_, counts in await _registration_keys(postern):
            print(f"registering {'current' if counts else 'older':<17} {key_.id}  {_age((now - key_.created_at).days)}")
        for number, name in enumerate(postern.foundation.keyring.key_ids()):
            print(f"encryption  {'current' if number == 0 else 'older':<17} {name}")
        finished = await postern.foundation.reencryption.is_finished()
        print(f"All stored values are {'' if finished else 'not yet '}encrypted with the current encryption key.")


async def _print_keys(postern: Postern, in_force: Sequence[SigningKey]) -> None:
    signing = ("id", "purpose", "state", "created_at", "activated_at", "retires_at")
    print_json(
        {
            "signing": [{name: getattr(key, name) for name in signing} for key in in_force],
            "encryption": list(postern.foundation.keyring.key_ids()),
            "registrations": [key.id for key, _ in await _registration_keys(postern)],
            "everything_under_the_current_encryption_key": await postern.foundation.reencryption.is_finished(),
        }
    )


async def _registration_keys(postern: Postern) -> Sequence[tuple[RegistrationKey, bool]]:
    """The keys of open registrations that count, and whether each is the one that signs."""
    keys, now = await postern.federation.open_registrations.keys.find(), postern.foundation.clock.now()
    return [(key, key == signing(keys, now)) for key in verifying(keys, now)]


async def _reencrypt_now(settings: Settings, as_json: bool) -> int:  # noqa: FBT001 - trio.run passes by position
    """Does in the foreground what a serving process does in the background. Both may run at once."""
    async with opened_postern(settings) as postern:
        await require_encryption_keys(postern)
        done = await postern.foundation.reencryption.run(postern.foundation.keyring.current_key_id(), progress)
    lines = [
        f"{column.column}: no key of the key ring can decrypt {column.unreadable} of its values; they are unchanged"
        for column in done
        if column.unreadable
    ]
    key, replaced = postern.foundation.keyring.current_key_id(), sum(column.replaced for column in done)
    unreadable = {column.column: column.unreadable for column in done if column.unreadable}
    lines.append(f"{replaced} values were sealed again, under the key {key}.")
    tell({"key": key, "replaced": replaced, "unreadable": unreadable}, *lines, as_json=as_json)
    return FAILURE if any(column.unreadable for column in done) else OK


async def _rotate(settings: Settings, named: Collection[str], as_json: bool) -> None:  # noqa: FBT001 - trio.run passes by position
    async with reachable_database(settings):
        await require_schema(settings)
        async with open_postern(settings) as postern:
            # A key that is encrypted under the key ring of another database could never be decrypted.
            await require_encryption_keys(postern)
            rotations = await postern.foundation.signing_keys.rotate() if "signing" in named else ()
            registration = await postern.federation.open_registrations.rotate(SYSTEM) if "registrations" in named else None
        told: dict[str, object] = {
            "signing": rotations,
            "encryption": None,
            "registrations": None if registration is None else registration.id,
        }
        lines = [
            f"{rotation.purpose}: {rotation.activated} signs from now on, in a running server within half a minute; "
            f"{rotation.outgoing} verifies until its tokens expire."
            for rotation in rotations
        ]
        if registration is not None:
            lines.append(
                f"registrations: {registration.id} signs in 1 minute; signatures of the previous key stay valid for {KEPT_FOR.days} days."
            )
        if lines and not as_json:
            print("\n".join(lines))
        if "encryption" in named:
            told["encryption"], line = await _rotate_encryption(settings)
            if not as_json:
                print(line)
    if as_json:
        print_json(told)


async def _rotate_encryption(settings: Settings) -> tuple[dict[str, object], str]:
    """The new key for programs, and a text for people."""
    if key_file(settings) is None:
        line = generate_key().line()
        return {"in_force": False, "line": line}, _HOW_TO_ROTATE_A_SETTING.format(line=line)
    key = prepend_key(settings)
    # Postern is opened only after the file is written, so that the key ring has the new key.
    async with open_postern(settings) as postern:
        await queue_reencryption(postern.foundation.unit_of_work, key, SYSTEM)
    said = f"encryption: {key} is in force. The running server re-encrypts what is stored, or does so at its next start."
    return {"in_force": True, "id": key}, said


def _age(days: int) -> str:
    return "today" if days == 0 else f"{days} day{'s' if days != 1 else ''} old"


def _until(moment: datetime | None) -> str:
    return "" if moment is None else f", verifies until {moment:%Y-%m-%d %H:%M} UTC"

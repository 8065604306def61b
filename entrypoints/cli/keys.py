"""`postern keys list`, `postern keys rotate` and `postern keys reencrypt`."""

import argparse
from collections.abc import Sequence
from datetime import datetime

import trio

from adapters.crypto.key_ring import generate_key
from core.domain.record.events import SYSTEM
from core.domain.signing_keys import SigningKey
from core.usecases.encryption import queue_reencryption
from entrypoints.assembly.configured import key_file
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.cli.opening import opened_postern, require_schema
from entrypoints.cli.output.printing import print_json
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
    both = not getattr(arguments, "signing", False) and not getattr(arguments, "encryption", False)
    if arguments.action == "list":
        trio.run(_list, settings, arguments.json)
    elif arguments.action == "reencrypt":
        return trio.run(_reencrypt_now, settings)
    else:
        trio.run(_rotate, settings, both or arguments.signing, both or arguments.encryption)
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
        for number, name in enumerate(postern.foundation.keyring.key_ids()):
            print(f"encryption  {'current' if number == 0 else 'older':<17} {name}")
        finished = await postern.foundation.reencryption.is_finished()
        print(f"Everything stored is {'' if finished else 'not yet '}under the current encryption key.")


async def _print_keys(postern: Postern, in_force: Sequence[SigningKey]) -> None:
    signing = ("id", "purpose", "state", "created_at", "activated_at", "retires_at")
    print_json(
        {
            "signing": [{name: getattr(key, name) for name in signing} for key in in_force],
            "encryption": list(postern.foundation.keyring.key_ids()),
            "everything_under_the_current_encryption_key": await postern.foundation.reencryption.is_finished(),
        }
    )


async def _reencrypt_now(settings: Settings) -> int:
    """Does in the foreground what a serving process does in the background. Both may run at once."""
    async with opened_postern(settings) as postern:
        await require_encryption_keys(postern)
        done = await postern.foundation.reencryption.run(postern.foundation.keyring.current_key_id(), progress)
    for column in done:
        if column.unreadable:
            print(f"{column.column}: no key of the ring opens {column.unreadable} of its values; they stay as they are")
    key = postern.foundation.keyring.current_key_id()
    print(f"{sum(column.replaced for column in done)} values were sealed again, under the key {key}.")
    return FAILURE if any(column.unreadable for column in done) else OK


async def _rotate(settings: Settings, signing: bool, encryption: bool) -> None:  # noqa: FBT001 - trio.run passes by position
    async with reachable_database(settings):
        await require_schema(settings)
        async with open_postern(settings) as postern:
            # A key that is encrypted under the key ring of another database could never be decrypted.
            await require_encryption_keys(postern)
            if signing:
                for rotation in await postern.foundation.signing_keys.rotate():
                    print(
                        f"{rotation.purpose}: {rotation.activated} signs from now on, in a running server within half a minute; "
                        f"{rotation.outgoing} verifies until its tokens expire."
                    )
        if encryption:
            await _rotate_encryption(settings)


async def _rotate_encryption(settings: Settings) -> None:
    if key_file(settings) is None:
        print(_HOW_TO_ROTATE_A_SETTING.format(line=generate_key().line()))
        return
    key = prepend_key(settings)
    # Postern is opened only after the file is written, so that the key ring has the new key.
    async with open_postern(settings) as postern:
        await queue_reencryption(postern.foundation.unit_of_work, key, SYSTEM)
    print(f"encryption: {key} is in force. The running server re-encrypts what is stored, or does so at its next start.")


def _age(days: int) -> str:
    return "today" if days == 0 else f"{days} day{'s' if days != 1 else ''} old"


def _until(moment: datetime | None) -> str:
    return "" if moment is None else f", verifies until {moment:%Y-%m-%d %H:%M} UTC"

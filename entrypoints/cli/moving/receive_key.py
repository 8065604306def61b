"""`postern organization receive-key`: prints the key to which another installation seals an organization that is to move here."""

import argparse

import trio

from adapters.crypto.hybrid_keys import NoHybridKeys
from adapters.crypto.recipients import RecipientSecrets, receiving_key
from core.domain.platform.moving import HYBRID_RECEIVING_KEY, RECEIVING_KEY
from entrypoints.bootstrap import Postern
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import print_json
from entrypoints.failures import OK, StartFailed
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, arguments, settings)
    return OK


async def _run(given: argparse.Namespace, settings: Settings) -> None:
    async with opened_postern(settings) as postern:
        secrets = await receiving_secrets(postern)
    try:
        key = secrets.x25519_key if given.x25519 else secrets.hybrid_key
    except NoHybridKeys as error:
        raise StartFailed(f"{error} (`--x25519`)") from None
    if given.json:
        print_json({"key": receiving_key(key), "fingerprint": key.fingerprint})
        return
    print(receiving_key(key))
    print(f"Fingerprint {key.fingerprint}. Compare it over another channel with the output of the export.")


async def receiving_secrets(postern: Postern) -> RecipientSecrets:
    """The private halves of both keys of this installation."""
    hybrid = await postern.foundation.server_secrets.get(HYBRID_RECEIVING_KEY)
    return RecipientSecrets(hybrid=hybrid, x25519=await postern.foundation.server_secrets.get(RECEIVING_KEY))

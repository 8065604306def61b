"""`postern organization receive-key`: prints the key to which another installation seals an organization that is to move here."""

import argparse

import trio

from adapters.crypto.recipients import fingerprint_of, receiving_key
from core.domain.platform.moving import RECEIVING_KEY
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import print_json
from entrypoints.failures import OK
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, arguments, settings)
    return OK


async def _run(given: argparse.Namespace, settings: Settings) -> None:
    async with opened_postern(settings) as postern:
        secret = await postern.foundation.server_secrets.get(RECEIVING_KEY)
    key, mark = receiving_key(secret), fingerprint_of(secret)
    if given.json:
        print_json({"key": key, "fingerprint": mark})
        return
    print(key)
    print(f"Fingerprint {mark}. Compare it over another channel with the output of the export.")

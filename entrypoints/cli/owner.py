"""`postern owner create`."""

import argparse
import sys
from getpass import getpass

import trio

from core.domain.secrets import Password
from entrypoints.cli.opening import opened_services
from entrypoints.failures import OK, StartFailed
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_create, settings, arguments.email)
    return OK


async def _create(settings: Settings, address: str) -> None:
    async with opened_services(settings) as services:
        email = services.email_syntax.parse(address)
        if await services.platform_owners.promote(email) is not None:
            print(f"{email} has an account, which is a platform owner's now. Its password stays as it is.")
            return
        password = await trio.to_thread.run_sync(_ask_for_password, abandon_on_cancel=True)
        await services.platform_owners.create(email, password)
        print(f"{email} is a platform owner.")


def _ask_for_password() -> Password:
    if not sys.stdin.isatty():
        line = sys.stdin.readline().rstrip("\r\n")
        if not line:
            raise StartFailed("No password: standard input is empty")
        return Password(line)
    first = getpass("Password: ")
    if getpass("Once more: ") != first:
        raise StartFailed("The two passwords differ")
    return Password(first)

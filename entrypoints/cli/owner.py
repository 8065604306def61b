"""`postern owner …`: creates platform owners, and magic links for them."""

import argparse
import sys
from getpass import getpass
from typing import Final

import trio

from core.domain.secrets import Password
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import tell
from entrypoints.cli.user import operator
from entrypoints.failures import OK, StartFailed
from entrypoints.settings import Settings
from entrypoints.settings_forms import Address

_ANSWERS_WITHIN: Final = 1.0


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    if arguments.action == "link":
        trio.run(_link, settings, arguments.email or settings.owner_email, arguments.json)
    else:
        trio.run(_create, settings, arguments.email, arguments.json)
    return OK


async def _link(settings: Settings, address: str, as_json: bool) -> None:  # noqa: FBT001 - trio.run passes by position
    async with opened_postern(settings) as postern:
        email = postern.foundation.email_syntax.parse(address)
        link = await postern.identity.sign_in_links.issue(email, operator())
        tell(
            {"email": email, "link": link.reveal()},
            f"This link signs {email} in once, within 10 minutes. MFA is still required.",
            link.reveal(),
            as_json=as_json,
        )
    if settings.base_url is None and not await _listens(settings.bind):
        print(
            f"No process listens at {settings.bind}. If Postern runs with another POSTERN_BIND or POSTERN_BASE_URL, set it for this "
            "command, too.",
            file=sys.stderr,
        )


async def _listens(address: Address) -> bool:
    with trio.move_on_after(_ANSWERS_WITHIN):
        try:
            if address.path is not None:
                stream = await trio.open_unix_socket(address.path)
            else:
                stream = await trio.open_tcp_stream(address.host, address.port)
        except OSError:
            return False
        await stream.aclose()
    # A server that takes long to answer may still listen.
    return True


async def _create(settings: Settings, address: str, as_json: bool) -> None:  # noqa: FBT001 - as above
    async with opened_postern(settings) as postern:
        email = postern.foundation.email_syntax.parse(address)
        if await postern.platform.platform_owners.promote(email) is not None:
            said = f"{email} has an account and is now a platform owner. The password is unchanged."
            tell({"email": email, "created": False}, said, as_json=as_json)
            return
        password = await trio.to_thread.run_sync(_ask_for_password, abandon_on_cancel=True)
        await postern.platform.platform_owners.create(email, password)
        tell({"email": email, "created": True}, f"{email} is a platform owner.", as_json=as_json)


def _ask_for_password() -> Password:
    if not sys.stdin.isatty():
        line = sys.stdin.readline().rstrip("\r\n")
        if not line:
            raise StartFailed("No password: standard input is empty; write the password to it")
        return Password(line)
    first = getpass("Password: ")
    if getpass("Repeat it: ") != first:
        raise StartFailed("The two passwords differ: try again")
    return Password(first)

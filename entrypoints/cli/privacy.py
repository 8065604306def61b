"""`postern privacy …`: an operator exports a person's data, or anonymizes the person. The audit log names the operator of both."""

import argparse
import sys
from contextlib import aclosing

import trio

from core.domain.identity.privacy import PrivacyRequester
from core.domain.mail import Email
from core.domain.record.events import SYSTEM
from entrypoints.bootstrap import Postern
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import tell
from entrypoints.cli.user import operator
from entrypoints.failures import OK
from entrypoints.http.routes.identity.privacy import parts_of_export
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, arguments, settings)
    return OK


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    async with opened_postern(settings) as postern:
        email = postern.foundation.email_syntax.parse(arguments.email)
        if arguments.action == "export":
            await _export(postern, email)
        else:
            await _forget(postern, email, as_json=arguments.json)


async def _export(postern: Postern, email: Email) -> None:
    privacy = postern.identity.privacy
    exported = await privacy.export(await privacy.find(email), PrivacyRequester(operator=operator()), SYSTEM)
    async with aclosing(parts_of_export(exported)) as parts:
        async for part in parts:
            sys.stdout.write(part.decode())
    print()


async def _forget(postern: Postern, email: Email, *, as_json: bool) -> None:
    privacy = postern.identity.privacy
    request = await privacy.forget(await privacy.find(email), PrivacyRequester(operator=operator()), SYSTEM)
    receipt = f"/api/privacy/requests/{request.id}"
    tell(
        {"user": request.user, "receipt": receipt},
        f"{email} is erased: the account {request.user} can no longer be used.",
        f"A serving process removes the rest. The receipt: {receipt}",
        as_json=as_json,
    )

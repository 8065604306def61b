"""`postern demo`: makes an organization with people and a service, and runs an application that signs them in, until it is interrupted."""

import argparse
from contextlib import suppress
from http.client import HTTPException
from typing import Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import trio

from entrypoints.cli.opening import opened_postern
from entrypoints.demo.application import DemoApplication
from entrypoints.demo.organization import MEMBER, OWNER, SLUG, Demo, make
from entrypoints.failures import OK, StartFailed
from entrypoints.settings import Settings

PORT: Final = 8001
_HERE: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_PATIENCE: Final = 10.0


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    issuer = settings.public_url
    require_trial(issuer)
    with application(arguments.port, issuer) as running:
        made = trio.run(_make, settings, running.home)
        running.client_id = str(made.service.client_id)
        _tell(made, running.home, issuer)
        with suppress(KeyboardInterrupt):
            running.serve_forever()
    print("\nThe application has ended. What was made stays; `postern demo` finds it again.")
    return OK


def require_trial(issuer: str) -> None:
    """Raises `StartFailed` when the installation is not on this machine, or does not answer."""
    if urlsplit(issuer).hostname not in _HERE:
        raise StartFailed(f"The demo is for trying Postern out on one machine, and this one is {issuer}")
    try:
        with urlopen(f"{issuer}/health/ready", timeout=_PATIENCE):  # noqa: S310 - our own address
            pass
    except (URLError, HTTPException, OSError):
        raise StartFailed(f"Postern does not answer at {issuer}: start it first, in another terminal, with `make run`") from None


def application(port: int | None, issuer: str) -> DemoApplication:
    try:
        return DemoApplication(PORT if port is None else port, issuer)
    except OSError as error:
        if port is not None:
            raise StartFailed(f"Port {port} cannot be used: {error.strerror}") from None
        return DemoApplication(0, issuer)


async def _make(settings: Settings, home: str) -> Demo:
    async with opened_postern(settings) as postern:
        return await make(postern, home)


def _tell(made: Demo, home: str, issuer: str) -> None:
    print(
        f"""\
The demo is ready.

  Application   {home}/
  Organization  {made.organization.name} ({SLUG})
  Service       {made.service.name} ({made.service.slug}), client id {made.service.client_id}
  People        {OWNER}, its owner
                {MEMBER}, a member
  Password      {made.password.reveal()}
                of both, new at each run

Open the application and press "Sign in with Postern". Then look at {issuer}/ui/applications
Ctrl-C ends the application. `postern organization delete --organization {SLUG}` removes the organization.""",
        flush=True,
    )

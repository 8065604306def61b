"""`postern demo`: creates an organization with users and an application, and runs an application that signs them in, until it is
interrupted.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from http.client import HTTPException
from threading import Thread
from typing import Final, TypeVar
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import trio

from entrypoints.cli.opening import opened_postern
from entrypoints.demo.application import DemoApplication, DemoServer
from entrypoints.demo.everything import (
    MEMBER,
    OWNER,
    PARTNER,
    PARTNER_SLUG,
    SLUG,
    WIKI,
    Demo,
    Programs,
    make_everything,
    make_organizations,
)
from entrypoints.demo.tools import DemoAssistant, DemoTools
from entrypoints.demo.wiki import DemoWiki
from entrypoints.failures import OK, StartFailed
from entrypoints.settings import Settings

PORT: Final = 8001
Server = TypeVar("Server", bound=DemoServer)
_HERE: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_PATIENCE: Final = 10.0


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    issuer = settings.public_url
    require_trial(issuer)
    if arguments.all:
        return _run_all(arguments.port, settings)
    with application(arguments.port, issuer) as running:
        made = trio.run(_make, settings, running.home)
        running.client_id = str(made.service.client_id)
        _tell(made, running.home, issuer)
        with suppress(KeyboardInterrupt):
            running.serve_forever()
    print("\nThe application has stopped. The demo data is kept; `postern demo` uses it again.")
    return OK


def _run_all(port: int | None, settings: Settings) -> int:
    """Four programs, each in a thread of its own, until the command is interrupted. All of them listen on loopback alone."""
    issuer = settings.public_url
    first = PORT if port is None else port
    with ExitStack() as ending:
        notes = ending.enter_context(application(port, issuer))

        def at(number: int, make: Callable[[int], Server]) -> Server:
            server = _at(first + number if first else 0, make, is_said=port is not None)
            ending.callback(server.server_close)
            return server

        tools = at(1, lambda there: DemoTools(there, issuer))
        programs = Programs(tools, at(2, lambda there: DemoAssistant(there, tools.resource)), at(3, DemoWiki))
        made = trio.run(_make_all, settings, notes.home, programs)
        notes.client_id = str(made.service.client_id)
        running: Sequence[DemoServer] = (notes, programs.tools, programs.assistant, programs.wiki)
        threads = [Thread(target=one.serve_forever, name=one.title) for one in running]
        for thread in threads:
            thread.start()
        try:
            _tell_all(made, notes.home, programs, issuer)
            with suppress(KeyboardInterrupt):
                threads[0].join()
        finally:
            for one in running:
                one.shutdown()
            for thread in threads:
                thread.join()
    print("\nThe applications have stopped. The demo data is kept; `postern demo --all` uses it again.")
    return OK


def _at(port: int, make: Callable[[int], Server], *, is_said: bool) -> Server:
    """The program at this port, or at a free one if nobody has said a port."""
    try:
        return make(port)
    except OSError as error:
        if is_said:
            raise StartFailed(f"Port {port} cannot be used: {error.strerror}") from None
        return make(0)


def require_trial(issuer: str) -> None:
    """Raises `StartFailed` when the installation is not on this machine, or does not answer."""
    if urlsplit(issuer).hostname not in _HERE:
        raise StartFailed(f"The demo is for trying Postern out on one machine, and this one is {issuer}")
    try:
        with urlopen(f"{issuer}/health/ready", timeout=_PATIENCE):  # noqa: S310 - our own address
            pass
    except (URLError, HTTPException, OSError):
        raise StartFailed(f"Postern does not respond at {issuer}: start it first, in another terminal, with `make run`") from None


def application(port: int | None, issuer: str) -> DemoApplication:
    try:
        return DemoApplication(PORT if port is None else port, issuer)
    except OSError as error:
        if port is not None:
            raise StartFailed(f"Port {port} cannot be used: {error.strerror}") from None
        return DemoApplication(0, issuer)


async def _make(settings: Settings, home: str) -> Demo:
    async with opened_postern(settings) as postern:
        return await make_organizations(postern, home)


async def _make_all(settings: Settings, home: str, programs: Programs) -> Demo:
    async with opened_postern(settings) as postern:
        made = await make_organizations(postern, home, partner=True)
        await make_everything(postern, made, programs, settings.public_url)
        return made


def _tell_all(made: Demo, home: str, programs: Programs, issuer: str) -> None:
    console = f"{issuer}/ui/o"
    print(
        f"""\
All of the demo is ready.

  Web application  {home}/
                   sign in, and see what it is told; {console}/{SLUG}/applications/{made.service.slug}
  MCP server       {programs.tools.resource}
                   its tool takes tokens for it alone; {console}/{SLUG}/apis
  MCP client       {programs.assistant.home}/
                   allow it, and it calls the tool with your account; then end that at {issuer}/ui/applications
  By SAML          {programs.wiki.home}/
                   sign in as {PARTNER}; {console}/{PARTNER_SLUG}/applications/{WIKI}

  Tenants          {made.organization.name} ({SLUG}): {OWNER}, its owner, and {MEMBER}, a member
                   Demo Partner ({PARTNER_SLUG}): {PARTNER}, its owner. Neither tenant sees the other
  Password         {made.password.reveal()}
                   of all three, new at each run; the audit log says when

Ctrl-C ends the programs. `postern organization delete --organization {SLUG}` removes a tenant, and so for {PARTNER_SLUG}.""",
        flush=True,
    )


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
                of both, new at each run; the audit log says when

Open the application and press "Sign in with Postern". Then look at {issuer}/ui/applications
Ctrl-C ends the application. `postern organization delete --organization {SLUG}` removes the organization.""",
        flush=True,
    )

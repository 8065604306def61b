"""Postern in a process of its own, which a test kills while its requests wait. It says so when they have begun."""

import json
import os
import sys
from functools import partial

import trio

from entrypoints.bootstrap import open_postern
from entrypoints.http.application import build_application
from entrypoints.settings import read
from tests.http.client import Client
from tests.http.conftest import SETTINGS


async def main() -> None:
    environment, requests = json.loads(sys.stdin.read())
    async with open_postern(read(environment)) as postern, trio.open_nursery() as nursery:
        client = Client(build_application(postern, SETTINGS))
        for path, kind, body in requests:
            nursery.start_soon(partial(client.request, "POST", path, body=body.encode(), headers=[("content-type", kind)]))
        sys.stdout.write(f"{os.getpid()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main)

"""Configuration documents: a document with a thousand organizations and five thousand services, by the command itself."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
import yaml

from ops.bench.harness import Options, directory, environment_of, postgres, settings_for
from ops.bench.report import Figure, at_most

ORGANIZATIONS: Final = 1000
SERVICES: Final = 5
OWNER: Final = "ada@example.org"
_COMMAND: Final = [sys.executable, "-m", "entrypoints.cli.main"]
_PERSON: Final = """
    insert into users (id, email, email_key, email_verified_at, is_platform_owner, created_at, updated_at)
    values (gen_random_uuid(), %(email)s, %(email)s, now(), false, now(), now())
"""


async def documents(_options: Options) -> Sequence[Figure]:
    """`postern config plan` and `apply` of a document with 1 000 organizations and 5 000 services, each with a plan, a permission and a
    role, on an empty installation, and both once more.
    """
    figures: list[Figure] = []
    with directory() as place, postgres(place) as server:
        environment = {**os.environ, **environment_of(None), **settings_for(place, "127.0.0.1:0", server.application_url)}
        _ran(["migrate"], environment)
        with psycopg.connect(server.application_url, autocommit=True) as connection:
            connection.execute(_PERSON, {"email": OWNER})
        file = place / "all.yaml"
        file.write_text(yaml.dump(document(), Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False))
        owners = [f"--owner={slug}={OWNER}" for slug in document()["organizations"]]
        steps = (
            ("plan of all", "plan", 10),
            ("apply of all", "apply", 120),
            ("plan of nothing", "plan", 10),
            ("apply of nothing", "apply", 120),
        )
        for what, command, most in steps:
            seconds, megabytes, worked = _ran(["config", command, str(file), "--json", *owners], environment)
            figures += [
                Figure(f"{what}: time", seconds, "s", at_most(most)),
                Figure(f"{what}: memory", megabytes, "MB", at_most(300) if command == "plan" else None),
                Figure(f"{what}: processor time of the command", worked, "s"),
            ]
    return figures


def document(organizations: int = ORGANIZATIONS, services: int = SERVICES) -> Mapping[str, Any]:
    service = {
        "name": "Shop",
        "service_type": "web",
        "redirect_uris": ["https://shop.example/callback"],
        "plans": {"pro": {"name": "Pro", "price_cents": 900, "currency": "eur"}},
        "permissions": {"orders:write": {"description": "Write orders"}},
        "roles": {"clerk": {"name": "Clerk", "permissions": ["orders:write"]}},
    }
    organization = {
        "limits": {"tier": "professional"},
        "roles": {"support": {"name": "Support", "permissions": ["end_users.view"]}},
        "sign_in_rules": {"device_trust_days": 7},
        "services": {f"shop-{number}": service for number in range(services)},
    }
    slugs = [f"tenant-{number:04}" for number in range(organizations)]
    return {"postern": 1, "organizations": {slug: {"name": slug.title(), **organization} for slug in slugs}}


def _ran(words: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float, float]:
    """The seconds that the command took, the most memory that it had, in megabytes, and its own processor time, in seconds."""
    began = time.monotonic()
    process = subprocess.Popen(
        [*_COMMAND, *words], env=environment, cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None  # noqa: S101 - for the type checker: it was asked for
    said = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode not in {0, 2}:
        raise RuntimeError(f"postern {' '.join(words[:2])} ended with {process.returncode}: {said[-500:]}")
    scale = 1e6 if sys.platform == "darwin" else 1e3
    return time.monotonic() - began, used.ru_maxrss / scale, used.ru_utime + used.ru_stime

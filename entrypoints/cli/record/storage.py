"""`postern storage`: what grows, how fast, what ends it, and until when the disk lasts."""

import argparse
import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, Final

import trio

from core.domain.platform.storage import Storage, StoredTable
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import print_json, printable
from entrypoints.failures import OK, USAGE, StartFailed
from entrypoints.settings import Settings

# What ends the rows of a table. Rows of the other tables end with what has made them: a person, an organization, a service.
ENDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("audit_entries", "audit_links", "audit_personal"), "nothing; personal parts when a person is forgotten"),
    **dict.fromkeys(("login_events", "mfa_events"), "POSTERN_LOGIN_EVENT_RETENTION"),
    "events": "POSTERN_EVENT_RETENTION",
    **dict.fromkeys(("webhook_deliveries", "logout_notices"), "POSTERN_DELIVERY_RETENTION"),
    **dict.fromkeys(("sessions", "refresh_tokens", "browser_sessions"), "30 days after their end"),
    "devices": "a year without use, or 30 days after their revocation",
    "jobs": "when they are done; dead ones after 30 days",
    "users": "when they are deleted; never proved and unused ones by POSTERN_UNVERIFIED_ACCOUNT_RETENTION",
    "billing_events": "90 days",
    **dict.fromkeys(("scim_exchanges", "saml_exchanges", "connection_exchanges", "authorization_refusals"), "7 days"),
    **dict.fromkeys(("login_counts", "platform_login_counts"), "nothing: a row an hour"),
    "storage_samples": "400 days",
    **dict.fromkeys(("audit_pending", "sign_in_pending", "uncounted_logins"), "when a worker has taken them, within seconds"),
    **dict.fromkeys(
        ("preauthentications", "pushed_requests", "connection_answers", "connection_tests", "passkey_challenges", "oauth_states", "flows"),
        "at their end, minutes after they began",
    ),
    **dict.fromkeys(("client_assertions", "saml_requests"), "5 minutes after their end"),
    "device_codes": "an hour after their end",
    "authorization_codes": "a day after their end",
    "mailed_tokens": "7 days after their end",
    **dict.fromkeys(("management_keys", "setup_links"), "30 days after their end"),
    "sign_in_links": "when the SIEM has got them",
    "rate_limit_buckets": "when they are full again",
    "provider_outages": "a day after the last failure",
    "billing_subscriptions": "90 days after they were let go",
    "all_signing_keys": "when no token needs them any more",
    **dict.fromkeys(("schema_migrations", "server_secrets", "tiers"), "nothing"),
}
_OTHERWISE: Final = "with what it belongs to"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_FREE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)(B|KiB|MiB|GiB|TiB)?")
_SHOWN: Final = 20


class _WrongSize(StartFailed):
    status = USAGE


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    return trio.run(_tell, arguments, settings)


async def _tell(arguments: argparse.Namespace, settings: Settings) -> int:
    free = _free(arguments.free, settings)
    async with opened_postern(settings) as postern:
        storage = await postern.platform.storage.look()
    if arguments.json:
        print_json(_object(storage, free))
    else:
        for line in _lines(storage, free):
            print(line)
    return OK


def _free(told: str | None, settings: Settings) -> int | None:
    """Of the database's disk, which is ours only if the server is embedded."""
    if told is None:
        return shutil.disk_usage(settings.data_dir).free if settings.database_url is None else None
    found = _FREE.fullmatch(told)
    if found is None:
        raise _WrongSize(f"--free is a size such as 200GiB, not {printable(told)!r}")
    return int(float(found[1]) * 1024 ** _UNITS.index(found[2] or "B"))


def _object(storage: Storage, free: int | None) -> dict[str, Any]:
    until = None if free is None else storage.lasts_until(free)
    return {
        "bytes": storage.bytes,
        "bytes_a_day": storage.all_grow,
        "sampled_since": None if storage.sampled is None else storage.sampled.isoformat(),
        "free_bytes": free,
        "lasts_until": None if until is None else until.isoformat(),
        "tables": [
            {
                "name": one.name,
                "rows": one.rows,
                "bytes": one.bytes,
                "bytes_a_day": storage.grows(one),
                "dead_share": round(one.dead, 3),
                "ends": ENDS.get(one.name, _OTHERWISE),
            }
            for one in storage.tables
        ],
    }


def _lines(storage: Storage, free: int | None) -> Iterator[str]:
    yield f"{'table':<26} {'size':>10} {'a day':>10} {'rows, about':>14} {'dead':>5}  what ends it"
    for one in storage.tables[:_SHOWN]:
        yield _line(storage, one)
    if (others := storage.tables[_SHOWN:]) and (together := sum(one.bytes for one in others)):
        yield f"{f'{len(others)} others':<26} {_size(together):>10}"
    a_day = storage.all_grow
    if a_day is None:
        known = "How fast it grows is known a day after the first sample, which the server keeps"
        lasts = "" if free is None else f", and with it how long the {_size(free)} that are free last"
        yield f"The database takes {_size(storage.bytes)}. {known}{lasts}."
        return
    yield f"The database takes {_size(storage.bytes)} and grows by {_size(a_day)} a day, since {storage.sampled}."
    if free is None:
        yield "How much space the disk of the database has is not known here: name it with --free, for example --free 200GiB."
    elif (until := storage.lasts_until(free)) is None:
        yield f"{_size(free)} are free, and at this speed they last for more than a hundred years."
    else:
        yield f"{_size(free)} are free, and at this speed they last until {until}."


def _line(storage: Storage, one: StoredTable) -> str:
    grows = storage.grows(one)
    speed = "not known" if grows is None else _size(grows)
    rows = "not known" if one.rows is None else f"{one.rows:,}"
    return f"{one.name:<26} {_size(one.bytes):>10} {speed:>10} {rows:>14} {one.dead:>5.0%}  {ENDS.get(one.name, _OTHERWISE)}"


def _size(number: float) -> str:
    for unit in _UNITS[:-1]:
        if abs(number) < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} {_UNITS[-1]}"

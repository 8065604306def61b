"""`postern storage`: reports which tables grow, how fast, what limits them, and until when the disk lasts."""

import argparse
import re
import shutil
from collections.abc import Iterator
from typing import Any, Final

import trio

from adapters.postgres.tables.every import TABLES
from core.domain.platform.installation import Storage, StoredTable
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import print_json, printable
from entrypoints.failures import OK, USAGE, StartFailed
from entrypoints.settings import Settings

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


def _until(table: str) -> str:
    return (TABLES[table].until if table in TABLES else None) or _OTHERWISE


def _free(told: str | None, settings: Settings) -> int | None:
    """Of the database's disk, which is ours only if the server is embedded."""
    if told is None:
        return shutil.disk_usage(settings.data_dir).free if settings.database_url is None else None
    found = _FREE.fullmatch(told)
    if found is None:
        raise _WrongSize(f"--free must be a size such as 200GiB, not {printable(told)!r}")
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
                "ends": _until(one.name),
            }
            for one in storage.tables
        ],
    }


def _lines(storage: Storage, free: int | None) -> Iterator[str]:
    yield f"{'table':<26} {'size':>10} {'a day':>10} {'rows, about':>14} {'dead':>5}  retention"
    for one in storage.tables[:_SHOWN]:
        yield _line(storage, one)
    if (others := storage.tables[_SHOWN:]) and (together := sum(one.bytes for one in others)):
        yield f"{f'{len(others)} others':<26} {_size(together):>10}"
    a_day = storage.all_grow
    if a_day is None:
        known = "The growth is known one day after the first sample, which the server keeps"
        lasts = "" if free is None else f", and with it how long the {_size(free)} of free space last"
        yield f"The database uses {_size(storage.bytes)}. {known}{lasts}."
        return
    yield f"The database uses {_size(storage.bytes)} and grows by {_size(a_day)} a day, since {storage.sampled}."
    if free is None:
        yield "The free space of the database's disk cannot be read here: specify it with --free, for example --free 200GiB."
    elif (until := storage.lasts_until(free)) is None:
        yield f"{_size(free)} are free. At this rate, they last for more than 100 years."
    else:
        yield f"{_size(free)} are free. At this rate, they last until {until}."


def _line(storage: Storage, one: StoredTable) -> str:
    grows = storage.grows(one)
    speed = "unknown" if grows is None else _size(grows)
    rows = "unknown" if one.rows is None else f"{one.rows:,}"
    return f"{one.name:<26} {_size(one.bytes):>10} {speed:>10} {rows:>14} {one.dead:>5.0%}  {_until(one.name)}"


def _size(number: float) -> str:
    for unit in _UNITS[:-1]:
        if abs(number) < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} {_UNITS[-1]}"

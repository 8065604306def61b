"""`postern saml status`: the state of each service with SAML, and of its service provider."""

import argparse
from collections.abc import Sequence
from datetime import datetime

import trio

from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import print_json, printable
from entrypoints.failures import OK
from entrypoints.settings import Settings
from ports.federation.saml import Configured


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, settings, arguments.json)
    return OK


async def _run(settings: Settings, as_json: bool) -> None:  # noqa: FBT001 - trio.run passes by position
    async with opened_postern(settings) as postern:
        services = await postern.federation.saml.all()
    if as_json:
        print_json([_record(one) for one in services])
        return
    for line in table(services):
        print(line)


def _record(one: Configured) -> dict[str, object]:
    configuration, active, upcoming = one.configuration, one.active, one.next
    return {
        "organization": one.organization_slug,
        "service": one.service_slug,
        "enabled": configuration is not None and configuration.enabled,
        "entity_id": None if configuration is None else configuration.entity_id,
        "certificate_valid_until": None if active is None else active.certificate.valid_until,
        "last_signed_at": None if active is None else active.certificate.last_signed_at,
        "metadata_fetched_at": None if configuration is None else configuration.metadata_fetched_at,
        "next_certificate_created_at": None if upcoming is None else upcoming.certificate.created_at,
    }


def table(services: Sequence[Configured]) -> list[str]:
    """One line for each service: whether SAML is enabled, which certificate signs and until when, when that certificate last signed, and
    whether the metadata was fetched after a next certificate was made.
    """
    if not services:
        return ["No service has SAML."]
    rows: list[tuple[str, ...]] = [
        ("service", "enabled", "certificate until", "last signed", "metadata fetched", "next", "service provider")
    ]
    rows += [_row(one) for one in services]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(one: Configured) -> tuple[str, ...]:
    configuration, active, upcoming = one.configuration, one.active, one.next
    fetched = None if configuration is None else configuration.metadata_fetched_at
    return (
        f"{one.organization_slug}/{one.service_slug}",
        "yes" if configuration is not None and configuration.enabled else "no",
        "none" if active is None else _day(active.certificate.valid_until),
        "-" if active is None else _day(active.certificate.last_signed_at),
        _day(fetched),
        "-" if upcoming is None else "fetched" if fetched is not None and fetched >= upcoming.certificate.created_at else "not fetched yet",
        printable("" if configuration is None else configuration.entity_id or ""),
    )


def _day(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d}"

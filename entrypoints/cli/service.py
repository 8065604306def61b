"""`postern service list`, `show` and `client-id`: the services of all organizations, and what no endpoint gives or does."""

import argparse
from collections.abc import Sequence
from typing import Final

import trio

from core.domain.requests import MOST_ROWS_COUNTED
from core.domain.services.services import RegisteredService
from entrypoints.bootstrap import Postern
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting
from entrypoints.cli.output.printing import moment, print_json, printable
from entrypoints.failures import OK
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, arguments, settings)
    return OK


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    async with opened_postern(settings) as postern:
        await _ACTIONS[arguments.action](postern, arguments)


async def _list(postern: Postern, given: argparse.Namespace) -> None:
    found = await postern.services.registered_services.list(given.organization, given.limit, given.offset)
    if given.json:
        print_json(found)
        return
    for line in table(found.items):
        print(line)
    at_least = "at least " if found.total == MOST_ROWS_COUNTED else ""
    shown = f"{given.offset + 1}-{given.offset + len(found.items)}" if found.items else "none"
    print(f"{shown} of {at_least}{found.total}")


async def _show(postern: Postern, given: argparse.Namespace) -> None:
    found = await postern.services.registered_services.show(given.organization, given.service)
    if given.json:
        print_json(found)
        return
    for name, text in lines(found):
        print(f"{name:<14} {text}".rstrip())


async def _client_id(postern: Postern, given: argparse.Namespace) -> None:
    organization = (await postern.platform.governance.show(given.organization)).organization
    service = await postern.services.kept_client_ids.keep(organization.id, given.service, given.keep, acting())
    if given.json:
        print_json({"organization": organization.slug, "service": service.slug, "client_id": service.client_id})
        return
    print(f"{organization.slug}/{service.slug} is the client {service.client_id}")


_ACTIONS: Final = {"list": _list, "show": _show, "client-id": _client_id}


def table(services: Sequence[RegisteredService]) -> list[str]:
    rows = [("organization", "slug", "type", "users", "created", "name")] if services else []
    rows += [
        (
            one.organization_slug,
            one.service.slug,
            one.service.service_type.value,
            str(one.users),
            f"{one.service.created_at:%Y-%m-%d}",
            printable(one.service.name),
        )
        for one in services
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def lines(seen: RegisteredService) -> list[tuple[str, str]]:
    service = seen.service
    keeps = "can keep a secret" if service.service_type.is_confidential else "cannot keep a secret: uses PKCE"
    return [
        ("id", str(service.id)),
        ("organization", f"{seen.organization_slug}{'' if seen.organization_is_active else ' (not active)'}"),
        ("slug", service.slug),
        ("name", printable(service.name, 100)),
        ("type", f"{service.service_type} ({keeps})"),
        ("client id", service.client_id),
        ("users", str(seen.users)),
        ("plans", f"{seen.plans}, with {seen.subscriptions} subscribed"),
        ("API keys", str(seen.api_keys)),
        ("client secrets", str(seen.client_secrets)),
        *((("redirect URIs", "none"),) if not service.redirect_uris else ()),
        *(("redirect URIs" if at == 0 else "", uri) for at, uri in enumerate(service.redirect_uris)),
        ("activation", service.device_activation_uri or "none"),
        ("starts sign-in", service.initiate_login_uri or "none"),
        ("created", moment(service.created_at)),
    ]

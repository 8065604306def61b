"""`postern service …`: lists services, shows one in detail, makes and changes services, and makes client secrets."""

import argparse
from collections.abc import Sequence
from typing import Final

import trio

from core.domain.changes import UNCHANGED
from core.domain.pages import MOST_COUNTED
from core.domain.services.services import NewService, RegisteredService, ServiceChange, ServiceType, SignInPolicy
from entrypoints.bootstrap import Postern
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting, for_owner
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
    at_least = "at least " if found.total == MOST_COUNTED else ""
    shown = f"{given.offset + 1}-{given.offset + len(found.items)}" if found.items else "none"
    print(f"{shown} of {at_least}{found.total}")


async def _show(postern: Postern, given: argparse.Namespace) -> None:
    found = await postern.services.registered_services.show(given.organization, given.service)
    if given.json:
        print_json(found)
        return
    for name, text in lines(found):
        print(f"{name:<14} {text}".rstrip())


async def _create(postern: Postern, given: argparse.Namespace) -> None:
    member = await for_owner(postern, given.organization)
    wanted = NewService(
        slug=given.service,
        name=given.name,
        service_type=ServiceType(given.type or ServiceType.WEB),
        redirect_uris=tuple(given.redirect_uri or ()),
        sign_in_policy=SignInPolicy(given.sign_in_policy or SignInPolicy.ANYONE),
        trusted=given.trusted == "yes",
    )
    made = await postern.services.services.create(member, wanted, acting())
    if given.json:
        print_json(made.service)
    else:
        print(f"{made.service.slug} of {given.organization} has the client id {made.service.client_id}")


async def _set(postern: Postern, given: argparse.Namespace) -> None:
    member = await for_owner(postern, given.organization)
    change = ServiceChange(
        name=UNCHANGED if given.name is None else given.name,
        service_type=UNCHANGED if given.type is None else ServiceType(given.type),
        redirect_uris=UNCHANGED if given.redirect_uri is None else tuple(given.redirect_uri),
        sign_in_policy=UNCHANGED if given.sign_in_policy is None else SignInPolicy(given.sign_in_policy),
        trusted=UNCHANGED if given.trusted is None else given.trusted == "yes",
    )
    await postern.services.services.change(member, given.service, change, acting())
    await _show(postern, given)


async def _secret(postern: Postern, given: argparse.Namespace) -> None:
    member = await for_owner(postern, given.organization)
    made = await postern.services.client_secrets.create(member, given.service, acting())
    if given.json:
        shown = {"id": made.secret.id, "prefix": made.secret.prefix, "secret": made.text.reveal(), "created_at": made.secret.created_at}
        print_json(shown)
    else:
        print(made.text.reveal())


_ACTIONS: Final = {"list": _list, "show": _show, "create": _create, "set": _set, "secret": _secret}


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
    keeps = "can keep a secret" if service.service_type.is_confidential else "can keep no secret: uses PKCE"
    return [
        ("id", str(service.id)),
        ("organization", f"{seen.organization_slug}{'' if seen.organization_is_active else ' (not active)'}"),
        ("slug", service.slug),
        ("name", printable(service.name, 100)),
        ("type", f"{service.service_type} ({keeps})"),
        ("client id", str(service.client_id)),
        ("users", str(seen.users)),
        ("plans", f"{seen.plans}, with {seen.subscriptions} subscribed"),
        ("API keys", str(seen.api_keys)),
        ("client secrets", str(seen.client_secrets)),
        *((("redirect URIs", "none"),) if not service.redirect_uris else ()),
        *(("redirect URIs" if at == 0 else "", uri) for at, uri in enumerate(service.redirect_uris)),
        ("activation", service.device_activation_uri or "none"),
        ("created", moment(service.created_at)),
    ]

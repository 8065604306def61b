"""Todos of an organization that wait for a decision."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from core.domain.platform.todos import Todo
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationPath, example

_TAGS: Final = ("organizations",)


class TodoRecord(msgspec.Struct, frozen=True):
    """Something that waits for a decision, or that will break if nobody decides."""

    todo: Todo
    """What it is about."""
    count: Annotated[int, example(2)]
    """How many things there are, up to 100."""


@endpoint.get("/api/organizations/{org_slug}/todos", caller=able(Capability.SETTINGS_MANAGE, impersonated=True), keys=True, tags=_TAGS)
async def list_todos(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[TodoRecord]:
    """List what waits for a decision

    Requests to join, and what was set up with a link and waits for an owner. Certificates and keys that end within thirty days, connections
    with such certificates, and certificates that wait for an owner. Webhooks, a mail server and a SIEM that fail, and domains whose proof
    is gone. Members without the second factor that the organization requires. Own texts beneath which a
    release has changed ours. The list is empty when there is nothing to do.
    """
    return [TodoRecord(todo, count) for todo, count in (await postern.platform.todos.of(call.caller)).items()]

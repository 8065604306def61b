"""Who acted, and with which program, as readers of an audit log name them. The endpoints want the id."""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from core.domain.errors import BadRequest
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.routes.platform.platform_users import search_users
from entrypoints.http.routes.tenancy.management_keys import list_management_keys
from entrypoints.http.routes.tenancy.members import list_members

_MOST_NAMED: Final = 5
_MOST_FOUND: Final = 20


class NamedActor(NamedTuple):
    id: UUID
    names: tuple[str, ...]
    """What people may call them. The first is unique, or nearly so."""


def read_id(text: str) -> str | None:
    """The text as an id. None if it is none."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def only_actor(text: str, found: Sequence[NamedActor]) -> str:
    """The id of the one who is meant: who has exactly this name, or else the only one found. Raises `BadRequest`."""
    exact = [one for one in found if text.casefold() in {name.casefold() for name in one.names}]
    fitting = exact or found
    if len(fitting) == 1:
        return str(fitting[0].id)
    if not fitting:
        raise BadRequest("actor_id: no person has this name or email address", words="actor_unknown")
    several = ", ".join(one.names[0] for one in fitting[:_MOST_NAMED])
    raise BadRequest("actor_id: several people have this name", words="actor_several", values={"names": several})


async def actor_of_organization(visit: PageVisit, text: str) -> str:
    """Members and keys are found by their names, where the reader may list them."""
    if (given := read_id(text)) is not None:
        return given
    found = list[NamedActor]()
    if visit.may(list_members):
        people = (await visit.ask(list_members, query={"search": text, "limit": _MOST_FOUND})).members
        found += [NamedActor(one.user.id, (one.user.email, one.user.name or "")) for one in people]
    if visit.may(list_management_keys):
        keys = (await visit.ask(list_management_keys)).management_keys
        found += [NamedActor(one.id, (one.name, one.prefix)) for one in keys if text.casefold() in f"{one.name} {one.prefix}".casefold()]
    return only_actor(text, found)


async def actor_of_installation(visit: PageVisit, text: str) -> str:
    if (given := read_id(text)) is not None:
        return given
    people = (await visit.ask(search_users, query={"search": text, "limit": _MOST_FOUND})).users
    return only_actor(text, [NamedActor(one.id, (one.email, one.name or "")) for one in people])


async def program_in_words(visit: PageVisit, user_agent: str | None) -> str:
    """As in "Firefox on Linux". What nobody has words for is shown as it came. Empty if nothing came."""
    return await visit.postern.identity.devices.called(user_agent) or user_agent or ""

"""A sign-out on its way through the service providers of a session: each is told in turn by the person's browser, and says in turn how it
went. Our own sessions have ended before the first is told. Nobody but that browser carries what the next one is told: it says where else
the person is, and by which name, which is no affair of the one before.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from core.domain.federation.saml.configurations import NameIdFormat, SamlBinding
from core.domain.federation.saml.messages import NameId, Status
from core.domain.identifiers import FlowId, UserId
from core.domain.identity.sign_in import ServiceName
from core.domain.json import Json
from core.frozen import Frozen, replace

_MESSAGE_ID: Final = re.compile(r"_([0-9a-f]{32})\.([0-9]{1,3})")


class Stop(Frozen):
    """A service provider that is to be told."""

    place: ServiceName
    name_id: NameId
    session_index: str
    audience: str | None = None
    """The entity id of the one that knows the name. None: it is not known."""


class Origin(Frozen):
    """The service provider that asked for the sign-out, and is answered at the end."""

    place: ServiceName
    request_id: str
    relay_state: str | None
    binding: SamlBinding = SamlBinding.POST
    """How it asked. What the release before has begun does not say so, and was answered by a form."""


class LogoutRoute(Frozen):
    """How far a sign-out has come."""

    stops: Sequence[Stop]
    origin: Origin | None = None
    """None: the person signed out here."""
    done: int = 0
    partial: bool = False
    """Somebody could not be told, or said that it did not work."""
    people: Sequence[UserId] = ()
    """Whose browser may carry it on, while it is not known yet which browser that is."""
    way_back: str | None = None
    """Where the application that signed the person out wants them in the end. None: they stay here."""

    @property
    def current(self) -> Stop | None:
        return self.stops[self.done] if self.done < len(self.stops) else None

    @property
    def status(self) -> Status:
        return Status.PARTIAL_LOGOUT if self.partial else Status.SUCCESS

    def passed(self, *, well: bool) -> "LogoutRoute":
        return replace(self, done=self.done + 1, partial=self.partial or not well)

    def abandoned(self) -> "LogoutRoute":
        """Nobody carries it on to those who are left."""
        return replace(self, stops=self.stops[: self.done], partial=self.partial or self.current is not None)

    def stored(self) -> Mapping[str, Json]:
        origin = self.origin
        return {
            "people": [str(user) for user in self.people],
            "stops": [
                {
                    "organization": stop.place.organization,
                    "service": stop.place.service,
                    "name_id": stop.name_id.text,
                    "format": stop.name_id.format.value,
                    "session_index": stop.session_index,
                    "audience": stop.audience,
                }
                for stop in self.stops
            ],
            "origin": None
            if origin is None
            else {
                "organization": origin.place.organization,
                "service": origin.place.service,
                "request_id": origin.request_id,
                "relay_state": origin.relay_state,
                "binding": origin.binding.value,
            },
            "done": self.done,
            "partial": self.partial,
            "way_back": self.way_back,
        }


def restored(kept: Mapping[str, Any]) -> LogoutRoute:
    """What `LogoutRoute.stored` made."""
    origin = kept["origin"]
    return LogoutRoute(
        stops=tuple(
            Stop(
                ServiceName(one["organization"], one["service"]),
                NameId(text=one["name_id"], format=NameIdFormat(one["format"])),
                one["session_index"],
                one.get("audience"),
            )
            for one in kept["stops"]
        ),
        origin=None
        if origin is None
        else Origin(
            ServiceName(origin["organization"], origin["service"]),
            origin["request_id"],
            origin["relay_state"],
            SamlBinding(origin.get("binding", SamlBinding.POST)),
        ),
        done=kept["done"],
        partial=kept["partial"],
        people=tuple(UserId(UUID(user)) for user in kept.get("people", ())),
        way_back=kept.get("way_back"),
    )


def message_id(flow: FlowId, stop: int) -> str:
    """Of the request at a stop. Its answer leads back to the flow by it."""
    return f"_{flow.hex}.{stop}"


def flow_and_stop(text: str | None) -> tuple[FlowId, int] | None:
    """What `message_id` made. None for anything else."""
    found = _MESSAGE_ID.fullmatch(text or "")
    return None if found is None else (FlowId(UUID(found[1])), int(found[2]))

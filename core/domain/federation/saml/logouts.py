"""A sign-out on its way through the service providers of a session. The person's browser goes to one service provider after the other, and
brings each answer back. Our own sessions end before the first service provider is told. Only the browser carries the messages: a message
says which other service the person uses, and under which name, and the previous service provider must not learn this.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from core.domain.identifiers import FlowId, UserId
from core.domain.identity.sign_in import ServiceName
from core.domain.json import Json
from core.domain.saml.messages import NameId, NameIdFormat, SamlBinding, Status
from core.frozen import Frozen, replace

_MESSAGE_ID: Final = re.compile(r"_([0-9a-f]{32})\.([0-9]{1,3})")


class Stop(Frozen):
    """A service provider that the browser still has to tell."""

    place: ServiceName
    name_id: NameId
    session_index: str
    audience: str | None = None
    """The entity id of the service provider that knows the name. None when it is not known."""


class Origin(Frozen):
    """The service provider that asked for the sign-out. It gets the answer at the end."""

    place: ServiceName
    request_id: str
    relay_state: str | None
    binding: SamlBinding = SamlBinding.POST
    """The binding of its request. A sign-out that the release before began does not have it, and is answered by POST."""


class LogoutRoute(Frozen):
    """The progress of a sign-out."""

    stops: Sequence[Stop]
    origin: Origin | None = None
    """None when the person signed out here."""
    done: int = 0
    partial: bool = False
    """A service provider could not be told, or reported a failure."""
    people: Sequence[UserId] = ()
    """The people whose browser may continue the sign-out, as long as no browser has claimed it."""
    way_back: str | None = None
    """The address to which the application that began the sign-out wants the person sent at the end. None when the person stays here."""

    frames: Sequence[str] = ()
    """The pages of applications that the browser has not loaded yet, each in a frame. They come first: a service provider that does not
    answer stops a sign-out.
    """

    @property
    def current(self) -> Stop | None:
        return self.stops[self.done] if self.done < len(self.stops) else None

    @property
    def status(self) -> Status:
        return Status.PARTIAL_LOGOUT if self.partial else Status.SUCCESS

    def passed(self, *, well: bool) -> "LogoutRoute":
        return replace(self, done=self.done + 1, partial=self.partial or not well)

    def abandoned(self) -> "LogoutRoute":
        """Nobody tells the remaining service providers, or the applications."""
        return replace(self, stops=self.stops[: self.done], partial=self.partial or self.current is not None, frames=())

    def framed(self) -> "LogoutRoute":
        """The browser has loaded the frames."""
        return replace(self, frames=())

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
            "frames": list(self.frames),
        }


def restored(kept: Mapping[str, Any]) -> LogoutRoute:
    """Reads the form that `LogoutRoute.stored` made."""
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
        frames=tuple(kept.get("frames", ())),
    )


def message_id(flow: FlowId, stop: int) -> str:
    """The id of the request to a service provider. The answer repeats the id, and so leads back to the flow."""
    return f"_{flow.hex}.{stop}"


def flow_and_stop(text: str | None) -> tuple[FlowId, int] | None:
    """Reads an id that `message_id` made. None for any other text."""
    found = _MESSAGE_ID.fullmatch(text or "")
    return None if found is None else (FlowId(UUID(found[1])), int(found[2]))

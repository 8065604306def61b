"""Who acts in a person's name beside the person's own application (RFC 8693 section 4.1). A session carries its actors, and its tokens say
them in `act`: the one who acts now, and within it those through whom the session came.
"""

from collections.abc import Mapping
from typing import Final

from core.domain.identifiers import ClientId
from core.domain.json import Json
from core.frozen import Frozen

MOST_ACTORS: Final = 2
"""A token of the third would say little of who has done what, and its API would trust a service that it knows nothing of."""


class Acting(Frozen):
    client: ClientId
    through: "Acting | None" = None
    """The one who acted before."""

    @property
    def depth(self) -> int:
        return 1 if self.through is None else 1 + self.through.depth

    @property
    def claim(self) -> Mapping[str, Json]:
        """The claim `act`, which a session keeps in this form, too."""
        return {"sub": self.client} if self.through is None else {"sub": self.client, "act": self.through.claim}

    def has_room(self) -> bool:
        """Whether one more may act through this one."""
        return self.depth < MOST_ACTORS


def acting(kept: Mapping[str, Json] | None) -> Acting | None:
    """Reads what `claim` made. None when nobody acts but the person's own application."""
    if kept is None:
        return None
    through = kept.get("act")
    return Acting(ClientId(str(kept["sub"])), acting(through) if isinstance(through, Mapping) else None)

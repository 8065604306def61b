"""A person's visit to a directory by SAML, as far as the session that it opens has to remember it."""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from core.domain.identifiers import UpstreamProviderId
from core.domain.json import Json
from core.frozen import Frozen


class DirectoryVisit(Frozen, kw_only=True):
    provider: UpstreamProviderId
    name_digest: bytes
    """The digest of the person's name there: a sign-out names the person by it."""
    session_index: str = ""
    context_class: str = ""
    """How the person has proved there who they are. It counts in the services of the directory's organization alone."""
    issued_at: datetime | None = None
    """When the directory made its assertion, by its own clock. A sign-out that it asked for earlier does not concern this visit."""
    ends_at: datetime | None = None
    """When the directory wants the sessions that this visit opens to end (`SessionNotOnOrAfter`)."""

    def stored(self) -> Mapping[str, Json]:
        return {
            "provider": str(self.provider),
            "name_digest": self.name_digest.hex(),
            "session_index": self.session_index,
            "context_class": self.context_class,
            "issued_at": None if self.issued_at is None else self.issued_at.isoformat(),
            "ends_at": None if self.ends_at is None else self.ends_at.isoformat(),
        }


def restored_visit(kept: Mapping[str, Any]) -> DirectoryVisit:
    return DirectoryVisit(
        provider=UpstreamProviderId(UUID(kept["provider"])),
        name_digest=bytes.fromhex(kept["name_digest"]),
        session_index=kept["session_index"],
        context_class=kept["context_class"],
        issued_at=_moment(kept.get("issued_at")),
        ends_at=_moment(kept.get("ends_at")),
    )


def _moment(kept: str | None) -> datetime | None:
    return None if kept is None else datetime.fromisoformat(kept)


def name_digest(provider: UpstreamProviderId, name: str) -> bytes:
    """The digest of a name, which a sign-out repeats. Its qualifiers are left out, since directories do not always repeat them."""
    return sha256(f"{provider} {name}".encode("utf-8", "surrogatepass")).digest()

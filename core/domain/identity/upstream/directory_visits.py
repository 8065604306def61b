"""A person's visit to a directory by SAML, as far as the session that it opens has to remember it."""

from collections.abc import Mapping
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

    def stored(self) -> Mapping[str, Json]:
        return {
            "provider": str(self.provider),
            "name_digest": self.name_digest.hex(),
            "session_index": self.session_index,
            "context_class": self.context_class,
        }


def restored_visit(kept: Mapping[str, Any]) -> DirectoryVisit:
    return DirectoryVisit(
        provider=UpstreamProviderId(UUID(kept["provider"])),
        name_digest=bytes.fromhex(kept["name_digest"]),
        session_index=kept["session_index"],
        context_class=kept["context_class"],
    )


def name_digest(provider: UpstreamProviderId, name: str) -> bytes:
    """The digest of a name, which a sign-out repeats. Its qualifiers are left out, since directories do not always repeat them."""
    return sha256(f"{provider} {name}".encode("utf-8", "surrogatepass")).digest()

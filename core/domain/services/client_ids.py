"""Client ids: the names that services have as clients of OAuth. Each has one of its own, a UUID. A service that comes from another system
may keep the one that its programs are configured with.

The client id of a metadata client is the https address of its document, or all that the client has said of itself, signed by us (an open
client, `core/domain/federation/open_registrations.py`). The same client is another service in each organization, so the service is
kept under the client id together with the organization's id (`placed`). Nobody can send this form, because no such client id has a `#`:
whoever names the client has to name an API, a code or a token, and that says which organization it is.
"""

import re
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import ClientId, OrganizationId

LONGEST_CLIENT_ID: Final = 80
_OWN: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEPT: Final = re.compile(rf"[A-Za-z0-9._~-]{{8,{LONGEST_CLIENT_ID}}}")
# Whatever reads as a UUID is the id of some service here, or of one that will be made.
_UUID: Final = re.compile(r"-*(?:[0-9A-Fa-f]-*){32}")
_WEB: Final = "https://"
# A colon, which no kept client id has.
OPEN: Final = "open:"
LONGEST_OPEN_ID: Final = 1024
_PLACE: Final = "#"


def read_client_id(text: str) -> ClientId | None:
    """None for a text that no client id has. Of the spellings of a UUID, only the usual one counts."""
    return ClientId(text) if _OWN.fullmatch(text) or _may_be_kept(text) else None


def kept_client_id(text: str) -> ClientId:
    """Raises `BadRequest`."""
    if not _may_be_kept(text):
        raise BadRequest(f"client_id: must have 8 to {LONGEST_CLIENT_ID} letters, digits and . _ ~ -, and be no UUID")
    return ClientId(text)


def is_address(text: str) -> bool:
    """Whether a client id wants to be the address of a document."""
    return text.startswith(_WEB)


def is_open(text: str) -> bool:
    """Whether a client id wants to be that of an open client."""
    return text.startswith(OPEN)


def describes_itself(text: str) -> bool:
    """Whether a client id wants to be that of a metadata client."""
    return is_address(text) or is_open(text)


def placed(address: str, organization: OrganizationId) -> ClientId:
    """The client id of the service that a metadata client is in one organization."""
    return ClientId(f"{address}{_PLACE}{organization}")


def place_of(client: ClientId) -> str:
    """The organization's id in a placed client id, as a text."""
    return client.partition(_PLACE)[2]


def shown(client: ClientId) -> ClientId:
    """The client id as the client knows it, and as tokens name it."""
    return ClientId(client.partition(_PLACE)[0])


def document_host(client: ClientId) -> str | None:
    """The host of the document, with its port if it has one. None for a client without a document."""
    return client.split("/", 3)[2] if is_address(client) else None


def _may_be_kept(text: str) -> bool:
    return _KEPT.fullmatch(text) is not None and _UUID.fullmatch(text) is None

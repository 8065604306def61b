"""Client ids: the names that services have as clients of OAuth. Each has one of its own, a UUID. A service that comes from another system
may keep the one that its programs are configured with.
"""

import re
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import ClientId

LONGEST_CLIENT_ID: Final = 80
_OWN: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEPT: Final = re.compile(rf"[A-Za-z0-9._~-]{{8,{LONGEST_CLIENT_ID}}}")
# Whatever reads as a UUID is the id of some service here, or of one that will be made.
_UUID: Final = re.compile(r"-*(?:[0-9A-Fa-f]-*){32}")


def read_client_id(text: str) -> ClientId | None:
    """None for a text that no client id has. Of the spellings of a UUID, only the usual one counts."""
    return ClientId(text) if _OWN.fullmatch(text) or _may_be_kept(text) else None


def kept_client_id(text: str) -> ClientId:
    """Raises `BadRequest`."""
    if not _may_be_kept(text):
        raise BadRequest(f"client_id: must have 8 to {LONGEST_CLIENT_ID} letters, digits and . _ ~ -, and be no UUID")
    return ClientId(text)


def _may_be_kept(text: str) -> bool:
    return _KEPT.fullmatch(text) is not None and _UUID.fullmatch(text) is None

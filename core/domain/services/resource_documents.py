"""What an API publishes so that clients find their way to this installation: its protected resource metadata (RFC 9728), and the challenges
with which the API answers a request without a token that is good enough (RFC 6750, RFC 9470, RFC 9728).
"""

import json
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


def metadata_address(identifier: str) -> str:
    """The address at which clients look for the document: between the host and the path (RFC 9728 section 3.1)."""
    parts = urlsplit(identifier)
    path = "" if parts.path == "/" else parts.path
    return f"{parts.scheme}://{parts.netloc}{_WELL_KNOWN}{path}{f'?{parts.query}' if parts.query else ''}"


def protected_resource_metadata(identifier: str, name: str, scopes: Sequence[str], issuer: str) -> str:
    """The document, for people to read and copy."""
    document = {
        "resource": identifier,
        "authorization_servers": [issuer],
        "scopes_supported": list(scopes),
        "bearer_methods_supported": ["header"],
        "resource_name": name,
    }
    # An empty list says the same as none (RFC 9728 section 2), and some clients take it for a mistake.
    return json.dumps({name: value for name, value in document.items() if value}, ensure_ascii=False, indent=2)


def unauthorized(identifier: str, scopes: Sequence[str]) -> str:
    """The header of a 401: no token, or none that is valid."""
    return f'WWW-Authenticate: Bearer resource_metadata="{metadata_address(identifier)}"{_scope(scopes)}'


def forbidden(identifier: str, scopes: Sequence[str]) -> str:
    """The header of a 403: the token lacks scopes. A client asks for all of these, so the header names all that the operation needs."""
    metadata = f'resource_metadata="{metadata_address(identifier)}"'
    return f'WWW-Authenticate: Bearer error="insufficient_scope"{_scope(scopes)}, {metadata}'


def insufficient_authentication(identifier: str, scope: str, acr_values: Sequence[str], max_age: int | None) -> str:
    """The header of a 401: the token has the scope, and its sign-in is too weak or too old for what the scope asks (RFC 9470). A client
    that does not know this error still asks for the scope again, and the scope leads the person to the proof.
    """
    parts = {
        "error": "insufficient_user_authentication",
        "acr_values": " ".join(acr_values),
        "max_age": "" if max_age is None else str(max_age),
        "scope": scope,
        "resource_metadata": metadata_address(identifier),
    }
    return "WWW-Authenticate: Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)


def _scope(scopes: Sequence[str]) -> str:
    return f', scope="{" ".join(scopes)}"' if scopes else ""

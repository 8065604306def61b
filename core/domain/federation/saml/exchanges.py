"""The flight recorder: the messages between a service and its service provider, and why an exchange failed. It keeps times, ids and
reasons, and nothing that a message says about a person.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

from core.domain.identifiers import SamlCertificateId, SamlExchangeId, ServiceId
from core.domain.saml.messages import ID, LONGEST_ID, SamlBinding
from core.frozen import Frozen

MOST_EXCHANGES: Final = 50


class ExchangeKind(StrEnum):
    AUTHN_REQUEST = "authn_request"
    RESPONSE = "response"
    LOGOUT_REQUEST = "logout_request"
    LOGOUT_RESPONSE = "logout_response"
    OUR_LOGOUT_REQUEST = "our_logout_request"
    OUR_LOGOUT_RESPONSE = "our_logout_response"


class SamlExchange(Frozen, kw_only=True):
    id: SamlExchangeId
    service: ServiceId
    kind: ExchangeKind
    binding: SamlBinding
    succeeded: bool
    status: str = ""
    """The last part of SAML's status code, for a response."""
    reason: str = ""
    """The reason why the message was refused, or ended no session, in words."""
    advice: str = ""
    """The change that would help."""
    message: str = ""
    """The message's id."""
    in_response_to: str = ""
    certificate: SamlCertificateId | None = None
    """The certificate of ours that signed the message."""
    created_at: datetime


def kept_id(text: str) -> str:
    """The id as it is stored, cut to a limit: the sender chooses how long it is. A text that is no valid id is not stored, because it could
    say anything about anybody.
    """
    return text[:LONGEST_ID] if ID.fullmatch(text) else ""

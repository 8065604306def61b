"""The flight recorder: what went back and forth between a service and its service provider, and why an exchange failed. It keeps times, ids
and reasons, and nothing of what a message says about a person.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

from core.domain.federation.saml.configurations import SamlBinding
from core.domain.federation.saml.messages import ID, LONGEST_ID
from core.domain.identifiers import SamlCertificateId, SamlExchangeId, ServiceId
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
    """The last part of SAML's own status code, for an answer."""
    reason: str = ""
    """Why it was refused, or ended nothing, in words."""
    advice: str = ""
    """What to change."""
    message: str = ""
    """The message's id."""
    in_response_to: str = ""
    certificate: SamlCertificateId | None = None
    """Which one of ours signed it."""
    created_at: datetime


def kept_id(text: str) -> str:
    """As much of an id as is kept: whoever sends one decides how long it is. What is none could say anything about anybody."""
    return text[:LONGEST_ID] if ID.fullmatch(text) else ""

"""An answer as it was read, before anything in it is believed. The adapter reads; `judgements` decides what it must say."""

from collections.abc import Sequence
from datetime import datetime

from core.domain.identity.upstream.saml.assertions import ReceivedAttribute
from core.domain.saml.messages import DirectoryNameId
from core.frozen import Frozen


class ReceivedResponse(Frozen, kw_only=True):
    """The outside of the answer, which may be unsigned."""

    id: str
    destination: str | None
    in_response_to: str | None
    issuer: str | None
    status: str
    """The URI of the first status code."""
    status_below: str = ""
    status_message: str = ""
    signed: bool
    """The response itself has a signature, which nobody has verified yet."""
    encrypted: bool


class ReceivedConfirmation(Frozen, kw_only=True):
    """One way in which somebody may bring the assertion: the method bearer."""

    recipient: str | None
    in_response_to: str | None
    not_before: str | None
    not_on_or_after: str | None


class ReceivedProxying(Frozen, kw_only=True):
    """`ProxyRestriction`: who may be told on the ground of this assertion."""

    count: str | None = None
    audiences: Sequence[str] = ()


class ReceivedConditions(Frozen, kw_only=True):
    not_before: str | None = None
    not_on_or_after: str | None = None
    audiences: Sequence[Sequence[str]] = ()
    """Each restriction has several audiences. Every restriction must name us."""
    unknown: Sequence[str] = ()
    proxies: Sequence[ReceivedProxying] = ()


class ReceivedStatement(Frozen, kw_only=True):
    authn_instant: str | None
    session_index: str | None
    session_not_on_or_after: str | None
    context_class: str | None


class ReceivedAssertion(Frozen, kw_only=True):
    """The content of a verified element, and nothing of what stands around it."""

    id: str
    issue_instant: str
    issuer: str
    name_id: DirectoryNameId | None
    confirmations: Sequence[ReceivedConfirmation]
    conditions: ReceivedConditions
    statement: ReceivedStatement | None
    attributes: Sequence[ReceivedAttribute]


class AnswerProof(Frozen, kw_only=True):
    """How the content was verified."""

    what: str
    """What is signed, for people: "the assertion"."""
    algorithm: str
    """The name of the method, for people: "RSA with SHA-256"."""
    fingerprint: str
    valid_from: datetime
    valid_until: datetime
    encryption: str
    """The name of the method, for people. Empty for an answer that is not encrypted."""

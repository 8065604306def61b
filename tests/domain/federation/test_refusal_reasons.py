"""Refusals name the reason under which they are recorded: no sentence is compared, so any of them may be mended."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import pytest

from core.domain.errors import Refusal
from core.domain.federation.authorization_refusals import DocumentRefusal, RefusalContext, refused_exchange, refused_request, registered_for
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode
from core.domain.federation.oauth.clients import AuthenticationMethod, ClientCredentials
from core.domain.federation.oauth.exchanges import SubjectRefused
from core.domain.federation.oauth.grants import REFRESH_TOKEN, TokenRequest, WorkloadRefused
from core.domain.federation.oauth.refusals import (
    GrantOfAgent,
    InvalidGrant,
    RefusalReason,
    UnauthorizedClient,
    UnsupportedGrantType,
    client_refused,
    reason_in_words,
)
from core.domain.identifiers import AuthorizationRefusalId, ClientId, ResourceServerId
from core.domain.identity.upstream.jwt_assertions import AssertionFault
from core.domain.key_proofs import KeyProofMissing, KeyProofRefused, NonceNeeded

SHOWN = ClientCredentials(ClientId("client"), AuthenticationMethod.NONE)
SIGNED = ClientCredentials(ClientId("client"), AuthenticationMethod.PRIVATE_KEY_JWT, assertion="a.b.c")
ASKED = TokenRequest(grant_type=REFRESH_TOKEN)


@pytest.mark.parametrize("reason", [RefusalReason.AGENT_TARGET, RefusalReason.AGENTS_FORBIDDEN, RefusalReason.DIRECTORY_RESTRICTS])
def test_an_authorization_request_is_recorded_as_its_refusal_says(reason: RefusalReason) -> None:
    denied = AuthorizationErrorCode.ACCESS_DENIED
    assert refused_request(denied, "A sentence that was mended", {}, reason) == (reason, "")
    assert refused_request(denied, "A sentence that was mended", {}) is None


@pytest.mark.parametrize(
    ("refusal", "shown", "reason"),
    [
        (client_refused("mended", recorded_as=RefusalReason.SECRET_WRONG), SHOWN, RefusalReason.SECRET_WRONG),
        (client_refused("mended", recorded_as=RefusalReason.KEYS_MISSING), SIGNED, RefusalReason.KEYS_MISSING),
        (client_refused("mended"), SHOWN, RefusalReason.CREDENTIAL_MISSING),
        (client_refused("mended"), SIGNED, RefusalReason.ASSERTION_REFUSED),
        (GrantOfAgent("mended"), SHOWN, RefusalReason.AGENTS_FORBIDDEN),
        (InvalidGrant("mended"), SHOWN, RefusalReason.REFRESH_TOKEN),
        (UnauthorizedClient("mended"), SHOWN, RefusalReason.GRANT_NOT_ALLOWED),
        (UnsupportedGrantType("mended"), SHOWN, RefusalReason.GRANT_UNKNOWN),
        (SubjectRefused("mended"), SHOWN, RefusalReason.SUBJECT_TOKEN),
        (KeyProofRefused("mended"), SHOWN, RefusalReason.KEY_PROOF),
        (KeyProofMissing("mended"), SHOWN, RefusalReason.KEY_PROOF_MISSING),
        (WorkloadRefused(AssertionFault.SIGNATURE), SHOWN, RefusalReason.WORKLOAD_KEY),
    ],
)
def test_a_token_request_is_recorded_as_its_refusal_says(refusal: Refusal, shown: ClientCredentials, reason: RefusalReason) -> None:
    found = refused_exchange(refusal, ASKED, shown, None)
    assert found is not None
    assert found[0] is reason


def test_a_client_that_learns_its_nonce_makes_no_mistake() -> None:
    assert refused_exchange(NonceNeeded(), ASKED, SHOWN, None) is None


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        (RefusalReason.PKCE_MALFORMED, reason_in_words(RefusalReason.PKCE_MALFORMED)[1]),
        ("document_busy", "Wait 1 minute. Postern makes at most 10 fetches per minute to one host"),
        ("document_lies", "The publisher of the document must fix it. The next request reads it again"),
    ],
)
def test_what_a_document_is_refused_for_has_an_advice(reason: str, advice: str) -> None:
    id, api = AuthorizationRefusalId(UUID(int=1)), ResourceServerId(UUID(int=2))  # noqa: A001 - the noun's own word
    at = datetime(2026, 11, 20, tzinfo=UTC)
    refusal = DocumentRefusal(id=id, api=api, address="https://app.example", reason=reason, because="So it is", occurred_at=at)
    assert refusal.advice == advice


@pytest.mark.parametrize(
    ("reason", "registered"),
    [
        (RefusalReason.WORKLOAD_ISSUER, ["https://issuer.example"]),
        (RefusalReason.WORKLOAD_AUDIENCE, ["postern"]),
        (RefusalReason.WORKLOAD_SUBJECT, ["repo:*"]),
        (RefusalReason.SECRET_WRONG, ["cs_abcdef"]),
        (RefusalReason.RESPONSE_TYPE, ("code",)),
        (RefusalReason.NOT_MEMBER, ()),
    ],
)
def test_what_is_registered_stands_beside_what_was_received(reason: RefusalReason, registered: Sequence[str]) -> None:
    trusted = {"issuers": ["https://issuer.example"], "audiences": ["postern"], "patterns": ["repo:*"]}
    context = RefusalContext(redirect_uris=["https://app.example/callback"], secrets=["cs_abcdef"], resources=[], trusted=trusted)
    assert registered_for(reason, "", context) == registered

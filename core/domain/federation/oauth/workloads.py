"""Workloads: build jobs and clusters that show a token of their own issuer in place of a secret (RFC 7523 section 2.1)."""

from typing import ClassVar, Final

from core.domain.federation.oauth.oauth_errors import InvalidGrant
from core.domain.federation.refusal_reasons import RefusalReason
from core.domain.identity.upstream.jwt_assertions import AssertionFault

_SAID: Final = {
    AssertionFault.MALFORMED: ("it is no signed token of the usual size", RefusalReason.WORKLOAD_UNREADABLE),
    AssertionFault.ISSUER: ("nobody trusts its issuer here", RefusalReason.WORKLOAD_ISSUER),
    AssertionFault.KEY: ("its issuer has no key of this name", RefusalReason.WORKLOAD_KEY),
    AssertionFault.SIGNATURE: ("its signature is not good", RefusalReason.WORKLOAD_KEY),
    AssertionFault.KEYS_AWAY: ("the keys of its issuer could not be fetched", RefusalReason.WORKLOAD_KEYS_AWAY),
    AssertionFault.AUDIENCE: ("it is for another audience, or for several", RefusalReason.WORKLOAD_AUDIENCE),
    AssertionFault.EXPIRED: ("it has expired", RefusalReason.WORKLOAD_TIME),
    AssertionFault.LIFETIME: ("it lives for more than a day", RefusalReason.WORKLOAD_TIME),
    AssertionFault.EARLY: ("it is from the future", RefusalReason.WORKLOAD_TIME),
    AssertionFault.SUBJECT: ("its subject does not fit", RefusalReason.WORKLOAD_SUBJECT),
    AssertionFault.CLAIM: ("one of its claims does not match", RefusalReason.WORKLOAD_CLAIM),
}


class WorkloadRefused(InvalidGrant):
    """The assertion keeps none of the rules of whoever asks. The answer says which part of it does not fit; what the rule wants is for
    those who set it. `claim` is the name of a claim in the rule.
    """

    oauth_error: ClassVar = "invalid_grant"

    def __init__(self, fault: AssertionFault, *, claim: str = "", detail: str | None = None) -> None:
        words, self.recorded_as = _SAID[fault]
        super().__init__(f"assertion: {words}", detail=detail)
        self.fault = fault
        self.claim = claim

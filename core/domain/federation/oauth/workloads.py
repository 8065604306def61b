"""Workloads: build jobs and clusters that show a token of their own issuer in place of a secret (RFC 7523 section 2.1)."""

from typing import ClassVar, Final

from core.domain.federation.oauth.oauth_errors import InvalidGrant
from core.domain.identity.upstream.jwt_assertions import AssertionFault

_WORDS: Final = {
    AssertionFault.MALFORMED: "it is no signed token of the usual size",
    AssertionFault.ISSUER: "nobody trusts its issuer here",
    AssertionFault.KEY: "its issuer has no key of this name",
    AssertionFault.SIGNATURE: "its signature is not good",
    AssertionFault.KEYS_AWAY: "the keys of its issuer could not be fetched",
    AssertionFault.AUDIENCE: "it is for another audience, or for several",
    AssertionFault.EXPIRED: "it has expired",
    AssertionFault.LIFETIME: "it lives for more than a day",
    AssertionFault.EARLY: "it is from the future",
    AssertionFault.SUBJECT: "its subject does not fit",
    AssertionFault.CLAIM: "one of its claims does not match",
}


class WorkloadRefused(InvalidGrant):
    """The assertion keeps none of the rules of whoever asks. The answer says which part of it does not fit; what the rule wants is for
    those who set it. `claim` is the name of a claim in the rule.
    """

    oauth_error: ClassVar = "invalid_grant"

    def __init__(self, fault: AssertionFault, *, claim: str = "", detail: str | None = None) -> None:
        super().__init__(f"assertion: {_WORDS[fault]}", detail=detail)
        self.fault = fault
        self.claim = claim

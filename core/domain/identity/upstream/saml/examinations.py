"""The examination of a directory's answer: a list of named checks, each with its result in words. A sign-in takes the assertion or the
first check that failed; the test page and the recorder show the list. Signatures, certificates, ciphertexts and keys never stand in it.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from core.domain.identity.upstream.saml.assertions import Asserting
from core.domain.json import Json
from core.frozen import Frozen, replace


class CheckName(StrEnum):
    """The checks, in the order in which they are told."""

    WELL_FORMED = "well_formed"
    """A response of SAML 2.0, in strict XML of bounded size."""
    STATUS = "status"
    """The directory says that the person has signed in."""
    IN_RESPONSE_TO = "in_response_to"
    """The answer is for the request that this browser began."""
    DESTINATION = "destination"
    """The directory sent the answer to this connection's address."""
    ISSUER = "issuer"
    """The directory is the one that the connection names."""
    ENCRYPTION = "encryption"
    """One of our keys opens what is encrypted, and the method is good. Passed for an answer that is not encrypted."""
    SIGNATURE = "signature"
    """The answer or its assertion is signed, in SAML's form, by a certificate that the connection knows."""
    ALGORITHM = "algorithm"
    """Signature and digest are by SHA-256 or better, under a strong key."""
    CERTIFICATE = "certificate"
    """The certificate that signed is valid today."""
    RECIPIENT = "recipient"
    """The assertion may be used at this connection's address."""
    AUDIENCE = "audience"
    """The assertion is for our entity id."""
    TIMES = "times"
    """The assertion is valid now, by both clocks."""
    APPLICATIONS = "applications"
    """Whether the directory lets us sign the person in to applications. Never fails: our own pages stay open."""
    AUTHENTICATION = "authentication"
    """The directory says when and how the person signed in there, and that was recent enough."""
    SUBJECT = "subject"
    """The name is there by which the connection recognises people."""
    ADDRESS = "address"
    """An email address is there."""
    ATTRIBUTES = "attributes"
    """The attributes that the mapping names are there. Never fails: what is missing is told."""
    ONE_USE = "one_use"
    """Nobody has used the assertion before. The store decides this when the answer counts, see `Examination.counted`."""


class CheckState(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_REACHED = "not_reached"


class Check(Frozen, kw_only=True):
    name: CheckName
    state: CheckState
    fault: str = ""
    """The kind of failure, for programs and translations: a word like `unknown_certificate`. Empty unless the check failed."""
    words: str = ""
    """What happened, in one or two sentences for an administrator."""
    came: str = ""
    """What the answer said, cut to a bound and without control characters. The directory or an attacker has written it."""
    expected: str = ""
    mend: str = ""
    """The change that helps, and where to make it. Empty unless the check failed."""
    personal: bool = False
    """`came` tells something about a person. The test page shows it; the recorder keeps the check `without_person`."""

    def without_person(self) -> "Check":
        return replace(self, came="", personal=False) if self.personal else self

    def stored(self) -> Mapping[str, Json]:
        return {
            "name": self.name.value,
            "state": self.state.value,
            "fault": self.fault,
            "words": self.words,
            "came": self.came,
            "expected": self.expected,
            "mend": self.mend,
            "personal": self.personal,
        }


def restored(kept: Mapping[str, Any]) -> Check:
    """Reads the form that `Check.stored` made."""
    return Check(**{**kept, "name": CheckName(kept["name"]), "state": CheckState(kept["state"])})


class Examination(Frozen, kw_only=True):
    checks: Sequence[Check]
    """One for each `CheckName`, in that order."""
    asserting: Asserting | None
    """What a sign-in takes. None unless every check passed but the last, `ONE_USE`."""
    response_id: str = ""
    """The id of the answer, if it could be read."""
    in_response_to: str = ""
    """The id of the request that the answer names, whether or not it was ours."""
    status: str = ""
    """The last part of the lowest status code, such as `NoPassive`. Nobody vouches for it: a failure need not be signed."""
    certificate: str = ""
    """The SHA-256 fingerprint of the certificate that verified the signature. Empty if none did."""
    encrypted: bool = False

    @property
    def failed(self) -> Check | None:
        """The first check that failed."""
        return next((one for one in self.checks if one.state is CheckState.FAILED), None)

    def check(self, name: CheckName) -> Check:
        return next(one for one in self.checks if one.name is name)

    def with_asserting(self, asserting: Asserting) -> "Examination":
        return replace(self, asserting=asserting)

    def counted(self, *, first: bool) -> "Examination":
        """The examination after the store has taken the assertion's id. `first` is False when the id was there: then nobody signs in."""
        if self.asserting is None:
            return self
        used = (
            Check(name=CheckName.ONE_USE, state=CheckState.PASSED, words="Nobody has used this assertion before.")
            if first
            else Check(
                name=CheckName.ONE_USE,
                state=CheckState.FAILED,
                fault="used_before",
                words="This assertion was used before. It counts once.",
                mend="Begin the sign-in again. If nobody sent the same answer twice on purpose, somebody may have copied it.",
            )
        )
        checks = tuple(used if one.name is CheckName.ONE_USE else one for one in self.checks)
        return replace(self, checks=checks, asserting=self.asserting if first else None)

"""What can be wrong with a directory's answer, in the words of the test page and the recorder. The administrator who reads them need not
know SAML by heart. The standard's own word stands in brackets, since the directory's settings use it.
"""

from collections.abc import Mapping
from typing import Final

from core.domain.identity.upstream.connection_tests import Check, CheckName, CheckState
from core.frozen import Frozen

_LONGEST_SHOWN: Final = 300
_AGAIN: Final = "Begin the sign-in again."
_SAML_BY_POST: Final = "Set the directory to SAML 2.0 with the binding HTTP-POST. If it is, something has changed the answer on its way."
_METADATA: Final = "Upload the directory's current metadata, or let Postern fetch them from the directory's address."


class AnswerFault(Frozen):
    check: CheckName
    key: str
    words: str
    mend: str

    def found(self, *, came: str = "", expected: str = "", mend: str = "", personal: bool = False) -> Check:
        """The check that failed."""
        return Check(
            name=self.check,
            state=CheckState.FAILED,
            fault=self.key,
            words=self.words,
            came=shown(came),
            expected=shown(expected),
            mend=mend or self.mend,
            personal=personal,
        )


def shown(text: str) -> str:
    """Text of others as it may be shown: cut to a bound, and without characters that nobody sees."""
    cut = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
    return cut if cut.isprintable() else "".join(one if one.isprintable() else "\ufffd" for one in cut)


def passed(name: CheckName, words: str, *, came: str = "", expected: str = "", personal: bool = False) -> Check:
    return Check(name=name, state=CheckState.PASSED, words=words, came=shown(came), expected=shown(expected), personal=personal)


def malformed(reason: str, mend: str = "") -> Check:
    """The answer cannot be read. `reason` is the end of a sentence."""
    return Check(
        name=CheckName.WELL_FORMED,
        state=CheckState.FAILED,
        fault="malformed",
        words=f"The answer cannot be read: {reason}.",
        mend=f"{mend}."
        if mend
        else "Set the directory to SAML 2.0 with the binding HTTP-POST. If it is, something has changed the answer on its way.",
    )


# STATUS
DECLINED: Final = AnswerFault(
    CheckName.STATUS,
    "declined",
    "The directory did not sign the person in.",
    "Look into the directory's own sign-in log at this time.",
)
MENDS_BY_STATUS: Final[Mapping[str, str]] = {
    "AuthnFailed": "The person failed to sign in at the directory. Look into its own sign-in log at this time.",
    "RequestDenied": "The directory refuses this person or this request. Assign the person to this application there.",
    "InvalidNameIDPolicy": "The directory cannot name people in the format that the connection asks for. Leave the format unset, or choose"
    " one that the directory offers.",
    "NoAuthnContext": "The directory cannot sign people in as strongly as was asked (AuthnContext). Set up that method there, or ask for"
    " less.",
    "NoPassive": "The person is not signed in at the directory, and it was asked to show no page. Begin the sign-in again.",
    "RequestUnsupported": "The directory does not know this kind of request. Compare the connection's sign-in address with its metadata.",
    "UnknownPrincipal": "The directory does not know this person. Look whether the account exists there.",
    "VersionMismatch": "The directory speaks another version. Set it to SAML 2.0.",
}
# IN_RESPONSE_TO
UNSOLICITED: Final = AnswerFault(
    CheckName.IN_RESPONSE_TO,
    "unsolicited",
    "Nobody here has asked for this answer: the sign-in began at the directory.",
    "Give people Postern's link for this connection, and enter it in the directory as the application's start address (sign-on URL).",
)
UNKNOWN_REQUEST: Final = AnswerFault(
    CheckName.IN_RESPONSE_TO,
    "unknown_request",
    "The answer is for a sign-in that took too long, is over, or began in another browser (InResponseTo).",
    _AGAIN,
)
NO_REQUEST_NAMED: Final = AnswerFault(
    CheckName.IN_RESPONSE_TO,
    "no_in_response_to",
    "The answer does not say which request it answers (InResponseTo).",
    "Set the directory to answer requests, instead of beginning sign-ins by itself. The response and its SubjectConfirmationData name the"
    " request.",
)
OTHER_REQUEST: Final = AnswerFault(
    CheckName.IN_RESPONSE_TO,
    "other_request",
    "The answer is for another request than the one that this browser began (InResponseTo).",
    f"{_AGAIN} If this happens again, somebody may have slipped another person's answer into this browser.",
)
# DESTINATION
NO_DESTINATION: Final = AnswerFault(
    CheckName.DESTINATION,
    "no_destination",
    "The answer is signed, but does not say where it goes (Destination).",
    "Enter the expected address in the directory as the address for answers (ACS URL, reply URL).",
)
OTHER_DESTINATION: Final = AnswerFault(
    CheckName.DESTINATION,
    "other_destination",
    "The answer was made for another address (Destination).",
    "Enter the expected address in the directory as the address for answers (ACS URL, reply URL), letter by letter.",
)
# ISSUER
NO_ISSUER: Final = AnswerFault(
    CheckName.ISSUER,
    "no_issuer",
    "The answer does not say which directory made it (Issuer).",
    "Set the directory to send its entity id as Issuer, in the response and in the assertion.",
)
OTHER_ISSUER: Final = AnswerFault(
    CheckName.ISSUER,
    "other_issuer",
    "The answer was made by another directory than the connection names (Issuer).",
    "If that is the right directory, enter what came as the connection's entity id, or upload the directory's metadata. Otherwise the"
    " directory has sent the answer of another application.",
)
# ENCRYPTION
NO_KEY_OPENS: Final = AnswerFault(
    CheckName.ENCRYPTION,
    "no_key_opens",
    "None of this connection's keys opens the encrypted assertion.",
    "The directory encrypts for another certificate. Upload this connection's current metadata there, or its certificate for encryption.",
)
WEAK_ENCRYPTION: Final = AnswerFault(
    CheckName.ENCRYPTION,
    "weak_encryption",
    "The assertion is encrypted by a method that is not taken.",
    "Set the directory to AES-128-GCM or AES-256-GCM, with RSA-OAEP for the key.",
)
UNPROTECTED_CBC: Final = AnswerFault(
    CheckName.ENCRYPTION,
    "unprotected_cbc",
    "The assertion is encrypted with AES-CBC, and no signature of the response covers it. Such a text can be changed, and then tells its"
    " content bit by bit.",
    "Set the directory to AES-GCM, or let it sign the response besides the assertion.",
)
BROKEN_ENCRYPTION: Final = AnswerFault(
    CheckName.ENCRYPTION,
    "broken_encryption",
    "The encrypted part does not have the form that SAML gives it, or was changed on its way.",
    "Compare the directory's settings for encryption with those of an application that works. A sign-in also works without encryption.",
)
# SIGNATURE
UNSIGNED: Final = AnswerFault(
    CheckName.SIGNATURE,
    "unsigned",
    "Neither the response nor its assertion is signed.",
    "Set the directory to sign the assertion, the response, or both.",
)
SIGNATURE_FORM: Final = AnswerFault(
    CheckName.SIGNATURE,
    "signature_form",
    "The signature does not have the form that SAML gives it.",
    "No directory makes such signatures by itself: somebody may have built this answer by hand.",
)
UNKNOWN_CERTIFICATE: Final = AnswerFault(
    CheckName.SIGNATURE,
    "unknown_certificate",
    "The answer is signed with a certificate that this connection does not know.",
    f"If the directory has a new certificate, add it to the connection. {_METADATA}",
)
BROKEN_SIGNATURE: Final = AnswerFault(
    CheckName.SIGNATURE,
    "broken_signature",
    "The signature does not fit the answer: no certificate of this connection verifies it.",
    f"Something changed the answer on its way, or it was made with another key. {_METADATA}",
)
NO_CERTIFICATES: Final = AnswerFault(
    CheckName.SIGNATURE,
    "no_certificates",
    "This connection knows no certificate of the directory.",
    _METADATA,
)
# ALGORITHM
WEAK_ALGORITHM: Final = AnswerFault(
    CheckName.ALGORITHM,
    "weak_algorithm",
    "The answer is signed by a method that is not taken.",
    "Set the directory to RSA with SHA-256, also for the digest. SHA-1 can be forged.",
)
WEAK_KEY: Final = AnswerFault(
    CheckName.ALGORITHM,
    "weak_key",
    "The directory signs with a key that is too short.",
    "Make a new certificate there, with an RSA key of at least 2048 bits.",
)
# CERTIFICATE
CERTIFICATE_ENDED: Final = AnswerFault(
    CheckName.CERTIFICATE,
    "certificate_ended",
    "The certificate that signed the answer has ended.",
    f"Make a new certificate in the directory and let it sign. {_METADATA}",
)
CERTIFICATE_NOT_YET: Final = AnswerFault(
    CheckName.CERTIFICATE,
    "certificate_not_yet",
    "The certificate that signed the answer is not valid yet.",
    "Let the directory sign with its present certificate until then. If the date has passed, set the clock of Postern's machine.",
)
# RECIPIENT
NO_CONFIRMATION: Final = AnswerFault(
    CheckName.RECIPIENT,
    "no_confirmation",
    "The assertion does not say who may bring it (SubjectConfirmation with the method bearer).",
    "Set the directory to sign-in by browser (Web SSO) with the binding HTTP-POST.",
)
SEVERAL_CONFIRMATIONS: Final = AnswerFault(
    CheckName.RECIPIENT,
    "several_confirmations",
    "The assertion may be brought in several ways (SubjectConfirmation), which is not taken.",
    "Set the directory to send one address for answers with each assertion.",
)
NO_RECIPIENT: Final = AnswerFault(
    CheckName.RECIPIENT,
    "no_recipient",
    "The assertion does not say at which address it may be used (Recipient).",
    "Enter the expected address in the directory as the address for answers (ACS URL, reply URL).",
)
OTHER_RECIPIENT: Final = AnswerFault(
    CheckName.RECIPIENT,
    "other_recipient",
    "The assertion may be used at another address only (Recipient).",
    "Enter the expected address in the directory as the address for answers (ACS URL, reply URL), letter by letter.",
)
# AUDIENCE
NO_AUDIENCE: Final = AnswerFault(
    CheckName.AUDIENCE,
    "no_audience",
    "The assertion does not say for which application it is (Audience).",
    "Enter the expected name in the directory as the application's entity id (audience, identifier).",
)
OTHER_AUDIENCE: Final = AnswerFault(
    CheckName.AUDIENCE,
    "other_audience",
    "The assertion is for another application (Audience).",
    "Enter the expected name in the directory as the application's entity id (audience, identifier), letter by letter.",
)
UNKNOWN_CONDITION: Final = AnswerFault(
    CheckName.AUDIENCE,
    "unknown_condition",
    "The assertion holds under a condition that Postern does not know (Conditions).",
    "Take the condition out of the directory's settings for this application.",
)
# TIMES
NO_TIME: Final = AnswerFault(
    CheckName.TIMES,
    "no_time",
    "The assertion does not say when it ends (NotOnOrAfter).",
    "Set the lifetime of assertions in the directory, to five minutes for example.",
)
NO_MOMENT: Final = AnswerFault(
    CheckName.TIMES,
    "no_moment",
    "One of the times is no time in UTC.",
    "The directory writes times like 2026-01-31T12:00:00Z. Compare its version with one that works.",
)
TOO_EARLY: Final = AnswerFault(
    CheckName.TIMES,
    "too_early",
    "The assertion is not valid yet: the directory's clock is ahead of Postern's.",
    "Set both clocks by NTP. Postern allows a difference of 60 seconds.",
)
TOO_LATE: Final = AnswerFault(
    CheckName.TIMES,
    "too_late",
    "The assertion is not valid any more: it took too long to arrive, or the directory's clock is behind Postern's.",
    f"{_AGAIN} If it happens each time, set both clocks by NTP. Postern allows a difference of 60 seconds.",
)
SESSION_ENDED: Final = AnswerFault(
    CheckName.TIMES,
    "session_ended",
    "The person's session at the directory has ended already (SessionNotOnOrAfter).",
    f"{_AGAIN} If it happens each time, let sessions at the directory last longer, or set both clocks by NTP.",
)
# AUTHENTICATION
NO_AUTHENTICATION: Final = AnswerFault(
    CheckName.AUTHENTICATION,
    "no_authentication",
    "The assertion does not say that the person has signed in (AuthnStatement).",
    "Set the directory to sign-in by browser (Web SSO). An assertion of attributes alone signs nobody in.",
)
TOO_LONG_AGO: Final = AnswerFault(
    CheckName.AUTHENTICATION,
    "too_long_ago",
    "The person was asked to prove again who they are, but signed in at the directory before that (AuthnInstant).",
    "Let the directory ask again when a request says so (ForceAuthn).",
)
OTHER_CONTEXT: Final = AnswerFault(
    CheckName.AUTHENTICATION,
    "other_context",
    "The person signed in at the directory in another way than the connection asks for (AuthnContextClassRef).",
    "Let the directory name the context that is asked for, or change requested_contexts of the connection.",
)
# SUBJECT
NO_SUBJECT: Final = AnswerFault(
    CheckName.SUBJECT,
    "no_subject",
    "The name is missing by which the connection recognises people.",
    "Let the directory send what is expected, or choose another attribute in the connection's mapping while it is a draft.",
)
SEVERAL_SUBJECTS: Final = AnswerFault(
    CheckName.SUBJECT,
    "several_subjects",
    "The attribute by which the connection recognises people has several values.",
    "Let the directory send one value, or choose an attribute that has one.",
)
PASSING_SUBJECT: Final = AnswerFault(
    CheckName.SUBJECT,
    "passing_subject",
    "The directory names the person by a word that changes with each sign-in (NameID with the format transient).",
    "Set the directory to a persistent NameID for this application, or choose an attribute that never changes in the connection's mapping.",
)
FOREIGN_SUBJECT: Final = AnswerFault(
    CheckName.SUBJECT,
    "foreign_subject",
    "The directory names the person by a word that belongs to another directory or application (NameQualifier, SPNameQualifier).",
    "Set the directory to a NameID of its own for this application, or leave the qualifiers out.",
)
UNUSABLE_SUBJECT: Final = AnswerFault(
    CheckName.SUBJECT,
    "unusable_subject",
    "The name by which the connection recognises people is empty, has more than 255 characters, or has characters that nobody sees.",
    "Choose another attribute in the connection's mapping.",
)
# ADDRESS
NO_ADDRESS: Final = AnswerFault(
    CheckName.ADDRESS,
    "no_address",
    "The directory sent no email address.",
    "Let the directory send the address in one of the expected attributes, or name the attribute that has it in the connection's mapping."
    " If the person has no address in the directory, enter one there.",
)
UNUSABLE_ADDRESS: Final = AnswerFault(
    CheckName.ADDRESS,
    "unusable_address",
    "What the directory sent as email address is none.",
    "Name the attribute that has the address in the connection's mapping, or correct the person's address in the directory.",
)

"""The faults of a SAML response, in the words of the test page and the recorder."""

from collections.abc import Mapping
from typing import Final

from core.domain.identity.upstream.connection_tests import Check, CheckName, CheckState
from core.frozen import Frozen

_LONGEST_SHOWN: Final = 300
_AGAIN: Final = "Begin the sign-in again."
_SAML_BY_POST: Final = (
    "Configure the identity provider for SAML 2.0 with the HTTP-POST binding. If it already is, the response was changed in transit."
)
_METADATA: Final = "Upload the identity provider's current metadata, or let Postern fetch the metadata from its URL."


class AnswerFault(Frozen):
    """The administrator who reads them need not know SAML by heart. The standard's own word is in brackets, since the identity provider's
    settings use it.
    """

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
        words=f"The response cannot be read: {reason}.",
        mend=f"{mend}."
        if mend
        else (
            "Configure the identity provider for SAML 2.0 with the HTTP-POST binding. If it already is, the response was changed "
            "in transit."
        ),
    )


# STATUS
DECLINED: Final = AnswerFault(
    CheckName.STATUS,
    "declined",
    "The identity provider did not sign the person in.",
    "Check the identity provider's sign-in log for this time.",
)
MENDS_BY_STATUS: Final[Mapping[str, str]] = {
    "AuthnFailed": "The person failed to sign in at the identity provider. Check its sign-in log for this time.",
    "RequestDenied": "The identity provider denied this person or this request. Assign the person to this application there.",
    "InvalidNameIDPolicy": (
        "The identity provider does not support the NameID format that is requested. Leave the format unset, or select a supported one."
    ),
    "NoAuthnContext": (
        "The identity provider does not support the requested authentication strength (AuthnContext). Set up that method "
        "there, or request a weaker one."
    ),
    "NoPassive": (
        "The person is not signed in at the identity provider, and the request did not allow it to show a page. Start the sign-in again."
    ),
    "RequestUnsupported": "The identity provider does not support this request type. Compare the configured sign-in URL with its metadata.",
    "UnknownPrincipal": "The identity provider does not know this person. Check whether the account exists there.",
    "VersionMismatch": "The identity provider uses another version. Configure it for SAML 2.0.",
}
# IN_RESPONSE_TO
UNSOLICITED: Final = AnswerFault(
    CheckName.IN_RESPONSE_TO,
    "unsolicited",
    "The response is unsolicited: the sign-in started at the identity provider.",
    "Give people Postern's link for this identity provider, and enter it there as the application's sign-on URL.",
)
UNKNOWN_REQUEST: Final = AnswerFault(
    CheckName.IN_RESPONSE_TO,
    "unknown_request",
    "The response is for a sign-in that expired, is complete, or started in another browser (InResponseTo).",
    _AGAIN,
)
NO_REQUEST_NAMED: Final = AnswerFault(
    CheckName.IN_RESPONSE_TO,
    "no_in_response_to",
    "The response does not name the request that it answers (InResponseTo).",
    "Configure the identity provider to respond to requests instead of starting sign-ins itself. The response and its "
    "SubjectConfirmationData name the request.",
)
OTHER_REQUEST: Final = AnswerFault(
    CheckName.IN_RESPONSE_TO,
    "other_request",
    "The response is for another request than the one from this browser (InResponseTo).",
    f"{_AGAIN} If this happens again, an attacker may have injected another person's response into this browser.",
)
# DESTINATION
NO_DESTINATION: Final = AnswerFault(
    CheckName.DESTINATION,
    "no_destination",
    "The response is signed but does not name its destination (Destination).",
    "Enter the expected URL at the identity provider as the ACS URL (reply URL).",
)
OTHER_DESTINATION: Final = AnswerFault(
    CheckName.DESTINATION,
    "other_destination",
    "The response was issued for another URL (Destination).",
    "Enter the expected URL at the identity provider as the ACS URL (reply URL). Every character must match.",
)
# ISSUER
NO_ISSUER: Final = AnswerFault(
    CheckName.ISSUER,
    "no_issuer",
    "The response does not name the identity provider that issued it (Issuer).",
    "Configure the identity provider to send its entity ID as Issuer, in the response and in the assertion.",
)
OTHER_ISSUER: Final = AnswerFault(
    CheckName.ISSUER,
    "other_issuer",
    "The response was issued by another identity provider than the configured one (Issuer).",
    "If the received issuer is the right one, enter it as the identity provider's entity ID, or upload its metadata. "
    "Otherwise the identity provider sent the response of another application.",
)
# ENCRYPTION
NO_KEY_OPENS: Final = AnswerFault(
    CheckName.ENCRYPTION,
    "no_key_opens",
    "No key of this identity provider's settings decrypts the assertion.",
    "The assertion was encrypted for another certificate. Upload Postern's current metadata to the identity provider, or "
    "the encryption certificate.",
)
WEAK_ENCRYPTION: Final = AnswerFault(
    CheckName.ENCRYPTION,
    "weak_encryption",
    "The assertion is encrypted with an algorithm that is not accepted.",
    "Configure the identity provider to use AES-128-GCM or AES-256-GCM, with RSA-OAEP for the key.",
)
UNPROTECTED_CBC: Final = AnswerFault(
    CheckName.ENCRYPTION,
    "unprotected_cbc",
    "The assertion is encrypted with AES-CBC, and no signature of the response covers it. An attacker can change such a "
    "text and decrypt it bit by bit.",
    "Configure the identity provider to use AES-GCM, or to sign the response in addition to the assertion.",
)
BROKEN_ENCRYPTION: Final = AnswerFault(
    CheckName.ENCRYPTION,
    "broken_encryption",
    "The encrypted part is not valid SAML, or was changed in transit.",
    "Compare the identity provider's encryption settings with those of an application that works. Sign-in also works without encryption.",
)
# SIGNATURE
UNSIGNED: Final = AnswerFault(
    CheckName.SIGNATURE,
    "unsigned",
    "Neither the response nor its assertion is signed.",
    "Configure the identity provider to sign the assertion, the response, or both.",
)
SIGNATURE_FORM: Final = AnswerFault(
    CheckName.SIGNATURE,
    "signature_form",
    "The signature is not valid SAML.",
    "No identity provider creates such signatures: an attacker may have forged this response.",
)
UNKNOWN_CERTIFICATE: Final = AnswerFault(
    CheckName.SIGNATURE,
    "unknown_certificate",
    "The response is signed with an unknown certificate.",
    f"If the identity provider has a new certificate, add it. {_METADATA}",
)
BROKEN_SIGNATURE: Final = AnswerFault(
    CheckName.SIGNATURE,
    "broken_signature",
    "The signature does not match the response: no configured certificate verifies it.",
    f"The response was changed in transit, or signed with another key. {_METADATA}",
)
NO_CERTIFICATES: Final = AnswerFault(
    CheckName.SIGNATURE,
    "no_certificates",
    "No certificate of the identity provider is configured.",
    _METADATA,
)
# ALGORITHM
WEAK_ALGORITHM: Final = AnswerFault(
    CheckName.ALGORITHM,
    "weak_algorithm",
    "The response is signed with an algorithm that is not accepted.",
    "Configure the identity provider to use RSA with SHA-256, also for the digest. SHA-1 can be forged.",
)
WEAK_KEY: Final = AnswerFault(
    CheckName.ALGORITHM,
    "weak_key",
    "The identity provider's signing key is too short.",
    "Create a new certificate there, with an RSA key of at least 2048 bits.",
)
# CERTIFICATE
CERTIFICATE_ENDED: Final = AnswerFault(
    CheckName.CERTIFICATE,
    "certificate_ended",
    "The certificate that signed the response has expired.",
    f"Create a new certificate at the identity provider and use it for signing. {_METADATA}",
)
CERTIFICATE_NOT_YET: Final = AnswerFault(
    CheckName.CERTIFICATE,
    "certificate_not_yet",
    "The certificate that signed the response is not valid yet.",
    "Use the previous certificate for signing until then. If the date has passed, set the clock of Postern's machine.",
)
# RECIPIENT
NO_CONFIRMATION: Final = AnswerFault(
    CheckName.RECIPIENT,
    "no_confirmation",
    "The assertion has no bearer confirmation (SubjectConfirmation with the method bearer).",
    "Configure the identity provider for browser sign-in (Web SSO) with the HTTP-POST binding.",
)
SEVERAL_CONFIRMATIONS: Final = AnswerFault(
    CheckName.RECIPIENT,
    "several_confirmations",
    "The assertion has several confirmations (SubjectConfirmation), which is not accepted.",
    "Configure the identity provider to send one ACS URL with each assertion.",
)
NO_RECIPIENT: Final = AnswerFault(
    CheckName.RECIPIENT,
    "no_recipient",
    "The assertion does not name the URL where it can be used (Recipient).",
    "Enter the expected URL at the identity provider as the ACS URL (reply URL).",
)
OTHER_RECIPIENT: Final = AnswerFault(
    CheckName.RECIPIENT,
    "other_recipient",
    "The assertion can only be used at another URL (Recipient).",
    "Enter the expected URL at the identity provider as the ACS URL (reply URL). Every character must match.",
)
# AUDIENCE
NO_AUDIENCE: Final = AnswerFault(
    CheckName.AUDIENCE,
    "no_audience",
    "The assertion does not name the application that it is for (Audience).",
    "Enter the expected value at the identity provider as the application's entity ID (audience, identifier).",
)
OTHER_AUDIENCE: Final = AnswerFault(
    CheckName.AUDIENCE,
    "other_audience",
    "The assertion is for another application (Audience).",
    "Enter the expected value at the identity provider as the application's entity ID (audience, identifier). Every character must match.",
)
UNKNOWN_CONDITION: Final = AnswerFault(
    CheckName.AUDIENCE,
    "unknown_condition",
    "The assertion has a condition that Postern does not support (Conditions).",
    "Remove the condition from the identity provider's settings for this application.",
)
# TIMES
NO_TIME: Final = AnswerFault(
    CheckName.TIMES,
    "no_time",
    "The assertion has no expiry time (NotOnOrAfter).",
    "Set the lifetime of assertions at the identity provider, for example to 5 minutes.",
)
NO_MOMENT: Final = AnswerFault(
    CheckName.TIMES,
    "no_moment",
    "One of the times is not a valid UTC time.",
    "The identity provider must write times like 2026-01-31T12:00:00Z. Compare its version with one that works.",
)
TOO_EARLY: Final = AnswerFault(
    CheckName.TIMES,
    "too_early",
    "The assertion is not valid yet: the identity provider's clock is ahead of Postern's.",
    "Synchronize both clocks with NTP. Postern allows a difference of 60 seconds.",
)
TOO_LATE: Final = AnswerFault(
    CheckName.TIMES,
    "too_late",
    "The assertion has expired: it took too long to arrive, or the identity provider's clock is behind Postern's.",
    f"{_AGAIN} If it happens each time, synchronize both clocks with NTP. Postern allows a difference of 60 seconds.",
)
SESSION_ENDED: Final = AnswerFault(
    CheckName.TIMES,
    "session_ended",
    "The person's session at the identity provider has already ended (SessionNotOnOrAfter).",
    f"{_AGAIN} If it happens each time, increase the session lifetime at the identity provider, or synchronize both clocks with NTP.",
)
# AUTHENTICATION
NO_AUTHENTICATION: Final = AnswerFault(
    CheckName.AUTHENTICATION,
    "no_authentication",
    "The assertion does not state that the person signed in (AuthnStatement).",
    "Configure the identity provider for browser sign-in (Web SSO). An assertion with attributes only signs no one in.",
)
TOO_LONG_AGO: Final = AnswerFault(
    CheckName.AUTHENTICATION,
    "too_long_ago",
    "The person had to authenticate again, but signed in at the identity provider before the request (AuthnInstant).",
    "Configure the identity provider to ask again when a request requires it (ForceAuthn).",
)
OTHER_CONTEXT: Final = AnswerFault(
    CheckName.AUTHENTICATION,
    "other_context",
    "The person signed in at the identity provider with another method than required (AuthnContextClassRef).",
    "Configure the identity provider to send the required context, or change requested_contexts here.",
)
# SUBJECT
NO_SUBJECT: Final = AnswerFault(
    CheckName.SUBJECT,
    "no_subject",
    "The subject that identifies people is missing.",
    "Configure the identity provider to send the expected subject, or select another attribute in the mapping while it is a draft.",
)
SEVERAL_SUBJECTS: Final = AnswerFault(
    CheckName.SUBJECT,
    "several_subjects",
    "The attribute that identifies people has several values.",
    "Configure the identity provider to send one value, or select an attribute that has one.",
)
PASSING_SUBJECT: Final = AnswerFault(
    CheckName.SUBJECT,
    "passing_subject",
    "The subject changes with each sign-in (NameID with the format transient).",
    "Configure a persistent NameID for this application, or select an attribute that never changes in the mapping.",
)
FOREIGN_SUBJECT: Final = AnswerFault(
    CheckName.SUBJECT,
    "foreign_subject",
    "The subject belongs to another identity provider or application (NameQualifier, SPNameQualifier).",
    "Configure a separate NameID for this application, or omit the qualifiers.",
)
UNUSABLE_SUBJECT: Final = AnswerFault(
    CheckName.SUBJECT,
    "unusable_subject",
    "The subject that identifies people is empty, has more than 255 characters, or has invisible characters.",
    "Select another attribute in the mapping.",
)
# ADDRESS
NO_ADDRESS: Final = AnswerFault(
    CheckName.ADDRESS,
    "no_address",
    "The identity provider sent no email address.",
    "Configure the identity provider to send the email address in one of the expected attributes, or enter the attribute "
    "that contains it in the mapping. If the person has no email address there, add one.",
)
UNUSABLE_ADDRESS: Final = AnswerFault(
    CheckName.ADDRESS,
    "unusable_address",
    "The email address from the identity provider is not valid.",
    "Enter the attribute that contains the email address in the mapping, or correct the person's email address at the identity provider.",
)

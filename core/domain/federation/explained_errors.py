"""Explains errors of OAuth, OpenID Connect, Microsoft Entra ID and SCIM as libraries print them: the cause, and the page with the setting
to change.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import unquote_plus

from core.domain.federation.oauth.refusals import RefusalReason, reason_in_words
from core.frozen import Frozen

LONGEST_ERROR: Final = 16 << 10
"""In bytes of UTF-8: a long trace. What is longer is refused."""
MOST_EXPLAINED: Final = 3


class ExplainedError(Frozen):
    """A library words an error as it likes, so each error has the marks by which several libraries print it. Where Postern itself refuses
    for the same reason, the cause and the change are those of the refusal.
    """

    name: str
    """As the standard calls it, or as people do where the standard has no name."""
    title: str
    cause: str
    page: str
    """The way to the page in the console."""
    press: str
    """What to change there, or in the application."""
    marks: tuple[tuple[re.Pattern[str], ...], ...]
    """All parts of one of these are in the text."""
    source: str = ""
    """The page of whoever words the error, where that is neither a library nor Postern."""

    @property
    def anchor(self) -> str:
        return self.name.replace("_", "-").replace(" ", "-")


def _error(
    name: str,
    title: str,
    page: str,
    *marks: str | tuple[str, ...],
    reason: RefusalReason | None = None,
    cause: str = "",
    press: str = "",
    source: str = "",
) -> ExplainedError:
    said = ("", "") if reason is None else reason_in_words(reason)
    # No mark begins or ends with a repetition, so a text of any kind is read once for each mark.
    parts = (mark if isinstance(mark, tuple) else (mark,) for mark in marks)
    read = tuple(tuple(re.compile(part, re.IGNORECASE) for part in mark) for mark in parts)
    return ExplainedError(name, title, cause or said[0], page, press or said[1], read, source)


def _entra(code: str, title: str, cause: str, press: str, *codes: str) -> ExplainedError:
    """An error of Microsoft Entra ID, by its code. `codes` are others that mean the same."""
    return _error(code, title, _PROVIDER, *(rf"{one}\b" for one in (code, *codes)), cause=cause, press=press, source=_ENTRA_CODES)


def _scim(name: str, title: str, cause: str, press: str, *marks: str) -> ExplainedError:
    """An error of SCIM, by its `scimType` or its status. Either may be of anything, so SCIM stands somewhere in the text, too."""
    return _error(name, title, _SCIM, *((_SAYS_SCIM, mark) for mark in marks), cause=cause, press=press, source=_SCIM_ERRORS)


# Also in the names of Entra's errors of provisioning, which are one word.
_SAYS_SCIM: Final = r"scim|systemforcrossdomainidentitymanagement"
_SIGN_IN: Final = "Applications → the application → Sign-in → Redirect URIs"
_CREDENTIALS: Final = "Applications → the application → Credentials"
_REFUSALS: Final = "Applications → the application → Sign-in → Failed requests"
_OVERVIEW: Final = "Applications → the application → Overview → Credentials and endpoints → Issuer"
_PROVIDER: Final = "Identity providers → the provider → Settings"
_SCIM: Final = "Identity providers → Directory sync (SCIM) → SCIM requests"
_ENTRA_CODES: Final = "https://learn.microsoft.com/entra/identity-platform/reference-error-codes"
_SCIM_ERRORS: Final = "https://www.rfc-editor.org/rfc/rfc7644#section-3.12"

# Their texts have words of OAuth, too: "AADSTS7000215: Invalid client secret provided".
_OF_DIRECTORIES: Final = (
    _entra(
        "AADSTS50011",
        "Entra ID does not know the reply URL",
        "The redirect URI (OpenID Connect) or reply URL (SAML) of the request is not registered in the application in Entra ID",
        "Copy the redirect URI or reply URL (ACS) from the provider's page into Entra ID: App registrations → Authentication, or"
        " Enterprise apps → Single sign-on → Basic SAML Configuration",
        "AADSTS500113",
    ),
    _entra(
        "AADSTS50105",
        "The person is not assigned to the application in Entra ID",
        "In Entra ID, the application requires an assignment, and neither the person nor a group of theirs is assigned",
        "In Entra ID, open Enterprise apps → the application → Users and groups, and assign the person or the group."
        " Nested groups do not count",
    ),
    _entra(
        "AADSTS65001",
        "No one has consented to the application in Entra ID",
        "The application requests permissions that neither the person nor an administrator of the tenant has consented to",
        "In Entra ID, open Enterprise apps → the application → Permissions, and grant admin consent",
        "AADSTS90094",
    ),
    _entra(
        "AADSTS700016",
        "Entra ID does not know the application",
        "The client ID (OpenID Connect) or the entity ID (SAML) does not exist in this tenant, or the tenant is another one",
        "Compare the client ID and the tenant ID on the provider's page with App registrations → Overview. For SAML, the Identifier"
        " (Entity ID) in Entra ID must be the entity ID on the provider's page",
        "AADSTS90002",
    ),
    _entra(
        "AADSTS7000215",
        "The client secret of the Entra ID application is wrong or has expired",
        "Entra ID refuses the client secret: it is the ID of the secret instead of its value, or the secret was deleted or has expired",
        "In Entra ID, open App registrations → Certificates & secrets, create a client secret, and enter its value on the provider's page",
        "AADSTS7000222",
    ),
    _entra(
        "AADSTS75011",
        "Entra ID used another authentication method than the request requires",
        "The SAML request named an authentication method, and the person had signed in to Entra ID with another one,"
        " such as a passkey or a certificate instead of a password",
        "Let Entra ID choose the method: request no authentication context. If the application requires one, let the person sign out of"
        " Entra ID and sign in again with that method",
    ),
    _entra(
        "AADSTS50020",
        "The person does not exist in this tenant of Entra ID",
        "The person signed in to Microsoft with a personal account or with an account of another tenant",
        "Let the person sign out of Microsoft and choose the work account, or invite the person as a guest in Entra ID",
        "AADSTS50034",
        "AADSTS51004",
    ),
    _entra(
        "AADSTS53003",
        "A Conditional Access policy of Entra ID blocked the sign-in",
        "A policy of the tenant does not allow this device, place or method. Postern never received the sign-in",
        "In Entra ID, open Sign-in logs → the sign-in → Conditional Access. It shows the policy",
        "AADSTS53000",
        "AADSTS50158",
    ),
    _error(
        "AADSTS",
        "Entra ID refused the sign-in",
        _PROVIDER,
        r"aadsts\d{4}",
        cause="The error comes from Microsoft Entra ID, before Postern received an answer",
        press="Look the number up at login.microsoftonline.com/error, and compare the provider's page with the application in Entra ID",
        source=_ENTRA_CODES,
    ),
    _scim(
        "SCIM uniqueness",
        "The person or group that the directory creates exists already",
        "Another account, or another group, has the userName or externalId of the request (status 409)",
        "Open the request. Remove the duplicate in the directory, or let the directory match the existing person by userName"
        " (the email address)",
        r"\buniqueness\b",
        r"\b409\b",
    ),
    _scim(
        "SCIM invalidFilter",
        "The filter of the directory cannot be read",
        "The filter has a syntax error, or compares an attribute that Postern cannot compare (status 400)",
        'Match people by userName or externalId in the directory\'s attribute mapping: userName eq "…"',
        r"invalidfilter",
        r"filter (?:is |has )?(?:an )?invalid",
        r"invalid (?:scim )?filter",
        r"filter syntax",
    ),
    _scim(
        "SCIM unauthorized",
        "The SCIM token is missing, wrong or expired",
        "The directory sent no bearer token, or one that was revoked, has expired or belongs to another organization (status 401)",
        "Create a SCIM token under Directory sync (SCIM), and enter it as the secret token in the directory",
        r"\b401\b",
        r"unauthori[sz]ed\b",
        r"\btoken (?:has |is )?(?:expired|invalid|wrong|missing)",
        r"\binvalidcredentials\b",
        r"credentialvalidationunavailable",
    ),
    _scim(
        "SCIM mutability",
        "The directory changes an attribute that cannot be changed",
        "The attribute is read-only, or cannot change after the person was created (status 400)",
        "Remove the attribute from the directory's mapping, or set it to be sent on creation only",
        r"\bmutability\b",
    ),
    _scim(
        "SCIM noTarget",
        "The directory changes something that does not exist",
        "The person, the group or the value that the request selects was deleted or never created (status 400 or 404)",
        "Open the request. Restart the provisioning in the directory, so that it looks for everyone again",
        r"\bnotarget\b",
        r"\b404\b",
    ),
    _scim(
        "SCIM invalidValue",
        "The directory sent a value that the attribute cannot have",
        "A value is missing, too long or of the wrong type, or the request does not follow SCIM (status 400)",
        "Open the request. It names the attribute. Change its mapping in the directory",
        r"invalid(?:value|syntax|path)\b",
        r"systemforcrossdomainidentitymanagementbadrequest",
        r"\b400\b",
    ),
)

# What says more stands before what says less: of a PKCE error, `invalid_grant` is the name that the endpoint gives it.
EXPLAINED: Final = (
    *_OF_DIRECTORIES,
    _error(
        "redirect_uri",
        "The redirect URI is not registered",
        _SIGN_IN,
        r"redirect[_ ]ur[il][_ ]mismatch",
        r"mismatching redirect uri",
        r"redirect[_ -]ur[il]s?['\"`]?:? (?:[\w'\"`]+ ){0,6}(?:not|mismatch|invalid|incorrect|unregistered|unauthorized|registered none)",
        r"(?:invalid|incorrect|unregistered|unknown|wrong|mismatched) (?:parameter: ?)?['\"`]?redirect[_ -]ur[il]",
        r"callback url mismatch",
        reason=RefusalReason.REDIRECT_UNREGISTERED,
    ),
    _error(
        "pkce",
        "PKCE verification failed",
        _REFUSALS,
        r"code[_ ]verifier",
        r"code[_ ]challenge",
        r"pkce (?:verification|code|check|validation)",
        r"pkcecodeverifier",
        reason=RefusalReason.VERIFIER_DIFFERS,
    ),
    _error(
        "state",
        "The state does not match a sign-in that this browser started",
        _REFUSALS,
        r"mismatching_state",
        r"state not equal in request and response",
        r"no matching state found in storage",
        r"state does not match",
        r"authorization_request_not_found",
        r"unexpected \"state\" response parameter",
        r"response parameter \"state\" missing",
        r"(?:invalid|unable to verify) authorization request state",
        r"callback state not found in session",
        r"state (?:cookie|value) (?:was missing|could not be parsed|could not be decoded)",
        r"checks\.state argument is missing",
        r"state mismatch",
        r"invalid_state_parameter",
        cause="The application stores the state of the sign-in in a cookie or a session, and the browser returned without it:"
        " the sign-in started at another host or port, the cookie was not sent, or a second tab overwrote the state",
        press="Change nothing in Postern. Keep the sign-in on the same host with https, and set the session cookie to SameSite=Lax",
    ),
    _error(
        "nonce",
        "The ID token belongs to another sign-in",
        _REFUSALS,
        r"nonce in id_token does not match",
        r"unexpected id token \"nonce\"",
        r"nonce verification failed",
        r"invalid[_ ](?:id_token )?nonce",
        r"nonce (?:mismatch|does not match|claim value mismatch)",
        r"(?:invalid|error) claim:? ['\"]nonce",
        r"nonce \(nonce\) claim",
        cause="The application expected the nonce of another sign-in: two tabs overwrote each other's nonce, or the session was lost",
        press="Change nothing in Postern. Store a separate nonce for each sign-in, and start the sign-in again",
    ),
    _error(
        "issuer",
        "The application expects another issuer",
        _OVERVIEW,
        r"id token issued by a different provider",
        r"issuer did not match the issuer returned by provider",
        r"unexpected jwt \"iss\"",
        r"unexpected \"iss\" \(issuer",
        r"response parameter \"iss\" \(issuer",
        r"unexpected iss value",
        r"(?:invalid|error) claim:? ['\"]iss",
        r"issuer \(iss\) claim",
        r"invalid issuer",
        r"issuer (?:mismatch|does not match)",
        r"did not match the issuer",
        r"iss(?:uer)?['\"]? claim (?:is not valid|mismatch|not equal)",
        cause="The issuer in the application's settings does not match the token exactly. Common causes: a trailing slash,"
        " http instead of https, or the organization's custom domain instead of the installation's URL",
        press="Copy the issuer into the application without any change",
    ),
    _error(
        "audience",
        "The token has another audience",
        _CREDENTIALS,
        r"expected audience",
        r"unexpected jwt \"aud\"",
        r"(?:invalid|error) claim:? ['\"]aud",
        r"audience \(aud\) claim",
        r"invalid audience",
        r"audience (?:doesn't|does not|didn't|did not) match",
        r"aud(?:ience)?['\"]? claim (?:is not valid|mismatch|doesn't match)",
        r"jwt audience invalid",
        cause="The token names another client or another API than the application or API expects. An ID token contains the application's"
        " client ID, an access token the API that the request named as resource",
        press="Configure the client ID of this application. For an API, send its identifier as resource in the request",
    ),
    _error(
        "clock",
        "A clock is wrong, or the token has expired",
        "Platform → System → Health → Clock",
        r"token used before issued",
        r"token used too (?:early|late)",
        r"(?:not|isn't) (?:yet )?valid yet",
        r"not yet valid \((?:iat|nbf)\)",
        r"before the (?:nbf|iat) \((?:not before|issued at)\) time",
        r"signature has expired",
        r"(?:jwt|token|id_token|id token) (?:is |has )?expired",
        r"unexpected jwt \"(?:exp|iat|nbf)\"",
        r"\"(?:exp|iat|nbf)\" claim timestamp check failed",
        r"(?:iat|exp|nbf) is in the (?:future|past)",
        cause="The token was validated after it expired, or by a clock that is ahead of or behind the installation's clock",
        press="Synchronize both machines with a time server, allow a clock skew of 1 minute in the library, and get a new token"
        " instead of an expired one",
    ),
    _error(
        "signature",
        "The application does not have the key of the token",
        "Platform → System → Signing keys",
        r"failed to verify (?:id token )?signature",
        r"jw[st] (?:token )?(?:signature )?verification failed",
        r"signature verification failed",
        r"(?:no|multiple) applicable keys? found",
        r"no matching (?:verification |signing )?keys?",
        r"unable to find a signing key",
        r"could not find a valid jwks",
        r"unexpected signing algorithm",
        r"signed with (?:an? )?unsupported algorithm",
        r"jwt rejected: invalid signature",
        r"bad_signature",
        r"invalid_signature",
        r"unexpected jwt \"alg\"",
        cause="The application has old keys of the issuer, keys of another issuer, or expects another algorithm",
        press="Configure the library to fetch the keys from jwks_uri of the discovery document, and again for an unknown kid",
    ),
    _error(
        "invalid_client",
        "Client authentication failed",
        f"{_CREDENTIALS} → Client secrets → Create client secret",
        r"invalid[_ ]client\b",
        r"client authentication failed",
        r"(?:unknown|no such) client\b",
        r"(?:bad|invalid|incorrect|wrong) client[_ ](?:secret|credentials|id)",
        cause="The client ID is unknown to this installation, the secret does not belong to the application, or the library sends it"
        " with another authentication method than configured (client_secret_basic or client_secret_post)",
        press="Compare the client ID. If the secret may be wrong, create a new one, add it to the application, and delete the old one",
    ),
    _error(
        "unauthorized_client",
        "The application cannot use this flow",
        _SIGN_IN,
        r"unauthorized[_ ]client",
        r"unsupported[_ ]grant[_ ]type",
        r"unsupported[_ ]response[_ ]type",
        cause="The application uses a flow that Postern does not support, or that requires a client secret",
        press="Use the authorization code flow (response_type=code). For client_credentials, create a client secret",
    ),
    _error(
        "invalid_scope",
        "The application requests a scope that does not exist",
        f"{_CREDENTIALS}; for your own API, Applications → APIs → the API → Scopes",
        r"invalid[_ ]scope\b",
        r"(?:requested )?scope is invalid, unknown, or malformed",
        r"insufficient[_ ]scope",
        reason=RefusalReason.SCOPE_UNKNOWN,
    ),
    _error(
        "access_denied",
        "Access was denied, or the person declined",
        "Logs → Sign-ins, or People → the person → Sign-in troubleshooter",
        r"access[_ ]denied",
        r"the resource owner or authorization server denied the request",
        r"user (?:denied|cancelled|canceled) (?:access|the)",
        cause="The person chose Deny, or the application does not allow this person to sign in (not a member, no role, no plan)",
        press="Check the reason. To change who can sign in, open Applications → the application → Sign-in → Who can sign in",
    ),
    _error(
        "login_required",
        "The silent sign-in failed because the person must interact",
        _REFUSALS,
        r"(?:login|interaction|consent|account_selection)_required",
        r"login required\b",
        cause="The request had prompt=none, but no one is signed in in this browser, or a consent or a second factor is missing",
        press="Send the person through the sign-in without prompt=none. Most browsers send no cookies in a frame on another site",
    ),
    _error(
        "invalid_grant",
        "The authorization code or refresh token is no longer valid",
        _REFUSALS,
        r"invalid[_ ]grant\b",
        r"authorization code (?:is |has )?(?:invalid|expired|already|been)",
        r"(?:invalid|expired) (?:authorization code|refresh[_ ]token)",
        r"the code or token is not valid, has expired or was used before",
        cause="The code was redeemed twice or after it expired (1 minute), the redirect_uri differs from the one in the authorization"
        " request, or the refresh token was already used or its session has ended",
        press="The page shows which it was. Redeem each code once, keep the newest refresh token, and let the person sign in again",
    ),
)


def explained_in(text: str) -> Sequence[ExplainedError]:
    """Returns the errors that the text has, the most specific one first. The text is a stranger's: it is compared and never stored, and
    nothing of it is repeated.
    """
    return [*_found(text)][:MOST_EXPLAINED]


def _found(text: str) -> Iterator[ExplainedError]:
    # Of an address, what its query says counts, too.
    said = f"{text} {unquote_plus(text, errors='replace')}" if "%" in text else text
    plain = " ".join(said.replace("\\", "").replace("\u2019", "'").split())
    for one in EXPLAINED:
        if any(all(part.search(plain) for part in mark) for mark in one.marks):
            yield one


def fits(text: str) -> bool:
    return len(text.encode("utf-8", "surrogatepass")) <= LONGEST_ERROR

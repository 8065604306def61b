"""Errors of OAuth and OpenID Connect as libraries print them: the cause, the page that has what to change, and what to press there.

A library words an error as it likes, so each error has the marks by which several libraries print it. Where Postern itself refuses for the
same reason, the cause and the change are those of the refusal: the words stand once.

An error is text of a stranger. It is compared and never kept, and what is said of it comes from this table alone.
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
    name: str
    """As the standard calls it, or as people do where the standard has no name."""
    title: str
    cause: str
    page: str
    """The way to the page in the console."""
    press: str
    """What to change there, or in the application."""
    marks: tuple[re.Pattern[str], ...]
    """One of these is in the text."""

    @property
    def anchor(self) -> str:
        return self.name.replace("_", "-").replace(" ", "-")


def _error(
    name: str, title: str, page: str, *marks: str, reason: RefusalReason | None = None, cause: str = "", press: str = ""
) -> ExplainedError:
    said = ("", "") if reason is None else reason_in_words(reason)
    # No mark begins or ends with a repetition, so a text of any kind is read once for each mark.
    return ExplainedError(name, title, cause or said[0], page, press or said[1], tuple(re.compile(mark, re.IGNORECASE) for mark in marks))


_SIGN_IN: Final = "Applications → the application → Sign-in → Redirect URIs"
_CREDENTIALS: Final = "Applications → the application → Credentials"
_REFUSALS: Final = "Applications → the application → Sign-in → Failed requests"
_OVERVIEW: Final = "Applications → the application → Overview → Credentials and endpoints → Issuer"

# What says more stands before what says less: of a PKCE error, `invalid_grant` is the name that the endpoint gives it.
EXPLAINED: Final = (
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
    """The errors that the text has, the one that says most first. Only the table speaks: nothing of the text is said back."""
    return [*_found(text)][:MOST_EXPLAINED]


def _found(text: str) -> Iterator[ExplainedError]:
    # Of an address, what its query says counts, too.
    said = f"{text} {unquote_plus(text, errors='replace')}" if "%" in text else text
    plain = " ".join(said.replace("\\", "").replace("\u2019", "'").split())
    for one in EXPLAINED:
        if any(mark.search(plain) for mark in one.marks):
            yield one


def fits(text: str) -> bool:
    return len(text.encode("utf-8", "surrogatepass")) <= LONGEST_ERROR

"""The application's side of a sign-in, in the order of the suite's own steps."""

import base64
import hashlib
import secrets
import string
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import httpx

from tests.conformance.kit import answers, id_tokens
from tests.conformance.kit.browser import Arrival, PersonsBrowser, ShownPage
from tests.conformance.kit.installation import CALLBACK, SIGNED_OUT, AskedServer, SuiteClient
from tests.conformance.kit.metadata import published_keys
from tests.conformance.kit.outcome import Outcome

Request = dict[str, str]
_LONG: Final = 10


def random_text(length: int = _LONG) -> str:
    """As the suite makes `state` and `nonce`: letters and digits, and long ones end with the four other unreserved characters."""
    shown = length if length <= _LONG else length - 4
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(shown)) + ("" if length <= _LONG else "-._~")


def pause(seconds: float) -> None:
    """The module itself waits so long, since it compares times of whole seconds or lets a code grow old."""
    time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class GivenTokens:
    """What the token endpoint gave for a code."""

    answer: Mapping[str, Any]
    claims: Mapping[str, Any]
    """Of the ID token."""
    code: str

    @property
    def access_token(self) -> str:
        return str(self.answer["access_token"])

    @property
    def id_token(self) -> str:
        return str(self.answer["id_token"])


@dataclass
class Suite:
    """One module's run."""

    installation: AskedServer
    outcome: Outcome
    browser: PersonsBrowser
    client: httpx.Client
    response_mode: str

    def __post_init__(self) -> None:
        """What every module asks of the server before it starts."""
        assert {"issuer", "authorization_endpoint", "token_endpoint", "userinfo_endpoint"} <= self.metadata.keys()
        assert "client_secret_basic" in self.metadata["token_endpoint_auth_methods_supported"]
        self.keys: Mapping[str, Any] = self.client.get(self.metadata["jwks_uri"]).json()
        published_keys(self.keys, self.outcome)

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.installation.metadata

    @property
    def by_form(self) -> bool:
        return self.response_mode == "form_post"

    def request(
        self,
        application: SuiteClient | None = None,
        *,
        scope: str = "openid",
        state: int = _LONG,
        also: Mapping[str, str] | None = None,
        **changed: str | None,
    ) -> Request:
        """The request that the suite makes, with these changes; None leaves a parameter out. `state` is the length of this parameter."""
        made: dict[str, str | None] = {
            "client_id": (application or self.installation.first).client_id,
            "redirect_uri": CALLBACK,
            "scope": scope,
            "state": random_text(state),
            "nonce": random_text(),
            "response_type": "code",
            "response_mode": "form_post" if self.by_form else None,
            **(also or {}),
            **changed,
        }
        return {name: value for name, value in made.items() if value is not None}

    def at_authorization(self, request: Request) -> Arrival | ShownPage:
        return self.browser.visit(f"{self.metadata['authorization_endpoint']}?{urlencode(request)}")

    def arrived(self, request: Request) -> Arrival:
        """The answer at the callback, with the conditions of every callback."""
        return self.checked_arrival(self.at_authorization(request))

    def checked_arrival(self, came: Arrival | ShownPage) -> Arrival:
        assert isinstance(came, Arrival), came
        assert came.address == CALLBACK
        if self.by_form:
            assert came.method == "POST"
            assert came.content_type == "application/x-www-form-urlencoded"
            assert not {"code", "error"} & came.query.keys()
        else:
            assert came.method == "GET"
        return came

    def answered(self, came: Arrival) -> Mapping[str, str]:
        return came.form if self.by_form else came.query

    def code(self, request: Request) -> str:
        """Goes to the authorization endpoint, and returns the code that came back."""
        return self.code_of(self.arrived(request), request)

    def code_of(self, came: Arrival, request: Request) -> str:
        told = self.answered(came)
        assert told.get("iss", self.installation.issuer) == self.installation.issuer
        assert "error" not in told, told
        assert told.get("state") == request.get("state")
        assert told.get("code")
        return told["code"]

    def refusal(self, came: Arrival, request: Request) -> str:
        """The error at the callback, with the conditions of every error there."""
        return answers.refused_at_callback(self.answered(came), request, self.installation.issuer, self.outcome)

    def ask_token(self, form: Mapping[str, str], application: SuiteClient | None = None, *, by_form: bool = False) -> httpx.Response:
        used = application or self.installation.first
        if by_form:
            posted = {**form, "client_id": used.client_id, "client_secret": used.secret}
            return self.client.post(self.metadata["token_endpoint"], data=posted)
        return self.client.post(self.metadata["token_endpoint"], data=dict(form), auth=(used.client_id, used.secret))

    def redeem(self, code: str, application: SuiteClient | None = None, *, by_form: bool = False, **more: str) -> httpx.Response:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, **more}
        return self.ask_token(form, application, by_form=by_form)

    def tokens(self, request: Request, application: SuiteClient | None = None, *, by_form: bool = False, **more: str) -> GivenTokens:
        """Signs in, and redeems the code, with the conditions of every module for what comes back."""
        return self.tokens_of(self.code(request), request, application, by_form=by_form, **more)

    def tokens_of(
        self, code: str, request: Request, application: SuiteClient | None = None, *, by_form: bool = False, **more: str
    ) -> GivenTokens:
        told = answers.token_answer(self.redeem(code, application, by_form=by_form, **more))
        claims = self.checked_id_token(told["id_token"], request)
        self.accepted(told["access_token"])
        return GivenTokens(told, claims, code)

    def checked_id_token(self, token: str, request: Request) -> Mapping[str, Any]:
        return id_tokens.checked(token, self.keys, self.installation.issuer, request["client_id"], request.get("nonce"))

    def userinfo(self, access_token: str, method: str = "GET") -> httpx.Response:
        return self.client.request(method, self.metadata["userinfo_endpoint"], headers={"Authorization": f"Bearer {access_token}"})

    def accepted(self, access_token: str) -> None:
        """The suite's protected resource of OpenID Connect is userinfo."""
        assert self.userinfo(access_token).status_code == 200

    def at_logout(self, **asked: str | None) -> Arrival | ShownPage:
        """Sends the browser to sign out."""
        request = {name: value for name, value in asked.items() if value is not None}
        query = f"?{urlencode(request)}" if request else ""
        return self.browser.visit(f"{self.metadata['end_session_endpoint']}{query}")

    def signed_out_at(self, came: Arrival | ShownPage, state: str | None) -> None:
        """The browser is back at the application's address after sign-outs, with this state and nothing else."""
        assert isinstance(came, Arrival), came
        assert came.address == SIGNED_OUT
        assert came.query.get("state") == state
        self.outcome.should(came.query.keys() <= {"state"}, "post_logout_redirect has unexpected parameters")

    def is_signed_out(self) -> None:
        """A second authorization with `prompt=none` says that somebody would have to sign in."""
        request = self.request(state=128, prompt="none")
        error = self.refusal(self.arrived(request), request)
        assert error in answers.NEEDS_A_PERSON


def pkce() -> tuple[str, dict[str, str]]:
    """The verifier, and the parameters of the request."""
    verifier = random_text(64)
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    return verifier, {"code_challenge": digest, "code_challenge_method": "S256"}

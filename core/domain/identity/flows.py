"""Flows: what a user completes in a browser between the request for a sign-in and its target."""

import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.branding import POSTERN, Branding
from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import FlowId, OrganizationId, PreauthenticationId, ServiceId, SessionId, UserId
from core.domain.identity.proofs import Proved
from core.domain.identity.registering import ANYBODY_NEW, Newcomers
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.upstream.providers import NO_OWN_PROVIDERS, OwnProviders
from core.domain.requests import is_just_past
from core.domain.secrets import Secret
from core.frozen import Frozen

LIFETIME: Final = timedelta(hours=1)


class FlowOver(BadRequest):
    """The page belongs to a flow that has ended, or that began in another browser. The answer is the same in both cases."""

    text = "This page is out of date"

    def __init__(self) -> None:
        super().__init__(words="page_out_of_date")


class FlowPurpose(StrEnum):
    """The place where a flow goes on after the sign-in."""

    ACCOUNT = "account"
    """A page of our own."""
    AUTHORIZE = "authorize"
    """An application that asked for an authorization."""
    DEVICE = "device"
    """A device that showed the person a code."""
    SAML = "saml"
    """A SAML service provider that asked for an assertion about the person."""
    SAML_LOGOUT = "saml_logout"
    """A sign-out on its way through the SAML service providers of a session."""


class Prompt(StrEnum):
    """The question that the page should ask, in OpenID Connect's words. A request with the prompt `none` never becomes a flow."""

    LOGIN = "login"
    CREATE = "create"
    SELECT_ACCOUNT = "select_account"


class Wanted(Frozen):
    """The demands of a flow on the sign-in, and the looks of its pages."""

    login_hint: str = ""
    """The address that the sign-in page suggests."""
    prompt: Prompt | None = None
    max_age: int | None = None
    """In seconds: the person's last proof may be at most this old."""
    second_factor: bool = False
    """People who have a second factor must have shown it in this session."""
    ui_locales: tuple[str, ...] = ()
    organization: str = ""
    """The slug of the organization whose name and colour the pages have."""
    service_name: str = ""
    """The name of the service, for the page to show."""
    service_slug: str = ""
    """The service's slug within its organization. An account that is registered on the way counts as created through this service."""

    def is_met(self, proved: Proved, since: datetime, now: datetime) -> bool:
        """Whether a session with these proofs needs no further sign-in, in a flow that began at `since`."""
        latest = max(filter(None, (proved.shown_at, proved.second_factor_at)), default=None)
        if self.second_factor and proved.second_factor_at is None:
            return False
        if self.prompt is Prompt.LOGIN and not proved.is_afresh(since):
            return False
        if self.max_age is None:
            return True
        return latest is not None and (latest >= since or proved.is_afresh(since) or now - latest <= timedelta(seconds=self.max_age))

    @property
    def wants_fresh_sign_in(self) -> bool:
        """Whether a sign-in somewhere else, before this flow, may be too old."""
        return self.prompt is Prompt.LOGIN or self.max_age is not None

    def signed_in_since(self, since: datetime, now: datetime) -> datetime | None:
        """The earliest time that counts for the person's sign-in, also at a provider, in a flow that began at `since`. None when any time
        will do.
        """
        if self.prompt is Prompt.LOGIN:
            return since
        return None if self.max_age is None else min(since, now - timedelta(seconds=self.max_age))


class Flow(Frozen):
    """A flow as one browser goes through it.

    Each flow is a row. The browser holds one secret for all of its flows, and each form names its flow.
    """

    id: FlowId
    purpose: FlowPurpose
    request: Mapping[str, Json]
    """The data that the flow's purpose goes on with. Only the purpose reads it."""
    wanted: Wanted
    created_at: datetime
    expires_at: datetime
    service: ServiceId | None = None
    organization: OrganizationId | None = None
    """The active organization whose name the pages have, once the flow is stored."""
    email: str = ""
    """The address that the person typed."""
    user: UserId | None = None
    """The person who has given a password, or has signed in."""
    account: UserId | None = None
    """The account that the flow goes on with, without a sign-in of its own: it was in use when the flow began, or the person chose it."""
    preauthentication: PreauthenticationId | None = None
    session: SessionId | None = None
    """The browser's session, once the person has signed in by this flow."""
    signed_in_at: datetime | None = None
    signed_in_by: str = ""
    """The way in which the person signed in, in the words of the login events. Empty when nobody has signed in by this flow, or when a
    process of the release before signed the person in.
    """
    signed_in_at_provider: str = ""
    """The provider that vouched for the person: the word of a shared provider, or the id of an organization's own. Empty when the person
    signed in without a provider.
    """
    sign_in_is_logged: bool = False
    """The organization of the application has the sign-in by this flow in its log already."""
    owes_answers: bool = False
    """A page may have fields to ask the person for, since the sign-in by this flow."""
    offers_passkey: bool = False
    """A page may offer a passkey, since the sign-in by this flow."""
    upgrades: bool = False
    """Before that page, the browser may make a passkey by itself."""
    owes_terms: bool = False
    """The sign-in by this flow has found terms that the person has not accepted, and no page has asked about them yet."""
    proof_digest: bytes | None = None
    """The digest of the proof that the person signed in with; see `proof_digest`."""
    completed_at: datetime | None = None
    refused: bool = False
    """The flow ended with the person's no."""
    repeats: bool = False
    """The browser sent the form that ended the flow again. A browser drops the first answer then, so the flow answers once more."""
    asked_memberships: bool = False
    """A page has just asked the person about memberships that organizations have made on their own, and the person goes on."""
    branding: Branding = POSTERN
    has_authenticator: bool = True
    """Whether the person who has given a password, and owes a second factor, has an authenticator app. Otherwise only backup codes are
    accepted as codes.
    """
    trust_days: int | None = None
    """Beside a proof that awaits the second factor: the fewest days of trust in a device that one of the person's organizations allows."""
    may_know_of_failures: bool = False
    """Beside a proof that awaits the second factor: see `NamedAccount.may_know_of_failures`, for the flow's application."""
    has_passkey: bool = False
    """Whether this person has a passkey, which counts as a second factor too."""
    newcomers: Newcomers = ANYBODY_NEW
    own: OwnProviders = NO_OWN_PROVIDERS
    """The clients and providers that the flow's organization has of its own."""

    @property
    def application(self) -> Context:
        """The application that the flow leads to. Its organization may see the attempts to sign in by this flow: see `audience`."""
        if self.organization is None or self.service is None:
            return PLATFORM
        return Context(self.organization, self.wanted.organization, self.service, self.wanted.service_slug)

    @property
    def belongs_to(self) -> UserId | None:
        """The account of this flow, of those that are signed in in its browser. None while anybody may still sign in, or choose the
        account, and for a sign-in through the API, whose session is no browser's.
        """
        if self.signed_in_at is None:
            return self.account
        return self.user if self.signed_in_by else None

    @property
    def awaits_second_factor(self) -> bool:
        return self.preauthentication is not None and self.signed_in_at is None

    def require_unanswered(self, purpose: FlowPurpose, *, refusing: bool = False) -> None:
        """Raises `FlowOver` for a flow of another purpose, and for a flow that has led somewhere already: the browser's "back" brings its
        pages up again. The same answer may come again, another answer may not.
        """
        if self.purpose is not purpose or (self.completed_at is not None and not self.repeats):
            raise FlowOver
        if self.repeats and self.refused is not refusing:
            raise FlowOver

    def has_just_ended(self, now: datetime) -> bool:
        return is_just_past(self.completed_at, now)

    def is_repeat(self, digest: bytes, now: datetime) -> bool:
        """The browser sends the same form once more: the first answer to it may never have arrived."""
        return self.proof_digest is not None and is_just_past(self.signed_in_at, now) and hmac.compare_digest(self.proof_digest, digest)


def proof_digest(browser: Secret, proof: Secret) -> bytes:
    """Recognises a proof that is sent a second time. The key is the browser's secret, which the database does not have. So nobody can find
    out a password or a code by this digest.
    """
    return hmac.digest(
        browser.reveal().encode("utf-8", "surrogatepass"), b"proof " + proof.reveal().encode("utf-8", "surrogatepass"), sha256
    )


def unclaimed_digest(flow: FlowId) -> bytes:
    """Stands for the browser's secret in a flow that the form of another site has begun: browsers send no cookies with such a form. The
    first browser that comes with the flow's id claims the flow.
    """
    return sha256(f"unclaimed {flow}".encode()).digest()


def claimed_id(flow: FlowId, browser: Secret) -> FlowId:
    """The id of an unclaimed flow from its claim on. The site that began the flow knows the first id. With it, this site could lead the
    browser on, to a provider of its own that signs people in to any account.
    """
    return FlowId(UUID(bytes=hmac.digest(browser.reveal().encode(), b"claimed " + flow.bytes, sha256)[:16], version=4))


def form_token(browser: Secret, bound_to: str) -> str:
    """A value in every form of a page. Without it, no other site and no other browser can send the form. `browser` is the secret in the
    cookie, and `bound_to` names the flow, or the kind of page.
    """
    return hmac.digest(browser.reveal().encode(), f"form {bound_to}".encode(), sha256).hex()

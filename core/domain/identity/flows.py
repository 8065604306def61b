"""Flows: what a person is doing in a browser from the page where they are asked to sign in to the place where they wanted to go. Each is a
row; the browser holds one secret for all of its flows, and each form names its flow.
"""

import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.branding import POSTERN, Branding
from core.domain.errors import BadRequest
from core.domain.identifiers import FlowId, PreauthenticationId, ServiceId, SessionId, UserId
from core.domain.identity.proofs import Proved
from core.domain.identity.upstream.providers import NO_OWN_PROVIDERS, OwnProviders
from core.domain.json import Json
from core.domain.repeats import is_just_past
from core.domain.secrets import Secret
from core.frozen import Frozen

LIFETIME: Final = timedelta(hours=1)


class FlowOver(BadRequest):
    """The page is of a flow that has ended, or that began in another browser. It says the same of both."""

    text = "This page is out of date"

    def __init__(self) -> None:
        super().__init__(words="page_out_of_date")


class FlowPurpose(StrEnum):
    """What a flow goes on with once the person is signed in."""

    ACCOUNT = "account"
    """A page of our own."""
    AUTHORIZE = "authorize"
    """An application that asked for an authorization."""
    DEVICE = "device"
    """A device whose code the person was shown."""
    SAML = "saml"
    """A SAML service provider that asked who the person is."""
    SAML_LOGOUT = "saml_logout"
    """A sign-out on its way through the SAML service providers of a session."""


class Prompt(StrEnum):
    """What the page should ask for, in OpenID Connect's words; `none` is never a flow."""

    LOGIN = "login"
    CREATE = "create"
    SELECT_ACCOUNT = "select_account"


class Wanted(Frozen):
    """What a flow asks of the sign-in, and whose page it is."""

    login_hint: str = ""
    """An address to begin with."""
    prompt: Prompt | None = None
    max_age: int | None = None
    """In seconds: how long ago the person may have proved who they are."""
    second_factor: bool = False
    """People who have a second factor must have shown it in this session."""
    ui_locales: tuple[str, ...] = ()
    organization: str = ""
    """The slug of the organization whose name and colour the pages have."""
    service_name: str = ""
    """What the person signs in to, for the page to say so."""
    service_slug: str = ""
    """The same within its organization: an account that is registered on the way comes from there."""

    def is_met(self, proved: Proved, since: datetime, now: datetime) -> bool:
        """Whether a session that has proved this needs no further sign-in, in a flow that began at `since`."""
        latest = max(filter(None, (proved.at, proved.second_factor_at)), default=None)
        if self.second_factor and proved.second_factor_at is None:
            return False
        if self.prompt is Prompt.LOGIN and (proved.at is None or proved.at < since):
            return False
        if self.max_age is None:
            return True
        return latest is not None and (latest >= since or now - latest <= timedelta(seconds=self.max_age))

    @property
    def wants_fresh_sign_in(self) -> bool:
        """Whether a sign-in somewhere else, from before this flow, may be too old."""
        return self.prompt is Prompt.LOGIN or self.max_age is not None

    def signed_in_since(self, since: datetime, now: datetime) -> datetime | None:
        """When the person must have signed in at the earliest, also at a provider, in a flow that began at `since`. None: whenever."""
        if self.prompt is Prompt.LOGIN:
            return since
        return None if self.max_age is None else min(since, now - timedelta(seconds=self.max_age))


class Flow(Frozen):
    """A flow as one browser goes through it."""

    id: FlowId
    purpose: FlowPurpose
    request: Mapping[str, Json]
    """What its purpose goes on with, and only its purpose reads."""
    wanted: Wanted
    created_at: datetime
    expires_at: datetime
    service: ServiceId | None = None
    email: str = ""
    """The address that the person gave."""
    user: UserId | None = None
    """Who has given a password, or has signed in."""
    preauthentication: PreauthenticationId | None = None
    session: SessionId | None = None
    """The browser's session, once the person has signed in by this flow."""
    signed_in_at: datetime | None = None
    signed_in_by: str = ""
    """The way in which they did, as the log of sign-ins calls it. Empty: they have not, or by a process of the release before."""
    signed_in_at_provider: str = ""
    """The one of these that vouched for them: its word, or the id of an organization's own. Empty: none did."""
    proof_digest: bytes | None = None
    """Of what the person signed in with; see `proof_digest`."""
    completed_at: datetime | None = None
    refused: bool = False
    """It ended with the person's no."""
    repeats: bool = False
    """The form that led out of it was sent again. A browser drops the first answer then, so there is another one."""
    asked_memberships: bool = False
    """The person has just been asked about the memberships that others have made for them, and goes on."""
    branding: Branding = POSTERN
    has_authenticator: bool = True
    """Whether who has given a password, and owes a second factor, has an authenticator app. Otherwise only a backup code is a code."""
    has_passkey: bool = False
    """Whether they have a passkey, which would do as well."""
    own: OwnProviders = NO_OWN_PROVIDERS
    """What the flow's organization has."""

    @property
    def awaits_second_factor(self) -> bool:
        return self.preauthentication is not None and self.signed_in_at is None

    def require_unanswered(self, purpose: FlowPurpose, *, refusing: bool = False) -> None:
        """Raises `FlowOver` for a flow of another purpose, and for one that has led somewhere already: going back in the browser brings its
        pages up again. The same answer may come again, another one may not.
        """
        if self.purpose is not purpose or (self.completed_at is not None and not self.repeats):
            raise FlowOver
        if self.repeats and self.refused is not refusing:
            raise FlowOver

    def has_just_ended(self, now: datetime) -> bool:
        return is_just_past(self.completed_at, now)

    def is_repeat(self, digest: bytes, now: datetime) -> bool:
        """The same form once more: its first answer may never have arrived."""
        return self.proof_digest is not None and is_just_past(self.signed_in_at, now) and hmac.compare_digest(self.proof_digest, digest)


def proof_digest(browser: Secret, proof: Secret) -> bytes:
    """Recognises a proof that is sent a second time. The key is the browser's secret, which the database does not have: nobody can find out
    a password or a code by this digest.
    """
    return hmac.digest(
        browser.reveal().encode("utf-8", "surrogatepass"), b"proof " + proof.reveal().encode("utf-8", "surrogatepass"), sha256
    )


def unclaimed_digest(flow: FlowId) -> bytes:
    """Stands for the browser's secret in a flow that the form of another site has begun: browsers send no cookies with that. The first
    browser that comes with the flow's id makes it its own.
    """
    return sha256(f"unclaimed {flow}".encode()).digest()


def claimed_id(flow: FlowId, browser: Secret) -> FlowId:
    """The id of such a flow from then on. Whoever began it knows the first one, and could lead the browser on in it: to a provider of their
    own, which signs people in to whatever account it likes.
    """
    return FlowId(UUID(bytes=hmac.digest(browser.reveal().encode(), b"claimed " + flow.bytes, sha256)[:16], version=4))


def form_token(browser: Secret, bound_to: str) -> str:
    """What the forms of a page carry, so that no other site, and no other browser, can send them. `browser` is the secret in the cookie,
    and `bound_to` names the flow, or the kind of page.
    """
    return hmac.digest(browser.reveal().encode(), f"form {bound_to}".encode(), sha256).hex()

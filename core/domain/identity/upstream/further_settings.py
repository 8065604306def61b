"""How we speak to a further provider of the installation."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from core.domain.json import Json
from core.frozen import Frozen, values_of

# A version of an interface, in a path: `/v21.0/me`, `/api/v10/users/@me`.
_VERSION: Final = re.compile(r"(?<=[^/]/)v[0-9]+(?:\.[0-9]+)*(?=/)")


class Naming(Frozen):
    """What says who an external id is. One id may be another person's where any of these is another."""

    issuer: str
    """As it is stated. Empty where nobody has stated it."""
    profile_url: str
    subject: str
    """The path of the id in the profile."""


class FurtherKind(StrEnum):
    """The protocol that a provider speaks."""

    OPENID = "openid"
    """OpenID Connect. The issuer publishes its addresses and keys."""
    OAUTH = "oauth2"
    """OAuth 2.0 by addresses, with a profile that a mapping reads."""


class ClientSecretKind(StrEnum):
    """What the secret of our client is."""

    TEXT = "text"
    """The secret itself."""
    SIGNING_KEY = "signing_key"
    """A private key of P-256 in PEM. It signs a secret of a few minutes for each request, as Apple wants it."""


class FurtherSettings(Frozen, kw_only=True):
    """How we speak to a provider, without our client there."""

    kind: FurtherKind = FurtherKind.OPENID
    issuer: str = ""
    """For OpenID Connect, as the tokens have it. For OAuth 2.0, what people's ids belong to, whatever version the addresses have, and what
    answers that name their issuer must name. Empty where nobody has stated it.
    """
    authorization_url: str = ""
    token_url: str = ""
    profile_url: str = ""
    scopes: tuple[str, ...] = ()
    subject: str = ""
    """Where the profile of OAuth 2.0 has the person's id, as a path of member names."""
    email: str = ""
    """Where the profile has the address. Empty when it has none."""
    verified: str = ""
    """Where the profile says whether the address is verified. Empty when it says nothing."""
    full_name: str = ""
    """Where the profile has the person's name."""
    posts_answer: bool = False
    """The provider sends its answer by a form (`response_mode=form_post`)."""
    repeats_nonce: bool = True
    """ID tokens repeat our nonce. Otherwise the state and the code's challenge alone say which request they answer."""
    secret_kind: ClientSecretKind = ClientSecretKind.TEXT
    team_id: str = ""
    key_id: str = ""

    @property
    def identity_issuer(self) -> str:
        """What the subjects belong to."""
        return self.issuer or self.profile_url

    @property
    def naming(self) -> Naming:
        return Naming(self.issuer, self.profile_url, self.subject)

    @property
    def place(self) -> tuple[str, ...]:
        """Where the secret of our client goes to. For other addresses it has to be given anew."""
        return (self.kind.value, self.issuer, self.token_url)

    def stored(self) -> Mapping[str, Json]:
        return {name: _plain(value) for name, value in values_of(self).items()}


def _plain(value: Any) -> Json:
    return value.value if isinstance(value, StrEnum) else list(value) if isinstance(value, tuple) else value


def profile_place(profile_url: str) -> str:
    """The address of a profile whatever version it names: an id is the same person's in another version of one interface."""
    path, mark, query = profile_url.partition("?")
    return f"{_VERSION.sub('v', path)}{mark}{query}"


def digest_of_tested(settings: FurtherSettings, client_id: str, secret_set_at: datetime) -> bytes:
    """The settings that a test is about. The time when the secret was set stands for the secret, which a digest must not give away."""
    told = [dict(settings.stored()), client_id, secret_set_at.astimezone(UTC).isoformat()]
    return sha256(json.dumps(told, sort_keys=True).encode()).digest()


def restored_settings(kept: Mapping[str, Any]) -> FurtherSettings:
    """Reads what `stored` wrote."""
    read = {
        **kept,
        "kind": FurtherKind(kept["kind"]),
        "secret_kind": ClientSecretKind(kept["secret_kind"]),
        "scopes": tuple(kept["scopes"]),
    }
    return FurtherSettings(**read)

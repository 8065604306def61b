"""Every kind of credential, good or bad, as request headers. All holders belong to one small world: acme with its shop and its people, and
globex.
"""

from base64 import b64encode
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from typing import Any, Final
from uuid import UUID

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from core.domain.federation.scim.tokens import KIND as SCIM_TOKEN
from core.domain.identifiers import UserId
from core.domain.identity.sign_in import preauthentication_claims
from core.domain.secrets import Token
from core.domain.services.api_keys import Permission
from core.domain.tenancy.management_keys import PlatformCapability
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.setup import SetupPurpose
from entrypoints.bootstrap import Postern
from tests.http.client import Pairs
from tests.http.people import BASE_URL, People, Person
from tests.http.tenants import Tenant, Tenants, UsedService

PEOPLE: Final = {"m": "member", "a": "admin", "o": "owner", "g": "platform owner, a member", "x": "owner of another organization"}
CONTEXTS: Final = {"p": "the platform", "o": "an organization", "s": "a service"}


@dataclass(frozen=True)
class Kind:
    """The session of a person from PEOPLE in a context from CONTEXTS; or, without both, another credential by its name."""

    name: str
    person: str = ""
    context: str = ""
    impersonated: bool = False
    in_browser: bool = False
    """Whether a browser has the session, in its cookie, in place of a token."""


def sessions() -> Iterator[Kind]:
    for (person, who), (context, where), impersonated in product(PEOPLE.items(), CONTEXTS.items(), (False, True)):
        # Nobody may impersonate a platform owner.
        if not (impersonated and person == "g"):
            yield Kind(f"{who} in {where}{', impersonated' if impersonated else ''}", person, context, impersonated)


SESSIONS: Final = tuple(sessions())
# The same sessions in browsers, for the pages of the console.
IN_BROWSERS: Final = tuple(replace(one, name=f"{one.name}, in a browser", in_browser=True) for one in SESSIONS)
OTHERS: Final = tuple(
    map(
        Kind,
        (
            "nothing",
            "ended",  # the access token of a session that was revoked
            "expired",
            "foreign",  # signed by a key that is not ours, under the name of one that is
            "pre-auth",
            "refresh",
            "ID",
            "client",
            "key",
            "key as token",
            "directory",  # a SCIM token of the organization
            "key of another",  # a good key of another organization's service, as a token
            "org-key",  # a management key of the organization
            "powerless-org-key",
            "org-key of another",  # a management key of another organization
            "platform-key",
            "secret as token",
            "secret-as-password",
            "application",  # a session that an application was given, without the scope openid
            "application-with-openid",
            "code",
            "device",
            "trust",
            "verification link",
            "reset link",
            "invitation",
            "cookie",  # the access token where a browser would keep it
            "browser",  # the cookie of a browser's session
            "flow",  # the secret that a browser has for its flows
            "setup",  # the cookie of a browser that owns a set-up link
            "ended-browser",
            "planted browser",  # the same cookie under the name that it has over http
        ),
    )
)
SET_UP: Final = "0199d3a0-0000-7000-8000-000000000001"
"""The id of the set-up link."""
KINDS: Final = (*SESSIONS, *OTHERS)


class Wallet:
    """Makes the credentials. Except for sessions, the names of the methods are the kinds."""

    def __init__(self, postern: Postern, people: People) -> None:
        self._postern = postern
        self._people = people
        self._tenants = Tenants(postern, people)
        self._acme, self._globex = self._tenants.add("acme"), self._tenants.add("globex")
        self._shop, self._theirs = self._tenants.service(self._acme, "shop"), self._tenants.service(self._globex, "shop")
        self._governor = people.add(platform_owner=True)
        self._residents: dict[str, tuple[Person, Tenant, UsedService]] = {
            "m": (self._tenants.member(self._acme), self._acme, self._shop),
            "a": (self._tenants.member(self._acme, "admin"), self._acme, self._shop),
            "o": (self._tenants.member(self._acme, "owner"), self._acme, self._shop),
            "g": (self._tenants.join(self._governor, self._acme), self._acme, self._shop),
            "x": (self._tenants.member(self._globex, "owner"), self._globex, self._theirs),
        }

    async def headers(self, kind: Kind) -> Pairs:
        if kind.in_browser:
            return self._acting_cookies(kind) if kind.impersonated else self._cookie_of(self._opened(kind))
        if kind.person:
            return bearer(await self._session(kind))
        made: Awaitable[Pairs] = getattr(self, kind.name.replace(" ", "_").replace("-", "_").lower())()
        return await made

    async def _session(self, kind: Kind) -> str:
        session, place = self._opened(kind), self._place_of(kind)
        if not kind.impersonated:
            return await self._tenants.token(session, place)
        return await self._tenants.token(session, place, token_use="impersonation", impersonator=str(self._governor.user))

    def _place_of(self, kind: Kind) -> Tenant | UsedService | None:
        _, tenant, service = self._residents[kind.person]
        return {"p": None, "o": tenant, "s": service}[kind.context]

    def _opened(self, kind: Kind) -> Person:
        """The kind's session."""
        session = self._tenants.session(self._residents[kind.person][0], self._place_of(kind))
        if kind.impersonated:
            self._people.change(
                "update sessions set impersonator_id = %s, impersonation_id = %s where id = %s",
                self._governor.user,
                self._id(),
                session.session,
            )
        return session

    def _acting_cookies(self, kind: Kind) -> Pairs:
        """The cookies of a platform owner's own session, and of a session in somebody's name that was opened from it."""
        own, acting = self._people.session_of(self._governor), self._opened(kind)
        self._people.change("update sessions set parent_id = %s, depth = 1 where id = %s", own.session, acting.session)
        return (("cookie", f"__Host-postern_session={self._browser(own)}; __Host-postern_acting={self._browser(acting)}"),)

    async def nothing(self) -> Pairs:
        return ()

    async def ended(self) -> Pairs:
        person = self._people.add()
        self._people.change("update sessions set revoked_at = now() where id = %s", person.session)
        return bearer(await self._people.token(person))

    async def expired(self) -> Pairs:
        return bearer(await self._people.token(self._people.add(), at=self._postern.foundation.clock.now() - timedelta(hours=1)))

    async def foreign(self) -> Pairs:
        token = await self._token()
        claims = jwt.decode(token, options={"verify_signature": False})
        header = {"kid": jwt.get_unverified_header(token)["kid"]}
        return bearer(jwt.encode(claims, generate_private_key(SECP256R1()), "ES256", header))

    async def pre_auth(self) -> Pairs:
        now = self._postern.foundation.clock.now()
        user = UserId(self._people.add().user)
        claims = preauthentication_claims(user, str(self._id()), issuer=BASE_URL, now=now, expires_at=now + timedelta(minutes=1))
        return bearer(await self._postern.foundation.token_signer.sign_access(claims))

    async def refresh(self) -> Pairs:
        token = self._opaque()
        self._people.change(
            "insert into refresh_tokens (digest, session_id, created_at) values (%s, %s, now())",
            token.digest(),
            self._people.add().session,
        )
        return bearer(token.reveal())

    async def id(self) -> Pairs:
        now = int(self._postern.foundation.clock.now().timestamp())
        person = self._people.add()
        claims: dict[str, Any] = {"iss": BASE_URL, "sub": str(person.user), "sid": str(person.session), "iat": now, "exp": now + 900}
        return bearer(await self._postern.foundation.token_signer.sign_id({**claims, "aud": "somebody", "token_use": "access"}))

    async def client(self) -> Pairs:
        (service,) = self._people.rows("select client_id from services where id = %s", self._shop.id)
        claims = {"sub": str(service["client_id"]), "aud": "services:acme", "org": "acme", "service": "shop"}
        return bearer(await self._token(token_use="client", sid=None, **claims))

    async def key(self) -> Pairs:
        return (("x-api-key", self._key(self._shop)),)

    async def directory(self) -> Pairs:
        token = Token(self._postern.foundation.secrets.key(SCIM_TOKEN).reveal())
        self._people.change(
            "insert into scim_tokens (id, org_id, name, prefix, digest, created_by, created_at) values (%s, %s, 'D', %s, %s, %s, now())",
            self._id(),
            self._acme.id,
            token.reveal().rpartition("_")[0],
            token.digest(),
            self._id(),
        )
        return bearer(token.reveal())

    async def org_key(self) -> Pairs:
        return bearer(self._management_key(self._acme, self._residents["o"][0], list(Capability)))

    async def powerless_org_key(self) -> Pairs:
        return bearer(self._management_key(self._acme, self._residents["o"][0], []))

    async def org_key_of_another(self) -> Pairs:
        return bearer(self._management_key(self._globex, self._residents["x"][0], list(Capability)))

    async def platform_key(self) -> Pairs:
        return bearer(self._management_key(None, self._governor, list(PlatformCapability)))

    def _management_key(self, tenant: Tenant | None, maker: Person, capabilities: Sequence[str]) -> str:
        return self._tenants.management_key(tenant, maker, capabilities)

    async def key_as_token(self) -> Pairs:
        return bearer(self._key(self._shop))

    async def key_of_another(self) -> Pairs:
        return bearer(self._key(self._theirs))

    async def secret_as_token(self) -> Pairs:
        return bearer(self._secret())

    async def secret_as_password(self) -> Pairs:
        (service,) = self._people.rows("select client_id from services where id = %s", self._shop.id)
        pair = f"{service['client_id']}:{self._secret()}"
        return (("authorization", f"Basic {b64encode(pair.encode()).decode()}"),)

    async def application(self) -> Pairs:
        return bearer(await self._application("email"))

    async def application_with_openid(self) -> Pairs:
        return bearer(await self._application("openid email"))

    async def code(self) -> Pairs:
        token = self._opaque()
        self._people.change(
            "insert into authorization_codes (id, digest, service_id, user_id, parent_id, redirect_uri, scopes, auth_time,"
            " authenticated_by, created_at, expires_at) values (%s, %s, %s, %s, %s, 'https://a.example/', '{openid}', now(), '{pwd}',"
            " now(), now() + interval '1 minute')",
            self._id(),
            token.digest(),
            self._shop.id,
            self._residents["o"][0].user,
            self._residents["o"][0].session,
        )
        return bearer(token.reveal())

    async def device(self) -> Pairs:
        token, _ = self._device()
        return ("x-device-token", token), ("cookie", f"__Host-postern_device={token}")

    async def trust(self) -> Pairs:
        _, token = self._device()
        return ("x-device-trust-token", token), ("cookie", f"__Host-postern_device_trust={token}")

    async def verification_link(self) -> Pairs:
        return bearer(self._mailed("verify_email"))

    async def reset_link(self) -> Pairs:
        return bearer(self._mailed("reset_password"))

    async def invitation(self) -> Pairs:
        token = self._opaque()
        self._people.change(
            "insert into invitations (id, org_id, email, email_key, role, token_digest, status, expires_at, created_at)"
            " values (%s, %s, 'i@example.org', 'i@example.org', 'admin', %s, 'pending', now() + interval '1 day', now())",
            self._id(),
            self._acme.id,
            token.digest(),
        )
        return bearer(token.reveal())

    async def cookie(self) -> Pairs:
        token = await self._token()
        return (("cookie", f"__Host-postern_session={token}; postern_session={token}; session={token}; access_token={token}"),)

    async def _application(self, scopes: str) -> str:
        """The credential of an application in which the owner has signed in to the shop."""
        person = self._tenants.session(self._residents["o"][0], self._shop)
        self._people.change("update sessions set scopes = %s where id = %s", scopes.split(), person.session)
        (service,) = self._people.rows("select client_id from services where id = %s", self._shop.id)
        claims = {"client_id": str(service["client_id"]), "scope": scopes}
        return await self._tenants.token(person, self._shop, **claims)

    async def browser(self) -> Pairs:
        return self._cookie_of(self._people.add())

    async def flow(self) -> Pairs:
        return (("cookie", f"__Host-postern_flow={self._cookie()}"),)

    async def setup(self) -> Pairs:
        cookie = self._cookie()
        self._people.change(
            "insert into setup_links (id, org_id, name, prefix, digest, purposes, activates, by_platform, expires_at, created_by,"
            " created_at, browser_digest, used_by, used_at) values (%s, %s, 'x', 'pts', '', %s, false, false, now() + interval '1 day',"
            " %s, now(), %s, 'x', now()) on conflict (id) do update set browser_digest = excluded.browser_digest",
            SET_UP,
            self._acme.id,
            [purpose.value for purpose in SetupPurpose],
            self._residents["o"][0].user,
            Token(cookie).digest(),
        )
        return (("cookie", f"__Host-postern_setup={cookie}"),)

    async def ended_browser(self) -> Pairs:
        cookie = self._browser()
        self._people.change("update sessions set revoked_at = now() where id in (select session_id from browser_sessions)")
        return (("cookie", f"__Host-postern_session={cookie}"),)

    async def planted_browser(self) -> Pairs:
        return (("cookie", f"postern_session={self._browser()}; postern_flow={self._cookie()}"),)

    def _cookie(self) -> str:
        return self._postern.foundation.secrets.token().reveal()

    def _cookie_of(self, person: Person) -> Pairs:
        return (("cookie", f"__Host-postern_session={self._browser(person)}"),)

    def _browser(self, person: Person | None = None) -> str:
        cookie, person = self._cookie(), person or self._people.add()
        self._people.change("insert into browser_sessions (digest, session_id) values (%s, %s)", Token(cookie).digest(), person.session)
        return cookie

    async def _token(self, **claims: Any) -> str:
        return await self._people.token(self._people.add(), **claims)

    def _key(self, service: UsedService) -> str:
        text = self._postern.foundation.secrets.key("sk").reveal()
        self._people.change(
            "insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)"
            " values (%s, %s, 'key', %s, %s, %s, %s, now())",
            self._id(),
            service.id,
            text[:9],
            Token(text).digest(),
            [permission.value for permission in Permission],
            self._residents["o"][0].user,
        )
        return text

    def _secret(self) -> str:
        token = self._opaque()
        self._people.change(
            "insert into client_secrets (id, service_id, prefix, digest, created_at) values (%s, %s, 'x', %s, now())",
            self._id(),
            self._shop.id,
            token.digest(),
        )
        return token.reveal()

    def _device(self) -> tuple[str, str]:
        device, trust = self._opaque(), self._opaque()
        self._people.change(
            "insert into devices (id, user_id, token_digest, trust_digest, trusted_until, name, device_type, last_used_at, created_at,"
            " updated_at) values (%s, %s, %s, %s, now() + interval '1 day', 'X', 'cli', now(), now(), now())",
            self._id(),
            self._people.add().user,
            device.digest(),
            trust.digest(),
        )
        return device.reveal(), trust.reveal()

    def _mailed(self, purpose: str) -> str:
        token, person = self._opaque(), self._people.add()
        self._people.change(
            "insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at)"
            " values (%s, %s, %s, %s, now(), now() + interval '1 hour')",
            token.digest(),
            purpose,
            person.user,
            person.email,
        )
        return token.reveal()

    def _id(self) -> UUID:
        return self._postern.foundation.ids.new()

    def _opaque(self) -> Token:
        return Token(self._id().hex + self._id().hex)


def bearer(token: str) -> Pairs:
    return (("authorization", f"Bearer {token}"),)

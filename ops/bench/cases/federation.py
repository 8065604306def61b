"""What the cases of relying parties share: a service with a secret, its codes, its tokens."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import cycle
from typing import Final
from urllib.parse import urlencode
from uuid import UUID, uuid4

import psycopg
from psycopg.types.json import Jsonb

from core.domain.secrets import Token
from core.domain.tokens import TokenAlgorithm
from entrypoints.settings import read
from ops.bench.filling.fill import Person, copy
from ops.bench.harness import Server
from ops.bench.inside import postern_of
from ops.bench.load import Target

CODES: Final = 40_000
CALLBACK: Final = "https://shop.example/callback"
VERIFIER: Final = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE: Final = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
_SCOPES: Final = ("openid", "email")


@dataclass(frozen=True, slots=True)
class Shop:
    service: UUID
    organization: UUID
    client_id: UUID
    secret: str
    slug: str
    """The organization's."""
    audiences: Jsonb | None = None
    """What its codes and sessions are for, if that is an API."""
    resource: str = ""
    """The API's identifier."""

    @property
    def named(self) -> Mapping[str, str]:
        """What its requests say of the API."""
        return {"resource": self.resource} if self.resource else {}

    @property
    def basic(self) -> str:
        return f"Authorization: Basic {b64encode(f'{self.client_id}:{self.secret}'.encode()).decode()}"


def make_shop(
    server: Server, persons: Sequence[Person], slug: str = "acme", *, id_token_algorithm: TokenAlgorithm = TokenAlgorithm.RS256
) -> Shop:
    """A service with a secret, in an organization with this slug. Everybody has signed in there and given consent."""
    shop = Shop(uuid4(), uuid4(), uuid4(), Token(uuid4().hex + uuid4().hex).reveal(), slug)
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute(
            "insert into all_organizations (id, slug, name, status, created_at, updated_at)"
            " values (%s, %s, 'Acme', 'active', now(), now())",
            [shop.organization, slug],
        )
        connection.execute(
            "insert into all_services (id, org_id, slug, name, service_type, client_id, redirect_uris, id_token_alg, created_at,"
            " updated_at) values (%s, %s, 'shop', 'Shop', 'web', %s, %s, %s, now(), now())",
            [shop.service, shop.organization, shop.client_id, [CALLBACK], id_token_algorithm.value],
        )
        connection.execute(
            "insert into client_secrets (id, service_id, prefix, digest, created_at) values (%s, %s, 'cs', %s, now())",
            [uuid4(), shop.service, Token(shop.secret).digest()],
        )
        connection.execute(
            "insert into service_users (service_id, user_id, org_id, first_login_at, created_at)"
            " select %s, id, %s, now(), now() from users where id = any (%s)",
            [shop.service, shop.organization, [person.user for person in persons]],
        )
        connection.execute(
            "insert into consents (id, user_id, service_id, scopes, granted_at)"
            " select gen_random_uuid(), id, %s, %s, now() from users where id = any (%s)",
            [shop.service, list(_SCOPES), [person.user for person in persons]],
        )
        connection.execute(
            "insert into sessions (id, user_id, organization_id, service_id, created_at, last_seen_at, expires_at, parent_id, depth,"
            " scopes) select gen_random_uuid(), user_id, %s, %s, now(), now(), now() + interval '1 day', id, 1, %s"
            " from sessions where id = any (%s)",
            [shop.organization, shop.service, list(_SCOPES), [person.session for person in persons]],
        )
        connection.execute("vacuum analyze")
    return shop


async def application_tokens(server: Server, shop: Shop, persons: Sequence[Person]) -> Sequence[str]:
    now = datetime.now(UTC)
    """An access token for each person, of the session in this shop."""
    with psycopg.connect(server.database_url) as connection:
        rows = connection.execute(
            "select parent_id, id from sessions where scopes is not null and service_id = %s", [shop.service]
        ).fetchall()
    by_parent: dict[UUID, UUID] = dict(rows)
    async with postern_of(server.settings) as postern:
        return [
            await postern.foundation.token_signer.sign_for_application(
                {
                    "iss": read(server.settings).public_url,
                    "sub": str(person.user),
                    "aud": f"service:{shop.slug}/shop",
                    "exp": int((now + timedelta(hours=1)).timestamp()),
                    "iat": int(now.timestamp()),
                    "jti": str(postern.foundation.ids.new()),
                    "sid": str(by_parent[person.session]),
                    "email": person.email,
                    "is_platform_owner": False,
                    "token_use": "access",
                    "amr": ["pwd"],
                    "org": shop.slug,
                    "service": "shop",
                    "client_id": str(shop.client_id),
                    "scope": " ".join(_SCOPES),
                },
                TokenAlgorithm.ES256,
            )
            for person in persons
        ]


def codes(server: Server, shop: Shop, persons: Sequence[Person]) -> Iterator[Target]:
    """Yields each code once. It stores all codes before the first one, so that no turn pays for that."""
    made = make_codes(server, shop, persons, CODES)
    target = server.target("/auth/token")
    name, _, value = shop.basic.partition(": ")
    headers = {**FORM, name: value}
    asked = ({**exchange_of(code), **shop.named} for code in made)
    return (replace(target, method="POST", headers=headers, body=urlencode(one).encode()) for one in asked)


def refreshes(server: Server, shop: Shop, persons: Sequence[Person]) -> Iterator[Target]:
    """Yields a refresh token of each session once. It opens all sessions before the first one, in turns for all people, since a session has
    one current token.
    """
    made = [uuid4().hex + uuid4().hex for _ in range(CODES)]
    sessions = [uuid4() for _ in made]
    now = datetime.now(UTC)
    until = now + timedelta(days=1)
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        columns = ("id", "user_id", "organization_id", "service_id", "created_at", "last_seen_at", "expires_at", "parent_id", "depth")
        # An earlier commit may know no audiences.
        more = {"scopes": list(_SCOPES), **({} if shop.audiences is None else {"audiences": shop.audiences})}
        rows = (
            (session, one.user, shop.organization, shop.service, now, now, until, one.session, 1, *more.values())
            for session, one in zip(sessions, cycle(persons), strict=False)
        )
        copy(connection, "sessions", (*columns, *more), rows)
        kept = ((Token(token).digest(), session, now) for token, session in zip(made, sessions, strict=True))
        copy(connection, "refresh_tokens", ("digest", "session_id", "created_at"), kept)
        connection.execute("vacuum analyze sessions, refresh_tokens")
    target = server.target("/auth/token")
    name, _, value = shop.basic.partition(": ")
    headers = {**FORM, name: value}
    asked = ({"grant_type": "refresh_token", "refresh_token": token, **shop.named} for token in made)
    return (replace(target, method="POST", headers=headers, body=urlencode(one).encode()) for one in asked)


def exchange_of(code: str) -> Mapping[str, str]:
    return {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}


def make_codes(server: Server, shop: Shop, persons: Sequence[Person], count: int) -> Sequence[str]:
    """The codes last as long as the measurement."""
    made = [uuid4().hex + uuid4().hex for _ in range(count)]
    column, more = ("", ()) if shop.audiences is None else (", audiences", (shop.audiences,))
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        with connection.cursor().copy(
            "copy authorization_codes (id, digest, service_id, user_id, parent_id, redirect_uri, code_challenge, nonce, scopes, auth_time,"
            f" authenticated_by, created_at, expires_at{column}) from stdin"
        ) as copying:
            now = datetime.now(UTC)
            for number, code in enumerate(made):
                person = persons[number % len(persons)]
                copying.write_row(
                    [
                        *(uuid4(), Token(code).digest(), shop.service, person.user, person.session, CALLBACK, CHALLENGE, "n"),
                        *(list(_SCOPES), now, ["pwd"], now, now + timedelta(hours=1), *more),
                    ]
                )
        connection.execute("vacuum analyze authorization_codes")
    return made

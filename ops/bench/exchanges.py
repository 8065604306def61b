"""Exchanged tokens against codes: the same server, in turns in one run."""

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle
from typing import Final
from urllib.parse import urlencode
from uuid import UUID, uuid4

import psycopg
import trio
from psycopg.types.json import Jsonb

from core.domain.federation.oauth.exchanges import ACCESS_TOKEN_TYPE
from core.domain.federation.oauth.grants import TOKEN_EXCHANGE
from core.domain.tokens import TokenAlgorithm
from entrypoints.settings import read
from ops.bench.cases.federation import FORM, Shop, codes, make_shop
from ops.bench.cases.identity import people
from ops.bench.filling.fill import Person
from ops.bench.harness import Options, Server, directory, serving
from ops.bench.inside import postern_of
from ops.bench.load import Target
from ops.bench.paired import WITH_POSTGRES, Contestant, Side, each_once, ratio, take_turns
from ops.bench.report import Figure, at_most
from ops.bench.shared_postgres import shared_postgres

PEOPLE: Final = 1000
CONNECTIONS: Final = 16
TURNS: Final = 7
_CODES_A_TURN: Final = 4000
_ORDERS: Final = "https://api.acme.example/orders"
_STOCK: Final = "https://api.acme.example/stock"


async def exchange(options: Options) -> Sequence[Figure]:
    """A token for one API exchanged for one for another, against a code exchanged for tokens: processor time with PostgreSQL's."""
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        postgres = stack.enter_context(shared_postgres(place))
        data_dir = place / "postern"
        data_dir.mkdir()
        server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create("postern")))
        persons = await people(server, PEOPLE)
        shop = await trio.to_thread.run_sync(partial(make_shop, server, persons, id_token_algorithm=TokenAlgorithm.ES256))
        exchanged, redeemed = await exchanges(server, shop, persons), codes(server, shop, persons)
        await trio.to_thread.run_sync(postgres.settle)
        side, seconds = Side(server.pid, "postern", postgres), max(1.0, options.seconds / 2)
        ours = Contestant("an exchange", side, each_once(exchanged, CONNECTIONS, seconds))
        code = Contestant("a code to tokens", side, each_once(redeemed, CONNECTIONS, seconds, _CODES_A_TURN))
        await take_turns([ours, code], TURNS)
    return [
        *(Figure(f"{one.name}: CPU, PostgreSQL's too", one.median(WITH_POSTGRES), "µs", beside=one.described()) for one in (ours, code)),
        Figure("an exchange against a code to tokens, CPU, PostgreSQL's too", ratio(ours, code, WITH_POSTGRES), bar=at_most(1.0)),
        Figure("exchanges and codes that failed", ours.failures + code.failures, bar=at_most(0)),
    ]


async def exchanges(server: Server, shop: Shop, persons: Sequence[Person]) -> Iterator[Target]:
    """Requests of the shop, which was given a token for one API of each person, and may exchange towards the other:
    everybody has allowed it both.
    """
    orders, stock = uuid4(), uuid4()
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        for api, identifier in ((orders, _ORDERS), (stock, _STOCK)):
            connection.execute(
                "insert into resource_servers (id, org_id, identifier, domain, name, service_id, admits, scopes, token, approved_at,"
                " created_at, updated_at) values (%s, %s, %s, 'api.acme.example', 'API', %s, 'all', %s, 't', now(), now(), now())",
                [api, shop.organization, identifier, shop.service, Jsonb([{"name": "read", "description": "Read", "permission": None}])],
            )
        connection.execute(
            "insert into resource_exchanges (id, resource_id, service_id) values (gen_random_uuid(), %s, %s)", [stock, shop.service]
        )
        connection.cursor().executemany(
            "insert into resource_consents (user_id, service_id, resource_id, identifier, scopes, granted_at)"
            " select id, %s, %s, %s, '{read}', now() from users where id = any (%s)",
            [(shop.service, api, identifier, [one.user for one in persons]) for api, identifier in ((orders, _ORDERS), (stock, _STOCK))],
        )
        granted = Jsonb([{"resource_id": str(orders), "identifier": _ORDERS, "scopes": ["read"]}])
        rows = connection.execute(
            "insert into sessions (id, user_id, organization_id, service_id, created_at, last_seen_at, expires_at, ends_at, parent_id,"
            " depth, scopes, audiences) select gen_random_uuid(), user_id, %s, %s, now(), now(), now() + interval '1 day',"
            " now() + interval '1 day', id, 1, '{openid}', %s from sessions where id = any (%s) returning user_id, id",
            [shop.organization, shop.service, granted, [person.session for person in persons]],
        ).fetchall()
        connection.execute("vacuum analyze")
    tokens = await _tokens(server, shop, orders, rows)
    name, _, value = shop.basic.partition(": ")
    target = replace(server.target("/auth/token"), method="POST", headers={**FORM, name: value})
    asked = (
        {"grant_type": TOKEN_EXCHANGE, "subject_token": token, "subject_token_type": ACCESS_TOKEN_TYPE, "resource": _STOCK, "scope": "read"}
        for token in cycle(tokens)
    )
    return (replace(target, body=urlencode(one).encode()) for one in asked)


async def _tokens(server: Server, shop: Shop, api: UUID, sessions: Sequence[tuple[UUID, UUID]]) -> Sequence[str]:
    now = datetime.now(UTC)
    async with postern_of(server.settings) as postern:
        return [
            await postern.foundation.token_signer.sign_for_application(
                {
                    "iss": read(server.settings).public_url,
                    "sub": str(user),
                    "aud": _ORDERS,
                    "exp": int((now + timedelta(hours=1)).timestamp()),
                    "iat": int(now.timestamp()),
                    "jti": str(postern.foundation.ids.new()),
                    "sid": str(session),
                    "token_use": "resource",
                    "resource_id": str(api),
                    "amr": ["pwd"],
                    "org": shop.slug,
                    "org_id": str(shop.organization),
                    "service": "shop",
                    "service_id": str(shop.service),
                    "client_id": str(shop.client_id),
                    "scope": "read",
                },
                TokenAlgorithm.ES256,
            )
            for user, session in sessions
        ]

"""The walk over every route with API keys: of every permission, of this service and of another, valid and no longer valid. The routes and
their rules come from the declarations.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec
import pytest

from core.domain.secrets import Token
from core.domain.services.api_keys import KeyHolder, Permission
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import PosternApplication, build_application
from entrypoints.http.machinery.answers import EMPTY_OBJECT, EmptyObject
from entrypoints.http.machinery.callers import (
    ANYONE,
    CLIENT,
    DIRECTORY,
    OPENID_SESSION,
    PREAUTHENTICATED,
    SIGNAL_RECEIVER,
    CallerRule,
    key,
    key_by_either_header,
)
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint, Endpoints, parameters
from entrypoints.http.routes import ROUTES
from tests.conftest import CapturedLog
from tests.http.cast import Shops
from tests.http.client import Client, Pairs, Received
from tests.http.conftest import SETTINGS
from tests.http.people import People
from tests.http.tenants import UsedService
from tests.http.test_authorization import KEY_RULES, KEY_RULES_BY_EITHER_HEADER, KEY_RULES_WITH_BODY, STAND_INS

Answer = tuple[int, str]
ADMITTED: Final[Answer] = (200, "")
UNAUTHORIZED: Final[Answer] = (401, "UNAUTHORIZED")
FORBIDDEN: Final[Answer] = (403, "FORBIDDEN")
NOT_ACTIVE: Final[Answer] = (403, "ORGANIZATION_NOT_ACTIVE")
SOME_ID: Final = "0199d3a0-0000-7000-8000-000000000001"


class Arrived(msgspec.Struct, frozen=True):
    key: UUID
    service: UUID
    service_slug: str
    organization: UUID
    organization_slug: str
    permissions: list[str]


async def arrive_with_key(call: Call[None, None, None, KeyHolder], _postern: Postern) -> Arrived:
    holder = call.caller
    permissions = sorted(permission.value for permission in holder.permissions)
    return Arrived(holder.key, holder.service, holder.service_slug, holder.organization, holder.organization_slug, permissions)


BY_HEADER: Final = frozenset((*KEY_RULES, *KEY_RULES_BY_EITHER_HEADER))


async def arrive(_call: Call, _postern: Postern) -> EmptyObject:
    return EMPTY_OBJECT


def door(one: Endpoint) -> Endpoint:
    """The endpoint without the work behind its caller rule, so that a caller who is let in changes nothing for later callers."""
    behind: dict[str, Any] = {"handler": arrive, "answer_type": EmptyObject}
    if one.caller in BY_HEADER:
        behind = {"handler": arrive_with_key, "answer_type": Arrived}
    return replace(one, **behind, body_type=None, query_type=None, status=200, limits=(), sends={})


# An endpoint that looks the key up itself has tests of its own, in `test_user_keys.py`.
DOORS: Final = [door(one) for one in (*ROUTES, *STAND_INS) if one.caller not in KEY_RULES_WITH_BODY]
SERVED_DOORS: Final = Endpoints(DOORS)
KEY_DOORS: Final = [one for one in DOORS if one.caller in BY_HEADER]


def _code(one: Endpoint, answer: Received) -> str:
    """SCIM has errors of its own, and receivers of signals read those of OAuth, where our code stands beside."""
    if one.caller is DIRECTORY:
        return ""
    return str(answer.json()["error_code"]) if one.caller is SIGNAL_RECEIVER else answer.error_code


@dataclass(frozen=True)
class Made:
    id: UUID
    text: str


class KeyAuthorizationScene(Shops):
    their_slug = "shop"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.maker = self.resident(self.acme, "admin")

    def make(self, permissions: Iterable[str] = tuple(Permission), *, of: UsedService | None = None) -> Made:
        text = self.postern.foundation.secrets.key("sk").reveal()
        made = Made(self.postern.foundation.ids.new(), text)
        self.people.change(
            "insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)"
            " values (%s, %s, 'key', %s, %s, %s, %s, now())",
            made.id,
            (of or self.shop).id,
            text[:9],
            Token(text).digest(),
            [str(permission) for permission in permissions],
            self.maker.user,
        )
        return made

    async def call(self, one: Endpoint, headers: Pairs) -> Received:
        path = one.path
        for name in parameters(one.path):
            path = path.replace(f"{{{name}}}", "acme" if name == "org_slug" else SOME_ID)
        return await self.client.request(one.method, path, headers=headers)

    async def walk(
        self,
        given: str | Pairs,
        expected: Mapping[CallerRule, Answer] | Answer,
        what: object,
        *,
        doors: Collection[Endpoint] = KEY_DOORS,
    ) -> list[Arrived]:
        arrived = []
        headers = [("x-api-key", given)] if isinstance(given, str) else given
        for one in doors:
            answer = await self.call(one, headers)
            came = (answer.status, "" if answer.status == 200 else _code(one, answer))
            assert came == (expected if isinstance(expected, tuple) else expected[one.caller]), f"{what} at {one}"
            if came == ADMITTED and one.caller in BY_HEADER:
                arrived.append(msgspec.json.decode(answer.body, type=Arrived))
        return arrived


def with_permissions(*held: Permission) -> Mapping[CallerRule, Answer]:
    said = {permission: ADMITTED if permission in held else FORBIDDEN for permission in Permission}
    return {rule(permission): answer for permission, answer in said.items() for rule in (key, key_by_either_header)}


@pytest.fixture
def street(postern: Postern, people: People, log: CapturedLog) -> KeyAuthorizationScene:
    client = Client(PosternApplication(postern, replace(SETTINGS, rate_limits=False), SERVED_DOORS))
    return KeyAuthorizationScene(postern, people, client, log)


async def test_each_permission_opens_what_asks_for_it_and_nothing_else(street: KeyAuthorizationScene) -> None:
    for permission in Permission:
        await street.walk(street.make([permission]).text, with_permissions(permission), permission)
        others = [one for one in Permission if one is not permission]
        await street.walk(street.make(others).text, with_permissions(*others), f"all but {permission}")
    await street.walk(street.make([]).text, FORBIDDEN, "none")
    # Permissions of a later version, or written into the table by somebody.
    await street.walk(street.make(["*", "read:everything", "READ:USERS", ""]).text, FORBIDDEN, "words that are none")
    await street.walk(street.make(["*", "read:users"]).text, with_permissions(Permission.READ_USERS), "one of them a word")


async def test_a_key_opens_the_service_interface_alone(street: KeyAuthorizationScene) -> None:
    mightiest = street.make().text
    expected: dict[CallerRule, Answer] = {one.caller: UNAUTHORIZED for one in DOORS}
    # These routes have no caller rule, or read the caller later, from a client's form.
    expected |= dict.fromkeys((ANYONE, PREAUTHENTICATED, CLIENT), ADMITTED) | dict.fromkeys(BY_HEADER, ADMITTED)
    expected |= {DIRECTORY: (401, "")}
    # A form may carry the token of the person.
    later = [one for one in DOORS if one.caller is OPENID_SESSION and one.method == "POST"]
    await street.walk(mightiest, expected, "a key", doors=[one for one in DOORS if one not in later])
    await street.walk(mightiest, ADMITTED, "a key", doors=later)
    # Nor is it a bearer token, but where AuthZEN's clients send it as one.
    in_place_of_a_token: dict[CallerRule, Answer] = {one.caller: (401, "JWT_ERROR") for one in DOORS}
    in_place_of_a_token |= {ANYONE: ADMITTED, CLIENT: ADMITTED, DIRECTORY: (401, "")} | dict.fromkeys(KEY_RULES, UNAUTHORIZED)
    in_place_of_a_token |= dict.fromkeys(KEY_RULES_BY_EITHER_HEADER, ADMITTED)
    await street.walk([("authorization", f"Bearer {mightiest}")], in_place_of_a_token, "a key as a token", doors=DOORS)


async def test_each_key_is_of_its_own_service(street: KeyAuthorizationScene) -> None:
    for service in (street.shop, street.app, street.theirs):
        made = street.make(of=service)
        arrived = await street.walk(made.text, ADMITTED, service.slug)
        everything = sorted(permission.value for permission in Permission)
        assert set(map(repr, arrived)) == {
            repr(Arrived(made.id, service.id, service.slug, service.tenant.id, service.tenant.slug, everything))
        }


async def test_what_is_no_key_of_ours_opens_nothing(street: KeyAuthorizationScene, log: CapturedLog) -> None:
    text = street.make().text
    token = await street.tenants.token_in(street.maker, street.shop)
    altered = text[:-1] + ("a" if text[-1] != "a" else "b")
    mistakes: dict[str, str | Pairs] = {
        "nothing": [],
        "empty": "",
        "garbage": "garbage",
        "huge": "x" * 10_000,
        "at the limit": "x" * 200,
        "its prefix": text[:9],
        "its secret": text[10:],
        "altered": altered,
        "shorter": text[:-1],
        "longer": f"{text}0",
        "in another case": text.swapcase(),
        "with blanks": f" {text} ",
        "quoted": f'"{text}"',
        "its digest": Token(text).digest().hex(),
        "not ASCII": f"{text}\u00e9",
        "a word before it": f"Bearer {text}",
        "two at once": [("x-api-key", text), ("x-api-key", text)],
        "a good and a bad one": [("x-api-key", text), ("x-api-key", altered)],
        "a token of a user": token,
        "a token where tokens go": [("authorization", f"Bearer {token}")],
        "a cookie": [("cookie", f"X-Api-Key={text}")],
        "of another name": [("api-key", text), ("x-apikey", text), ("x_api_key", text)],
    }
    for what, given in mistakes.items():
        await street.walk(given, UNAUTHORIZED, what)
    assert not log.events("request_failed")


async def test_a_key_in_the_address_is_none(street: KeyAuthorizationScene) -> None:
    """A key in an address would get into every log on the way."""
    text = street.make().text
    for one in KEY_DOORS:
        path = one.path.replace("{user_id}", SOME_ID)
        for name in ("api_key", "x-api-key", "key"):
            assert (await street.client.request(one.method, f"{path}?{name}={text}")).status == 401


async def test_what_ends_a_key_is_seen_by_the_next_request(street: KeyAuthorizationScene) -> None:
    """Each key works, is ended, and is refused, while another key keeps working."""
    other = street.make().text
    everything = f"{{{','.join(Permission)}}}"
    ends: dict[str, tuple[str, str, Answer]] = {
        "expired this moment": ("set expires_at = now()", "set expires_at = null", UNAUTHORIZED),
        "expired long ago": ("set expires_at = '2001-01-01'", "set expires_at = now() + interval '1 day'", UNAUTHORIZED),
        "permissions removed": ("set permissions = '{}'", f"set permissions = '{everything}'", FORBIDDEN),
    }
    for what, (end, mend, refusal) in ends.items():
        made = street.make()
        await street.walk(made.text, ADMITTED, what)
        street.people.change(f"update api_keys {end} where id = %s", made.id)
        await street.walk(made.text, refusal, what)
        await street.walk(other, ADMITTED, f"beside: {what}")
        street.people.change(f"update api_keys {mend} where id = %s", made.id)
        await street.walk(made.text, ADMITTED, f"no longer {what}")
    made = street.make()
    await street.walk(made.text, ADMITTED, "to be deleted")
    street.people.change("delete from api_keys where id = %s", made.id)
    await street.walk(made.text, UNAUTHORIZED, "deleted")
    await street.walk(other, ADMITTED, "beside: deleted")


async def test_what_ends_a_service_ends_its_keys_and_no_others(street: KeyAuthorizationScene) -> None:
    of_shop, of_app = street.make().text, street.make(of=street.app).text
    street.people.change("update all_services set deleted_at = now() where id = %s", street.shop.id)
    await street.walk(of_shop, UNAUTHORIZED, "of a service that is being deleted")
    await street.walk(of_app, ADMITTED, "of the service beside it")
    street.people.change("delete from all_services where id = %s", street.shop.id)
    await street.walk(of_shop, UNAUTHORIZED, "of a service that is gone")


async def test_what_halts_an_organization_halts_the_keys_of_all_its_services_and_no_others(street: KeyAuthorizationScene) -> None:
    own, theirs = [street.make().text, street.make(of=street.app).text], street.make(of=street.theirs).text
    weak, expired = street.make([]).text, street.make()
    street.people.change("update api_keys set expires_at = now() where id = %s", expired.id)
    for status in ("suspended", "pending", "rejected"):
        street.people.change("update all_organizations set status = %s where slug = 'acme'", status)
        for text in (*own, weak):
            await street.walk(text, NOT_ACTIVE, status)
        # A caller without a good key does not learn the state of the organization.
        await street.walk(expired.text, UNAUTHORIZED, f"expired, {status}")
        await street.walk(theirs, ADMITTED, f"not {status}")
    street.people.change("update all_organizations set status = 'active' where slug = 'acme'")
    for text in own:
        await street.walk(text, ADMITTED, "active again")
    street.people.change("update all_organizations set deleted_at = now() where slug = 'acme'")
    for text in own:
        await street.walk(text, UNAUTHORIZED, "being deleted")
    await street.walk(theirs, ADMITTED, "not being deleted")


async def test_every_key_is_one_question_to_the_database(street: KeyAuthorizationScene, log: CapturedLog) -> None:
    good, weak = street.make().text, street.make([]).text
    for text in (good, weak, "sk_abcdef_nobodys", good):
        log.entries.clear()
        await street.call(KEY_DOORS[0], [("x-api-key", text)])
        (line,) = log.events("request")
        assert line["db_round_trips"] == 1
    log.entries.clear()
    await street.call(KEY_DOORS[0], [("x-api-key", "x" * 201)])
    (line,) = log.events("request")
    assert line["db_round_trips"] == 0


async def test_the_log_names_the_key_that_called_and_none_that_is_not_ours(street: KeyAuthorizationScene, log: CapturedLog) -> None:
    good, weak, expired = street.make(), street.make([]), street.make()
    street.people.change("update api_keys set expires_at = now() where id = %s", expired.id)
    for text, named in ((good.text, str(good.id)), (weak.text, str(weak.id)), (expired.text, None), ("sk_abcdef_nobodys", None)):
        log.remember(text)
        log.entries.clear()
        await street.call(KEY_DOORS[0], [("x-api-key", text)])
        (line,) = log.events("request")
        assert (line.get("api_key_id"), line.get("user")) == (named, None)


async def test_a_caller_without_a_key_is_asked_for_one_and_not_for_a_token(street: KeyAuthorizationScene) -> None:
    for headers in ([], [("x-api-key", "sk_abcdef_nobodys")], [("authorization", f"Bearer {street.make().text}")]):
        for one in KEY_DOORS:
            answer = await street.call(one, headers)
            by_both = one.caller in KEY_RULES_BY_EITHER_HEADER
            if by_both and headers and headers[0][0] == "authorization":
                assert answer.status == 200
                continue
            challenge = 'ApiKey realm="service interface", header="X-Api-Key"' + (', Bearer realm="service interface"' if by_both else "")
            assert (answer.status, answer.header("www-authenticate")) == (401, challenge)


async def test_while_the_database_is_away_no_key_is_let_in(lonely_postern: Postern) -> None:
    client = Client(build_application(lonely_postern, SETTINGS))
    answer = await client.get("/api/service/subscriptions", headers=[("x-api-key", "sk_abcdef_x")])
    assert answer.status == 503


def test_the_walk_knows_every_permission() -> None:
    assert {one.caller for one in KEY_DOORS} == {*KEY_RULES, key_by_either_header(Permission.READ_USERS)}
    assert len(KEY_RULES) == len(Permission) == 12

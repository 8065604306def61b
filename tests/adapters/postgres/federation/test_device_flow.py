"""Device codes in PostgreSQL: each user code on one screen, the pace of polls, and one device that comes in."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import trio

from adapters.postgres.federation.polled_requests import DeviceCodeRows
from adapters.postgres.statements import Statements
from adapters.postgres.upkeep.housekeeping import sweep
from core.domain.federation.oauth.clients import AuthenticationMethod, ClientCredentials
from core.domain.federation.oauth.device_flow import (
    LIFETIME,
    AskingClient,
    AskingDevice,
    DeviceCodeState,
    NewDeviceCode,
    PolledCode,
)
from core.domain.identifiers import ClientId, DeviceCodeId
from core.domain.identity.accounts import Account
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import Session
from core.domain.secrets import Token
from core.frozen import replace
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.tenants import StoredTenants

SECOND = timedelta(seconds=1)


class DeviceFlowScene:
    """Acme with a service for television sets, and another one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.codes = DeviceCodeRows(Statements(store.pool))
        self.now = datetime.now(UTC)
        self.tv, self.radio = ClientId(str(uuid4())), ClientId(str(uuid4()))

    async def move_in(self) -> None:
        self.acme = await StoredTenants(self.store).add("acme")
        for slug, client in (("tv", self.tv), ("radio", self.radio)):
            await self.store.query(
                "insert into all_services (id, org_id, slug, name, service_type, client_id, device_activation_uri, created_at, updated_at)"
                " values (gen_random_uuid(), %(org)s, %(slug)s, 'Acme TV', 'desktop', %(client)s, 'https://tv.example/link', now(), now())",
                {"org": self.acme, "slug": slug, "client": client},
            )

    def new(self, text: str = "d", user_code: bytes = b"u") -> NewDeviceCode:
        return NewDeviceCode(
            id=DeviceCodeId(self.store.ids.new()),
            digest=Token(text).digest(),
            user_code_hmac=user_code,
            scopes=("openid", "email"),
            asker=AskingDevice(address="192.0.2.1", user_agent="tv/1\0"),
            created_at=self.now,
        )

    async def asked(self, text: str = "d", user_code: bytes = b"u") -> NewDeviceCode:
        code = self.new(text, user_code)
        asked = await self.codes.ask(code, AskingClient(id=self.tv))
        assert asked is not None
        assert asked.is_added
        return code

    async def polled(self, after: timedelta = timedelta(), client: ClientId | None = None) -> PolledCode | None:
        shown = None if client is None else ClientCredentials(client, AuthenticationMethod.NONE)
        found = await self.codes.poll(Token("d").digest(), shown, self.now + after)
        return None if found is None else found.code

    async def approved(self, code: NewDeviceCode, account: Account, session: Session) -> bool:
        async with self.store.unit_of_work() as uow:
            done = await uow.device_codes.approve(code.id, account.id, session.id, self.now)
            await uow.commit()
        return done

    async def state(self, code: NewDeviceCode) -> DeviceCodeState:
        found = await self.codes.find(code.id)
        assert found is not None
        return found.state


@pytest.fixture
async def scene(store: Store) -> DeviceFlowScene:
    scene = DeviceFlowScene(store)
    await scene.move_in()
    return scene


async def test_a_code_comes_back_as_it_was_asked_for(scene: DeviceFlowScene) -> None:
    code = await scene.asked()
    found = await scene.codes.find_entered(b"u")
    assert found is not None
    assert found == await scene.codes.find(code.id)
    assert (found.id, found.state, found.user) == (code.id, DeviceCodeState.PENDING, None)
    assert (found.context.organization_slug, found.context.service_slug) == ("acme", "tv")
    assert (found.service_name, found.organization_name, found.branding.name, found.is_open) == ("Acme TV", "Acme", "Acme", True)
    assert (found.scopes, found.created_at, found.expires_at) == (("openid", "email"), scene.now, scene.now + LIFETIME)
    assert (found.asker.address, found.asker.user_agent) == ("192.0.2.1", "tv/1\N{REPLACEMENT CHARACTER}")
    assert await scene.codes.find_entered(b"another") is None
    assert await scene.codes.find(DeviceCodeId(uuid4())) is None


@pytest.mark.parametrize(
    ("organization", "service", "found"),
    [
        (None, None, True),
        ("acme", "tv", True),
        ("acme", None, True),
        ("globex", None, False),
        ("acme", "radio", False),
        (None, "\0", False),
    ],
)
async def test_a_client_is_found_by_what_it_says_of_itself(
    scene: DeviceFlowScene, organization: str | None, service: str | None, found: bool
) -> None:
    asked = await scene.codes.ask(scene.new(), AskingClient(id=scene.tv, organization=organization, service=service))
    assert (asked is not None) is found
    if asked is not None:
        assert (asked.is_open, asked.activation_uri, asked.is_added) == (True, "https://tv.example/link", True)
    assert await scene.store.count("device_codes") == int(found)


async def test_a_client_of_a_suspended_organization_gets_no_code(scene: DeviceFlowScene) -> None:
    await scene.store.query("update all_organizations set status = 'suspended'")
    asked = await scene.codes.ask(scene.new(), AskingClient(id=scene.tv))
    assert asked is not None
    assert (asked.is_open, asked.is_added) == (False, False)
    assert await scene.codes.ask(scene.new(), AskingClient(id=ClientId(str(uuid4())))) is None


async def test_a_user_code_is_on_one_screen_at_a_time(scene: DeviceFlowScene) -> None:
    account, session = await scene.store.sign_up()
    code = await scene.asked("first")
    again = await scene.codes.ask(scene.new("second"), AskingClient(id=scene.tv))
    assert again is not None
    assert not again.is_added
    assert await scene.approved(code, account, session)
    await scene.asked("second")


async def test_the_pace_of_polls(scene: DeviceFlowScene) -> None:
    """Five seconds, and five more after each poll that came too soon."""
    await scene.asked()
    seen = []
    for after in (0, 5, 9.6, 13, 22, 31, 36, 61):
        polled = await scene.polled(after * SECOND)
        assert polled is not None
        seen.append(polled.is_slowed)
    # 13 is too soon after 9.6: ten from then on. 22 is too soon again: fifteen; and so on, until it waits long enough.
    assert seen == [False, False, False, True, True, True, True, False]


async def test_fifty_polls_at_once_are_forty_nine_too_many(scene: DeviceFlowScene) -> None:
    await scene.asked()
    slowed: list[bool] = []

    async def one() -> None:
        polled = await scene.polled()
        assert polled is not None
        slowed.append(polled.is_slowed)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(one)
    assert sorted(slowed) == [False] + [True] * 49


async def test_another_client_finds_no_code_and_slows_nobody(scene: DeviceFlowScene) -> None:
    await scene.asked()
    assert await scene.polled(client=scene.radio) is None
    assert await scene.store.query("select polled_at from device_codes") == [{"polled_at": None}]
    assert await scene.polled(client=scene.tv) is not None
    assert await scene.codes.poll(b"another", None, scene.now) is None
    unknown = ClientCredentials(ClientId(str(uuid4())), AuthenticationMethod.NONE)
    assert await scene.codes.poll(Token("d").digest(), unknown, scene.now) is None


async def test_a_poll_brings_the_client_and_looks_at_its_secret(scene: DeviceFlowScene) -> None:
    await scene.asked()
    await scene.store.query(
        "insert into client_secrets (id, service_id, prefix, digest, created_at)"
        " select gen_random_uuid(), id, 'cs_', %(digest)s, now() from services where slug = 'tv'",
        {"digest": Token("secret").digest()},
    )
    for secret, matches in (("secret", True), ("other", False)):
        found = await scene.codes.poll(
            Token("d").digest(), ClientCredentials(scene.tv, AuthenticationMethod.POST, Token(secret)), scene.now
        )
        assert found is not None
        assert found.code is not None
        assert (found.client.client, found.client.has_secret, found.client.secret is not None) == (scene.tv, True, matches)


async def test_what_is_decided_or_over_is_not_written_to(scene: DeviceFlowScene) -> None:
    account, session = await scene.store.sign_up()
    code = await scene.asked()
    assert await scene.polled(LIFETIME) is not None
    assert await scene.approved(code, account, session)
    polled = await scene.polled()
    assert polled is not None
    assert polled.approved is not None
    assert (polled.state, polled.approved.code, polled.approved.user, polled.approved.at) == (
        DeviceCodeState.APPROVED,
        code.id,
        account.id,
        scene.now,
    )
    assert await scene.store.query("select polled_at from device_codes") == [{"polled_at": None}]


async def test_one_person_decides(scene: DeviceFlowScene) -> None:
    code = await scene.asked()
    people = [await scene.store.sign_up(f"{name}@example.org") for name in ("ada", "eve")]
    won: list[Account] = []

    async def one(account: Account, session: Session) -> None:
        if await scene.approved(code, account, session):
            won.append(account)

    async with trio.open_nursery() as nursery:
        for account, session in people:
            nursery.start_soon(one, account, session)
    (winner,) = won
    found = await scene.codes.find(code.id)
    assert found is not None
    assert found.user == winner.id
    async with scene.store.unit_of_work() as uow:
        assert not await uow.device_codes.deny(code.id, winner.id, scene.now)


async def test_nothing_can_be_decided_any_more_once_it_is_over(scene: DeviceFlowScene) -> None:
    account, session = await scene.store.sign_up()
    code = await scene.asked()
    late = scene.now + LIFETIME
    async with scene.store.unit_of_work() as uow:
        assert not await uow.device_codes.approve(code.id, account.id, session.id, late)
        assert not await uow.device_codes.deny(code.id, account.id, late)
        assert await uow.device_codes.consume(code.id, scene.now) is None
    assert await scene.approved(code, account, session)
    async with scene.store.unit_of_work() as uow:
        assert await uow.device_codes.consume(code.id, late) is None


async def test_only_a_living_session_of_the_person_approves(scene: DeviceFlowScene) -> None:
    ada, of_ada = await scene.store.sign_up("ada@example.org")
    eve, _ = await scene.store.sign_up("eve@example.org")
    code = await scene.asked()
    assert not await scene.approved(code, eve, of_ada)
    await scene.store.query("update sessions set revoked_at = now() where id = %(id)s", {"id": of_ada.id})
    assert not await scene.approved(code, ada, of_ada)
    assert await scene.state(code) is DeviceCodeState.PENDING


async def test_of_fifty_devices_one_comes_in_with_what_the_session_had_proved(scene: DeviceFlowScene) -> None:
    account, session = await scene.store.sign_up()
    await scene.store.query(
        "update sessions set proved_at = %(at)s, second_factor_at = %(at)s, authenticated_by = '{pwd,otp,mfa}'", {"at": scene.now}
    )
    await scene.store.query(
        "insert into memberships (id, org_id, user_id, role, created_at) values (gen_random_uuid(), %(org)s, %(user)s, 'admin', now())",
        {"org": scene.acme, "user": account.id},
    )
    for number in range(3):
        code = await scene.asked(f"d{number}")
        assert await scene.approved(code, account, session)
        won: list[object] = []

        async def one(code: NewDeviceCode = code, won: list[object] = won) -> None:
            async with scene.store.unit_of_work() as uow:
                approval = await uow.device_codes.consume(code.id, scene.now)
                await uow.commit()
            if approval is not None:
                won.append(approval)
                assert approval.proved == Proved(scene.now, scene.now)
                assert (approval.authenticated_by, approval.scopes, approval.role) == (("pwd", "otp", "mfa"), ("openid", "email"), "admin")

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(one)
        assert len(won) == 1
        assert await scene.state(code) is DeviceCodeState.CONSUMED


async def test_what_a_person_has_approved_ends_with_their_access(scene: DeviceFlowScene) -> None:
    account, session = await scene.store.sign_up()
    other, of_other = await scene.store.sign_up("eve@example.org")
    codes = [await scene.asked(text, text.encode()) for text in ("approved", "other", "pending")]
    assert await scene.approved(codes[0], account, session)
    assert await scene.approved(codes[1], other, of_other)
    async with scene.store.unit_of_work() as uow:
        await uow.sessions.end_codes(account.id)
        await uow.commit()
    assert [await scene.state(code) for code in codes] == [DeviceCodeState.DENIED, DeviceCodeState.APPROVED, DeviceCodeState.PENDING]


async def test_the_codes_of_a_deleted_service_are_gone(scene: DeviceFlowScene) -> None:
    await scene.asked()
    await scene.store.query("update all_services set deleted_at = now()")
    assert await scene.polled() is None
    assert await scene.codes.find_entered(b"u") is None


async def test_expired_codes_are_swept_an_hour_later(scene: DeviceFlowScene) -> None:
    old = replace(scene.new("old", b"old"), created_at=scene.now - LIFETIME - timedelta(minutes=61))
    assert await scene.codes.ask(old, AskingClient(id=scene.tv)) is not None
    code = await scene.asked()
    assert await sweep(scene.store.pool, "ExpiredDeviceCodes").delete_expired(10) == 1
    assert await scene.codes.find(code.id) is not None

"""Invitations in PostgreSQL: where there are many, each question is answered by an index, and asks for no more than it shows."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from adapters.postgres.statements import Statements
from adapters.postgres.tenancy import invitations as statements
from adapters.postgres.tenancy.invitations import InvitationRows
from core.domain.identifiers import InvitationId, OrganizationId, UserId, first_id
from core.domain.mail import Email
from core.domain.requests import Page
from core.domain.tenancy.invitations import WITHIN, Invitation, InvitationStatus
from ports.tenancy.members import ById, ByToken
from tests.adapters.postgres.conftest import Store

FILL = """
    insert into users (id, email, email_key, email_verified_at)
    select gen_random_uuid(), 'p' || n || '@example.org', 'p' || n || '@example.org', now() from generate_series(1, {people}) as n;

    insert into all_organizations (id, slug, name, status, created_at, updated_at)
    select gen_random_uuid(), 'org' || n, 'X', 'active', now(), now() from generate_series(1, {organizations}) as n;

    insert into memberships (id, org_id, user_id, role, created_at)
    select gen_random_uuid(), organizations.id, users.id, 'member', now()
      from organizations
      join (select id, row_number() over (order by id) as n from users) as users on users.n % 10 = 0;

    insert into relations (organization_id, user_id, relation, object_type, object_id)
    select org_id, user_id, role, 'organization', org_id from memberships;

    -- A tenth is pending, and a tenth of that is due.
    insert into invitations (id, org_id, email, email_key, role, invited_by, token_digest, status, expires_at, created_at, closed_at)
    select gen_random_uuid(), organizations.id, users.email, users.email_key, 'member', users.id,
           sha256((organizations.id::text || users.id)::bytea),
           case when n % 10 = 0 then 'pending' else (array['accepted', 'rejected', 'cancelled', 'expired'])[1 + n % 4] end,
           now() + case when n % 100 = 0 then - interval '1 minute' else interval '1 day' end, now(),
           case when n % 10 > 0 then now() end
      from organizations
     cross join (select *, row_number() over (order by id) as n from users) as users;
"""


def fill(store: Store, *, people: int, organizations: int) -> None:
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(FILL.format(people=people, organizations=organizations).encode())
        connection.execute("vacuum analyze")


async def plan(store: Store, statement: str, **parameters: Any) -> str:
    with psycopg.connect(store.url, autocommit=True) as connection:
        # As it is prepared: for any parameters.
        rows = connection.execute(b"explain (costs off) " + statement.encode(), parameters).fetchall()
    return "\n".join(row[0] for row in rows)


async def an_organization(store: Store) -> OrganizationId:
    (row,) = await store.query("select id from organizations order by slug limit 1")
    return OrganizationId(row["id"])


async def test_every_question_goes_through_an_index(fresh_store: Store) -> None:
    many = fresh_store
    fill(many, people=3000, organizations=10)
    organization = await an_organization(many)
    (row,) = await many.query("select id, token_digest, invited_by, email_key from invitations where status = 'pending' limit 1")
    now = datetime.now(UTC)
    page = {"organization": organization, "at": now, "limit": 50, "offset": 100, "seen": 150}
    one = {"id": row["id"], "organization": organization, "manager": row["invited_by"], "session": None}
    asked: list[tuple[str, dict[str, Any], set[str]]] = [
        (statements._LIST, page, {"invitations_newest"}),
        (statements._LIST_PENDING, page, {"invitations_by_status"}),
        (statements._LIST_CLOSED, {**page, "status": "accepted"}, {"invitations_by_status"}),
        (statements._LIST_EXPIRED, page, {"invitations_by_status"}),
        (statements._LIST_OWN, {"user": row["invited_by"], "session": None, "at": now, "limit": 100}, {"invitations_to_email"}),
        (statements._FIND_BY_TOKEN, {"digest": row["token_digest"], "manager": None, "session": None}, {"invitations_token_digest_key"}),
        (statements._HOLD_BY_TOKEN, {"digest": row["token_digest"], "manager": None, "session": None}, {"invitations_token_digest_key"}),
        (statements._FIND_BY_ID, one, {"invitations_"}),
        (statements._HOLD_BY_ID, one, {"invitations_"}),
        (statements._HOLD_ORGANIZATION_OF_TOKEN, {"digest": row["token_digest"]}, {"invitations_token_digest_key"}),
        (statements._HOLD_ORGANIZATION_OF_ID, one, {"invitations_"}),
        (statements._CANCEL, {**one, "at": now}, {"invitations_"}),
        (statements._CLOSE, {"id": row["id"], "status": "accepted", "at": now}, {"invitations_"}),
        (statements._EXPIRE_DUE, {"at": now, "since": None, "limit": 100}, {"invitations_due", "invitations_pkey"}),
        (
            statements._PROSPECT,
            {
                "organization": organization,
                "inviter": row["invited_by"],
                "email_key": row["email_key"],
                "at": now,
                "others_to_address": 4,
                "others": 999,
                "first": first_id(now - WITHIN),
            },
            {"invitations_of_email", "invitations_newest"},
        ),
    ]
    for statement, parameters, indexes in asked:
        told = await plan(many, statement, **{"digest": None, **parameters})
        assert not re.search(r"Seq Scan on (invitations|users|memberships|relations)", told), told
        assert all(index in told for index in indexes), (indexes, told)
    # A page deep in the list is found in the index alone.
    told = await plan(many, statements._LIST, organization=organization, limit=50, offset=2000)
    assert "Index Only Scan using invitations_newest" in told, told


async def test_pages_follow_one_another_without_gap_or_repetition(store: Store) -> None:
    fill(store, people=300, organizations=3)
    organization = await an_organization(store)
    lookup, now = InvitationRows(Statements(store.pool)), datetime.now(UTC)
    for status in (None, *InvitationStatus):
        seen: list[InvitationId] = []
        for number in range(1, 1000):
            page = await lookup.list(organization, status, now, Page(number, 17))
            seen += [one.invitation.id for one in page]
            if not page:
                break
        rows = await store.query(
            """
            select id from invitations
             where org_id = %(organization)s
               and (%(status)s::text is null
                    or case when status = 'pending' and expires_at <= %(at)s then 'expired' else status end = %(status)s)
             order by id desc
            """,
            {"organization": organization, "status": status and status.value, "at": now},
        )
        assert seen == [row["id"] for row in rows]
        assert seen


async def an_invitation(store: Store, organization: OrganizationId, by: UserId, email: str = "bob@example.org") -> Invitation:
    now = store.clock.now()
    return Invitation(
        id=InvitationId(store.ids.new()),
        organization=organization,
        email=Email(email),
        role="member",
        role_id=None,
        invited_by=by,
        token_digest=str(store.ids.new()).encode(),
        status=InvitationStatus.PENDING,
        expires_at=now + timedelta(days=7),
        created_at=now,
    )


@pytest.fixture
async def acme(store: Store) -> OrganizationId:
    await store.query(
        """
        insert into all_organizations (id, slug, name, status, created_at, updated_at)
        values (%(id)s, 'acme', 'Acme', 'active', now(), now())
        """,
        {"id": store.ids.new()},
    )
    return await an_organization(store)


async def test_what_is_put_in_comes_out(store: Store, acme: OrganizationId) -> None:
    account, _ = await store.sign_up("ada@example.org")
    invitation = await an_invitation(store, acme, account.id, "Böb@Example.org")
    async with store.unit_of_work() as uow:
        assert await uow.invitations.add(invitation)
        assert not await uow.invitations.add(await an_invitation(store, acme, account.id, "BÖB@example.org"))
        await uow.commit()
    lookup = InvitationRows(Statements(store.pool))
    for which in (ByToken(invitation.token_digest), ById(invitation.id), ById(invitation.id, acme)):
        found = await lookup.find(which)
        assert found is not None
        assert (found.invitation, found.account, found.organization_slug) == (invitation, None, "acme")
        async with store.unit_of_work() as uow:
            assert await uow.invitations.find_for_update(which) == await uow.invitations.find_alone_for_update(which) == found
    for unknown in (ByToken(b"?"), ById(InvitationId(store.ids.new())), ById(invitation.id, OrganizationId(store.ids.new()))):
        assert await lookup.find(unknown) is None
        async with store.unit_of_work() as uow:
            assert await uow.invitations.find_for_update(unknown) is None
    (listed,) = await lookup.list(acme, None, store.clock.now(), Page())
    assert listed.inviter is not None
    assert (listed.invitation, listed.inviter.email) == (invitation, account.email)


async def test_nobody_is_invited_by_or_to_what_is_gone(store: Store, acme: OrganizationId) -> None:
    account, _ = await store.sign_up("ada@example.org")
    async with store.unit_of_work() as uow:
        assert await uow.invitations.prospect(acme, account.id, Email("bob@example.org"), store.clock.now())
        assert await uow.invitations.prospect(acme, UserId(store.ids.new()), Email("bob@example.org"), store.clock.now()) is None
    await store.query("update all_organizations set deleted_at = now()")
    async with store.unit_of_work() as uow:
        assert await uow.invitations.prospect(acme, account.id, Email("bob@example.org"), store.clock.now()) is None


async def test_closing_twice_closes_once(store: Store, acme: OrganizationId) -> None:
    account, _ = await store.sign_up("ada@example.org")
    invitation = await an_invitation(store, acme, account.id)
    async with store.unit_of_work() as uow:
        await uow.invitations.add(invitation)
        await uow.invitations.close(invitation.id, InvitationStatus.REJECTED, store.clock.now())
        await uow.invitations.close(invitation.id, InvitationStatus.ACCEPTED, store.clock.now())
        await uow.commit()
    (row,) = await store.query("select status from invitations")
    assert row["status"] == "rejected"

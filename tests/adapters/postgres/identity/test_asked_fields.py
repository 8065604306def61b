"""The last look of a sign-in leads to the page that asks for fields exactly if that page has something to ask."""

from datetime import timedelta
from itertools import product
from typing import Final
from uuid import UUID

import psycopg

from adapters.postgres.statements import Statements
from adapters.postgres.tenancy.profile_fields import ProfileValueRows
from core.domain.identifiers import FlowId
from core.domain.identity.flows import LIFETIME, Flow, FlowPurpose, SignInRequirements
from core.domain.identity.sign_in import LastLook
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.visits import ACME, ADA, APP, WORLD

GLOBEX, FIELD = UUID(int=20), UUID(int=21)

# Who keeps the field, and whether that keeper has to do with the sign-in: the person is its member, or on the way to its service.
KEEPERS: Final = {
    "installation": (None, "", True),
    "of a member": (ACME, "member", True),
    "of a newcomer": (ACME, "newcomer", True),
    "elsewhere": (GLOBEX, "member", False),
}
# What is kept of the person, by whether a field that nobody has to answer is asked for again, and one that is required.
KEPT: Final = {
    "nothing": (None, (True, True)),
    "an answer": (('{{"{field}": "x"}}', False), (False, False)),
    "the question": (("{{}}", True), (False, True)),
}


async def test_a_sign_in_leads_to_the_page_that_asks_exactly_if_it_has_something_to_ask(store: Store) -> None:
    values, faults = ProfileValueRows(Statements(store.pool)), []
    now = store.clock.now()
    ways = {
        "newcomer": await _flow(store, SignInRequirements(organization="acme"), FlowPurpose.AUTHORIZE),
        "member": await _flow(store, SignInRequirements(), FlowPurpose.ACCOUNT),
    }
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(WORLD.encode())
        connection.execute(_OTHERS, {"other": GLOBEX, "app": APP, "flow": ways["newcomer"]})
        cases = product(KEEPERS, (None, "sign_in", "registration"), (False, True), KEPT, (False, True))
        for keeper, asked_at, is_required, kept, is_older in cases:
            organization, tie, concerns = KEEPERS[keeper]
            row, asks_again = KEPT[kept]
            connection.execute(_CLEAR)
            at = now - timedelta(days=1) if is_older else now + timedelta(days=1)
            field = {"field": FIELD, "organization": organization, "asked_at": asked_at, "required": is_required, "at": at}
            connection.execute(_FIELD, field)
            if tie == "member":
                connection.execute(_JOIN, {"organization": ACME, "user": ADA, "at": now})
            if row is not None:
                of, asked = row[0].format(field=FIELD), [FIELD] if row[1] else []
                connection.execute(_KEPT, {"user": ADA, "organization": organization, "values": of, "asked": asked})
            flow = ways["newcomer" if tie == "newcomer" else "member"]
            async with store.unit_of_work() as uow:
                confirmed = await uow.sign_ins.confirm(LastLook(user=ADA, flow=flow))
                without_a_page = await uow.sign_ins.confirm(LastLook(user=ADA))
            assert confirmed is not None
            assert without_a_page is not None
            slug, service = ("acme", APP) if tie == "newcomer" else (None, None)
            page = await values.asked(ADA, slug, service)
            # An account and a membership are of today; whoever comes to a service comes now.
            comes_after = asked_at == "sign_in" or (asked_at == "registration" and is_older)
            wanted = concerns and comes_after and asks_again[is_required]
            if (confirmed.owes_answers, bool(page), without_a_page.owes_answers) != (wanted, wanted, False):
                faults.append((keeper, asked_at, is_required, kept, is_older, confirmed.owes_answers, len(page)))
    assert faults == []


async def _flow(store: Store, wanted: SignInRequirements, purpose: FlowPurpose) -> FlowId:
    now = store.clock.now()
    flow = Flow(FlowId(store.ids.new()), purpose, {}, wanted, now, now + LIFETIME)
    async with store.unit_of_work() as uow:
        await uow.flows.add(flow, b"browser")
        await uow.commit()
    return flow.id


_OTHERS: Final = """
    with other as (
             insert into all_organizations (id, slug, name, status, created_at, updated_at)
             values (%(other)s, 'globex', 'Globex', 'active', now(), now())
         ),
         open as (
             update all_services set sign_in_policy = 'anyone' where id = %(app)s
         )
    update flows set service_id = %(app)s where id = %(flow)s
"""
_CLEAR: Final = """
    with fields as (
             delete from all_profile_fields
         ),
         kept as (
             delete from profile_values
         )
    delete from memberships
"""
_FIELD: Final = """
    insert into all_profile_fields (id, org_id, key, label, kind, written_by, asked_at, required, created_at, updated_at)
    values (%(field)s, %(organization)s, 'company', 'Company', 'text', '{person}', %(asked_at)s, %(required)s, %(at)s, %(at)s)
"""
_JOIN: Final = """
    insert into memberships (id, org_id, user_id, role, own_since, created_at)
    values (gen_random_uuid(), %(organization)s, %(user)s, 'member', %(at)s, %(at)s)
"""
_KEPT: Final = """
    insert into profile_values (user_id, org_id, values, asked, updated_at)
    values (%(user)s, %(organization)s, %(values)s, %(asked)s, now())
"""

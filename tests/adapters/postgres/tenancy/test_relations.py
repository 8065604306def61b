"""Relations: a person's rights in an organization and their sources, as read by every request's check and by `postern access`."""

from datetime import UTC, datetime
from typing import Any, Final

from adapters.postgres.columns import array, array_of_texts
from adapters.postgres.tenancy import callers
from adapters.postgres.tenancy.callers import PostgresCallers
from adapters.postgres.tenancy.roles import PostgresRelations
from core.domain.identifiers import OrganizationId, RoleId, TeamId
from core.domain.identity.accounts import Account
from core.domain.identity.sessions import Session
from core.domain.mail import Email
from core.domain.tenancy.members import OrganizationSnapshot
from core.domain.tenancy.organizations import OrganizationStatus, Related
from core.domain.tenancy.roles import BuiltInRole, Capability, capabilities_of
from core.domain.tenancy.teams import Team
from core.frozen import replace
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.tenants import StoredTenants

ADA: Final = Email("ada@example.org")


async def standing(store: Store, account: Account, session: Session, slug: str = "acme") -> OrganizationSnapshot | None:
    """The rights as the check of every request finds them."""
    found = await PostgresCallers(store.pool).find_member(session.id, account.id, slug)
    assert found is not None
    assert found[0] == await PostgresCallers(store.pool).find(session.id, account.id)
    return found[1]


async def related(store: Store, slug: str = "acme") -> list[Related]:
    seen = await PostgresRelations(store.pool).find(ADA, slug)
    assert seen is not None
    return list(seen.related)


async def test_a_built_in_role_is_a_relation_to_the_organization(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, session) = await tenants.add(), await store.sign_up()
    for role in ("owner", "admin", "member"):
        await tenants.join(acme, ada, role)
        assert await standing(store, ada, session) == OrganizationSnapshot(acme, "acme", True, role, frozenset({role}))
        assert await related(store) == [Related(role)]
        async with store.unit_of_work() as uow:
            assert await uow.members.remove(acme, ada.id)
            await uow.commit()


async def test_an_own_role_brings_what_its_holders_may_and_without_that_membership_alone(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, session) = await tenants.add(), await store.sign_up()
    auditor = await tenants.add_role(acme, permissions=[Capability.SERVICES_VIEW, Capability.AUDIT_LOGS_VIEW])
    nothing = await tenants.add_role(acme, "nothing")
    await tenants.join(acme, ada, "auditor", auditor.id)
    found = await standing(store, ada, session)
    assert found == OrganizationSnapshot(acme, "acme", True, "auditor", frozenset({"holder", "audit_logs.view", "services.view"}))
    assert await related(store) == [Related(one, "auditor") for one in ("holder", "audit_logs.view", "services.view")]
    await store.query("update memberships set role = 'nothing', role_id = %(id)s", {"id": nothing.id})
    await store.query("update relations set object_id = %(id)s where user_id is not null", {"id": nothing.id})
    found = await standing(store, ada, session)
    assert found is not None
    assert (found.role, sorted(found.relations), list(capabilities_of(found.relations))) == ("nothing", ["holder"], [])
    assert await related(store) == [Related("holder", "nothing")]


async def test_what_somebody_is_elsewhere_counts_for_nothing_here(store: Store) -> None:
    tenants = StoredTenants(store)
    await tenants.add()
    globex, (ada, session) = await tenants.add("globex"), await store.sign_up()
    theirs = await tenants.add_role(globex, permissions=Capability)  # type: ignore[arg-type]  # a class of members is a collection
    await tenants.join(globex, ada, "auditor", theirs.id)
    found = await standing(store, ada, session)
    assert found is not None
    assert (found.role, found.relations) == ("", frozenset())
    assert await related(store) == []
    assert await standing(store, ada, session, "nothing") is None


async def test_a_row_that_mixes_two_organizations_permits_nothing_in_either(store: Store) -> None:
    """No statement of ours writes one: code that writes here later must not open a door by mistake."""
    tenants = StoredTenants(store)
    acme, globex, (ada, session) = await tenants.add(), await tenants.add("globex"), await store.sign_up()
    theirs = await tenants.add_role(globex, permissions=[Capability.AUDIT_LOGS_VIEW])
    slip = """
        insert into relations (organization_id, user_id, relation, object_type, object_id)
        values (%(org)s, %(user)s, %(relation)s, %(type)s, %(object)s)
    """
    await store.query(slip, {"org": acme, "user": ada.id, "relation": "owner", "type": "organization", "object": globex})
    await store.query(slip, {"org": acme, "user": ada.id, "relation": "holder", "type": "role", "object": theirs.id})
    for slug in ("acme", "globex"):
        found = await standing(store, ada, session, slug)
        assert found is not None
        assert capabilities_of(found.relations) == frozenset()


async def add_team(tenants: StoredTenants, organization: OrganizationId, slug: str, role: str = "", role_id: RoleId | None = None) -> Team:
    now = datetime.now(UTC)
    team = Team(
        id=TeamId(tenants.store.ids.new()),
        organization=organization,
        slug=slug,
        name=slug.title(),
        role=role,
        role_id=role_id,
        created_at=now,
        updated_at=now,
    )
    async with tenants.store.unit_of_work() as uow:
        assert await uow.teams.add(team)
        await uow.commit()
    return team


async def test_a_team_brings_its_members_what_it_carries(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, session) = await tenants.add(), await store.sign_up()
    auditor = await tenants.add_role(acme, permissions=[Capability.SERVICES_VIEW, Capability.AUDIT_LOGS_VIEW])
    await tenants.join(acme, ada, "member")
    watch = await add_team(tenants, acme, "watch", "auditor", auditor.id)
    chiefs, idle = await add_team(tenants, acme, "chiefs", "admin"), await add_team(tenants, acme, "idle")
    assert await related(store) == [Related("member")]
    async with store.unit_of_work() as uow:
        for team in (watch, chiefs, idle):
            assert await uow.teams.add_members(team, [ada.id], team.created_at) == [ada.id]
            assert await uow.teams.add_members(team, [ada.id], team.created_at) == []
        assert await uow.teams.slugs_of(acme, ada.id, 2) == ["chiefs", "idle"]
        await uow.commit()
    found = await standing(store, ada, session)
    assert found is not None
    assert found.relations == frozenset({"member", "admin", "holder", "audit_logs.view", "services.view"})
    assert await related(store) == [
        Related("member"),
        Related("admin", by_team="chiefs"),
        *(Related(one, "auditor", "watch") for one in ("holder", "audit_logs.view", "services.view")),
    ]
    async with store.unit_of_work() as uow:
        await uow.teams.save(replace(chiefs, role="member"))
        assert await uow.teams.remove_members(watch, [ada.id], watch.created_at) == [ada.id]
        await uow.teams.delete(idle.id)
        await uow.commit()
    assert await related(store) == [Related("member"), Related("member", by_team="chiefs")]
    async with store.unit_of_work() as uow:
        assert await uow.members.remove(acme, ada.id)
        await uow.commit()
    assert await related(store) == []
    assert await store.query("select team_id from team_members") == []


async def test_a_team_of_another_organization_counts_for_nothing_here(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, globex, (ada, _) = await tenants.add(), await tenants.add("globex"), await store.sign_up()
    await tenants.join(acme, ada, "member")
    await tenants.join(globex, ada, "member")
    chiefs = await add_team(tenants, globex, "chiefs", "admin")
    async with store.unit_of_work() as uow:
        assert await uow.teams.add_members(chiefs, [ada.id], chiefs.created_at) == [ada.id]
        await uow.commit()
    assert await related(store) == [Related("member")]
    # No statement of ours writes such a row.
    slip = "update relations set organization_id = %(acme)s, object_id = %(acme)s where team_id is not null"
    await store.query(slip, {"acme": acme})
    assert await related(store) == [Related("member")]
    assert await related(store, "globex") == [Related("member")]


async def test_the_answer_names_the_person_and_the_organization_as_they_are(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, _) = await tenants.add(), await store.sign_up("Ada@example.org")
    await tenants.join(acme, ada, "admin")
    await store.query("update users set deactivated_at = now()")
    await store.query("update organizations set status = 'suspended'")
    lookup = PostgresRelations(store.pool)
    seen = await lookup.find(Email("ADA@EXAMPLE.ORG"), "acme")
    assert seen is not None
    assert (str(seen.email), seen.is_active, seen.organization_slug, seen.organization_status, seen.role) == (
        "Ada@example.org",
        False,
        "acme",
        OrganizationStatus.SUSPENDED,
        "admin",
    )
    assert set(seen.capabilities) == BuiltInRole.ADMIN.capabilities
    for email, slug in ((Email("bob@example.org"), "acme"), (ADA, "globex"), (ADA, "acme\0")):
        assert await lookup.find(email, slug) is None
    await store.query("update all_organizations set deleted_at = now()")
    assert await lookup.find(ADA, "acme") is None


async def test_a_second_factor_that_a_member_owes_is_told(store: Store) -> None:
    acme, (ada, session) = await StoredTenants(store).add(), await store.sign_up()
    await StoredTenants(store).join(acme, ada, "admin")
    lookup = PostgresRelations(store.pool)
    for days, owes in ((2, False), (0, True)):
        await store.query("update organizations set mfa_required_since = now(), mfa_grace_days = %(days)s", {"days": days})
        seen, found = await lookup.find(ADA, "acme"), await standing(store, ada, session)
        assert seen is not None
        assert found is not None
        assert (seen.owes_second_factor, seen.gets_in) == (owes, not owes)
        # The same that the check of a request sees.
        assert seen.second_factor_due == found.second_factor_due is not None


async def test_terms_that_a_member_has_not_accepted_are_told(store: Store) -> None:
    """Those of the organization and of the installation; not of another organization, which keep nobody out of this one."""
    tenants = StoredTenants(store)
    acme, globex, (ada, _) = await tenants.add(), await tenants.add("globex"), await store.sign_up()
    for organization in (acme, globex):
        await tenants.join(organization, ada, "admin")
    set_terms = (
        "insert into terms (organization_id, version, address, due_at, set_at)"
        " values (%(organization)s, %(version)s, 'https://example.org/', now() + %(hours)s * interval '1 hour', now())"
    )
    lookup = PostgresRelations(store.pool)
    for organization, version, hours in ((globex, "9", -1), (acme, "1", 1)):
        await store.query(set_terms, {"organization": organization, "version": version, "hours": hours})
        seen = await lookup.find(ADA, "acme")
        assert seen is not None
        assert seen.gets_in
    await store.query(set_terms, {"organization": None, "version": "7", "hours": -1})
    seen = await lookup.find(ADA, "acme")
    assert seen is not None
    assert not seen.gets_in
    assert [(one.organization, one.version, one.is_over) for one in seen.terms] == [(None, "7", True), (acme, "1", False)]
    await store.query(
        "insert into terms_acceptances (user_id, terms_id, accepted_at) select %(user)s, id, now() from terms", {"user": ada.id}
    )
    seen = await lookup.find(ADA, "acme")
    assert seen is not None
    assert (seen.terms, seen.gets_in) == ([], True)


async def test_an_organization_that_goes_is_gone_for_the_check_and_its_name_is_free(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, session) = await tenants.add(), await store.sign_up()
    await tenants.join(acme, ada, "owner")
    await store.query("update all_organizations set deleted_at = now()")
    assert await standing(store, ada, session) is None
    new = await tenants.add()
    assert await standing(store, ada, session) == OrganizationSnapshot(new, "acme", True, "", frozenset())


_FILL: Final = """
    insert into organizations (id, slug, name, status, created_at, updated_at)
    select gen_random_uuid(), 'o-' || n, 'O', 'active', now(), now() from generate_series(1, 3000) as n;
    insert into users (id, email, email_key)
    select gen_random_uuid(), 'u' || n || '@example.org', 'u' || n || '@example.org' from generate_series(1, 3000) as n;
    insert into sessions (id, user_id, created_at, last_seen_at, expires_at)
    select gen_random_uuid(), id, now(), now(), now() + interval '1 day' from users;
    insert into roles (id, org_id, slug, name, created_at, updated_at)
    select gen_random_uuid(), id, 'auditor', 'A', now(), now() from organizations where slug like 'o-%';
    insert into relations (organization_id, role_id, relation, object_type, object_id)
    select org_id, id, 'audit_logs.view', 'organization', org_id from roles where name = 'A';
    insert into memberships (id, org_id, user_id, role, role_id, created_at)
    select gen_random_uuid(), numbered.org_id, users.id, 'auditor', numbered.id, now()
      from (select id, org_id, row_number() over () as number from roles where name = 'A') as numbered
      cross join generate_series(1, 3) as factor
      join (select id, row_number() over () as number from users where email like 'u%') as users
        on users.number = 1 + numbered.number * factor % 3000
        on conflict do nothing;
    insert into relations (organization_id, user_id, relation, object_type, object_id)
    select org_id, user_id, 'holder', 'role', role_id from memberships
        on conflict do nothing;
"""


async def test_among_thousands_of_organizations_the_check_reads_a_handful_of_rows(fresh_store: Store) -> None:
    tenants = StoredTenants(fresh_store)
    acme, (ada, session) = await tenants.add(), await fresh_store.sign_up()
    auditor = await tenants.add_role(acme, permissions=[Capability.AUDIT_LOGS_VIEW])
    await tenants.join(acme, ada, "auditor", auditor.id)
    for statement in _FILL.split(";")[:-1]:
        await fresh_store.query(statement)
    # Ada is in many of them.
    await fresh_store.query(
        """
        with others as (
                 insert into memberships (id, org_id, user_id, role, created_at)
                 select gen_random_uuid(), id, %(user)s, 'member', now() from organizations where slug like 'o-%%'
                     on conflict do nothing
              returning org_id
             )
        insert into relations (organization_id, user_id, relation, object_type, object_id)
        select org_id, %(user)s, 'member', 'organization', org_id from others
        """,
        {"user": ada.id},
    )
    await fresh_store.settle("users", "all_organizations", "memberships", "relations", "roles", "sessions")
    others = await fresh_store.query("select id, user_id from sessions where id <> %(session)s limit 99", {"session": session.id})
    together = [(session.id, ada.id), *((row["id"], row["user_id"]) for row in others)]
    # One question, and a hundred that travel together: nothing but looks into indexes for each.
    for asked in (together[:1], together):
        values = {
            "sessions": array([one.hex for one, _ in asked]),
            "users": array([user.hex for _, user in asked]),
            "slugs": array_of_texts(["acme"] * len(asked)),
        }
        for statement in (callers.FIND, callers.FIND_IN_SERVICE, callers.FIND_MEMBER):
            async with fresh_store.pool.connection() as connection:
                cursor = await connection.execute(f"explain (analyze, format json) {statement}".encode(), values)
                found = await cursor.fetchone()
            assert found is not None
            nodes = _nodes(found[0][0]["Plan"])
            # There are no services, hooks, teams and second factors here, and an empty table may be looked at in any way.
            assert {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"} <= {
                "all_services",
                "hooks",
                "mfa_secrets",
                "passkeys",
                "team_members",
            }
            read = [(node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in nodes]
            assert max(read) <= 3 * len(asked), [(node.get("Relation Name"), rows) for node, rows in zip(nodes, read, strict=True)]
    assert (await standing(fresh_store, ada, session)) == OrganizationSnapshot(
        acme, "acme", True, "auditor", frozenset({"holder", "audit_logs.view"})
    )


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for inner in plan.get("Plans", ()) for node in _nodes(inner))]

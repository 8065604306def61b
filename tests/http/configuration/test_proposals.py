"""Proposals: a program plans, an owner applies exactly that, once, freshly proved, and nobody else does."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest
import trio

from core.domain.platform.configuration.planning import MOST_CHANGES, MOST_PROPOSALS
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.configuration.test_configuration_endpoints import ACME, ROLE, SMTP, DocumentShops, of_acme
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

AT: Final = f"{ACME}/proposals"


class ProposingShops(DocumentShops):
    async def propose(self, *, key: str = "", by: Person | None = None, at: str = AT, **held: Any) -> Received:
        body = {"document": of_acme(**(held or {"roles": {"support": ROLE}}))}
        if key:
            return await self.client.request("POST", at, body=body, token=key)
        return await self.request("POST", at, body, by=by)

    async def apply(self, proposal: Mapping[str, Any], *, by: Person | None = None, digest: str = "") -> Received:
        return await self.request("POST", f"{AT}/{proposal['id']}/apply", {"digest": digest or proposal["digest"]}, by=by)

    async def counts_no_more(self, proposal: Mapping[str, Any]) -> None:
        assert (await self.request("GET", AT, None)).ok()["total"] == 0
        assert refused(await self.request("GET", f"{AT}/{proposal['id']}", None)) == (404, "NOT_FOUND")
        assert refused(await self.apply(proposal)) == (404, "NOT_FOUND")
        assert self.roles == []

    @property
    def roles(self) -> list[dict[str, Any]]:
        return self.people.rows("select slug from roles")


@pytest.fixture
def shops(postern: Postern, people: People, log: CapturedLog) -> ProposingShops:
    return ProposingShops(postern, people, unlimited(postern), log)


async def test_a_key_proposes_and_an_owner_applies_exactly_that(shops: ProposingShops) -> None:
    key = await shops.key(Capability.SETTINGS_MANAGE, Capability.MEMBERS_VIEW, Capability.ROLES_MANAGE)
    made = (await shops.propose(key=key)).ok(201)
    assert made["url"].endswith(f"/ui/o/acme/settings/proposals/{made['id']}")
    assert (made["state"], made["proposed_by"], made["is_overtaken"]) == ("waiting", "Robot", False)
    assert [one["place"] for one in made["plan"]["changes"]] == ["/organizations/acme/roles/support"]
    assert shops.roles == []
    listed = (await shops.client.request("GET", AT, token=key)).ok()["proposals"]
    assert [one["id"] for one in listed] == [made["id"]]
    shown = (await shops.client.request("GET", f"{AT}/{made['id']}", token=key)).ok()
    assert shown == made
    applied = (await shops.apply(made)).ok()
    assert ([one["place"] for one in applied["done"]], applied["refused"]) == (["/organizations/acme/roles/support"], [])
    assert shops.roles == [{"slug": "support"}]
    after = (await shops.request("GET", f"{AT}/{made['id']}")).ok()
    assert (after["state"], after["plan"]) == ("applied", None)
    assert refused(await shops.apply(made)) == (409, "CONFLICT")
    # The log has the maker, the owner, and the document with each change. The document itself is gone.
    created, used = shops.audited("proposal.%")
    assert (created["action"], created["details"]["plan_digest"]) == ("proposal.created", made["digest"])
    assert created["details"]["acting_key"]["kind"] == "management_key"
    assert (used["action"], used["actor_id"], used["target_id"]) == ("proposal.applied", shops.owner.user, made["id"])
    assert [one["details"]["document"] for one in shops.audited("role.created")] == [made["document"]]
    assert shops.people.rows("select sealed_document from proposals") == [{"sealed_document": None}]


async def test_a_key_never_applies_and_neither_does_anybody_but_an_owner_with_a_fresh_proof(shops: ProposingShops) -> None:
    key = await shops.key(*Capability)
    made = (await shops.propose(by=shops.admin)).ok(201)
    body = {"digest": made["digest"]}
    assert refused(await shops.client.request("POST", f"{AT}/{made['id']}/apply", body=body, token=key)) == (403, "FORBIDDEN")
    assert refused(await shops.apply(made, by=shops.admin)) == (403, "FORBIDDEN")
    shops.stale(shops.owner)
    assert refused(await shops.apply(made)) == (401, "REAUTHENTICATION_REQUIRED")
    assert shops.roles == []


async def test_what_changed_meanwhile_is_refused_and_nothing_is_done(shops: ProposingShops) -> None:
    made = (await shops.propose(by=shops.admin)).ok(201)
    await shops.request("POST", f"{ACME}/roles", {"slug": "support", "name": "By hand", "permissions": ["end_users.view"]})
    assert (await shops.request("GET", f"{AT}/{made['id']}")).ok()["is_overtaken"] is True
    assert refused(await shops.apply(made)) == (409, "CONFLICT")
    assert shops.people.rows("select name from roles") == [{"name": "By hand"}]
    assert shops.people.rows("select enacted_at from proposals") == [{"enacted_at": None}]
    assert shops.audited("proposal.applied") == []


async def test_an_end_is_of_the_object_that_was_there(shops: ProposingShops) -> None:
    """The name stays, and what it names has become another thing meanwhile."""
    hook = {"name": "CRM", "url": "https://127.0.0.1/old", "events": ["user.joined"]}
    old = (await shops.request("POST", f"{ACME}/webhooks", hook)).json()
    made = (await shops.propose(by=shops.admin, webhooks={"whole": True, "entries": {}})).ok(201)
    (end,) = made["plan"]["changes"]
    assert (end["act"], [one["before"] for one in end["fields"] if one["name"] == "url"]) == ("end", ["https://127.0.0.1/old"])
    assert (await shops.request("PATCH", f"{ACME}/webhooks/{old['id']}", {"url": "https://127.0.0.1/vital"})).status == 200
    assert (await shops.request("GET", f"{AT}/{made['id']}")).ok()["is_overtaken"] is True
    assert refused(await shops.apply(made)) == (409, "CONFLICT")
    assert shops.people.rows("select url from webhooks") == [{"url": "https://127.0.0.1/vital"}]


async def test_another_digest_is_refused(shops: ProposingShops) -> None:
    made = (await shops.propose(by=shops.admin)).ok(201)
    assert refused(await shops.apply(made, digest="0" * 64)) == (409, "CONFLICT")
    assert shops.roles == []


async def test_what_is_planned_now_does_not_stand_in_for_what_was_proposed(shops: ProposingShops) -> None:
    """Somebody who knows the digest of the present plan gains nothing by it."""
    made = (await shops.propose(by=shops.admin)).ok(201)
    shops.people.change("update proposals set plan_digest = %s where id = %s", "0" * 64, made["id"])
    assert refused(await shops.apply(made)) == (409, "CONFLICT")
    assert shops.people.rows("select enacted_at from proposals") == [{"enacted_at": None}]
    assert shops.roles == []


async def test_of_two_owners_one_applies(shops: ProposingShops) -> None:
    made = (await shops.propose(by=shops.admin, webhooks={"CRM": {"url": "https://127.0.0.1/h", "events": ["user.joined"]}})).ok(201)
    answers = await all_at_once(lambda: shops.apply(made), lambda: shops.apply(made))
    assert sorted(one.status for one in answers) == [200, 409]
    assert len(shops.audited("proposal.applied")) == 1


async def test_of_two_owners_who_have_planned_one_applies(shops: ProposingShops, emptied_database_url: str) -> None:
    made = (await shops.propose(by=shops.admin)).ok(201)
    answers: list[Received] = []

    async def apply() -> None:
        answers.append(await shops.apply(made))

    with psycopg.connect(emptied_database_url) as other:
        other.execute("select from organizations where id = %s for no key update", (shops.acme.id,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(apply)
            nursery.start_soon(apply)
            await shops.people.all_wait(2)
            other.commit()
    assert sorted(one.status for one in answers) == [200, 409]
    assert len(shops.audited("proposal.applied")) == len(shops.roles) == 1


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"mail_server": {**SMTP, "password": "env:SMTP"}}, "a proposal cannot contain secrets"),
        ({"rolls": {}}, "unknown name"),
        ({}, "nothing to propose"),
        ({"services": {"wiki": {"claims": {"a": {"source": "email", "into": ["id_token"]}}}}}, "/organizations/acme/services/wiki"),
    ],
)
async def test_what_cannot_be_applied_is_not_proposed(shops: ProposingShops, held: dict[str, Any], said: str) -> None:
    answer = await shops.request("POST", AT, {"document": of_acme(**held)}, by=shops.admin)
    assert (answer.status, said in answer.json()["error"]) == (400, True), answer.body
    assert shops.people.rows("select from proposals") == []


async def test_a_proposal_is_as_mighty_as_its_maker_and_names_no_other_organization(shops: ProposingShops) -> None:
    weak = await shops.key(Capability.SETTINGS_MANAGE)
    answer = await shops.propose(key=weak)
    assert (answer.status, "it needs the capability org.members.view" in answer.json()["error"]) == (400, True)
    without = await shops.key(Capability.AUDIT_LOGS_VIEW)
    assert refused(await shops.propose(key=without)) == (403, "FORBIDDEN")
    theirs = {"document": {"postern": 1, "organizations": {"globex": {"name": "Mine"}}}}
    assert refused(await shops.request("POST", AT, theirs, by=shops.admin)) == (400, "BAD_REQUEST")
    assert (await shops.propose(by=shops.admin, at="/api/organizations/globex/proposals")).status == 403


async def test_another_organization_finds_nothing(shops: ProposingShops) -> None:
    made = (await shops.propose(by=shops.admin)).ok(201)
    stranger = shops.resident(shops.globex, "owner")
    shops.people.change("update organizations set owner_user_id = %s where id = %s", stranger.user, shops.globex.id)
    theirs = f"/api/organizations/globex/proposals/{made['id']}"
    assert refused(await shops.request("GET", theirs, by=stranger)) == (404, "NOT_FOUND")
    assert refused(await shops.request("POST", f"{theirs}/apply", {"digest": made["digest"]}, by=stranger)) == (404, "NOT_FOUND")
    assert refused(await shops.request("DELETE", theirs, by=stranger)) == (404, "NOT_FOUND")
    assert refused(await shops.request("GET", f"{AT}/{made['id']}", by=stranger))[0] in {403, 404}


async def test_a_proposal_ends_with_its_day_its_key_its_maker_and_by_hand(shops: ProposingShops) -> None:
    key = await shops.key(Capability.SETTINGS_MANAGE, Capability.MEMBERS_VIEW, Capability.ROLES_MANAGE)
    ((key_id,),) = (row.values() for row in shops.people.rows("select id from management_keys"))
    of_key, of_person, old, by_hand = [
        (await shops.propose(key=key)).ok(201),
        (await shops.propose(by=shops.admin)).ok(201),
        (await shops.propose()).ok(201),
        (await shops.propose()).ok(201),
    ]
    assert (await shops.request("DELETE", f"{ACME}/management-keys/{key_id}", None)).status == 200
    shops.people.change("delete from memberships where user_id = %s", shops.admin.user)
    shops.people.change("update proposals set expires_at = now() where id = %s", old["id"])
    assert (await shops.request("DELETE", f"{AT}/{by_hand['id']}", None)).status == 204
    for gone in (of_key, of_person, old, by_hand, {**old, "id": str(uuid4())}):
        assert refused(await shops.apply(gone)) == (404, "NOT_FOUND")
    assert (await shops.request("GET", AT, None)).ok()["total"] == 0
    assert len(shops.audited("proposal.deleted")) == 1
    assert shops.roles == []


@pytest.mark.parametrize(
    "change",
    [
        "update management_keys set expires_at = now() - interval '1 minute'",
        "update management_keys set capabilities = array['org.members.view', 'org.roles.manage']",
        "update management_keys set created_by = gen_random_uuid()",
        "update users set deactivated_at = now() where id = (select created_by from management_keys)",
    ],
    ids=["it expires", "it may less", "its maker is gone", "its maker is deactivated"],
)
async def test_a_proposal_of_a_key_counts_as_long_as_the_key_may_propose(shops: ProposingShops, change: str) -> None:
    key = await shops.key(Capability.SETTINGS_MANAGE, Capability.MEMBERS_VIEW, Capability.ROLES_MANAGE)
    shops.people.change("update management_keys set created_by = %s", shops.admin.user)
    made = (await shops.propose(key=key)).ok(201)
    assert (await shops.request("GET", AT, None)).ok()["total"] == 1
    shops.people.change(change)
    await shops.counts_no_more(made)


async def test_a_proposal_of_an_adopted_key_counts_without_its_maker(shops: ProposingShops) -> None:
    key = await shops.key(Capability.SETTINGS_MANAGE, Capability.MEMBERS_VIEW, Capability.ROLES_MANAGE)
    made = (await shops.propose(key=key)).ok(201)
    change = "update management_keys set created_by = gen_random_uuid(), adopted_by = %s, adopted_at = now()"
    shops.people.change(change, shops.owner.user)
    (await shops.apply(made)).ok()


@pytest.mark.parametrize("by_key", [False, True], ids=["by themselves", "by a key of theirs"])
@pytest.mark.parametrize("act", ["they leave", "they may less"])
async def test_a_proposal_counts_as_long_as_whoever_made_it_may_propose(shops: ProposingShops, act: str, by_key: bool) -> None:
    key = await shops.key(Capability.SETTINGS_MANAGE, Capability.MEMBERS_VIEW, Capability.ROLES_MANAGE) if by_key else ""
    shops.people.change("update management_keys set created_by = %s", shops.admin.user)
    made = (await shops.propose(key=key, by=shops.admin)).ok(201)
    member = f"{ACME}/members/{shops.admin.user}"
    if act == "they leave":
        (await shops.request("POST", member, None)).ok()
    else:
        (await shops.request("PATCH", member, {"role": "member"})).ok()
    await shops.counts_no_more(made)


async def test_a_proposal_of_somebody_who_is_deactivated_counts_no_more(shops: ProposingShops) -> None:
    made = (await shops.propose(by=shops.admin)).ok(201)
    shops.people.change("update users set deactivated_at = now() where id = %s", shops.admin.user)
    await shops.counts_no_more(made)


async def test_who_loses_the_right_while_an_owner_presses_has_nothing_applied(shops: ProposingShops, emptied_database_url: str) -> None:
    made = (await shops.propose(by=shops.admin)).ok(201)
    answers: list[Received] = []

    async def apply() -> None:
        answers.append(await shops.apply(made))

    with psycopg.connect(emptied_database_url) as other:
        other.execute("select from organizations where id = %s for no key update", (shops.acme.id,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(apply)
            await shops.people.somebody_waits()
            other.execute("delete from relations where user_id = %s", (shops.admin.user,))
            other.commit()
    assert refused(answers[0]) == (404, "NOT_FOUND")
    assert shops.roles == []


async def test_proposals_that_nobody_sees_take_no_room(shops: ProposingShops) -> None:
    for _ in range(MOST_PROPOSALS):
        (await shops.propose(by=shops.admin)).ok(201)
    assert refused(await shops.propose()) == (409, "CONFLICT")
    assert (await shops.request("PATCH", f"{ACME}/members/{shops.admin.user}", {"role": "member"})).status == 200
    (await shops.propose()).ok(201)


async def test_an_owner_who_applies_a_proposal_has_confirmed_the_ownership(shops: ProposingShops) -> None:
    made = (await shops.propose(by=shops.admin)).ok(201)
    shops.people.change(
        "insert into ownerships (org_id, membership_id, former_role, since)"
        " select org_id, id, 'member', now() from memberships where user_id = %s",
        shops.owner.user,
    )
    (await shops.apply(made)).ok()
    assert shops.people.rows("select confirmed_at is not null as yes from ownerships") == [{"yes": True}]


async def test_an_organization_has_few_that_wait(shops: ProposingShops) -> None:
    for _ in range(MOST_PROPOSALS):
        (await shops.propose(by=shops.admin)).ok(201)
    assert refused(await shops.propose(by=shops.admin)) == (409, "CONFLICT")
    shops.people.change("update proposals set expires_at = now() where id = (select min(id::text)::uuid from proposals)")
    (await shops.propose(by=shops.admin)).ok(201)


async def test_what_no_page_shows_whole_is_not_proposed(shops: ProposingShops) -> None:
    many = {f"team-{number}": {"name": "Team"} for number in range(MOST_CHANGES + 1)}
    answer = await shops.propose(by=shops.admin, teams=many)
    assert (answer.status, "a page shows at most 200" in answer.json()["error"]) == (400, True)
    del many["team-0"]
    (await shops.propose(by=shops.admin, teams=many)).ok(201)


async def test_a_large_document_is_refused(shops: ProposingShops) -> None:
    answer = await shops.propose(by=shops.admin, roles={"support": {**ROLE, "description": "x" * (130 << 10)}})
    assert answer.status == 413


async def test_the_document_lies_sealed(shops: ProposingShops) -> None:
    await shops.propose(by=shops.admin, roles={"support": {**ROLE, "name": "Recognizable"}})
    ((sealed,),) = (row.values() for row in shops.people.rows("select sealed_document from proposals"))
    assert b"Recognizable" not in bytes(sealed)


async def test_an_owner_who_lost_the_role_meanwhile_applies_nothing(shops: ProposingShops, emptied_database_url: str) -> None:
    made = (await shops.propose(by=shops.admin)).ok(201)
    answers: list[Received] = []

    async def apply() -> None:
        answers.append(await shops.apply(made))

    with psycopg.connect(emptied_database_url) as other:
        other.execute("select from organizations where id = %s for no key update", (shops.acme.id,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(apply)
            await shops.people.somebody_waits()
            other.execute("update memberships set role = 'admin' where user_id = %s", (shops.owner.user,))
            other.commit()
    assert refused(answers[0]) == (403, "FORBIDDEN")
    assert shops.roles == []

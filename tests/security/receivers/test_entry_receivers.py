"""Who has heard of an entry: nothing of another organization, nothing beyond the right, nothing that the log does not show."""

from core.domain.record.entry_receivers import EntryReceiverKind
from core.domain.tenancy.management_keys import OF_ORGANIZATION
from core.domain.tenancy.roles import Capability
from ops.stand_ins.fake_far_side import FakeFarSide
from tests.http.client import refused
from tests.http.record.receiving_scene import DEAD, ReceivingScene

SECRET = "http://127.0.0.1:1/?key=fig"


async def everything_of_globex(scene: ReceivingScene) -> None:
    """Ada is a member of globex, too, uses its shop, and globex has one of each receiver. She leaves there at the same moment."""
    base = "/api/organizations/globex"
    scene.tenants.join(scene.ada, scene.globex)
    hook = {"name": "Globex hook", "url": SECRET, "events": ["user.removed", "security.account.locked"]}
    scene.log.remember((await scene.request("POST", f"{base}/webhooks", hook, by=scene.stranger)).ok()["secret"])
    siem = {"name": "Globex SIEM", "provider_type": "generic", "endpoint_url": SECRET}
    (await scene.request("POST", f"{base}/siem", siem, by=scene.stranger)).ok()
    signals = {"events": ["session-revoked", "account-disabled"], "hosts": ["127.0.0.1"]}
    (await scene.request("PUT", f"{base}/services/shop/signals", signals, by=scene.stranger)).ok()
    await scene.polled(by=scene.theirs)
    scene.people.change(
        "update services set backchannel_logout_uri = %s, frontchannel_logout_uri = %s where id = %s",
        SECRET,
        SECRET,
        scene.theirs.service.id,
    )
    with FakeFarSide() as far:
        scene.far = far
        scene.log.remember(far.token)
        await scene.provisioned(scene.theirs.service, scene.globex)


async def test_a_member_of_two_organizations_has_receivers_of_each_in_its_own_log_alone(scene: ReceivingScene) -> None:
    await everything_of_globex(scene)
    await scene.webhook(DEAD)
    await scene.notified(scene.shop, DEAD)
    ours = await scene.removed()
    (await scene.request("POST", f"/api/organizations/globex/members/{scene.ada.user}", by=scene.stranger)).ok()
    theirs = scene.entry("user.removed", scene.globex)
    names = {(one["kind"], one["name"]) for one in await scene.receivers(ours)}
    assert names == {("webhook", "CRM"), ("logout_notice", "Shop")}
    told = (await scene.asked(theirs, by=scene.stranger, of="globex")).ok()
    kinds = {one["kind"] for one in told["receivers"]}
    assert kinds == {one.value for one in EntryReceiverKind} - {"application"}
    assert "CRM" not in str(told)
    # By id, from the other side: as if there were no such entry.
    nothing = refused(await scene.asked("01900000-0000-7000-8000-000000000001"))
    assert refused(await scene.asked(theirs)) == nothing
    assert refused(await scene.asked(ours, by=scene.stranger, of="globex")) == nothing
    told = (await scene.request("GET", f"/api/organizations/acme/users/{scene.ada.user}/offboarding", by=scene.owner)).ok()
    assert [one["entry_id"] for one in told["entries"]] == [ours]
    assert "lobex" not in str(told)


async def test_receivers_that_were_deleted_meanwhile_are_ones_own_without_address(scene: ReceivingScene) -> None:
    """Each organization deletes its webhook after the entry of both."""
    scene.tenants.join(scene.ada, scene.globex)
    hook = {"name": "Globex hook", "url": SECRET, "events": ["user.removed"]}
    theirs = (await scene.request("POST", "/api/organizations/globex/webhooks", hook, by=scene.stranger)).ok()
    scene.log.remember(theirs["secret"])
    ours = await scene.webhook(SECRET, "user.removed")
    entry = await scene.happens("user.removed")
    there = await scene.happens("user.removed", tenant=scene.globex)
    (await scene.request("DELETE", f"/api/organizations/globex/webhooks/{theirs['id']}", by=scene.stranger)).ok()
    (await scene.request("DELETE", f"/api/organizations/acme/webhooks/{ours['id']}", by=scene.owner)).ok()
    for answer, name in ((await scene.asked(entry), "CRM"), (await scene.asked(there, by=scene.stranger, of="globex"), "Globex hook")):
        (told,) = answer.ok()["receivers"]
        assert (told["name"], told["state"], told["url"], told["count"]) == (name, "not_kept", None, 0)
        assert "fig" not in str(told)


async def test_whether_somebody_who_left_still_has_an_account_is_not_told(scene: ReceivingScene) -> None:
    """Ada was never sent to the target system. When she deletes her account, later, acme's page stays as it was."""
    with FakeFarSide() as far:
        scene.far = far
        scene.log.remember(far.token)
        await scene.provisioned()
    entry = await scene.removed()
    for table in ("provisioning_marks", "provisioning_run_people", "provisioned_people"):
        scene.people.change(f"delete from {table}")
    before = await scene.receivers(entry)
    assert [one["state"] for one in before] == ["not_kept"]
    scene.people.change("delete from memberships where user_id = %s", scene.ada.user)
    scene.people.change("delete from users where id = %s", scene.ada.user)
    assert await scene.receivers(entry) == before


async def test_another_organizations_person_by_id_is_nobody(scene: ReceivingScene) -> None:
    bob = scene.tenants.join(scene.people.proved("bob@example.org"), scene.globex)
    await scene.happens("user.removed", bob, tenant=scene.globex)
    unknown = "01900000-0000-7000-8000-000000000001"
    answers = []
    for user in (str(bob.user), unknown):
        told = (await scene.request("GET", f"/api/organizations/acme/users/{user}/offboarding", by=scene.owner)).ok()
        answers.append({**told, "user_id": ""})
    assert answers[0] == answers[1]


async def test_what_the_log_does_not_show_has_no_row(scene: ReceivingScene) -> None:
    """Acme merely lists Bob. His password and the end of his sessions are none of its business, and leave no entry and no gap."""
    bob = scene.tenants.join(scene.people.proved("bob@example.org"), scene.acme, listed=True)
    await scene.webhook(DEAD, "security.password.changed")
    await scene.notified(scene.shop, DEAD)
    await scene.leaves(person=bob)
    told = (await scene.request("GET", f"/api/organizations/acme/users/{bob.user}/offboarding", by=scene.owner)).ok()
    assert told["entries"] == []
    # An entry about somebody else at that moment says nothing of it.
    entry = await scene.happens("security.sessions.revoked")
    assert (await scene.one(entry, "logout_notice"))["count"] == 0


async def test_an_entry_of_the_platform_is_no_entry_here(scene: ReceivingScene) -> None:
    scene.people.change("update audit_entries set organization_id = null where id = %s", entry := await scene.happens("user.removed"))
    assert refused(await scene.asked(entry))[0] == 404


async def test_roles_keys_and_strangers(scene: ReceivingScene) -> None:
    await scene.webhook(SECRET)
    with FakeFarSide() as far:
        scene.far = far
        scene.log.remember(far.token)
        await scene.provisioned()
    entry = await scene.removed()
    person = f"/api/organizations/acme/users/{scene.ada.user}/offboarding"
    everything_else = set(Capability) - {Capability.AUDIT_LOGS_VIEW}
    most = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "most", everything_else), "most@acme.example")
    for somebody in (most, scene.stranger):
        assert refused(await scene.asked(entry, by=somebody))[0] == 403
        assert refused(await scene.request("GET", person, by=somebody))[0] == 403
    path = f"/api/organizations/acme/audit-log/{entry}/receivers"
    for capabilities, sees_webhook in (([Capability.AUDIT_LOGS_VIEW], False), (sorted(Capability), True)):
        key = scene.tenants.management_key(scene.acme, scene.owner, capabilities)
        scene.log.remember(key)
        assert key.startswith(OF_ORGANIZATION)
        told = {one["kind"]: one for one in (await scene.client.get(path, token=key)).ok()["receivers"]}
        assert told["webhook"]["is_detailed"] is sees_webhook
        # The page of a target system names people: it opens to no key.
        assert (told["provisioning"]["is_detailed"], told["provisioning"]["url"]) == (False, None)
    without = scene.tenants.management_key(scene.acme, scene.owner, sorted(everything_else))
    theirs = scene.tenants.management_key(scene.globex, scene.stranger, sorted(Capability))
    scene.log.remember(without, theirs)
    assert [(await scene.client.get(path, token=one)).status for one in (without, theirs)] == [403, 403]


async def test_ids_that_are_none_are_nothing(scene: ReceivingScene) -> None:
    for entry in ("1", "%00", "0" * 400, "01900000-0000-7000-8000-00000000000g"):
        assert (await scene.asked(entry)).status in {400, 404}
        answer = await scene.request("GET", f"/api/organizations/acme/users/{entry}/offboarding", by=scene.owner)
        assert answer.status in {400, 404}

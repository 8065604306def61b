"""What is late: nothing of another organization, no name in a mail, and nothing late for having been told of what is late."""

from tests.http.postbox import Postbox
from tests.http.record.receiving_scene import DEAD, ReceivingScene
from tests.security.receivers.test_entry_receivers import everything_of_globex

MARKUP = "<script>alert(1)</script>"


async def late(scene: ReceivingScene) -> int:
    """Two hours later."""
    found = 0
    for _ in range(2):
        scene.people.change("update offboarding_deadlines set seen_to = seen_to - interval '1 minute'")
        scene.people.change("update offboarding_watches set look_at = now(), act_at = act_at - interval '1 hour'")
        found = await scene.postern.tenancy.late_receivers.look()
    return found


async def test_whoever_leaves_two_organizations_is_late_in_each_by_its_own_receivers(scene: ReceivingScene) -> None:
    await everything_of_globex(scene)
    await scene.webhook(DEAD)
    for slug, owner in (("acme", scene.owner), ("globex", scene.stranger)):
        (await scene.request("PUT", f"/api/organizations/{slug}/offboarding-deadline", {"removal_minutes": 1}, by=owner)).ok()
    await scene.removed()
    (await scene.request("POST", f"/api/organizations/globex/members/{scene.ada.user}", by=scene.stranger)).ok()
    assert await late(scene) > 0
    for tenant, own, other in ((scene.acme, "CRM", "lobex"), (scene.globex, "Globex hook", "CRM")):
        rows = scene.people.rows(
            "select details from audit_entries where action = 'offboarding.late' and organization_id = %s order by id", tenant.id
        )
        assert own in {row["details"]["receiver"] for row in rows}
        assert [row for row in rows if row["details"]["receiver_kind"] == "webhook" and other in row["details"]["receiver"]] == []
        entries = [row["details"]["entry_id"] for row in rows]
        assert (
            scene.people.rows("select from audit_entries where id = any (%s::uuid[]) and organization_id <> %s", entries, tenant.id) == []
        )
    # Each is asked for by the organization's own log alone.
    shown = (await scene.request("GET", "/api/organizations/acme/audit-log?action=offboarding.late", by=scene.owner)).ok()
    assert "Globex" not in str(shown)
    assert (await scene.request("GET", "/api/organizations/acme/audit-log?action=offboarding.late", by=scene.stranger)).status == 403


async def test_the_mail_has_a_number_and_no_names(scene: ReceivingScene) -> None:
    await scene.webhook(DEAD, name=MARKUP)
    (await scene.request("PUT", "/api/organizations/acme/offboarding-deadline", {"removal_minutes": 1}, by=scene.owner)).ok()
    await scene.removed()
    postbox = Postbox(scene.postern)
    await postbox.empty()
    assert await late(scene) == 1
    (mail,) = await postbox.empty()
    email = scene.people.rows("select email from users where id = %s", scene.ada.user)[0]["email"]
    for text in (mail.subject, mail.text, mail.html):
        assert "script>alert" not in text
        assert email not in text
    assert "?action=offboarding.late" in mail.text


async def test_a_webhook_that_cannot_be_told_of_what_is_late_makes_nothing_late(scene: ReceivingScene) -> None:
    body = {"name": "Late", "url": DEAD, "events": ["user.removed", "offboarding.late"]}
    scene.log.remember((await scene.request("POST", "/api/organizations/acme/webhooks", body, by=scene.owner)).ok()["secret"])
    (await scene.request("PUT", "/api/organizations/acme/offboarding-deadline", {"removal_minutes": 1}, by=scene.owner)).ok()
    await scene.removed()
    assert await late(scene) == 1
    for _ in range(3):
        assert await late(scene) == 0
    assert len(scene.people.rows("select from audit_entries where action = 'offboarding.late'")) == 1

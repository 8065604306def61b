"""Sign-in rules on pages: whom a change would reach, before it is made."""

from typing import Any

import pytest

from core.domain.identifiers import UserId
from tests.http.pages.console.conftest import ConsoleScene

RULES, FORMER = "/sign-in", "/sign-in/change"
SECOND_STEP, SESSIONS, PASSWORDS, REGISTRATION, PROGRAMS = (
    f"{FORMER}/{card}" for card in ("second-step", "sessions", "passwords", "registration", "programs")
)
FORMS = (SECOND_STEP, SESSIONS, PASSWORDS, REGISTRATION, PROGRAMS)


def rules(console: ConsoleScene) -> dict[str, Any]:
    (row,) = console.people.rows(
        "select mfa_required_since, mfa_grace_days, session_hours, invitation_domains from organizations where id = %s", console.acme.id
    )
    return row


async def test_the_rules_stand_on_the_page(console: ConsoleScene) -> None:
    tab = await console.at(RULES)
    assert tab.status == 200
    assert "MFA is optional." in tab.page.text
    assert [one for one in tab.page.links if FORMER in one] == [f"/ui/o/acme{form}" for form in FORMS]


async def test_nothing_is_saved_before_its_reach_was_shown(console: ConsoleScene) -> None:
    console.people.give_passkey(console.ada, second_factor=True)
    console.people.change("update sessions set second_factor_at = now() where id = %s", console.ada.session)
    for _ in range(2):
        console.tenants.join(console.people.add(), console.acme)
    await console.at(SECOND_STEP)
    tab = await console.submit(SECOND_STEP, mfa_policy="required", mfa_grace_days="3")
    assert tab.status == 200
    assert "2 members have no MFA and cannot sign in" in tab.page.text
    assert rules(console)["mfa_required_since"] is None
    tab = await console.submit(SECOND_STEP)
    assert tab.place == f"/ui/o/acme{RULES}?done=console.rules_change.second_step"
    assert rules(console)["mfa_required_since"] is not None
    assert rules(console)["mfa_grace_days"] == 3


async def test_administrators_are_counted_before_more_is_asked_of_them(console: ConsoleScene) -> None:
    console.people.give_passkey(console.ada, second_factor=True)
    console.people.change("update sessions set second_factor_at = now() where id = %s", console.ada.session)
    chief, other, member = (console.people.add() for _ in range(3))
    for person, role in ((chief, "admin"), (other, "admin"), (member, "member")):
        console.tenants.join(person, console.acme, role)
    protect = "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, '', now(), now())"
    console.people.change(protect, member.user)
    await console.at(SECOND_STEP)
    tab = await console.submit(SECOND_STEP, admin_factor="second_factor")
    assert "2 administrators have no MFA and cannot sign in" in tab.page.text
    assert "MFA for administrators MFA required before: Optional" in tab.page.text
    await console.at(SECOND_STEP)
    tab = await console.submit(SECOND_STEP, admin_factor="passkey", mfa_grace_days="0")
    assert "2 administrators lack MFA or a passkey and cannot sign in" in tab.page.text
    tab = await console.submit(SECOND_STEP)
    assert tab.place == f"/ui/o/acme{RULES}?done=console.rules_change.second_step"
    assert "Administrators must use MFA and have a passkey (since " in tab.page.text
    # The page of the account says to an administrator what is missing.
    console.people.change(protect, chief.user)
    summary = await console.postern.identity.account_summaries.of(UserId(chief.user))
    assert [(one.name, one.passkey) for one in summary.unmet] == [("Acme", True)]


async def test_members_are_counted_before_a_passkey_is_asked_of_them(console: ConsoleScene) -> None:
    console.people.give_passkey(console.ada, second_factor=True)
    console.people.change("update sessions set second_factor_at = now() where id = %s", console.ada.session)
    one, other = console.people.add(), console.people.add()
    for person in (one, other):
        console.tenants.join(person, console.acme)
    await console.at(SECOND_STEP)
    tab = await console.submit(SECOND_STEP, all_factor="passkey")
    assert "2 affected members lack MFA or a passkey and cannot sign in" in tab.page.text
    assert console.people.rows("select all_factor from organizations") == [{"all_factor": None}]
    console.people.give_passkey(one, second_factor=True)
    await console.at(SECOND_STEP)
    tab = await console.submit(SECOND_STEP, all_factor="passkey")
    assert "One affected member lacks MFA or a passkey" in tab.page.text
    tab = await console.submit(SECOND_STEP)
    assert tab.place == f"/ui/o/acme{RULES}?done=console.rules_change.second_step"
    assert "All members must use MFA and have a passkey (since " in tab.page.text
    assert console.people.rows("select all_factor from organizations") == [{"all_factor": "passkey"}]


async def test_a_role_is_named_for_those_who_have_it(console: ConsoleScene) -> None:
    console.people.give_passkey(console.ada, second_factor=True)
    console.people.change("update sessions set second_factor_at = now() where id = %s", console.ada.session)
    await console.at(SECOND_STEP)
    for role, said in (("", "Enter the role, such as billing/approver"), ("shop/nobody", "This application or role does not exist here")):
        tab = await console.submit(SECOND_STEP, all_factor="role_passkey", all_factor_role=role)
        assert tab.status == 400
        assert "#all_factor_role" in tab.page.links
        assert said in tab.page.text


async def test_a_passkey_is_asked_of_those_with_a_role_until_the_role_ends(console: ConsoleScene) -> None:
    console.people.give_passkey(console.ada, second_factor=True)
    console.people.change("update sessions set second_factor_at = now() where id = %s", console.ada.session)
    token, services = await console.tenants.token(console.ada), "/api/organizations/acme/services"
    for at, body in (
        (services, {"slug": "billing", "name": "Billing", "service_type": "web"}),
        (f"{services}/billing/roles", {"slug": "approver", "name": "Approver"}),
    ):
        assert (await console.client.request("POST", at, body=body, token=token)).status < 300
    await console.at(SECOND_STEP)
    assert "all_factor_role" in console.fields(SECOND_STEP).fields
    await console.submit(SECOND_STEP, all_factor="role_passkey", all_factor_role="billing/approver")
    tab = await console.submit(SECOND_STEP)
    assert "Members with the role billing/approver must use MFA and have a passkey (since " in tab.page.text
    assert "MFA is optional for everyone else." in tab.page.text
    assert (await console.client.request("DELETE", f"{services}/billing", token=token)).status < 300
    shown = (await console.at(RULES)).page.text
    assert "A passkey was required for a role that no longer exists. This rule applies to no one." in shown
    assert "MFA is optional." in shown


async def test_sessions_that_would_end_are_counted(console: ConsoleScene) -> None:
    for hours in (1, 5, 9):
        person = console.people.add()
        console.tenants.join(person, console.acme)
        console.people.change(
            "update sessions set organization_id = %s, proved_at = now() - %s * interval '1 hour' where id = %s",
            console.acme.id,
            hours,
            person.session,
        )
    await console.at(SESSIONS)
    tab = await console.submit(SESSIONS, session_lifetime_hours="4")
    assert "2 active sessions exceed the new limit" in tab.page.text
    await console.submit(SESSIONS)
    # A session that the old rule ended is none that the new rule ends.
    await console.at(SESSIONS)
    tab = await console.submit(SESSIONS, session_lifetime_hours="3")
    assert "No current members or sessions are affected" in tab.page.text


async def test_invitations_outside_the_domains_are_counted(console: ConsoleScene) -> None:
    for number, email in enumerate(("bob@acme.example", "eve@Sub.acme.example", "mallory@globex.example")):
        console.people.change(
            "insert into invitations (id, org_id, email, email_key, role, invited_by, token_digest, expires_at, created_at)"
            " values (gen_random_uuid(), %s, %s, %s, 'member', %s, %s, now() + interval '1 day', now())",
            console.acme.id,
            email,
            email.lower(),
            console.ada.user,
            bytes([number]),
        )
    await console.at(REGISTRATION)
    tab = await console.submit(REGISTRATION, invitation_domains="acme.example")
    assert "2 pending invitations are for email addresses outside these domains" in tab.page.text
    await console.submit(REGISTRATION)
    assert rules(console)["invitation_domains"] == ["acme.example"]


async def test_refusals_stand_at_the_form(console: ConsoleScene) -> None:
    await console.at(SECOND_STEP)
    tab = await console.submit(SECOND_STEP, mfa_grace_days="1000")
    assert tab.status == 400
    assert console.fields(SECOND_STEP).fields["mfa_grace_days"] == "1000"
    # To require a second factor, one needs one.
    await console.submit(SECOND_STEP, mfa_policy="required", mfa_grace_days="7")
    tab = await console.submit(SECOND_STEP)
    assert tab.status == 403
    assert rules(console)["mfa_required_since"] is None


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"registration_policy": "domains"}, "Enter at least one domain, or choose another registration rule"),
        ({"registration_policy": "domains", "registration_domains": "acme.example\nno domain"}, "such as acme.example"),
        ({"registration_domains": "\n".join(f"d{number}.example" for number in range(101))}, "Check each line"),
    ],
)
async def test_a_rule_of_registration_that_cannot_be_is_said_at_its_field(console: ConsoleScene, sent: dict[str, str], said: str) -> None:
    await console.at(REGISTRATION)
    tab = await console.submit(REGISTRATION, **sent)
    assert tab.status == 400
    assert "#registration_domains" in tab.page.links
    assert said in tab.page.text
    assert console.people.rows("select registration_policy from organizations") == [{"registration_policy": "anybody"}]


async def test_who_may_register_is_changed_shown_and_logged(console: ConsoleScene) -> None:
    await console.at(REGISTRATION)
    await console.submit(REGISTRATION, registration_policy="except_domains", registration_domains="Globex.example")
    tab = await console.submit(REGISTRATION)
    assert "except with disposable email addresses and addresses of these domains: globex.example." in tab.page.text
    (entry,) = console.people.rows("select id, action, details from audit_log where action = 'organization.sign_in_rules.updated'")
    assert (entry["details"]["old_registration_policy"], entry["details"]["new_registration_policy"]) == ("anybody", "except_domains")
    shown = (await console.at("/settings/audit-log")).page.text
    assert "registration_policy" not in shown


async def test_another_change_meanwhile_is_shown(console: ConsoleScene) -> None:
    await console.at(SECOND_STEP)
    await console.submit(SECOND_STEP, mfa_grace_days="3")
    console.people.change("update organizations set mfa_grace_days = 20")
    tab = await console.submit(SECOND_STEP)
    assert tab.status == 409
    assert "Someone else changed these values" in tab.page.text
    assert rules(console)["mfa_grace_days"] == 20


async def test_the_form_asks_for_a_fresh_proof(console: ConsoleScene) -> None:
    console.grow_old()
    tab = await console.at(SECOND_STEP)
    assert not tab.place.startswith("/ui/o/")


async def test_others_see_and_change_nothing(console: ConsoleScene) -> None:
    for place in (RULES, FORMER, *FORMS):
        assert (await console.colleague().open(f"/ui/o/acme{place}")).status == 403
    _, stranger = console.stranger()
    assert (await stranger.open(f"/ui/o/acme{RULES}")).status == 403


async def test_requests_from_afar_are_chosen_in_their_own_words(console: ConsoleScene) -> None:
    """Domains have a choice with the same values, about something else."""
    own, others = "On, for members", "People join at their first sign-in"
    offered = (await console.at(PROGRAMS)).page.text
    assert own in offered
    assert others not in offered
    asked = (await console.submit(PROGRAMS, afar_requests="on")).page.text
    assert f"Backchannel authentication (CIBA) {own} before: Off" in asked
    tab = await console.submit(PROGRAMS)
    assert tab.place == f"/ui/o/acme{RULES}?done=console.rules_change.programs"
    assert "Your agents and confidential applications can ask members to approve requests" in tab.page.text
    # What was before, where it can be put back.
    assert "Off" in tab.page.text
    assert others not in tab.page.text


async def test_programs_by_documents_are_let_in_in_their_own_words(console: ConsoleScene) -> None:
    await console.at(PROGRAMS)
    asked = await console.submit(PROGRAMS, metadata_clients="any")
    assert asked.status == 200
    assert "Client ID metadata documents (CIMD) Allowed from any host before: Blocked" in asked.page.text

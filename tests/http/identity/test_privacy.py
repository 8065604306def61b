"""People's data: the callers who may export it, the callers who may forget a person, and proof that nothing is left."""

import json
import re
import subprocess
from base64 import b64decode
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID, uuid4

import pytest
import trio

from actors.job_worker import Workplace
from actors.upkeep import Purger
from adapters.postgres.embedded import BINARIES
from adapters.postgres.identity.privacy.forgetting import NOBODY
from adapters.postgres.upkeep.purging import PostgresForgottenPeople
from core.domain.errors import NotFound
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.account_mails import AccountMail, AskedMail
from core.domain.identity.privacy import FORGET_JOB, MOST_AT_ONCE, PAGE, PrivacyRequester, forget_job
from core.domain.identity.profiles import OwnProfileChange
from core.domain.mail import Email, Mail
from core.domain.record.audit import FORGOTTEN_ADDRESS
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.tenancy.mail_servers import OrganizationMail
from core.frozen import replace
from core.usecases.jobs import Purge
from entrypoints.bootstrap import Postern
from tests.changed_fields import put
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.forgetting import finish_forgetting
from tests.http.inviting import Inviting
from tests.http.locks import behind
from tests.http.people import People, Person
from tests.http.postbox import link_in, token_in
from tests.http.routing import own_provider
from tests.http.signing_in import PASSWORD, Browser, enable_mfa, unlimited
from tests.http.tenants import Tenant, UsedService
from tests.patience import PATIENCE
from tests.pictures import drawn_png

LEASE: Final = timedelta(minutes=1)
PLACEHOLDER: Final = re.compile(r"anonymized-[0-9]{16}@deleted\.local")


class PrivacyScene(Inviting):
    """Acme with its owner ada, globex with its owner, and a platform owner."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.globex = self.tenants.add("globex")
        self.rival = self.resident(self.globex, "owner", "rival")
        self.governor = self.people.add("governor@example.org", platform_owner=True)

    async def export(self, person: Person | UUID, *, by: Person) -> Received:
        return await self.request("GET", f"/api/privacy/export/{_id(person)}", by=by)

    async def forget(self, person: Person | UUID, *, by: Person) -> Received:
        return await self.request("DELETE", f"/api/privacy/forget/{_id(person)}", by=by)

    async def receipt(self, request: str, *, by: Person) -> Received:
        return await self.request("GET", f"/api/privacy/requests/{request}", by=by)

    def came(self, person: Person, by: str, tenant: Tenant | None = None) -> None:
        tenant = tenant or self.acme
        self.people.change(
            "update memberships set came_by = %s, own_since = case when %s then now() end where user_id = %s and org_id = %s",
            by,
            by in {"founded", "accepted"},
            person.user,
            tenant.id,
        )

    def member(self, name: str = "bob", came_by: str = "accepted") -> Person:
        person = self.resident(self.acme, "member", name)
        self.came(person, came_by)
        return person

    def row(self, person: Person) -> dict[str, Any]:
        (row,) = self.people.rows("select * from users where id = %s", person.user)
        return row

    def is_untouched(self, person: Person) -> bool:
        return self.row(person)["email"] == person.email and not self.people.rows("select from privacy_requests")

    def signs_in(self, person: Person, number: int = 1, *, to: Tenant | None = None) -> None:
        self.people.change(
            """
            insert into login_events (id, user_id, organization_id, provider, success, address, user_agent, risk_score, risk_factors,
                                      country, city, spot, created_at)
            select lpad(to_hex(n), 32, '0')::uuid, %s, %s, 'password', true, '198.51.100.7', 'Netscape 4', 0.3, '{new_device}', 'AT',
                   'Vienna', '{482,164}', now() - n * interval '1 minute'
              from generate_series(1 + (select count(*) from login_events), %s + (select count(*) from login_events)) as n
            """,
            person.user,
            to.id if to else None,
            number,
        )

    async def describe(self, person: Person) -> None:
        """Gives the person a profile with a picture."""
        told, user = OwnProfileChange(name="Bob Builder", username="bob.builder", zoneinfo="UTC"), UserId(person.user)
        await self.postern.identity.profiles.change(user, told, Actor(user=user), username=None)
        await self.postern.identity.pictures.put(user, drawn_png(), Actor(user=user))

    def forgetter(self) -> Purger:
        foundation = self.postern.foundation
        workplace = Workplace(foundation.jobs, foundation.doorbell, foundation.clock, foundation.metrics, foundation.secrets.spread)
        remains = PostgresForgottenPeople(foundation.pool, foundation.keyring)
        return Purger(FORGET_JOB, Purge(foundation.unit_of_work, remains, forget_job), workplace, name="forgetter")

    async def finish(self) -> None:
        """Does the work of the job."""
        await finish_forgetting(self.postern, self.people)


def _id(person: Person | UUID) -> UUID:
    return person if isinstance(person, UUID) else person.user


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> PrivacyScene:
    return PrivacyScene(postern, people, unlimited(postern), log)


# Exports.


async def test_a_person_has_all_that_is_kept_about_them(scene: PrivacyScene) -> None:
    bob = scene.member()
    scene.signs_in(bob, 2, to=scene.acme)
    scene.signs_in(bob)
    scene.people.change(
        "insert into mfa_events (id, user_id, name, success, created_at) values (%s, %s, 'mfa_enabled', true, now())", uuid4(), bob.user
    )
    scene.people.change(
        "insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,"
        " created_at) values (%s, %s, 'id', 'key', 0, 'Laptop', %s, '{}', true, false, now())",
        uuid4(),
        bob.user,
        UUID(int=0),
    )
    scene.people.change(
        "with team as (insert into teams (id, org_id, slug, name, created_at, updated_at)"
        " values (gen_random_uuid(), %s, 'staff', 'Staff', now(), now()) returning id, org_id)"
        " insert into team_members (team_id, org_id, user_id, added_at) select id, org_id, %s, now() from team",
        scene.acme.id,
        bob.user,
    )
    package = (await scene.export(bob, by=bob)).ok()
    assert set(package) == {
        *("user_id", "email", "created_at", "memberships", "login_events_count", "login_events", "oauth_identities", "mfa_events"),
        *("management_keys", "user_keys", "passkeys", "consents", "devices", "profile", "directory_profiles", "service_roles"),
        *("fields", "service_metadata", "terms", "blocked_clients", "people_there"),
    }
    assert (package["user_id"], package["email"], package["login_events_count"]) == (str(bob.user), bob.email, 3)
    (membership,) = package["memberships"]
    assert membership == {
        "organization_id": str(scene.acme.id),
        "organization_slug": "acme",
        "role": "member",
        "joined_at": membership["joined_at"],
        "teams": ["staff"],
    }
    assert [one["id"] for one in package["login_events"]] == sorted((one["id"] for one in package["login_events"]), reverse=True)
    assert package["login_events"][0] == {
        "id": package["login_events"][0]["id"],
        "timestamp": package["login_events"][0]["timestamp"],
        "ip_address": "198.51.100.7",
        "user_agent": "Netscape 4",
        "provider": "password",
        "success": True,
        "risk_score": 30,
        "risk_factors": '["new_device"]',
        "geo_country": "AT",
        "geo_city": "Vienna",
        "geo_place": [48.2, 16.4],
    }
    assert datetime.fromisoformat(package["login_events"][0]["timestamp"]).tzinfo is not None
    (event,) = package["mfa_events"]
    assert (event["event_type"], event["success"]) == ("mfa_enabled", True)
    (passkey,) = package["passkeys"]
    assert {**passkey, "id": "", "created_at": ""} == {
        "id": "",
        "name": "Laptop",
        "aaguid": None,
        "made_on": None,
        "backup_eligible": True,
        "created_at": "",
        "last_used_at": None,
    }
    assert (package["oauth_identities"], package["directory_profiles"]) == ([], [])
    # A person's own export needs no audit entry, and takes two round trips.
    assert scene.audited("user.exported") == []


async def test_a_person_gets_their_own_profile_and_no_organization_does(scene: PrivacyScene) -> None:
    bob = scene.member()
    await scene.describe(bob)
    profile = (await scene.export(bob, by=bob)).ok()["profile"]
    assert {name: profile[name] for name in ("name", "given_name", "family_name", "username", "zoneinfo", "language")} == {
        "name": "Bob Builder",
        "given_name": None,
        "family_name": None,
        "username": "bob.builder",
        "zoneinfo": "UTC",
        "language": None,
    }
    assert profile["updated_at"] is not None
    assert b64decode(profile["picture"]["content"]) == drawn_png()
    assert profile["picture"]["media_type"] == "image/png"
    assert (await scene.export(bob, by=scene.ada)).ok()["profile"] is None


async def test_a_forgotten_person_keeps_no_profile_and_the_user_name_stays_used(scene: PrivacyScene) -> None:
    bob = scene.member()
    await scene.describe(bob)
    assert (await scene.forget(bob, by=scene.governor)).status == 200
    (left,) = scene.people.rows("select name, username, zoneinfo, picture_id, profile_updated_at from users where id = %s", bob.user)
    assert set(left.values()) == {None}
    assert scene.people.rows("select from pictures") == []
    assert len(scene.people.rows("select from used_usernames")) == 1
    assert "Bob" not in str(scene.people.rows("select * from events")) + str(scene.people.rows("select * from audit_log"))


async def test_an_own_export_waits_twice_for_the_database(scene: PrivacyScene) -> None:
    bob = scene.member()
    await scene.export(bob, by=bob)
    (await scene.export(bob, by=bob)).ok()
    assert scene.log.events("request")[-1]["db_round_trips"] <= 2


async def test_an_owner_has_what_belongs_to_their_organization_alone(scene: PrivacyScene) -> None:
    bob = scene.member(came_by="added")
    scene.tenants.join(bob, scene.globex)
    scene.signs_in(bob, to=scene.acme)
    scene.signs_in(bob, 2, to=scene.globex)
    scene.signs_in(bob, 4)
    scene.people.change(
        "insert into mfa_events (id, user_id, name, success, created_at) values (%s, %s, 'mfa_enabled', true, now())", uuid4(), bob.user
    )
    scene.people.change("update users set created_at = now() - interval '9 years' where id = %s", bob.user)
    package = (await scene.export(bob, by=scene.ada)).ok()
    assert [one["organization_slug"] for one in package["memberships"]] == ["acme"]
    assert (package["login_events_count"], len(package["login_events"]), package["mfa_events"]) == (1, 1, [])
    # An organization that added a person itself does not learn how old the account is.
    assert package["created_at"] == package["memberships"][0]["joined_at"]
    scene.came(bob, "accepted")
    assert (await scene.export(bob, by=scene.ada)).ok()["created_at"] != package["created_at"]
    (entry, _) = scene.audited("user.exported")
    assert (entry["organization_id"], entry["actor_id"], entry["target_id"]) == (scene.acme.id, scene.ada.user, str(bob.user))
    # A platform owner gets all data, and the platform's log records that.
    whole = (await scene.export(bob, by=scene.governor)).ok()
    assert (whole["login_events_count"], len(whole["mfa_events"]), len(whole["memberships"])) == (7, 1, 2)
    assert scene.audited("user.exported")[-1]["organization_id"] is None


async def test_what_directories_say_is_part_of_it(scene: PrivacyScene) -> None:
    bob = scene.member()
    for tenant, name in ((scene.acme, "Bobby"), (scene.globex, None)):
        scene.people.change(
            """
            insert into provisioned_users (org_id, user_id, external_id, display_name, is_member, created_at, updated_at)
            values (%s, %s, '42', %s, false, now(), now())
            """,
            tenant.id,
            bob.user,
            name,
        )
    silent = dict.fromkeys(("work_email", "formatted_name", "given_name", "family_name"))
    acme = {**silent, "organization_id": str(scene.acme.id), "external_id": "42", "display_name": "Bobby"}
    whole = (await scene.export(bob, by=bob)).ok()["directory_profiles"]
    assert [one for one in whole if one["organization_id"] == str(scene.acme.id)] == [acme]
    assert len(whole) == 2
    assert (await scene.export(bob, by=scene.ada)).ok()["directory_profiles"] == [acme]
    (await scene.forget(bob, by=scene.governor)).ok()
    assert scene.people.rows("select from provisioned_users") == []


async def test_an_owner_sees_the_identities_that_belong_to_their_organization_alone(scene: PrivacyScene) -> None:
    bob = scene.member()
    third = scene.tenants.add("third")
    seen: dict[Tenant, set[str]] = {}
    for tenant, shared in ((scene.acme, "codehost"), (scene.globex, "websuite"), (third, "officesuite")):
        if tenant is not scene.acme:
            scene.tenants.join(bob, tenant)
        own = own_provider(scene.people, tenant)
        scene.people.change(
            """
            insert into identities (id, user_id, provider, upstream_provider_id, issuer, subject, email, came_through, linked_at)
            values (gen_random_uuid(), %s, %s, %s, 'https://login.example', %s, 'bob@work.example', %s, now())
            """,
            *(bob.user, str(own), own, f"at {tenant.slug}'s", own),
        )
        # An identity at a shared provider, which a service of the organization may use there.
        scene.people.connect(bob, shared, subject=f"for {tenant.slug}")
        scene.people.change(
            """
            insert into identity_grants (id, identity_id, service_id, client_id, scopes, updated_at)
            select gen_random_uuid(), id, %s, 'c', '{}', now() from identities where provider = %s
            """,
            *(scene.tenants.service(tenant, "shop").id, shared),
        )
        seen[tenant] = {f"at {tenant.slug}'s", f"for {tenant.slug}"}

    async def subjects(by: Person, place: Tenant | None = None) -> set[str]:
        token = await scene.tenants.token(by, place)
        package = (await scene.client.get(f"/api/privacy/export/{bob.user}", token=token)).ok()
        return {one["provider_user_id"] for one in package["oauth_identities"]}

    assert await subjects(scene.ada) == seen[scene.acme]
    assert await subjects(scene.rival) == seen[scene.globex]
    # An owner of two organizations sees the data of both, or of the one that their session is in.
    scene.tenants.join(scene.ada, third, "owner")
    assert await subjects(scene.ada) == seen[scene.acme] | seen[third]
    assert await subjects(scene.tenants.session(scene.ada, third), third) == seen[third]
    assert await subjects(bob) == await subjects(scene.governor) == set[str]().union(*seen.values())


async def test_nobody_else_has_anything(scene: PrivacyScene) -> None:
    bob, admin = scene.member(), scene.resident(scene.acme, "admin")
    colleague = scene.member("colleague")
    for stranger in (admin, colleague, scene.rival, scene.people.add()):
        answer = await scene.export(bob, by=stranger)
        assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
        assert bob.email not in answer.body.decode()
    for unknown in (scene.ada, scene.governor, admin):
        assert (await scene.export(uuid4(), by=unknown)).status == 404
    assert (await scene.client.get(f"/api/privacy/export/{bob.user}")).status == 401
    assert scene.audited("user.exported") == []


async def test_an_owner_counts_only_where_their_organization_lets_them_in(scene: PrivacyScene) -> None:
    bob = scene.member()
    assert (await scene.export(bob, by=scene.ada)).status == 200

    async def refused() -> None:
        assert (await scene.export(bob, by=scene.ada)).status == 403
        assert (await scene.forget(bob, by=scene.ada)).status == 403
        assert scene.is_untouched(bob)

    for rule, back in (
        ("status = 'suspended'", "status = 'active'"),
        ("deleted_at = now()", "deleted_at = null"),
        ("mfa_required_since = now() - interval '1 year', mfa_grace_days = 0", "mfa_required_since = null"),
        ("risk_counts_since = now() - interval '1 year'", "risk_counts_since = null"),
    ):
        scene.people.change(f"update all_organizations set {rule} where id = %s", scene.acme.id)
        await refused()
        scene.people.change(f"update all_organizations set {back} where id = %s", scene.acme.id)
    scene.people.change("update all_organizations set session_hours = 1 where id = %s", scene.acme.id)
    # A code is a fresh proof, and does not change the start of the session.
    scene.people.change(
        "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now() - interval '1 day')",
        scene.ada.user,
    )
    scene.people.change(
        "update sessions set proved_at = now() - interval '2 hours', second_factor_at = now() where id = %s", scene.ada.session
    )
    await refused()
    scene.people.change("update all_organizations set session_hours = null where id = %s", scene.acme.id)
    scene.people.change("delete from mfa_secrets")
    # A session in another organization opens nothing of this one.
    scene.tenants.join(scene.ada, scene.globex)
    elsewhere = await scene.tenants.token(scene.tenants.session(scene.ada, scene.globex), scene.globex)
    for method, path in (("GET", "export"), ("DELETE", "forget")):
        assert (await scene.client.request(method, f"/api/privacy/{path}/{bob.user}", token=elsewhere)).status == 403
    assert scene.is_untouched(bob)


async def test_an_owner_may_belong_to_other_organizations(scene: PrivacyScene) -> None:
    bob = scene.member()
    third = scene.tenants.add("third")
    for tenant, role in ((scene.globex, "admin"), (third, "member")):
        scene.tenants.join(scene.ada, tenant, role)
        # This sign-in on the platform at once asks for a second factor, which does not concern acme.
        scene.people.change(
            "update organizations set mfa_required_since = now() - interval '1 year', mfa_grace_days = 0 where id = %s", tenant.id
        )
    package = (await scene.export(bob, by=scene.ada)).ok()
    assert [one["organization_slug"] for one in package["memberships"]] == ["acme"]
    # If another organization also has the person, only that organization's owner could forget them there. An administrator or a member
    # cannot.
    scene.tenants.join(bob, third)
    assert (await scene.forget(bob, by=scene.ada)).status == 403
    assert scene.is_untouched(bob)
    scene.people.change("delete from memberships where user_id = %s and org_id = %s", bob.user, third.id)
    # Nor if Bob is no member, but uses a service.
    now = scene.postern.foundation.clock.now()
    scene.tenants.uses(bob, scene.tenants.service(third, "shop"), first=now, last=now)
    assert (await scene.forget(bob, by=scene.ada)).status == 403
    assert scene.is_untouched(bob)
    scene.people.change("delete from service_users where user_id = %s", bob.user)
    assert (await scene.forget(bob, by=scene.ada)).status == 200


@pytest.mark.parametrize("way", ["made", "came"])
async def test_what_an_account_did_at_one_organization_is_not_known_to_another(scene: PrivacyScene, way: str) -> None:
    bob = scene.member(came_by="added")
    scene.tenants.join(bob, scene.globex)
    now = scene.postern.foundation.clock.now()
    scene.people.change("update users set created_at = now() - interval '9 years' where id = %s", bob.user)

    async def is_known() -> bool:
        package = (await scene.export(bob, by=scene.ada)).ok()
        return bool(package["created_at"] != package["memberships"][0]["joined_at"])

    for tenant in (scene.globex, scene.acme):
        assert not await is_known()
        service = scene.tenants.service(tenant, "shop")
        if way == "made":
            scene.people.change("update users set origin_org_id = %s where id = %s", tenant.id, bob.user)
        else:
            scene.tenants.uses(bob, service, first=now, last=now)
    assert await is_known()


@pytest.mark.parametrize("here", [True, False])
async def test_only_the_rule_of_that_organization_decides_over_its_owner(scene: PrivacyScene, here: bool) -> None:
    bob = scene.member()
    scene.tenants.join(scene.ada, scene.globex, "admin")
    ruling = scene.acme if here else scene.globex
    scene.people.change(
        "update organizations set mfa_required_since = now() - interval '1 year', mfa_grace_days = 0 where id = %s", ruling.id
    )
    assert (await scene.export(bob, by=scene.ada)).status == (403 if here else 200)
    assert (await scene.forget(bob, by=scene.ada)).status == (403 if here else 200)


async def test_a_long_list_of_sign_ins_is_streamed_and_has_an_end(scene: PrivacyScene) -> None:
    bob = scene.member()
    scene.signs_in(bob, 2 * PAGE + 7)
    package = (await scene.export(bob, by=bob)).ok()
    ids = [one["id"] for one in package["login_events"]]
    assert len(set(ids)) == len(ids) == package["login_events_count"] == 2 * PAGE + 7
    assert ids == sorted(ids, reverse=True)
    put(scene.postern.identity.privacy, most_logins=PAGE + 1)
    package = (await scene.export(bob, by=bob)).ok()
    assert (package["login_events_count"], [one["id"] for one in package["login_events"]]) == (2 * PAGE + 7, ids[: PAGE + 1])


# Forgetting.


async def test_a_person_is_forgotten(scene: PrivacyScene) -> None:
    bob = scene.member()
    scene.signs_in(bob, 3, to=scene.acme)
    answer = (await scene.forget(bob, by=scene.ada)).ok()
    assert (answer["success"], answer["user_id"]) == (True, str(bob.user))
    assert set(answer) == {"success", "message", "user_id", "request_id"}
    row = scene.row(bob)
    assert PLACEHOLDER.fullmatch(row["email"])
    assert row["email_key"] == row["email"]
    assert row["password_hash"] is row["language"] is row["email_verified_at"] is None
    assert row["deactivated_at"] is not None
    # From here on none of the person's credentials works.
    assert (await scene.request("GET", "/api/user", by=bob)).status == 401
    assert scene.people.rows("select from sessions where user_id = %s", bob.user) == []
    # The audit entries stay, without data about the person.
    package = (await scene.export(bob, by=scene.governor)).ok()
    assert package["login_events_count"] == 3
    shown = {(one["ip_address"], one["user_agent"], one["geo_city"]) for one in package["login_events"]}
    assert shown == {(FORGOTTEN_ADDRESS, "anonymized", None)}
    assert [one["event_type"] for one in package["mfa_events"]] == ["user_anonymized"]
    assert [one["organization_slug"] for one in package["memberships"]] == ["acme"]
    entries = scene.audited("user.anonymized")
    assert {one["organization_id"] for one in entries} == {None, scene.acme.id}
    assert {(one["actor_id"], one["target_id"]) for one in entries} == {(scene.ada.user, str(bob.user))}
    # The receipt is for the people who asked and for platform owners.
    receipt = (await scene.receipt(answer["request_id"], by=scene.ada)).ok()
    assert (receipt["status"], receipt["user_id"], receipt["completed_at"]) == ("processing", str(bob.user), None)
    await scene.finish()
    done = (await scene.receipt(answer["request_id"], by=scene.governor)).ok()
    assert (done["status"], done["requested_by"]) == ("completed", str(scene.ada.user))
    assert done["completed_at"] is not None
    for stranger in (scene.rival, scene.resident(scene.acme, "admin")):
        assert (await scene.receipt(answer["request_id"], by=stranger)).status == 404
    assert (await scene.receipt(str(uuid4()), by=scene.governor)).status == 404


async def test_it_waits_as_often_as_a_change_may(scene: PrivacyScene) -> None:
    bob = scene.member()
    await scene.export(bob, by=scene.ada)
    (await scene.forget(bob, by=scene.ada)).ok()
    # Five round trips, and one for the fresh proof.
    assert scene.log.events("request")[-1]["db_round_trips"] <= 6


async def test_a_tenant_forgets_nobody_who_did_not_come_by_themselves(scene: PrivacyScene) -> None:
    """Attacks of a tenant on a person whom the tenant has made its member."""
    bob = scene.member(came_by="added")
    refused = await scene.forget(bob, by=scene.ada)
    assert (refused.status, refused.error_code) == (403, "FORBIDDEN")
    # The person is forgotten in all their organizations, or not at all.
    scene.came(bob, "accepted")
    scene.tenants.join(bob, scene.globex)
    scene.came(bob, "accepted", scene.globex)
    assert (await scene.forget(bob, by=scene.ada)).status == 403
    scene.people.change("delete from memberships where user_id = %s and org_id = %s", bob.user, scene.globex.id)
    # A person who signs in to other organizations' services cannot be forgotten by this tenant.
    shop = scene.tenants.service(scene.globex, "shop")
    scene.tenants.uses(bob, shop, first=scene.postern.foundation.clock.now())
    assert (await scene.forget(bob, by=scene.ada)).status == 403
    scene.people.change("delete from service_users")
    # No tenant may forget a person without an organization.
    lonely = scene.people.add()
    for asker in (scene.ada, lonely):
        assert (await scene.forget(lonely, by=asker)).status == 403
    for asker in (bob, scene.rival, scene.resident(scene.acme, "admin"), scene.people.add()):
        assert (await scene.forget(bob, by=asker)).status == 403
    assert (await scene.forget(scene.governor, by=scene.governor)).status == 403
    scene.tenants.join(scene.governor, scene.acme)
    scene.came(scene.governor, "accepted")
    assert (await scene.forget(scene.governor, by=scene.ada)).status == 403
    assert (await scene.forget(uuid4(), by=scene.ada)).status == 404
    assert all(map(scene.is_untouched, (bob, lonely, scene.governor)))
    assert (await scene.forget(bob, by=scene.ada)).status == 200


@pytest.mark.parametrize("came_by", ["founded", "accepted", "created"])
async def test_an_owner_forgets_those_who_came_by_themselves(scene: PrivacyScene, came_by: str) -> None:
    assert (await scene.forget(scene.member(came_by=came_by), by=scene.ada)).status == 200


async def test_an_owner_forgets_an_account_that_came_to_be_through_them(scene: PrivacyScene) -> None:
    bob = scene.member(came_by="added")
    shop = scene.tenants.service(scene.acme, "shop")
    scene.tenants.uses(bob, shop, first=scene.postern.foundation.clock.now())
    scene.people.change("update users set origin_org_id = %s where id = %s", scene.acme.id, bob.user)
    assert (await scene.forget(bob, by=scene.ada)).status == 200


async def test_how_somebody_became_a_member_is_known_from_how_they_did(scene: PrivacyScene) -> None:
    bob, carol, dave = scene.verified("bob@example.org"), scene.verified("carol@example.org"), scene.verified("dave@example.org")
    erin = scene.verified("erin@example.org")
    # The inviter has the token, so nobody knows who accepted.
    await scene.accept((await scene.invite(bob.email))["token"])
    await scene.postbox.empty()
    await scene.invite(carol.email)
    (mail,) = await scene.postbox.empty()
    assert (await scene.accept(token_in(link_in(mail)))).status == 200
    issued = await scene.invite(dave.email)
    assert (await scene.ask("POST", f"/{issued['invitation']['id']}/accept")).status == 200
    await scene.invite(erin.email)
    assert (await scene.accept((await scene.own(erin))[0]["token"])).status == 200
    # The organization's own mail server has read the link, so anybody may have followed it.
    scene.people.change(
        "insert into mail_servers (id, org_id, host, port, username, from_email, sealed_password, created_at, updated_at)"
        " values (%s, %s, 'smtp.acme.example', 587, '', 'it@acme.example', '', now(), now())",
        uuid4(),
        scene.acme.id,
    )
    frank = scene.verified("frank@example.org")
    await scene.postbox.empty()
    token = (await scene.invite(frank.email))["token"]
    (mail,) = await scene.postbox.empty()
    assert token_in(link_in(mail)) == token
    assert (await scene.accept(token)).status == 200
    # An invitation that makes the account.
    await scene.accept((await scene.invite("new@example.org"))["token"])
    # An invitation that makes the account of the mail's reader.
    scene.people.change("delete from mail_servers")
    await scene.postbox.empty()
    await scene.invite("reader@example.org")
    (mail,) = await scene.postbox.empty()
    assert (await scene.accept(token_in(link_in(mail)))).status == 200
    came = {
        row["email"]: (row["came_by"], row["is_own"])
        for row in scene.people.rows(
            "select email, came_by, own_since is not null as is_own from memberships join users on users.id = user_id where org_id = %s",
            scene.acme.id,
        )
    }
    assert came == {
        scene.ada.email: ("added", True),  # put there by the test
        bob.email: ("added", False),
        carol.email: ("accepted", True),
        dave.email: ("added", False),
        erin.email: ("accepted", True),
        frank.email: ("added", False),
        "new@example.org": ("created", False),
        "reader@example.org": ("created", True),
    }
    assert [(await scene.forget(one, by=scene.ada)).status for one in (bob, carol, dave, erin)] == [403, 200, 403, 200]
    founder = scene.people.proved()
    (await scene.request("POST", "/api/organizations", {"slug": "own", "name": "Own"}, by=founder)).ok()
    scene.people.change("update all_organizations set status = 'active'")
    assert scene.people.rows("select came_by from memberships where user_id = %s", founder.user) == [{"came_by": "founded"}]
    # The person's only organization is their own. They may have themselves forgotten, and no log keeps their address.
    assert (await scene.forget(founder, by=founder)).status == 200
    assert scene.people.rows("select from audit_personal where actor_id = %s", founder.user) == []


async def test_fifty_at_once_forget_once(scene: PrivacyScene) -> None:
    bob = scene.member()
    answers = await all_at_once(*[lambda: scene.forget(bob, by=scene.ada)] * 25, *[lambda: scene.forget(bob, by=scene.governor)] * 25)
    assert {answer.status for answer in answers} == {200}
    assert len({answer.json()["request_id"] for answer in answers}) == 1
    assert len(scene.audited("user.anonymized")) == 2
    assert len(scene.people.rows("select from jobs where kind = %s", FORGET_JOB)) == 1


async def test_whoever_is_forgotten_again_is_so_by_the_first_request(scene: PrivacyScene) -> None:
    bob = scene.member()
    first, second = [(await scene.forget(bob, by=by)).ok()["request_id"] for by in (scene.ada, scene.governor)]
    assert first == second
    assert {entry["actor_id"] for entry in scene.audited("user.anonymized")} == {scene.ada.user}
    assert len(scene.people.rows("select from jobs where kind = %s", FORGET_JOB)) == 1


_TOLD: Final[tuple[tuple[LiteralString, LiteralString], ...]] = (
    (
        "select entry_id as id from audit_personal order by entry_id desc limit 2",
        "select from audit_personal where entry_id = %s for update",
    ),
    ("select id from events order by id desc limit 2", "select from events where id = %s for update"),
)


@pytest.mark.parametrize(("newest", "hold"), _TOLD, ids=["entries", "events"])
async def test_two_who_did_something_to_each_other_are_forgotten_in_one_order(
    scene: PrivacyScene, database_url: str, newest: LiteralString, hold: LiteralString
) -> None:
    """Each person's entries are found from both sides, in the same order of locks."""
    bob, carol = scene.member(), scene.member("carol")
    for by, about in ((carol, bob), (bob, carol)):
        actor, target = Actor(UserId(by.user), address="192.0.2.1"), Target("user", str(about.user))
        told = Event("user.removed", actor, target, organization=OrganizationId(scene.acme.id), personal={"email": about.email})
        async with scene.postern.foundation.unit_of_work() as uow:
            await uow.record(told)
            await uow.commit()
    second, first = [row["id"] for row in scene.people.rows(newest)]
    answer = await behind(scene.people, database_url, (hold, first), (hold, second), lambda: scene.forget(bob, by=scene.governor))
    assert answer.status == 200


async def test_a_taken_placeholder_is_followed_by_the_next(scene: PrivacyScene, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = scene.postern.foundation.clock.now()
    monkeypatch.setattr(scene.postern.identity.privacy.system.clock, "now", lambda: moment, raising=False)
    people = [scene.member(name) for name in ("bob", "carol", "dave")]
    for person in people:
        assert (await scene.forget(person, by=scene.governor)).status == 200
    assert len({scene.row(person)["email"] for person in people}) == 3


async def test_nobody_comes_back_to_an_account_that_was_forgotten(scene: PrivacyScene) -> None:
    bob = await scene.people.with_password(PASSWORD, "bob@example.org")
    scene.tenants.join(bob, scene.acme)
    browser = Browser(scene.client)
    tokens = await browser.tokens(bob)
    (await scene.forget(bob, by=scene.governor)).ok()
    assert (await browser.refresh(tokens["refresh_token"])).status == 401
    assert (await browser.login(bob)).status == 401
    gone = scene.row(bob)["email"]
    for path in ("/api/auth/forgot-password", "/api/auth/resend-verification"):
        for email in (bob.email, gone):
            assert (await scene.client.post(path, {"email": email})).status == 200
    assert [mail for mail in await scene.postbox.empty() if mail.to == gone] == []
    assert (await scene.request("POST", "/api/platform/owners", {"user_id": str(bob.user)}, by=scene.governor)).status == 400
    impersonated = await scene.request("POST", f"/api/platform/impersonate/{bob.user}", {"reason": "x"}, by=scene.governor)
    assert impersonated.status == 400
    with pytest.raises(Exception, match="forgotten"):
        await scene.postern.platform.account_administration.activate(Email(gone), "root")
    assert scene.row(bob)["deactivated_at"] is not None
    # The address is free again, and its next holder gets nothing of the old account.
    answer = await scene.client.post("/api/auth/register", {"email": bob.email, "password": PASSWORD})
    assert answer.status == 200
    await scene.finish()
    assert len(scene.people.rows("select from users where email = %s", bob.email)) == 1


async def test_a_sign_in_at_the_same_time_opens_nothing(scene: PrivacyScene) -> None:
    bob = await scene.people.with_password(PASSWORD, "bob@example.org")
    scene.tenants.join(bob, scene.acme)
    answers = await all_at_once(*[lambda: Browser(scene.client).login(bob)] * 5, lambda: scene.forget(bob, by=scene.governor))
    await scene.finish()
    assert [answer.status for answer in answers if "request_id" in answer.body.decode()] == [200]
    for answer in answers:
        if answer.status == 200 and "access_token" in answer.body.decode():
            token = answer.json()["access_token"]
            scene.log.remember(token)
            assert (await scene.client.get("/api/user", token=token)).status == 401
    assert scene.people.rows("select from sessions where user_id = %s", bob.user) == []
    assert scene.people.rows("select from devices where user_id = %s", bob.user) == []
    left = scene.people.rows("select from login_events where user_id = %s and user_agent <> 'anonymized'", bob.user)
    assert left == []


async def test_more_than_the_request_does_is_shown_nowhere_and_done_by_the_job(scene: PrivacyScene) -> None:
    bob = scene.member()
    scene.signs_in(bob, MOST_AT_ONCE + 600, to=scene.acme)
    scene.people.change(
        """
        with entries as (
                 insert into audit_entries (id, organization_id, actor_id, action, target_type, target_id, success, details, created_at)
                 select gen_random_uuid(), %s, %s, 'user.device.approved', 'user', %s, true, '{}', now()
                   from generate_series(1, %s)
              returning id
             ),
             pending as (insert into audit_pending (entry_id, chain_id) select id, %s from entries)
      insert into audit_personal (entry_id, actor_id, address, user_agent, salt)
      select id, %s, '198.51.100.7', 'Netscape 4', '' from entries
        """,
        *(scene.acme.id, bob.user, str(bob.user), MOST_AT_ONCE + 600, scene.acme.id, bob.user),
    )
    answer = (await scene.forget(bob, by=scene.governor)).ok()
    left = "select (select count(*) from login_events where address = '198.51.100.7') as a, (select count(*) from audit_personal) as b"
    (before,) = scene.people.rows(left)
    assert before["a"] == 600
    assert before["b"] >= 600 - MOST_AT_ONCE
    package = (await scene.export(bob, by=scene.governor)).ok()
    assert {one["ip_address"] for one in package["login_events"]} == {FORGOTTEN_ADDRESS}
    # Entries that the job has not reached yet are at the end of this list, and in the log of the organization.
    put(scene.postern.identity.privacy, most_logins=100_000)
    package = (await scene.export(bob, by=scene.governor)).ok()
    assert package["login_events_count"] == len(package["login_events"]) == MOST_AT_ONCE + 600
    assert {(one["ip_address"], one["user_agent"], one["geo_country"], one["geo_place"]) for one in package["login_events"]} == {
        (FORGOTTEN_ADDRESS, "anonymized", None, None)
    }
    # As if the request itself had deleted nothing.
    scene.people.change(
        "insert into audit_personal select id, actor_id, '198.51.100.7', 'Netscape 4', '{}', '' from audit_entries"
        " where actor_id = %s on conflict do nothing",
        bob.user,
    )
    logs = (await scene.request("GET", "/api/organizations/acme/audit-log?limit=100", by=scene.ada)).ok()["logs"]
    assert {(one["ip_address"], one["user_agent"]) for one in logs if one["action"] == "user.device.approved"} <= {
        (None, None),
        (FORGOTTEN_ADDRESS, "anonymized"),
    }
    await scene.finish()
    assert (await scene.receipt(answer["request_id"], by=scene.governor)).ok()["status"] == "completed"
    (after,) = scene.people.rows(left)
    assert (after["a"], scene.people.rows("select from audit_personal where actor_id = %s", bob.user)) == (0, [])


async def test_the_forgetter_does_it_by_itself_and_takes_up_what_was_left(scene: PrivacyScene) -> None:
    bob, carol = scene.member(), scene.member("carol")
    first = (await scene.forget(bob, by=scene.ada)).ok()["request_id"]
    second = (await scene.forget(carol, by=scene.ada)).ok()["request_id"]
    scene.people.change("update jobs set created_at = now() - interval '1 minute'")
    # As if an operator had deleted the job of the second person.
    scene.people.change("delete from jobs where kind = %s and payload ->> 'privacy' = %s", FORGET_JOB, second)
    scene.people.change("update privacy_requests set requested_at = now() - interval '1 hour' where id = %s", UUID(second))
    async with trio.open_nursery() as nursery:
        await nursery.start(scene.forgetter().run)
        with trio.fail_after(PATIENCE):
            for request in (first, second):
                while (await scene.receipt(request, by=scene.ada)).ok()["status"] != "completed":
                    await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    assert [row["email_keys"] for row in scene.people.rows("select email_keys from privacy_requests")] == [[], []]


async def test_an_operator_may_do_what_platform_owners_may(scene: PrivacyScene) -> None:
    bob, privacy = scene.member(came_by="added"), scene.postern.identity.privacy
    operator = PrivacyRequester(operator="root")
    exported = await privacy.export(await privacy.find(Email(bob.email.upper())), operator, SYSTEM)
    assert (exported.export.account.email.address, [page async for page in exported.logins]) == (bob.email, [])
    request = await privacy.forget(UserId(bob.user), operator, SYSTEM)
    assert request.requested_by is None
    # The operator's name is kept apart from the entry, with the personal data. It goes with the export's entry, and stays with this entry.
    assert scene.audited("user.exported")[0]["details"] == {}
    assert {one["details"].get("operator") for one in scene.audited("user.anonymized")} == {"root", None}
    with pytest.raises(NotFound):
        await privacy.find(Email(bob.email))
    # No person asked, so only platform owners may see the receipt.
    assert (await scene.receipt(str(request.id), by=scene.ada)).status == 404
    assert (await scene.receipt(str(request.id), by=scene.governor)).ok()["requested_by"] is None


# Nothing is left.

EMAIL, NEW, OLD = "bob@forget-me.example", "bobs-new@forget-me.example", "bobs-old@forget-me.example"
VALUES: Final = (EMAIL, NEW, OLD, "bobs toaster", "203.0.113.77", "netscape 4.7", "kleinkleckersdorf", "because bob asked")

# Rows that a sign-in with the address, the device and so on would leave behind.
_TRACES: Final = """
    update users
       set email = 'bob@forget-me.example', email_key = 'bob@forget-me.example', pending_email = 'bobs-new@forget-me.example',
           pending_email_key = 'bobs-new@forget-me.example'
     where id = %(user)s;
    insert into devices (id, user_id, name, device_type, browser, last_used_at, last_address, last_city, created_at, updated_at)
    values (gen_random_uuid(), %(user)s, 'Bobs toaster', 'browser', 'Netscape 4.7', now(), '203.0.113.77', 'Kleinkleckersdorf', now(),
            now());
    insert into login_events (id, user_id, provider, success, address, user_agent, country, city, spot, created_at)
    values (gen_random_uuid(), %(user)s, 'password', true, '203.0.113.77', 'Netscape 4.7', 'AT', 'Kleinkleckersdorf', '{482,164}', now());
    insert into mfa_events (id, user_id, name, success, address, user_agent, details, created_at)
    values (gen_random_uuid(), %(user)s, 'mfa_disabled', true, '203.0.113.77', 'Netscape 4.7', '{"reason": "because bob asked"}', now());
    insert into flows (id, browser_digest, purpose, request, wanted, email, created_at, expires_at)
    values (gen_random_uuid(), '', 'account', '{}', '{"email": "bob@forget-me.example"}', 'Bob@Forget-Me.example', now(),
            now() + interval '1 hour')
"""


async def furnish(scene: PrivacyScene) -> Person:
    """Adds Bob, with his address and other data in every place that can have them."""
    people = scene.people
    bob = await people.with_password(PASSWORD, OLD)
    # He was invited at an earlier address, and accepted.
    await scene.invite(OLD)
    (mail,) = await scene.postbox.empty()
    assert (await scene.accept(token_in(link_in(mail)))).status == 200
    totp = await enable_mfa(scene.client, people, bob)
    scene.log.remember(totp.secret)
    for statement in _TRACES.split(";"):
        people.change(statement.replace("%(user)s", f"'{bob.user}'"))
    bob = people.session_of(Person(bob.user, bob.session, EMAIL))
    people.change("update sessions set second_factor_at = now() where id = %s", bob.session)
    # Another organization invites him at both addresses, and takes one of these invitations back.
    await scene.invite(EMAIL, by=scene.rival, of=scene.globex)
    taken_back = await scene.invite(NEW, by=scene.rival, of=scene.globex)
    (await scene.ask("POST", f"/{taken_back['invitation']['id']}", by=scene.rival, of=scene.globex)).ok()
    hook = {"name": "hook", "url": "http://127.0.0.1:1/", "events": ["user.removed"]}
    scene.log.remember((await scene.request("POST", "/api/organizations/globex/webhooks", hook, by=scene.rival)).ok()["secret"])
    reason = {"reason": "because bob asked"}
    session = (await scene.request("POST", f"/api/platform/impersonate/{bob.user}", reason, by=scene.governor)).ok()
    scene.log.remember(session["access_token"], session["refresh_token"])
    # He acts with a client, so that the audit log keeps the client's name.
    answer = await scene.client.request(
        "PATCH", "/api/user", body={"email": NEW}, token=await people.token(bob), headers=[("user-agent", "Netscape 4.7")]
    )
    assert answer.status == 200
    # He is removed from globex, whose webhook receiver repeats the event in its answer.
    scene.tenants.join(bob, scene.globex)
    assert (await scene.request("POST", f"/api/organizations/globex/members/{bob.user}", by=scene.rival)).status < 300
    people.change("update webhook_deliveries set response_body = 'thanks for bob@forget-me.example'")
    # Waiting mails, one of which a server has refused, and a requested mail.
    async with scene.postern.foundation.unit_of_work() as uow:
        refused = await uow.jobs.add(Mail(EMAIL, "Hello", "Hello", "Hello").as_job())
        await uow.jobs.add(AskedMail(AccountMail.RESET, Email(EMAIL.upper())).as_job())
        await uow.jobs.add(Mail(scene.ada.email, "Hello", "Hello", "Hello").as_job())
        await uow.commit()
    people.change("update jobs set last_error = '550 no such user bob@forget-me.example' where id = %s", refused)
    return bob


async def test_what_stands_in_place_of_addresses_is_not_looked_for(scene: PrivacyScene) -> None:
    """Bob was invited at an address that another person had later, until that person was forgotten. A job that looked for the placeholder
    of the address would find the invitation again and again.
    """
    bob = await furnish(scene)
    nobody = scene.people.add(NOBODY)
    for person in (scene.people.add(OLD), bob, nobody):
        (await scene.forget(person, by=scene.governor)).ok()
        with trio.fail_after(PATIENCE):
            await scene.finish()
    requests = scene.people.rows("select completed_at, email_keys from privacy_requests")
    assert [(bool(one["completed_at"]), one["email_keys"]) for one in requests] == [(True, [])] * 3
    # An account as an earlier release has left it.
    scene.people.change("update privacy_requests set completed_at = null, email_keys = %s", [NOBODY])
    with trio.fail_after(PATIENCE):
        await scene.finish()


@pytest.mark.parametrize("proved", [False, True])
async def test_an_account_takes_invitations_to_its_address_along_only_if_that_is_proved(scene: PrivacyScene, *, proved: bool) -> None:
    """Otherwise a person could register with another's address, and end invitations that others have sent there."""
    await scene.invite(OLD, by=scene.rival, of=scene.globex)
    somebody = scene.people.add(OLD)
    if proved:
        scene.people.change("update users set email_verified_at = now() where id = %s", somebody.user)
    (await scene.forget(somebody, by=scene.governor)).ok()
    await scene.finish()
    sent = scene.people.rows("select status, email from invitations where org_id = %s", scene.globex.id)
    assert [tuple(row.values()) for row in sent] == ([("cancelled", NOBODY)] if proved else [("pending", OLD)])


async def test_mails_for_an_account_go_with_it_though_nobody_has_proved_the_address(scene: PrivacyScene) -> None:
    """The account's mails are removed: sent or given up, by any server, and also a mail that a request has queued a moment later. Mails of
    others to the address stay, and so do mails for the next account with the address.
    """
    somebody, next_one = scene.people.add(EMAIL), scene.people.add(OLD)
    people = scene.people
    own = Mail(EMAIL, "Hello", "Hello", "Hello", account=UserId(somebody.user))
    of_others = Mail(EMAIL, "Come", "Come", "Come")
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.jobs.add(own.as_job())
        dead, late = await uow.jobs.add(own.as_job()), await uow.jobs.add(own.as_job())
        await uow.jobs.add(OrganizationMail(own, OrganizationId(scene.acme.id)).as_job())
        await uow.jobs.add(replace(own, to=NEW).as_job())
        await uow.jobs.add(AskedMail(AccountMail.SET_PASSWORD, Email(EMAIL), account=UserId(somebody.user)).as_job())
        stay = {
            await uow.jobs.add(of_others.as_job()),
            await uow.jobs.add(OrganizationMail(of_others, OrganizationId(scene.globex.id)).as_job()),
            # As the release before queued it. Without a proof of the address, nobody can tell whose mail it is.
            await uow.jobs.add(AskedMail(AccountMail.RESET, Email(EMAIL)).as_job()),
            await uow.jobs.add(replace(own, account=UserId(next_one.user)).as_job()),
        }
        await uow.commit()
    people.change("update jobs set state = 'dead', died_at = now() where id = %s", dead)
    people.change("update jobs set created_at = now() + interval '1 minute' where id = %s", late)
    (await scene.forget(somebody, by=scene.governor)).ok()
    await scene.finish()
    left = people.rows("select id from jobs where kind like '%%mail%%'")
    assert {one["id"] for one in left} == stay


async def test_what_is_sent_to_an_address_later_is_for_whoever_has_it_then(scene: PrivacyScene) -> None:
    bob = scene.verified(EMAIL)
    (await scene.forget(bob, by=scene.governor)).ok()
    async with scene.postern.foundation.unit_of_work() as uow:
        later = await uow.jobs.add(Mail(EMAIL, "Hello", "Hello", "Hello").as_job())
        await uow.commit()
    await scene.finish()
    assert [one["id"] for one in scene.people.rows("select id from jobs where kind = 'mail'")] == [later]


async def test_a_dump_has_nothing_of_what_the_person_had(scene: PrivacyScene, database_url: str) -> None:
    bob = await furnish(scene)
    before = dump(scene.people, database_url)
    assert [value for value in VALUES if value not in before] == [], "the test must put them all there"
    (await scene.forget(bob, by=scene.governor)).ok()
    await scene.finish()
    after = dump(scene.people, database_url)
    assert [value for value in VALUES if value in after] == []
    # Nobody else has lost data: the mail to Ada waits, globex still has the entry of the invitation, and the chains are whole.
    mails = [Mail.of_job(job.payload).to for job in await scene.postern.foundation.jobs.claim(["mail"], 10, LEASE)]
    assert mails == [scene.ada.email]
    sent = scene.people.rows("select status, email from invitations where org_id = %s", scene.globex.id)
    assert [tuple(row.values()) for row in sent] == [("cancelled", NOBODY)] * 2
    faults: list[Any] = []
    while await scene.postern.record.audit.link():
        pass
    await scene.postern.record.audit.verify(lambda _name, finding: faults.append(finding), lambda _chain: None)
    assert faults == []


_FLOW: Final = """
    insert into flows (id, browser_digest, purpose, request, wanted, email, created_at, expires_at)
    values (%s, '', 'account', %s, %s, %s, now(), now() + interval '1 hour')
"""
_PUSHED: Final = """
    insert into pushed_requests (id, digest, service_id, request, expires_at) values (%s, %s, %s, %s, now() + interval '1 minute')
"""


async def test_what_others_have_begun_with_an_address_that_contains_it_goes_on(scene: PrivacyScene) -> None:
    """Ann is forgotten, and Joann signs in at this moment."""
    ann, new = "ann@x.example", scene.postern.foundation.ids.new
    person = scene.people.add(ann)
    scene.people.change("update users set email_verified_at = now() where id = %s", person.user)
    service = scene.tenants.service(scene.acme, "shop")
    places: list[Callable[[str], tuple[dict[str, Any], dict[str, Any], str]]] = [
        lambda email: ({}, {}, email),
        lambda email: ({}, {"login_hint": email}, ""),
        lambda email: ({"login_hint": email}, {}, ""),
        lambda email: ({"participants": [{"name_id": email}, {"name_id": "x"}]}, {}, ""),
    ]
    theirs = (
        *(
            ann,
            "Ann@X.example ",
            "mailto:ann@x.example",
            "Ann <ann@x.example>.",
            "https://a.example/?u=ann@x.example&b",
            "u%3Dann%40x.example",
        ),
        *('{"to": "ann@x.example"}', "Dear\nann@x.example, joann@x.example is here"),
    )
    others = (
        "joann@x.example",
        "jo_ann@x.example",
        "jo+ann@x.example",
        "ann@x.example.org",
        "ann@x.example-a.example",
        "jo.ann%40x.example",
        "x",
    )
    stay: set[UUID] = set()
    for email in (*theirs, *others):
        for place in places:
            request, wanted, typed = place(email)
            flow, pushed = UUID(str(new())), UUID(str(new()))
            scene.people.change(_FLOW, flow, json.dumps(request), json.dumps(wanted), typed)
            scene.people.change(_PUSHED, pushed, pushed.bytes, service.id, json.dumps({**wanted, **request, "email": typed}))
            if email in others:
                stay |= {flow, pushed}
    (await scene.forget(person, by=scene.governor)).ok()
    await scene.finish()
    left = scene.people.rows("select id from flows union all select id from pushed_requests")
    assert {one["id"] for one in left} == stay


async def test_what_receivers_repeat_of_invitations_is_shown_no_more_and_goes(scene: PrivacyScene) -> None:
    """Once the invitation names nobody, no reference leads from the person to the invitation's events."""
    ann = scene.people.add("old@x.example")
    scene.people.change("update users set email_verified_at = now() where id = %s", ann.user)
    hook = {"name": "hook", "url": "http://127.0.0.1:1/", "events": ["user.invited"]}
    made = (await scene.request("POST", "/api/organizations/globex/webhooks", hook, by=scene.rival)).ok()
    scene.log.remember(made["secret"])
    for email in ("old@x.example", "Ann@X.example", "joann@x.example"):
        if email == "Ann@X.example":
            scene.people.change("update users set email = 'ann@x.example', email_key = 'ann@x.example' where id = %s", ann.user)
        await scene.invite(email, by=scene.rival, of=scene.globex)
        repeated = json.dumps({"invited": email})
        scene.people.change("update webhook_deliveries set response_body = %s where response_body is null", repeated)

    async def shown() -> list[str | None]:
        path = f"/api/organizations/globex/webhooks/{made['id']}/deliveries"
        return [one["response_body"] for one in (await scene.request("GET", path, by=scene.rival)).ok()["deliveries"]]

    joann = '{"invited": "joann@x.example"}'
    assert await shown() == [joann, '{"invited": "Ann@X.example"}', '{"invited": "old@x.example"}']
    (await scene.forget(ann, by=scene.governor)).ok()
    assert await shown() == [joann, None, None]
    await scene.finish()
    kept = scene.people.rows("select response_body from webhook_deliveries order by id desc")
    assert [one["response_body"] for one in kept] == [joann, None, None]


async def test_what_receivers_repeat_of_the_person_is_not_shown_meanwhile(scene: PrivacyScene) -> None:
    bob = await furnish(scene)
    (made,) = (await scene.request("GET", "/api/organizations/globex/webhooks", by=scene.rival)).ok()["webhooks"]
    path = f"/api/organizations/globex/webhooks/{made['id']}/deliveries"
    scene.people.change("update webhook_deliveries set response_body = 'bobs toaster'")
    for expected in ("bobs toaster", None):
        (delivery,) = (await scene.request("GET", path, by=scene.rival)).ok()["deliveries"]
        assert delivery["response_body"] == expected
        # The data about him go, too, although another person acted. The fact that the entry was about him stays, as in the log.
        payload = delivery["payload"]
        assert (payload["target_type"], payload["target_id"], payload["actor_user_id"]) == ("user", str(bob.user), str(scene.rival.user))
        assert ("email" in payload["data"]) == bool(expected)
        if expected:
            (await scene.forget(bob, by=scene.governor)).ok()


async def test_so_has_one_after_a_service_has_deleted_its_user(scene: PrivacyScene, database_url: str) -> None:
    """A service's deletion forgets in the same way."""
    bob = await furnish(scene)
    shop = scene.tenants.service(scene.acme, "shop")
    scene.tenants.uses(bob, shop, first=scene.postern.foundation.clock.now())
    scene.people.change("delete from memberships where user_id = %s", bob.user)
    # As long as nobody has proved the address, it may be somebody else's.
    scene.people.change("update users set origin_service_id = %s, email_verified_at = null where id = %s", shop.id, bob.user)
    scene.people.change("update users set origin_org_id = %s where id = %s", scene.acme.id, bob.user)
    key = await api_key(scene, shop)
    answer = await scene.client.request("DELETE", f"/api/service/users/{bob.user}", headers=[("x-api-key", key)])
    assert answer.status == 204
    await scene.finish()
    after = dump(scene.people, database_url)
    # The pending address counts, too. Other data about an address that nobody has yet are not about him.
    assert [value for value in VALUES if value in after] == [NEW]


async def api_key(scene: PrivacyScene, service: UsedService) -> str:
    path = f"/api/organizations/acme/services/{service.slug}/api-keys"
    key: str = (await scene.request("POST", path, {"name": "key", "permissions": ["delete:users"]})).ok(201)["key"]
    scene.log.remember(key)
    return key


def dump(people: People, database_url: str) -> str:
    """All rows of all tables, except rate limit buckets, which live for hours and are kept by ids. Written by `pg_dump` if the server's
    version is installed, and otherwise in the same form.
    """
    tool = BINARIES / "pg_dump"
    if tool.exists():
        command = [str(tool), "--dbname", database_url, "--exclude-table-data=rate_limit_buckets"]
        made = subprocess.run(command, capture_output=True, check=False, text=True)
        if made.returncode == 0:
            return made.stdout.lower()
    tables = people.rows(
        "select relname from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace order by relname"
    )
    names = [row["relname"] for row in tables if row["relname"] != "rate_limit_buckets"]
    lines: list[str] = []
    for name in names:
        lines += [row["line"] for row in people.rows(f"select t::text as line from {name} as t")]
    return "\n".join(lines).lower()

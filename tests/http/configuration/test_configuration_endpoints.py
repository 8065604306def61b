"""Documents over HTTP: who may apply what, what is refused, and what the audit log says."""

from collections.abc import Mapping
from typing import Any, Final

import psycopg
import pytest
import trio

from core.domain.tenancy.management_keys import PlatformCapability
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops
from tests.http.client import Client, Received, refused
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.http.tenants import OwnRole

ACME: Final = "/api/organizations/acme"
PLATFORM: Final = "/api/platform"
ROLE: Final = {"name": "Support", "permissions": ["end_users.view"]}
SMTP: Final = {"host": "127.0.0.1", "port": 587, "username": "acme", "from_email": "it@acme.example"}


def of_acme(**held: Any) -> dict[str, Any]:
    return {"postern": 1, "organizations": {"acme": held}}


class DocumentShops(Shops):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.speaker = self.resident(self.acme, "owner")
        self.people.change("update organizations set owner_user_id = %s where id = %s", self.owner.user, self.acme.id)
        self.admin = self.resident(self.acme, "admin")

    async def send(
        self,
        act: str,
        document: Any,
        *,
        by: Person | None = None,
        key: str = "",
        place: str = ACME,
        secrets: Mapping[str, str] | None = None,
    ) -> Received:
        body = {"document": document, "secrets": secrets or {}}
        if key:
            return await self.client.request("POST", f"{place}/configuration/{act}", body=body, token=key)
        return await self.request("POST", f"{place}/configuration/{act}", body, by=by)

    async def problems(self, document: Any, **more: Any) -> list[str]:
        plan = (await self.send("plan", document, **more)).ok()
        assert (plan["changes"] == []) or plan["problems"] == []
        return [f"{one['place']}: {one['message']}" for one in plan["problems"]]

    async def key(self, *capabilities: str, place: str = ACME, by: Person | None = None) -> str:
        body = {"name": "Robot", "capabilities": list(capabilities)}
        made = (await self.request("POST", f"{place}/management-keys", body, by=by)).ok(201)["key"]
        self.log.remember(made)
        return str(made)

    def stale(self, person: Person) -> None:
        self.people.change(
            "update sessions set proved_at = now() - interval '1 day', created_at = now() - interval '1 day' where id = %s", person.session
        )


@pytest.fixture
def shops(postern: Postern, client: Client, people: People, log: CapturedLog) -> DocumentShops:
    return DocumentShops(postern, people, client, log)


async def test_an_administrator_plans_applies_and_exports(shops: DocumentShops) -> None:
    document = of_acme(roles={"support": ROLE}, webhooks={"CRM": {"url": "https://127.0.0.1/h", "events": ["user.joined"]}})
    plan = (await shops.send("plan", document, by=shops.admin)).ok()
    assert [(one["act"], one["place"]) for one in plan["changes"]] == [
        ("make", "/organizations/acme/roles/support"),
        ("make", "/organizations/acme/webhooks/CRM"),
    ]
    assert shops.people.rows("select from roles where slug = 'support'") == []
    applied = (await shops.send("apply", document, by=shops.admin)).ok()
    assert (len(applied["done"]), applied["refused"], applied["digest"]) == (2, [], plan["digest"])
    assert (await shops.send("apply", document, by=shops.admin)).ok()["done"] == []
    shown = (await shops.request("GET", f"{ACME}/configuration", None, by=shops.admin)).ok()
    assert shown["document"]["organizations"]["acme"]["roles"] == {
        "support": {"name": "Support", "permissions": ["end_users.view"], "description": ""}
    }
    assert [(one["place"], one["managed_by"], one["has_drifted"]) for one in shown["managed"]] == [
        ("/organizations/acme/roles/support", shops.admin.email, False),
        ("/organizations/acme/webhooks/CRM", shops.admin.email, False),
    ]
    # The audit log names the document with each change.
    entries = shops.people.rows("select action, details from audit_entries where details ? 'document' order by id")
    assert [(one["action"], one["details"]["document"]) for one in entries] == [
        ("role.created", plan["digest"]),
        ("webhook.created", plan["digest"]),
    ]
    # A change by hand is seen, and the next application changes it back.
    shops.people.change("update roles set name = 'By hand' where slug = 'support'")
    shown = (await shops.request("GET", f"{ACME}/configuration", None, by=shops.admin)).ok()
    assert [one["has_drifted"] for one in shown["managed"]] == [True, False]
    again = (await shops.send("apply", document, by=shops.admin)).ok()
    assert [(one["act"], one["fields"]) for one in again["done"]] == [
        ("change", [{"name": "name", "before": "By hand", "after": "Support", "is_secret": False}])
    ]
    # What the next document leaves out, it does not manage.
    await shops.send("apply", of_acme(roles={"support": ROLE}), by=shops.admin)
    shown = (await shops.request("GET", f"{ACME}/configuration", None, by=shops.admin)).ok()
    assert [one["place"] for one in shown["managed"]] == ["/organizations/acme/roles/support"]


async def test_every_fault_is_one_line_and_nothing_is_done(shops: DocumentShops) -> None:
    shops.client = unlimited(shops.postern)
    other = shops.globex.slug
    faults: list[tuple[Any, str]] = [
        ({"organizations": {}}, "/postern: must be 1: the version of this form of document"),
        ({"postern": 1, "organisations": {}}, "/organisations: unknown name; known names are organizations, platform, postern"),
        (of_acme(rolls={}), "/organizations/acme/rolls: unknown name; known names are "),
        (
            of_acme(roles={"support": {**ROLE, "colour": "red"}}),
            "/organizations/acme/roles/support/colour: unknown name; known names are description, name, permissions",
        ),
        (of_acme(roles=[]), "/organizations/acme/roles: must be a map, not a list"),
        (of_acme(roles={"support": 7}), "/organizations/acme/roles/support: must be a map, not a number"),
        (of_acme(roles={"support": {**ROLE, "name": 7}}), "/organizations/acme/roles/support: name: expected string, got integer"),
        (
            of_acme(domain_routes={"a.example": {"verified": True}}),
            "/organizations/acme/domain_routes/a.example/verified: unknown name",
        ),
        (of_acme(roles={"whole": True}), "/organizations/acme/roles: entries is missing"),
        (of_acme(roles={"": ROLE}), "/organizations/acme/roles/: a name has 1 to 300 characters"),
        (of_acme(branding=None), "/organizations/acme/branding: must be a map, not empty"),
        (of_acme(services={"shop": {"plans": {"p": {"name": "P"}}}}), "/organizations/acme/services/shop/plans/p/currency: is missing"),
        (of_acme(services={"none": {"plans": {}}}), "/organizations/acme/services/none/name: is missing"),
        (of_acme(mail_server={**SMTP, "password": "env:HOME"}), "/organizations/acme/mail_server/password: send the value in `secrets`"),
        (
            of_acme(mail_server={**SMTP, "password": "file:/etc/passwd"}),
            "/organizations/acme/mail_server/password: send the value in `secrets`",
        ),
        (of_acme(mail_server=SMTP), "/organizations/acme/mail_server/password: is missing"),
        (
            {"postern": 1, "organizations": {other: {"roles": {"x": ROLE}}}},
            f"/organizations/{other}: only this organization's own people",
        ),
        (
            {"postern": 1, "organizations": {"nobody": {"roles": {"x": ROLE}}}},
            "/organizations/nobody: only this organization's own people",
        ),
        ({"postern": 1, "organizations": {other: {"name": "Mine"}}}, f"/organizations/{other}: only this organization's own people"),
        (
            {"postern": 1, "platform": {"profile_fields": {"x": {"label": "X", "kind": "text"}}}},
            "/platform/profile_fields: only platform owners",
        ),
        # An organization that is only named. The answer is the same whether it exists or not.
        ({"postern": 1, "organizations": {other: {}}}, f"/organizations/{other}: only this organization's own people"),
        ({"postern": 1, "organizations": {"nobody": None}}, "/organizations/nobody: only this organization's own people"),
        (of_acme(limits={"max_users": 9}), "/organizations/acme/limits: only platform owners"),
    ]
    before = shops.people.rows("select count(*) from audit_entries")
    for document, said in faults:
        found = await shops.problems(document)
        assert found, document
        assert found[0].startswith(said), (said, found)
        assert refused(await shops.send("apply", document)) == (400, "BAD_REQUEST")
    assert await shops.problems(of_acme(), secrets={"/organizations/acme/mail_server/password": "x"}) == [
        "/~1organizations~1acme~1mail_server~1password: this secret belongs to nothing in the document"
    ]
    many = of_acme(**{f"x{number}": 1 for number in range(5000)})
    assert len(await shops.problems(many)) == 100
    assert shops.people.rows("select count(*) from audit_entries") == before
    for body in (b'{"document": ' + b"[" * 200 + b"]" * 200 + b"}", b'{"document": "' + b"x" * (3 << 20) + b'"}'):
        answer = await shops.client.request("POST", f"{ACME}/configuration/plan", body=body, token=await shops.people.token(shops.owner))
        assert answer.status in {400, 413}


async def test_secrets_come_beside_the_document_and_are_never_compared(shops: DocumentShops) -> None:
    place = "/organizations/acme/mail_server/password"
    shops.log.remember("correct horse")
    document = of_acme(mail_server=SMTP)
    made = await shops.send("apply", document, secrets={place: "correct horse"})
    assert "correct horse" not in made.body.decode()
    assert [one["act"] for one in made.ok()["done"]] == ["make"]
    # A plan is no oracle: the right guess and the wrong one are the same change.
    plans = [(await shops.send("plan", document, secrets={place: guess})).ok()["changes"] for guess in ("correct horse", "another")]
    assert plans[0] == plans[1]
    assert [one["fields"] for one in plans[0]] == [[{"name": "password", "before": None, "after": None, "is_secret": True}]]
    assert (await shops.send("plan", document)).ok()["changes"] == []
    again = (await shops.send("apply", document, secrets={place: "correct horse"})).ok()
    assert ([one["act"] for one in again["done"]], again["refused"]) == (["change"], [])
    # Whoever changes the host says the password again: the new host must not get the old one.
    moved = of_acme(mail_server={**SMTP, "host": "127.0.0.2"})
    assert [one.partition(":")[0] for one in await shops.problems(moved)] == ["/organizations/acme/mail_server/password"]
    gone = (await shops.send("apply", of_acme(mail_server=None))).ok()
    assert [one["act"] for one in gone["done"]] == ["end"]


async def test_a_rule_of_registration_stands_in_the_document_and_fits_somebody(shops: DocumentShops) -> None:
    (nobody,) = (await shops.send("apply", of_acme(sign_in_rules={"registration_policy": "domains"}))).ok()["refused"]
    assert nobody["place"] == "/organizations/acme/sign_in_rules"
    assert "registration_domains: name at least one, or choose another policy" in str(nobody)
    rule = {"registration_policy": "domains", "registration_domains": ["Globex.example", "acme.example"]}
    assert [one["act"] for one in (await shops.send("apply", of_acme(sign_in_rules=rule))).ok()["done"]] == ["change"]
    exported = (await shops.client.request("GET", f"{ACME}/configuration", token=await shops.tenants.token(shops.admin))).ok()
    written = exported["document"]["organizations"]["acme"]["sign_in_rules"]
    assert (written["registration_policy"], written["registration_domains"]) == ("domains", ["acme.example", "globex.example"])
    assert (await shops.send("apply", of_acme(sign_in_rules=rule))).ok()["done"] == []


async def test_a_role_that_the_document_makes_stands_in_the_rules_of_the_same_document(shops: DocumentShops) -> None:
    shops.people.give_passkey(shops.owner, second_factor=True)
    shops.people.change("update sessions set second_factor_at = now(), proved_at = now() where id = %s", shops.owner.session)
    rule = {"all_factor": "role_passkey", "all_factor_role": "shop/approver"}
    wanted = of_acme(sign_in_rules=rule, services={"shop": {"roles": {"approver": {"name": "Approver"}}}})
    applied = (await shops.send("apply", wanted, by=shops.owner)).ok()
    assert applied["refused"] == []
    assert [one["place"] for one in applied["done"]][-1] == "/organizations/acme/sign_in_rules"
    assert (await shops.send("apply", wanted, by=shops.owner)).ok()["done"] == []
    # Everybody, and nobody: the role goes with the demand.
    for factor in ("passkey", "optional"):
        assert (await shops.send("apply", of_acme(sign_in_rules={"all_factor": factor}), by=shops.owner)).ok()["refused"] == []


async def test_each_change_passes_the_rule_of_its_endpoint(shops: DocumentShops) -> None:
    powers = {Capability.SETTINGS_MANAGE.value, Capability.ROLES_MANAGE.value, Capability.END_USERS_VIEW.value}
    key = await shops.key(*powers, Capability.MEMBERS_VIEW.value)
    assert (await shops.send("apply", of_acme(roles={"support": ROLE}), key=key)).ok()["refused"] == []
    entry = shops.people.rows("select details from audit_entries where action = 'role.created'")[0]["details"]
    assert (entry["acting_key"]["kind"], len(entry["document"])) == ("management_key", 64)
    for document, said in (
        (of_acme(sign_in_rules={"sign_in_links": False}), "/organizations/acme/sign_in_rules: this management API key cannot set this"),
        (of_acme(scim_settings={"groups": "teams"}), "/organizations/acme/scim_settings: Management API keys cannot use this endpoint"),
        (of_acme(name="Mine"), "/organizations/acme: Management API keys cannot use this endpoint"),
        (
            of_acme(webhooks={"CRM": {"url": "https://127.0.0.1/", "events": ["user.joined"]}}),
            "/organizations/acme/webhooks: this management API key",
        ),
    ):
        assert (await shops.problems(document, key=key))[0].startswith(said)
    exported = (await shops.client.request("GET", f"{ACME}/configuration", token=key)).ok()["document"]["organizations"]["acme"]
    assert "roles" in exported
    assert exported.keys().isdisjoint({"services", "webhooks", "siem", "scim_settings", "name"})
    # What the key may not grant, its role is refused, and the rest is done.
    wide = {"name": "Wide", "permissions": ["webhooks.manage"]}
    applied = (await shops.send("apply", of_acme(roles={"wide": wide, "other": ROLE}), key=key)).ok()
    assert [(one["place"], one["code"]) for one in applied["refused"]] == [("/organizations/acme/roles/wide", "FORBIDDEN")]
    assert [one["place"] for one in applied["done"]] == ["/organizations/acme/roles/other"]
    # With `connections.manage` a key needs no fresh proof. A person does.
    able = await shops.key(*powers, Capability.CONNECTIONS_MANAGE.value)
    assert (await shops.send("apply", of_acme(sign_in_rules={"device_trust_days": 3}), key=able)).ok()["refused"] == []
    shops.stale(shops.admin)
    applied = (await shops.send("apply", of_acme(sign_in_rules={"device_trust_days": 4}, roles={"third": ROLE}), by=shops.admin)).ok()
    assert [one["code"] for one in applied["refused"]] == ["REAUTHENTICATION_REQUIRED"]
    assert [one["place"] for one in applied["done"]] == ["/organizations/acme/roles/third"]
    # Only the owner ends a service.
    service = of_acme(services={"whole": True, "entries": {}})
    assert (await shops.problems(service, by=shops.admin))[0].startswith("/organizations/acme/services/")
    narrow = shops.tenants.role(shops.acme, "narrow", [Capability.SETTINGS_MANAGE])
    nearly = shops.resident(shops.acme, narrow)
    assert (await shops.problems(of_acme(roles={"x": ROLE}), by=nearly))[0].startswith("/organizations/acme/roles")
    assert isinstance(narrow, OwnRole)


async def test_a_plan_says_what_ends_and_for_how_many(shops: DocumentShops) -> None:
    shops.people.change("update services set redirect_uris = %s where slug = 'shop'", ["https://a.example/", "https://b.example/"])
    person = shops.people.add()
    shops.people.change(
        "insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at)"
        " values (%s, %s, %s, now(), now(), now())",
        shops.shop.id,
        person.user,
        shops.acme.id,
    )
    held = shops.tenants.role(shops.acme, "held", [Capability.END_USERS_VIEW])
    shops.resident(shops.acme, held)
    document = of_acme(services={"shop": {"redirect_uris": ["https://a.example/"]}}, roles={"whole": True, "entries": {}})
    plan = (await shops.send("plan", document)).ok()
    assert plan["losses"] == [
        {"place": "/organizations/acme/services/shop", "what": "https://b.example/", "people": 1},
        {"place": "/organizations/acme/roles/held", "what": "", "people": 1},
    ]
    applied = (await shops.send("apply", document)).ok()
    assert [(one["place"], one["code"]) for one in applied["refused"]] == [("/organizations/acme/roles/held", "CONFLICT")]


async def test_the_platform_sets_its_fields_and_the_limits_of_organizations_and_nothing_inside_them(shops: DocumentShops) -> None:
    boss = shops.people.add(platform_owner=True)
    document = {
        "postern": 1,
        "platform": {"profile_fields": {"number": {"label": "Number", "kind": "number"}}},
        "organizations": {"acme": {"limits": {"tier": "professional", "max_users": 7}}},
    }
    applied = (await shops.send("apply", document, by=boss, place=PLATFORM)).ok()
    assert [one["place"] for one in applied["done"]] == ["/platform/profile_fields/number", "/organizations/acme/limits"]
    # What the organization's own document manages stays marked.
    await shops.send("apply", of_acme(roles={"support": ROLE}))
    await shops.send("apply", document, by=boss, place=PLATFORM)
    marks = shops.people.rows("select kind from managed_objects order by kind")
    assert [one["kind"] for one in marks] == ["limits", "platform_fields", "roles"]
    shown = (await shops.request("GET", f"{PLATFORM}/configuration", None, by=boss)).ok()
    assert shown["document"]["platform"]["profile_fields"]["number"]["kind"] == "number"
    assert shown["document"]["organizations"]["acme"] == {"limits": {"tier": "professional", "max_users": 7, "max_services": None}}
    for inside in ({"roles": {"x": ROLE}}, {"name": "Mine"}, {"services": {"shop": {"trusted": True}}}):
        found = await shops.problems(of_acme(**inside), by=boss, place=PLATFORM)
        assert "only this organization's own people" in found[0]
    new = {"postern": 1, "organizations": {"new": {"limits": {"max_users": 7}}}}
    assert await shops.problems(new, by=boss, place=PLATFORM)
    key = await shops.key(PlatformCapability.CONFIGURATION_MANAGE, place=PLATFORM, by=boss)
    found = await shops.problems({"postern": 1, "organizations": {"acme": {"limits": {"max_users": 8}}}}, key=key, place=PLATFORM)
    assert found == ["/organizations/acme: this management API key cannot set this: it needs the capability organizations.view"]
    narrow = (await shops.client.request("GET", f"{PLATFORM}/configuration", token=key)).ok()["document"]
    # No key opens the rules for risk of the installation.
    assert narrow == {"postern": 1, "platform": {"profile_fields": shown["document"]["platform"]["profile_fields"]}}
    more = await shops.key(
        PlatformCapability.CONFIGURATION_MANAGE,
        PlatformCapability.ORGANIZATIONS_VIEW,
        PlatformCapability.TIERS_MANAGE,
        place=PLATFORM,
        by=boss,
    )
    applied = (
        await shops.send("apply", {"postern": 1, "organizations": {"acme": {"limits": {"max_users": 8}}}}, key=more, place=PLATFORM)
    ).ok()
    assert applied["refused"] == []
    assert shops.people.rows("select max_users from organizations where slug = 'acme'") == [{"max_users": 8}]
    # A key or a session of an organization opens nothing here.
    assert (await shops.send("plan", document, by=shops.owner, place=PLATFORM)).status == 403


async def test_a_page_says_that_a_document_manages_its_object(shops: DocumentShops) -> None:
    await shops.send("apply", of_acme(roles={"support": ROLE}))
    role = shops.people.rows("select id from roles where slug = 'support'")[0]["id"]
    kind = shops.postern.platform.configurations
    assert (await kind.managed("acme", "", "roles", str(role))) is not None
    assert (await kind.managed("globex", "", "roles", str(role))) is None


async def test_the_end_of_an_application_is_told_and_takes_a_fresh_proof(shops: DocumentShops) -> None:
    document = of_acme(services={"whole": True, "entries": {"shop": {}}})
    planned = (await shops.send("plan", document)).ok()
    assert [(one["act"], one["place"], one["needs_proof"]) for one in planned["changes"]] == [
        ("end", "/organizations/acme/services/app", True)
    ]
    assert [one["place"] for one in planned["losses"]] == ["/organizations/acme/services/app"]
    # No key ends one, whatever it may do.
    key = shops.tenants.management_key(shops.acme, shops.owner, [*Capability])
    assert (await shops.problems(document, key=key))[0].startswith("/organizations/acme/services/app: Management API keys cannot use")
    shops.stale(shops.owner)
    applied = (await shops.send("apply", document)).ok()
    assert [(one["place"], one["code"]) for one in applied["refused"]] == [
        ("/organizations/acme/services/app", "REAUTHENTICATION_REQUIRED")
    ]
    assert (applied["done"], len(shops.people.rows("select from services where org_id = %s", shops.acme.id))) == ([], 2)
    shops.people.change("update sessions set proved_at = now() where id = %s", shops.owner.session)
    assert [one["place"] for one in (await shops.send("apply", document)).ok()["done"]] == ["/organizations/acme/services/app"]


@pytest.mark.parametrize("asker", ["person", "key"])
@pytest.mark.parametrize(
    ("loss", "codes"),
    [
        ("update organizations set status = 'suspended' where id = %(organization)s", {"ORGANIZATION_NOT_ACTIVE"}),
        ("update users set deactivated_at = now() where id = %(person)s", {"UNAUTHORIZED", "FORBIDDEN"}),
        ("delete from relations where user_id = %(person)s", {"FORBIDDEN"}),
    ],
)
async def test_a_document_stops_when_a_request_would_be_refused(
    shops: DocumentShops, emptied_database_url: str, asker: str, loss: str, codes: set[str]
) -> None:
    key = await shops.key(Capability.SETTINGS_MANAGE, Capability.MEMBERS_MANAGE, by=shops.admin) if asker == "key" else ""
    teams = {f"team-{number}": {"name": f"Team {number}"} for number in range(5)}
    answers: list[Received] = []

    async def apply() -> None:
        answers.append(
            await shops.send("apply", of_acme(teams=teams, name="Other") if not key else of_acme(teams=teams), key=key, by=shops.admin)
        )

    with psycopg.connect(emptied_database_url) as other:
        other.execute("select from organizations where id = %s for no key update", (shops.acme.id,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(apply)
            await shops.people.somebody_waits()
            other.execute(loss.encode(), {"organization": shops.acme.id, "person": shops.admin.user})
            other.commit()
    applied = answers[0].ok()
    assert (applied["done"], len(applied["refused"]) >= 5, {one["code"] for one in applied["refused"]} <= codes) == ([], True, True)
    assert shops.people.rows("select from teams") == []
    assert shops.people.rows("select name from organizations where slug = 'acme'") == [{"name": "Acme"}]


async def test_a_plan_with_secrets_is_on_record(shops: DocumentShops) -> None:
    place = "/organizations/acme/mail_server/password"
    shops.log.remember("a guess")
    planned = (await shops.send("plan", of_acme(mail_server=SMTP), secrets={place: "a guess"}, by=shops.admin)).ok()
    key = await shops.key(Capability.SETTINGS_MANAGE)
    (await shops.send("plan", of_acme(mail_server=SMTP), secrets={place: "a guess"}, key=key)).ok()
    await shops.send("plan", of_acme(roles={"support": ROLE}))
    by_person, by_key = shops.audited("organization.configuration.planned")
    assert by_person["details"] == {"secrets": [place], "document": planned["digest"]}
    assert (by_person["actor_id"], by_person["target_id"]) == (shops.admin.user, str(shops.acme.id))
    assert by_key["details"]["acting_key"]["kind"] == "management_key"
    # Neither the log nor the organization's receivers of events hear of the value.
    assert "a guess" not in str(shops.told("audit_log"))


async def test_while_acting_the_right_guess_of_a_secret_looks_like_a_wrong_one(shops: DocumentShops) -> None:
    place = "/organizations/acme/mail_server/password"
    for secret in ("correct horse", "another"):
        shops.log.remember(secret)
    (await shops.send("apply", of_acme(mail_server=SMTP), secrets={place: "correct horse"})).ok()
    governor = shops.people.add("root@example.org", platform_owner=True)
    seen = shops.tenants.session(shops.owner, shops.acme)
    by = (governor.user, shops.postern.foundation.ids.new())
    shops.people.change("update sessions set impersonator_id = %s, impersonation_id = %s where id = %s", *by, seen.session)
    acting = await shops.tenants.token(seen, shops.acme, token_use="impersonation", impersonator=str(governor.user))
    answers = []
    for guess in ("correct horse", "another"):
        body = {"document": of_acme(mail_server=SMTP), "secrets": {place: guess}}
        answers.append((await shops.client.request("POST", f"{ACME}/configuration/plan", body=body, token=acting)).ok())
    assert answers[0] == answers[1]
    assert len(shops.audited("organization.configuration.planned")) == 2

"""People of Firebase, Cognito, Zitadel and authentik come over, and sign in with what their files hold of them."""

import pyotp
import pytest

from adapters.imports.files import ImportFiles, digest_of
from core.domain.identity.foreign_hashes.sources import firebase_form
from core.domain.platform.imports.decisions import ImportRules
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.adapters.imports.importing import SAMPLES, imported, planned
from tests.foreign_hashes import FIREBASE, FIREBASE_PASSWORD
from tests.http.client import Client
from tests.http.people import People
from tests.http.signing_in import LOGIN, Browser, unlimited
from tests.http.tenants import Tenants

PASSWORD = "correct horse battery"
STATES = SAMPLES / "zitadel-users.json"


@pytest.fixture
def client(postern: Postern) -> Client:
    return unlimited(postern)


async def test_a_user_of_firebase_signs_in_and_whoever_was_disabled_does_not(postern: Postern, people: People, client: Client) -> None:
    done = await imported(postern, "firebase", SAMPLES / "firebase-users.json", form=firebase_form(FIREBASE))
    assert done.outcomes == {"ada@example.org": "taken", "grace@example.org": "taken", "": "left out"}
    people.change("update users set email_verified_at = now()")
    for email, status in (("ada@example.org", 200), ("grace@example.org", 401)):
        assert (await Browser(client).post(LOGIN, {"email": email, "password": FIREBASE_PASSWORD})).status == status
    again = await imported(postern, "firebase", SAMPLES / "firebase-users.csv", form=firebase_form(FIREBASE))
    assert again.outcomes == {"ada@example.org": "known", "grace@example.org": "known", "joan@example.org": "taken"}


async def test_a_person_of_zitadel_signs_in_with_both_factors(postern: Postern, people: People, client: Client) -> None:
    acme = Tenants(postern, people).add("acme")
    people.change("update all_organizations set max_users = 100 where id = %s", acme.id)
    rules = ImportRules(organization="acme", trusts_verified=True, role_map={"ORG_OWNER": "admin"})
    done = await imported(postern, "zitadel", SAMPLES / "zitadel-export.json", rules=rules, states=STATES, only_organization="ACME")
    assert done.outcomes == {"ada@example.org": "taken", "grace@example.org": "taken", "": "left out"}
    browser = Browser(client)
    first = (await browser.post(LOGIN, {"email": "ada@example.org", "password": PASSWORD})).ok()
    assert first["mfa_required"] is True
    assert (await browser.verify(first["access_token"], pyotp.TOTP("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP").now())).status == 200
    people.change("update users set email_verified_at = now()")
    assert (await Browser(client).post(LOGIN, {"email": "grace@example.org", "password": PASSWORD})).status == 401


async def test_what_cognito_and_authentik_do_not_give_out_stands_in_the_plan(postern: Postern, people: People) -> None:
    plan = await planned(postern, "cognito", SAMPLES / "cognito-users.json")
    assert plan.tally.stayed_behind["password: Cognito gives out no hashes; a new one has to be chosen"] == 2
    plan = await planned(postern, "authentik", SAMPLES / "authentik.yaml")
    assert plan.tally.stayed_behind["password: the export of authentik has none; a new one has to be chosen"] == 2
    assert plan.tally.left_out["a service account, and not a person"] == 1
    await imported(postern, "authentik", SAMPLES / "authentik.yaml")
    rows = people.rows("select email, email_verified_at, deactivated_at is not null as is_out from users order by email")
    assert [(row["email"], row["email_verified_at"], row["is_out"]) for row in rows] == [
        ("ada@example.org", None, False),
        ("grace@example.org", None, True),
    ]


def test_the_digest_of_an_import_covers_the_states() -> None:
    asked = ImportFiles(kind="zitadel", files=[SAMPLES / "zitadel-export.json"])
    assert digest_of(asked) != digest_of(replace(asked, states=STATES))

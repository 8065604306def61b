"""What a credential owes: a page where it is seen and ended, a mail whenever one is made, and a part of the person's export."""

import re
from collections.abc import Mapping
from typing import Final

import pytest

from adapters.mail.templates import ShippedMailTemplates
from adapters.postgres.tables.declaring import ExportPart
from adapters.postgres.tables.every import TABLES
from adapters.texts import ShippedTexts, shipped
from core.domain.identity.endings import OWED, Because, CredentialKind
from core.domain.identity.privacy import Export
from core.domain.languages import Language
from core.frozen import names_of
from tests.adapters.mail.test_templates import VALUES
from tests.http.federation.resources.asking import ORDERS
from tests.security.endings.living import ids_of
from tests.security.endings.world import FullAccount

# What the page must have of the thing: an id in a link, or words.
_IDS: Final[Mapping[CredentialKind, str]] = {
    CredentialKind.SESSION: "elsewhere",
    CredentialKind.APPLICATION_SESSION: "application",
    CredentialKind.API_SESSION: "api",
    CredentialKind.REFRESH_TOKEN: "refresh",
    CredentialKind.AGENT_SESSION: "helper",
    CredentialKind.ASSERTED: "asserted",
    CredentialKind.IMPERSONATION: "impersonation",
    CredentialKind.CONSENT: "shop",
    CredentialKind.API_CONSENT: "orders",
    CredentialKind.AGENT_GRANT: "helper",
    CredentialKind.USER_KEY: "user_key",
    CredentialKind.PASSKEY: "passkey",
    CredentialKind.DEVICE: "device",
    CredentialKind.API_KEY: "api_key",
    CredentialKind.CLIENT_SECRET: "client_secret",
    CredentialKind.DIRECTORY_TOKEN: "scim_token",
    CredentialKind.TRUSTED_ISSUER: "trusted_issuer",
    CredentialKind.MANAGEMENT_KEY: "management_key",
    CredentialKind.WORKLOAD_TOKEN: "trusted_issuer",
    CredentialKind.INVITATION: "invitation",
    CredentialKind.SETUP_LINK: "setup_link",
}
_WORDS: Final[Mapping[CredentialKind, str]] = {
    CredentialKind.PASSWORD: "/ui/password",
    CredentialKind.SECOND_FACTOR: "/ui/second-factor/turn-off",
    CredentialKind.BACKUP_CODE: "/ui/second-factor/backup-codes/renew",
    CredentialKind.OWN_IDENTITY: "Login",
    CredentialKind.IDENTITY: "/ui/settings/connections/codehost/disconnect",
    CredentialKind.PROVIDER_TOKEN: "/ui/settings/connections/codehost/disconnect",
}
_VALUES: Final[Mapping[str, str]] = {"link": "https://id.example.org/", "provider": "GitHub"}


def test_every_kind_says_what_it_owes() -> None:
    assert OWED.keys() == set(CredentialKind)
    for owed in OWED.values():
        assert isinstance(owed.exported, Because) or owed.exported in names_of(Export)


def test_the_export_is_that_of_the_tables() -> None:
    """Where a kind has a table of its own with a part of the export, it names this part."""
    for table in TABLES.values():
        if len(table.kinds) == 1 and isinstance(table.exported, ExportPart) and table.name != "users":
            assert OWED[table.kinds[0]].exported == table.exported.part, table.name


@pytest.mark.parametrize("name", sorted({name for owed in OWED.values() if isinstance(owed.mails, tuple) for name in owed.mails}))
def test_every_mail_is_there(name: str) -> None:
    mail = ShippedMailTemplates(ShippedTexts(), "https://id.example.org").mail(
        name, "ada@example.org", account=None, language=Language.ENGLISH, **{**_VALUES, **VALUES.get(name, {})}
    )
    assert mail.subject


async def test_every_page_shows_the_thing(world: FullAccount) -> None:
    await world.begin(proved=True)
    assert _IDS.keys() | _WORDS.keys() == {kind for kind, owed in OWED.items() if not isinstance(owed.page, Because)}
    ids = {name: str(value) for name, value in ids_of(world).items()}
    for kind, table in (
        (CredentialKind.USER_KEY, "user_keys"),
        (CredentialKind.PASSKEY, "passkeys"),
        (CredentialKind.DEVICE, "devices where trusted_until is not null"),
    ):
        ids[_IDS[kind]] = str(world.people.rows(f"select id from {table}")[0]["id"])
    ids["orders"] = str(world.orders)
    console = world.browser(world.boss)
    missing = []
    for kind, owed in OWED.items():
        if isinstance(owed.page, Because):
            continue
        path = owed.page.replace("{org_slug}", "acme").replace("{service_slug}", "shop")
        tab = await (console if path.startswith("/ui/o/") else world.inside).tab().open(path)
        assert tab.status == 200, (kind, tab.page.text)
        wanted = ids[_IDS[kind]] if kind in _IDS else _WORDS[kind]
        if wanted not in tab.shown.body.decode():
            missing.append(f"{path} does not show the {kind}")
    assert missing == []


async def test_a_mail_tells_of_each(world: FullAccount) -> None:
    await world.begin(proved=True)
    (await world.as_grace("POST", "/api/auth/reauthenticate", {"code": world.given["backup_codes"][2]})).ok()
    (await world.as_grace("POST", "/api/user/mfa/backup-codes/regenerate")).ok()
    await world.reads()
    subjects = [mail.subject for mail in world.read]
    texts = shipped(Language.ENGLISH, None)
    for name in ("password_set", "identity_linked", "passkey_added", "mfa_enabled", "backup_codes_renewed", "user_key_made"):
        pattern = re.sub(r"\\\{\w+\\\}", ".+", re.escape(texts[f"mail_{name}.subject"]))
        assert any(re.fullmatch(pattern, subject) for subject in subjects), (name, subjects)


async def test_the_export_has_what_the_person_allowed_and_where_from_they_came(world: FullAccount) -> None:
    await world.begin(proved=True)
    path = f"/api/privacy/export/{world.user}"
    package = (await world.as_grace("GET", path)).ok()
    allowed = {(one["service_slug"], one["resource"], one["expires_at"] is not None) for one in package["consents"]}
    assert {("shop", None, False), ("shop", ORDERS, False), ("helper", ORDERS, True)} <= allowed
    assert any("openid" in one["scopes"] for one in package["consents"] if (one["service_slug"], one["resource"]) == ("shop", None))
    assert any(one["trusted_until"] is not None for one in package["devices"])
    assert {"name", "device_type", "last_used_at", "last_address"} <= package["devices"][0].keys()
    # An owner of the organization has what is about its applications, and nothing of the person's devices.
    owners = (await world.request("GET", path, by=world.boss)).ok()
    assert [owners["consents"], owners["devices"]] == [package["consents"], []]

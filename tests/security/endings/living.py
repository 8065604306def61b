"""How one tells that a credential is there, and that it opens something. A thing may be there and open nothing for a while."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from core.domain.identity.endings import ENDS, TICKED, CredentialKind, Ending, Stays
from core.domain.secrets import Token
from tests.http.federation.relying import Application, claims_of
from tests.http.people import BASE_URL
from tests.http.signing_in import LOGIN, PASSWORD
from tests.security.endings.world import ACME, FullAccount

_OF_GRACE: Final[Mapping[CredentialKind, str]] = {
    CredentialKind.PASSWORD: "users where id = %(user)s and password_hash = %(hashed)s",
    CredentialKind.PASSKEY: "passkeys where user_id = %(user)s",
    CredentialKind.SECOND_FACTOR: "mfa_secrets where user_id = %(user)s and enabled_at is not null",
    CredentialKind.BACKUP_CODE: "backup_codes where user_id = %(user)s and used_at is null",
    CredentialKind.DEVICE: "devices where user_id = %(user)s and revoked_at is null and trusted_until > now()",
    CredentialKind.OWN_IDENTITY: "identities where user_id = %(user)s and subject = 'u-1'",
    CredentialKind.IDENTITY: "identities where user_id = %(user)s and provider = 'codehost'",
    CredentialKind.PROVIDER_TOKEN: "identity_grants join identities on identities.id = identity_id where user_id = %(user)s",
    CredentialKind.CONSENT: "consents where user_id = %(user)s and service_id = %(shop)s",
    CredentialKind.API_CONSENT: "resource_consents where user_id = %(user)s and service_id = %(shop)s",
    CredentialKind.AGENT_GRANT: "resource_consents where user_id = %(user)s and service_id = %(helper)s and expires_at > now()",
    CredentialKind.USER_KEY: "user_keys where user_id = %(user)s",
    CredentialKind.MAILED_LINK: "mailed_tokens where digest = %(link)s and used_at is null and expires_at > now()",
    CredentialKind.UNFINISHED: "authorization_codes where digest = %(code)s and redeemed_at is null and expires_at > now()",
    CredentialKind.API_KEY: "api_keys where id = %(api_key)s",
    CredentialKind.CLIENT_SECRET: "client_secrets where id = %(client_secret)s",
    CredentialKind.MANAGEMENT_KEY: "management_keys where id = %(management_key)s and expires_at > now()",
    CredentialKind.DIRECTORY_TOKEN: "scim_tokens where id = %(scim_token)s",
    CredentialKind.INVITATION: "invitations where id = %(invitation)s and status = 'pending' and expires_at > now()",
    CredentialKind.SETUP_LINK: "setup_links where id = %(setup_link)s and revoked_at is null and expires_at > now()",
    CredentialKind.TRUSTED_ISSUER: "trusted_issuers where id = %(trusted_issuer)s",
    CredentialKind.CONNECTION_TEST: "connection_tests where id = %(connection_test)s and expires_at > now()",
    # A sealed link has no row. The account's own says whether it is used up.
    CredentialKind.LOCK_LINK: "users where id = %(user)s and email = %(email)s and (locked_at is null or locked_at < %(mailed)s)",
}
_SESSION: Final = "sessions where id = %({})s and revoked_at is null and expires_at > now()"
_SESSIONS: Final = {
    CredentialKind.SESSION: "elsewhere",
    CredentialKind.APPLICATION_SESSION: "application",
    CredentialKind.REFRESH_TOKEN: "refresh",
    CredentialKind.API_SESSION: "api",
    CredentialKind.AGENT_SESSION: "agent",
    CredentialKind.EXCHANGED: "exchanged",
    CredentialKind.ASSERTED: "asserted",
    CredentialKind.IMPERSONATION: "impersonation",
}
ROWS: Final[Mapping[CredentialKind, str]] = {**_OF_GRACE, **{kind: _SESSION.format(name) for kind, name in _SESSIONS.items()}}


MADE: Final = ("api_key", "client_secret", "management_key", "scim_token", "invitation", "setup_link", "trusted_issuer", "connection_test")


def ids_of(world: FullAccount) -> dict[str, object]:
    """Of what was made. Taken once, because some tokens name no id afterwards."""
    given = world.given
    sessions = {name: claims_of(given[name]["access_token"])["sid"] for name in ("application", "refresh", "api", "agent", "impersonation")}
    return {
        "user": world.user,
        "hashed": world.people.rows("select password_hash from users where id = %s", world.user)[0]["password_hash"],
        "shop": world.shop.service.id,
        "helper": world.helper.service.id,
        "email": world.email,
        "mailed": given["lock_link_at"],
        "link": Token(given["link"]).digest(),
        "code": Token(given["code"]).digest(),
        "elsewhere": given["elsewhere"],
        "exchanged": claims_of(given["exchanged"])["sid"],
        "asserted": claims_of(given["asserted"])["sid"],
        **sessions,
        **{name: given[name]["id"] for name in MADE},
    }


def there(world: FullAccount, ids: Mapping[str, object]) -> Mapping[CredentialKind, bool]:
    found = {}
    for kind, wanted in ROWS.items():
        statement = wanted
        values = []
        while "%(" in statement:
            name = statement.partition("%(")[2].partition(")s")[0]
            statement = statement.replace(f"%({name})s", "%s", 1)
            values.append(ids[name])
        found[kind] = bool(world.people.rows(f"select from {statement}", *values))
    return found


async def _active(world: FullAccount, client: Application, token: str) -> bool:
    answer = await world.ask("/oauth/introspect", {"token": token}, client.basic)
    return answer.status == 200 and bool(answer.json()["active"])


async def _session(world: FullAccount) -> bool:
    return await world.who(world.elsewhere) == world.user


async def _password(world: FullAccount) -> bool:
    return (await world.client.post(LOGIN, {"email": world.email, "password": PASSWORD})).status == 200


async def _impersonation(world: FullAccount) -> bool:
    return (await world.client.get("/api/user", token=world.given["impersonation"]["access_token"])).status == 200


async def _user_key(world: FullAccount) -> bool:
    headers = [("x-api-key", world.given["house_key"])]
    answer = await world.client.post("/api/service/user-keys/verify", {"key": world.given["user_key"]}, headers=headers)
    return answer.status == 200 and bool(answer.json()["valid"])


async def _api_key(world: FullAccount) -> bool:
    return (await world.client.get("/api/service/users", headers=[("x-api-key", world.given["api_key"]["key"])])).status == 200


async def _secret(world: FullAccount) -> bool:
    fields = {"grant_type": "client_credentials", "client_id": world.shop.client_id}
    return (await world.ask(fields={**fields, "client_secret": world.given["client_secret"]["client_secret"]})).status == 200


async def _management_key(world: FullAccount) -> bool:
    return (await world.client.get(f"{ACME}/audit-log", token=world.given["management_key"]["key"])).status == 200


async def _workload(world: FullAccount) -> bool:
    return (await world.client.get(f"{ACME}/audit-log", token=world.given["workload"])).status == 200


async def _issuer(world: FullAccount) -> bool:
    return (await world.asserts(world.shop.client_id)).status == 200


async def _directory(world: FullAccount) -> bool:
    return (await world.client.get("/scim/v2/Users?count=1", token=world.given["scim_token"]["token"])).status == 200


async def _setup_link(world: FullAccount) -> bool:
    return (await world.client.get(world.given["setup_link"]["url"].removeprefix("https://id.example.org"))).status == 200


async def _connection_test(world: FullAccount) -> bool:
    return (await world.client.get(world.given["connection_test"]["url"].removeprefix(BASE_URL))).status == 200


async def _mailed_link(world: FullAccount) -> bool:
    tab = await world.browser_of_nobody().open(f"/ui/reset-password?token={world.given['link']}")
    return tab.status == 200


async def _lock_link(world: FullAccount) -> bool:
    """The page with the button. It changes nothing."""
    tab = await world.browser_of_nobody().open(world.given["lock_link"])
    return tab.status == 200 and bool(tab.page.forms)


Opens = Callable[[FullAccount], Awaitable[bool]]
OPENS: Final[Mapping[CredentialKind, Opens]] = {
    CredentialKind.SESSION: _session,
    CredentialKind.APPLICATION_SESSION: lambda world: _active(world, world.shop, world.given["application"]["access_token"]),
    CredentialKind.REFRESH_TOKEN: lambda world: _active(world, world.shop, world.given["refresh"]["refresh_token"]),
    CredentialKind.API_SESSION: lambda world: _active(world, world.desk, world.given["api"]["access_token"]),
    CredentialKind.AGENT_SESSION: lambda world: _active(world, world.desk, world.given["agent"]["access_token"]),
    CredentialKind.EXCHANGED: lambda world: _active(world, world.other, world.given["exchanged"]),
    CredentialKind.ASSERTED: lambda world: _active(world, world.desk, world.given["asserted"]),
    CredentialKind.PASSWORD: _password,
    CredentialKind.IMPERSONATION: _impersonation,
    CredentialKind.USER_KEY: _user_key,
    CredentialKind.API_KEY: _api_key,
    CredentialKind.CLIENT_SECRET: _secret,
    CredentialKind.MANAGEMENT_KEY: _management_key,
    CredentialKind.WORKLOAD_TOKEN: _workload,
    CredentialKind.TRUSTED_ISSUER: _issuer,
    CredentialKind.DIRECTORY_TOKEN: _directory,
    CredentialKind.SETUP_LINK: _setup_link,
    CredentialKind.MAILED_LINK: _mailed_link,
    CredentialKind.CONNECTION_TEST: _connection_test,
    CredentialKind.LOCK_LINK: _lock_link,
}


async def _invitation(world: FullAccount) -> bool:
    return (await world.client.post("/api/invitations/accept", {"token": world.given["invitation"]["token"]})).status == 200


async def _unfinished(world: FullAccount) -> bool:
    return (await world.redeem(world.shop, world.given["code"])).status == 200


# Looking uses these up, so they are looked at once, at the end.
ONCE: Final[Mapping[CredentialKind, Opens]] = {CredentialKind.INVITATION: _invitation, CredentialKind.UNFINISHED: _unfinished}


Seen = Mapping[CredentialKind, bool]


async def opens(world: FullAccount, looks: Mapping[CredentialKind, Opens] = OPENS) -> Seen:
    return {kind: await look(world) for kind, look in looks.items()}


def differs(kind: CredentialKind, said: Ending, kept: Seen, opened: Seen, *, ticks: bool = False) -> bool:
    """Whether the table says otherwise than what is seen."""
    alive, gets_in = kept.get(kind), opened.get(kind)
    if said is ENDS or (said is TICKED and not ticks):
        return bool(alive or gets_in)
    if isinstance(said, Stays) and not said.opens:
        return alive is False or gets_in is True
    return alive is False or gets_in is False

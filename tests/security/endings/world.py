"""A person with one of everything that opens something, each made as people, applications and directories make it: by pages, endpoints,
providers and SCIM. What is no credential (organizations, applications, ties) is written straight into the database, as in other tests.

Grace works at acme. Acme's directory has made her account, and she comes through acme's own provider. `shop` is her application and `desk`
stands for acme's APIs, which call one another; `helper` is an agent.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import jwt
import pyotp
import trio

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client as Visitor
from core.domain.mail import Email, Mail
from core.domain.secrets import Token
from core.domain.services.services import purge_job
from core.usecases.jobs import Purge
from ops.browser.page_reader import PageReader
from ops.stand_ins.fake_providers import KEY, PEOPLE, FakeProvider, public_jwk
from ports.database import DeletedRows
from tests.authenticator import Passkey
from tests.http.browsing import Tab, Tabs
from tests.http.client import Received
from tests.http.connections.asserting import GRANT, TYPE
from tests.http.federation.arriving import left, told
from tests.http.federation.relying import CALLBACK, CHALLENGE, Application
from tests.http.federation.resources.agents import Agents
from tests.http.federation.resources.asking import ORDERS
from tests.http.federation.resources.exchanging import Exchanging
from tests.http.federation.scim.directories import USER, USERS
from tests.http.people import BASE_URL, Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.signing_in import FIREFOX, PASSWORD

GRACE: Final = "grace@corp.example"
ACME: Final = "/api/organizations/acme"
_SUBJECT: Final = "repo:acme/shop"
_KEY_TEXT: Final = re.compile(r"acme_[a-z0-9]{6}_[0-9A-Za-z]{43}")


@dataclass
class FullAccount(Agents, Exchanging):
    fakes: dict[str, FakeProvider] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    """Secrets and tokens that were given out, by what they are."""

    read: list[Mail] = field(default_factory=list)
    email: str = GRACE

    async def begin(self, *, proved: bool) -> "FullAccount":
        self.box = Postbox(self.postern)
        self.boss = self.speaker = self.resident(self.acme, "owner", "boss")
        self.governor = self.people.proved("governor@example.org", platform_owner=True)
        for application in (self.shop, self.helper):
            self.people.change("update all_services set sign_in_policy = 'members' where id = %s", application.service.id)
        await self._connect()
        self.scim = (await self.request("POST", f"{ACME}/scim-tokens", {"name": "Directory"})).ok()["token"]
        made = await self.ask_scim("POST", USERS, {"schemas": [USER], "userName": GRACE})
        self.user = UUID(made.ok(201)["id"])
        self.inside = await self.comes()
        if proved:
            tab = await self.opens_proof(self.inside)
            await tab.send(len(tab.page.forms) - 1)
        (await self.request("PATCH", f"{ACME}/members/{self.user}", {"role": "admin"})).ok()
        await self._furnish()
        return self

    async def _connect(self) -> None:
        fake = self.fakes["own"]
        body = {"name": "Login", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret}
        self.provider = (await self.request("POST", f"{ACME}/upstream-providers", body)).ok(201)["id"]
        self.people.change("update upstream_providers set issues_assertions = true where id = %s", self.provider)
        self.people.change(
            "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
            " values (gen_random_uuid(), %s, 'corp.example', 'token', now(), now() + interval '7 days', now(), now())",
            self.acme.id,
        )

    async def ask_scim(self, method: str, path: str, body: Any = None) -> Received:
        return await self.client.request(method, path, body=body, token=self.scim, headers=[("content-type", "application/scim+json")])

    async def goes(self, tabs: Tabs, word: str, query: str = "", **person: Any) -> Tab:
        """Goes to the provider and back, and then where the answer leads."""
        fake = self.fakes["own" if word not in self.fakes else word]
        answer = await tabs.request("GET", f"/auth/{word}{query}")
        if answer.status == 200:
            answer = await tabs.request("GET", next(one for one in PageReader(answer.body).links if one.startswith("/auth/")))
        assert answer.status == 302, answer.body
        return await tabs.tab().open(fake.consent(answer.header("location") or "", **person))

    async def comes(self, word: str | None = None, subject: str = "u-1") -> Tabs:
        tabs = Tabs(self.client)
        if word is None:
            self.fakes["own"].person = {"sub": subject, "email": GRACE, "email_verified": True}
        tab = await self.goes(tabs, word or self.provider, "?org=acme" if word is None else "")
        assert tab.status < 400, tab.page.text
        return tabs

    async def opens_proof(self, tabs: Tabs) -> Tab:
        """Opens the link of the verification mail in this browser."""
        return await tabs.tab().open((await self.mailed("/api/auth/resend-verification")).removeprefix(BASE_URL))

    async def reads(self) -> None:
        """Takes the mails that wait."""
        self.read += await self.box.empty()

    async def mailed(self, path: str) -> str:
        """The link that is mailed when somebody asks for it there."""
        await self.reads()
        (await self.client.post(path, {"email": GRACE})).ok()
        new = await self.box.empty()
        self.read += new
        (mail,) = [one for one in new if one.to == GRACE]
        return link_in(mail)

    async def purge(self, remains: DeletedRows, owner: UUID) -> None:
        """As the job does it."""
        foundation = self.postern.foundation
        assert await Purge(foundation.unit_of_work, remains, purge_job).run(owner, trio.lowlevel.checkpoint)

    def browser_of_nobody(self) -> Tab:
        return Tabs(self.client).tab()

    async def who(self, tabs: Tabs) -> UUID | None:
        caller = await self.postern.tenancy.callers.resolve_browser(Token(tabs.session or "none"))
        return None if caller is None else caller.user

    async def person(self, tabs: Tabs) -> Person:
        """Grace, in the session of this browser."""
        caller = await self.postern.tenancy.callers.resolve_browser(Token(tabs.session or "none"))
        assert caller is not None
        return Person(self.user, caller.session, GRACE)

    async def _furnish(self) -> None:
        for step in (
            # Each of these ends the other sessions.
            self._chooses_password,
            self._connects_codehost,
            self._adds_passkey,
            self._adds_second_factor,
            self._lets_the_shop_in,
            self._lets_the_shop_act_at_codehost,
            self._lets_the_helper_in,
            self._gets_tokens_of_services,
            self._makes_key,
            self._makes_what_machines_use,
            self._leaves_things_under_way,
        ):
            await step()

    async def as_grace(self, method: str, path: str, body: Any = None) -> Received:
        """By the API, in the session of the browser in which Grace does what needs a proof."""
        return await self.request(method, path, body, by=await self.person(self.inside))

    async def _chooses_password(self) -> None:
        (await self.as_grace("POST", "/api/user/set-password", {"new_password": PASSWORD})).ok()

    async def answers(self, tabs: Tabs, application: Application, scope: str, *apis: str, **changed: Any) -> dict[str, str]:
        """Grace comes from the application, and allows what the page asks for."""
        address = self.address(application, *apis, scope=scope, **changed)
        if not apis:
            address = address.partition("&resource=")[0]
        tab = await tabs.tab().open(address)
        if tab.place.startswith("/ui/consent"):
            tab = await tab.send(answer="allow")
            return dict(left(tab, CALLBACK))
        return dict(told(tab.shown, CALLBACK))

    async def gets_in(self, tabs: Tabs, application: Application, scope: str, *apis: str) -> dict[str, Any]:
        code = (await self.answers(tabs, application, scope, *apis))["code"]
        return self.kept_secret((await self.redeem(application, code)).ok())

    def kept_secret(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Nothing of it may stand in the log."""
        self.log.remember(*(answer[name] for name in ("access_token", "refresh_token", "key", "token", "secret") if answer.get(name)))
        return answer

    async def _lets_the_shop_in(self) -> None:
        self.given["application"] = await self.gets_in(self.elsewhere, self.shop, "openid email")
        self.given["api"] = await self.gets_in(self.elsewhere, self.shop, "openid email orders:read orders:write", ORDERS)
        self.given["refresh"] = await self.gets_in(self.elsewhere, self.shop, "openid email offline_access")

    async def _lets_the_shop_act_at_codehost(self) -> None:
        fake = self.fakes["codehost"]
        fields = {"org": "acme", "service": "shop", "redirect_uri": CALLBACK, "state": "s", "code_challenge_method": "S256"}
        query = "&".join(f"{name}={value}" for name, value in {**fields, "code_challenge": CHALLENGE}.items())
        answer = await self.remembered.request("GET", f"/auth/codehost?{query}")
        assert answer.status == 302, answer.body
        answer = await self.remembered.request("GET", fake.consent(answer.header("location") or ""))
        assert "code=" in (answer.header("location") or ""), (answer.status, answer.header("location"), answer.body)

    async def _lets_the_helper_in(self) -> None:
        self.given["agent"] = await self.gets_in(self.elsewhere, self.helper, "orders:read orders:write", ORDERS)

    async def _gets_tokens_of_services(self) -> None:
        self.given["exchanged"] = await self.exchanged(self.desk, self.given["api"]["access_token"])
        self.given["asserted"] = (await self.bring()).ok()["access_token"]
        self.log.remember(self.given["exchanged"], self.given["asserted"])

    async def bring(self) -> Received:
        """The shop shows the assertion of acme's provider."""
        claims = {"iss": self.fakes["own"].issuer, "sub": "u-1", "aud": BASE_URL, "client_id": self.shop.client_id, "resource": ORDERS}
        assertion = self.signed({**claims, "scope": "orders:read"}, typ=TYPE)
        return await self.ask(fields={"grant_type": GRANT, "assertion": assertion, **self.shop.posted})

    def signed(self, claims: dict[str, Any], **header: str) -> str:
        now = int(self.postern.foundation.clock.now().timestamp())
        more = {"jti": str(self.postern.foundation.ids.new()), "iat": now, "exp": now + 300}
        text = jwt.encode({**claims, **more}, KEY, algorithm="RS256", headers={"kid": "one", **header})
        self.log.remember(text)
        return text

    async def _connects_codehost(self) -> None:
        self.people.change("update all_services set codehost_scopes = '{repo}' where id = %s", self.shop.service.id)
        fake = self.fakes["codehost"]
        # Another address than that of the account, so that the code host proves nothing.
        fake.person = PEOPLE["codehost"]("grace@home.example", True)
        token = await self.tenants.token(await self.person(self.inside))
        cookies = "; ".join(f"{name}={value}" for name, value in self.inside.cookies.items())
        answer = await self.client.post("/api/user/identities/codehost/link", token=token, headers=[("cookie", cookies)])
        for name, value in answer.headers:
            if name == "set-cookie":
                cookie, _, kept = value.partition(";")[0].partition("=")
                self.inside.cookies[cookie] = kept
        await self.inside.request("GET", fake.consent(answer.ok()["authorization_url"]))

    async def _makes_key(self) -> None:
        settings = {"enabled": True, "prefix": "acme"}
        (await self.request("PATCH", f"{ACME}/services/shop/user-key-settings", settings)).ok()
        tab = await self.inside.tab().open("/ui/keys/acme/shop/new")
        tab = await tab.send(len(tab.page.forms) - 1, name="Laptop")
        found = _KEY_TEXT.search(tab.page.text)
        assert found is not None, tab.page.text
        self.given["user_key"] = found[0]
        self.log.remember(found[0])

    async def _makes_what_machines_use(self) -> None:
        shop = f"{ACME}/services/shop"
        makes: dict[str, tuple[str, dict[str, Any]]] = {
            "api_key": (f"{shop}/api-keys", {"name": "Key", "permissions": ["read:users", "write:users"]}),
            "client_secret": (f"{shop}/client-secrets", {}),
            "management_key": (f"{ACME}/management-keys", {"name": "Robot", "capabilities": ["audit_logs.view"], "expires_in_days": 30}),
            "scim_token": (f"{ACME}/scim-tokens", {"name": "Second"}),
            "invitation": (f"{ACME}/invitations", {"email": "new@corp.example", "role": "member"}),
            "setup_link": (f"{ACME}/setup-links", {"name": "Link", "purposes": ["domain"]}),
        }
        for kind, (path, body) in makes.items():
            answer = await self.as_grace("POST", path, body)
            assert answer.status in {200, 201}, (kind, answer.body)
            made = answer.json()
            self.given[kind] = self.kept_secret({**made.pop("invitation", {}), **made})
        rule = {
            "name": "Deploy",
            "service_slug": "shop",
            "issuer": self.fakes["own"].issuer,
            "audience": BASE_URL,
            "jwks": {"keys": [public_jwk("one", KEY)]},
            "subject_pattern": _SUBJECT,
        }
        self.given["trusted_issuer"] = (await self.as_grace("POST", f"{ACME}/trusted-issuers", rule)).ok(201)
        of_key = {**rule, "name": "Robot", "service_slug": None, "management_key_id": self.given["management_key"]["id"]}
        (await self.as_grace("POST", f"{ACME}/trusted-issuers", of_key)).ok(201)
        self.given["workload"] = (await self.asserts(self.given["management_key"]["id"])).ok()["access_token"]
        self.log.remember(self.given["workload"])

    async def asserts(self, client: str) -> Received:
        """A build job shows its issuer's token in place of a secret."""
        claims = {"iss": self.fakes["own"].issuer, "sub": _SUBJECT, "aud": BASE_URL}
        return await self.ask(fields={"grant_type": GRANT, "client_id": client, "assertion": self.signed(claims)})

    async def _adds_passkey(self) -> None:
        options = (await self.as_grace("POST", "/api/user/passkeys/options", {})).ok()
        passkey = Passkey.made()
        answer = await self.as_grace("POST", "/api/user/passkeys", {"name": "Phone", "credential": passkey.create(options)})
        assert answer.status in {200, 201}, answer.body

    async def _adds_second_factor(self) -> None:
        secret = (await self.as_grace("POST", "/api/user/mfa/setup")).ok()["secret"]
        self.totp = pyotp.TOTP(secret)
        codes = (await self.as_grace("POST", "/api/user/mfa/verify", {"code": self.totp.now()})).ok()["backup_codes"]
        self.log.remember(secret, *codes)
        self.given["backup_codes"] = codes
        self.remembered = Tabs(self.client)
        tab = await self.goes(self.remembered, self.provider, "?org=acme")
        tab = await tab.send(code=codes[0], trust_device="yes")
        assert await self.who(self.remembered) == self.user, tab.page.text
        self.elsewhere = Tabs(self.client)
        tab = await self.goes(self.elsewhere, self.provider, "?org=acme")
        await tab.send(code=codes[1])
        assert await self.who(self.elsewhere) == self.user, tab.page.text

    async def _leaves_things_under_way(self) -> None:
        """A mailed link, a code that nobody has redeemed, and a sign-in in a platform owner's hands."""
        self.given["link"] = token_in(await self.mailed("/api/auth/forgot-password"))
        self.given["code"] = (await self.answers(self.remembered, self.shop, "openid email"))["code"]
        body = {"reason": "Ticket 4711: sees an empty list"}
        # A television set that Grace has let in, and that has not come for its tokens.
        asked = {"client_id": self.shop.client_id, "org": "acme", "service": "shop"}
        set_ = (await self.client.post("/auth/device/code", asked)).ok()
        self.log.remember(set_["device_code"], set_["user_code"])
        found, _ = await self.postern.federation.device_flow.find_entered(set_["user_code"])
        grace = await self.person(self.inside)
        caller = Caller(UserId(self.user), Email(GRACE), SessionId(grace.session), is_platform_owner=False)
        await self.postern.federation.device_flow.approve(found.id, caller, Visitor("198.51.100.7", FIREFOX))
        # The agent asks from afar, and nobody has answered yet. Only own members are asked, which Grace is for the moment.
        (was,) = self.people.rows("select own_since from memberships where user_id = %s", self.user)
        self.people.change("update memberships set own_since = now() where user_id = %s", self.user)
        (await self.request("PATCH", f"{ACME}/sign-in-rules", {"afar_requests": "on"})).ok()
        fields = {"login_hint": GRACE, "scope": "orders:read", "resource": ORDERS, **self.helper.posted}
        self.given["afar"] = (await self.ask("/oauth/bc-authorize", fields)).ok()["auth_req_id"]
        self.log.remember(self.given["afar"])
        self.people.change("update memberships set own_since = %s where user_id = %s", was["own_since"], self.user)
        # A sign-in that awaits the second factor.
        await self.goes(Tabs(self.client), self.provider, "?org=acme")
        # Another account at another provider, to which Grace has gone to connect it.
        self.fakes["websuite"].person = PEOPLE["websuite"]("mallory@elsewhere.example", True)
        answer = await self.as_grace("POST", "/api/user/identities/websuite/link")
        self.given["connecting"] = answer.ok()["authorization_url"]
        self.connecting = Tabs(self.client)
        for name, value in answer.headers:
            if name == "set-cookie":
                cookie, _, kept = value.partition(";")[0].partition("=")
                self.connecting.cookies[cookie] = kept
        elsewhere = await self.person(self.elsewhere)
        self.given["elsewhere"] = elsewhere.session
        # A test of acme's provider, which another of Grace's browsers has started.
        tried = await self.request("POST", f"{ACME}/upstream-providers/{self.provider}/test", by=elsewhere)
        self.given["connection_test"] = tried.ok()
        key = {"name": "House", "permissions": ["delete:users", "verify:user_keys"]}
        self.given["house_key"] = (await self.request("POST", f"{ACME}/services/shop/api-keys", key)).ok(201)["key"]
        self.given["impersonation"] = (await self.request("POST", f"/api/platform/impersonate/{self.user}", body, by=self.governor)).ok()
        self.log.remember(self.given["link"], self.given["code"], self.given["impersonation"]["access_token"])
        # In each mail that tells Grace of something that a stranger may have done.
        await self.reads()
        told = [one for mail in self.read if mail.to == GRACE for one in mail.text.split() if "/ui/lock-account?token=" in one]
        self.given["lock_link"] = told[-1].removeprefix(BASE_URL)
        self.given["lock_link_at"] = self.postern.foundation.clock.now()

"""Requests about an organization that has one of everything, with the credentials of whoever may send them, and what each costs."""

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import process_time, thread_time
from typing import Any, Final
from urllib.parse import quote, urldefrag, urlencode

import msgspec

from core.domain.identity.flows import FlowPurpose, SignInRequirements, form_token
from core.domain.secrets import Token
from core.domain.tenancy.setup import SetupPurpose
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form, FormOrJson, FormWithFile, ScimJson
from entrypoints.http.machinery.browsers import IN_FLOW
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from ops.browser.page_reader import PageReader
from tests.http.client import Pairs
from tests.http.people import BASE_URL, People, Person
from tests.http.signing_in import unlimited
from tests.security.credentials import bearer
from tests.security.organizations.console import COOKIE, names_of, signed_in
from tests.security.organizations.world import TRUST, World
from tests.security.texts.declared import SOME_ID, DeclaredText, built

MOST_MS: Final = 5.0
TRIES: Final = 5
# A busy machine makes single tries longer, and none shorter than its work.
MOST_TRIES: Final = 30
_LARGE: Final = 16 << 10
ANY_TEXT: Final = "x"
"""What a request has in place of other texts, unless something that is there is known by the name of the field."""


def _credential(one: Endpoint) -> str:
    if one.path.startswith("/ui/setup"):
        return "setup"
    if one.is_page:
        return "flow" if one.caller is IN_FLOW else "browser"
    if one.path.startswith("/scim"):
        return "directory"
    if one.path.startswith(("/oauth", "/auth")):
        return "secret-as-password"
    return "key" if one.path.startswith(("/api/service", "/access")) else "owner"


Request = tuple[str, str, Pairs, bytes]
"""Method, target, headers and body."""


class TextWalk:
    """Sends requests about an organization that has one of everything, with the credentials of whoever may send them: its owner, who also
    governs the platform, in a program and in a browser that is on its way through a flow and through a set-up link; its directory; and its
    shop.
    """

    def __init__(self, postern: Postern, people: People) -> None:
        self._client = unlimited(postern)
        self._postern, self._people = postern, people
        self._world = World(postern, people)
        self._scene = self._world.asked
        self._credentials: dict[str, Pairs] = {}
        self._sessions: dict[str, Person] = {}
        self._flow = ""
        self._shown: Mapping[str, Any] = {}
        self.met: Counter[int] = Counter()
        """How often which status answered."""

    async def begin(self) -> None:
        scene, people = self._scene, self._people
        people.change("update users set is_platform_owner = true where id = %s", self._world.ada.user)
        people.change("update setup_links set purposes = %s where org_id = %s", [one.value for one in SetupPurpose], scene.tenant.id)
        await self._sign_in("owner")
        await self._sign_in("browser")
        await self._begin_flow()
        await self._make_true()
        setup = self._postern.foundation.secrets.token()
        used = "update setup_links set browser_digest = %s, used_by = 'x', used_at = now() where id = %s"
        people.change(used, setup.digest(), scene.ids["setup_links"])
        pair = b64encode(f"{scene.client}:{quote(scene.secret)}".encode()).decode()
        self._credentials |= {
            "setup": (("cookie", f"__Host-postern_setup={setup.reveal()}"),),
            "directory": bearer(scene.directory),
            "secret-as-password": (("authorization", f"Basic {pair}"),),
            "key": (("x-api-key", scene.key),),
        }

    async def _make_true(self) -> None:
        """What the world only shows, and nothing here could read."""
        self._people.change("delete from saml_certificates")
        made = await self._client.post(
            f"/api/organizations/{self._scene.slug}/services/{self._scene.shop.slug}/saml/certificate", headers=self._credentials["owner"]
        )
        assert made.status == 200, made.body

    async def _sign_in(self, name: str) -> None:
        session = self._sessions[name] = self._people.session_of(self._world.ada)
        if name == "owner":
            self._credentials[name] = bearer(await self._people.token(session))
        else:
            self._credentials[name] = (("cookie", f"{COOKIE}={signed_in(self._postern, self._people, session)}"),)

    async def _begin_flow(self) -> None:
        secret = self._postern.foundation.secrets.token()
        flow = await self._postern.identity.flows.begin(
            secret, FlowPurpose.ACCOUNT, {"to": "/ui"}, SignInRequirements(), email=self._world.bob.email
        )
        self._flow = str(flow.id)
        self._credentials["flow"] = (("cookie", f"__Host-postern_flow={secret.reveal()}"),)

    async def stay_signed_in(self) -> None:
        """Some of what the walk sends signs out."""
        for name, session in tuple(self._sessions.items()):
            if not self._people.rows("select from sessions where id = %s and revoked_at is null", session.session):
                await self._sign_in(name)

    async def require_world(self) -> None:
        """What is asked is still there, and those who ask still may."""
        await self.stay_signed_in()
        for name, place in (("browser", f"/ui/o/{self._scene.slug}"), ("owner", f"/api/organizations/{self._scene.slug}")):
            answer = await self._client.get(place, headers=self._credentials[name])
            assert answer.status == 200, (place, answer.status)

    async def look_at(self, one: Endpoint) -> None:
        """Reads the form that sends to this page, where there is one: its own fields let the text be read."""
        self._shown = {}
        if one.method != "POST" or _credential(one) != "browser":
            return
        at = self._address(one, {})
        for place in (at, *(at.rsplit("/", steps)[0] for steps in (1, 2))):
            answer = await self._client.get(place, headers=self._credentials["browser"])
            if answer.status == 200:
                for form in PageReader(answer.body).forms:
                    if urldefrag(form.action or place).url.partition("?")[0] == at:
                        self._shown = {name: value for name, value in form.fields.items() if isinstance(value, str | list | tuple)}
                        return

    def credentials(self, name: str) -> Pairs:
        return self._credentials[name]

    def id(self, of: str) -> str:
        """Of one row of the table."""
        return str(self._scene.ids[of])

    def person(self) -> str:
        return str(self._world.bob.user)

    def directory(self) -> str:
        """A connection by SAML."""
        of = "select id from upstream_providers where kind = 'saml' and org_id = %s"
        return str(self._people.rows(of, self._scene.tenant.id)[0]["id"])

    def form_token(self, name: str) -> str:
        """For a form of the browser."""
        ((_, cookie),) = self._credentials["browser"]
        return form_token(Token(cookie.partition("=")[2]), name)

    def headers(self, one: Endpoint) -> Pairs:
        return self._credentials[_credential(one)]

    def _token(self, one: Endpoint) -> str:
        (cookie,) = self._cookies(one)[:1] or ("",)
        if one.path.startswith("/ui/setup"):
            return form_token(Token(cookie), "setup")
        return form_token(Token(cookie), f"flow {self._flow}" if one.caller is IN_FLOW else "session")

    def _cookies(self, one: Endpoint) -> Sequence[str]:
        return [value.partition("=")[2] for name, value in self.headers(one) if name == "cookie"]

    def _address(self, one: Endpoint, named: Mapping[str, str]) -> str:
        known = {**self._names_of(one), **named}
        path = one.path
        for name in parameters(path):
            path = path.replace(f"{{{name}}}", quote(known.get(name, ANY_TEXT), safe=""))
        return path

    def _names_of(self, one: Endpoint) -> Mapping[str, str]:
        """What the path of the endpoint may name, and what fields of its body and its query have."""
        return {**names_of(one, self._world, self._scene), "flow": self._flow}

    def _known(self, value: Any, names: Mapping[str, str], name: str = "") -> Any:
        """The value with what is really there, in place of what stands for any text or id."""
        if isinstance(value, dict):
            return {key: self._known(one, names, key) for key, one in value.items()}
        if isinstance(value, list):
            return [self._known(one, names, name) for one in value]
        return names.get(name, value) if value in {ANY_TEXT, SOME_ID} else value

    def request(self, one: Endpoint, text: DeclaredText | None, value: str) -> Request:
        """The least request in which the text stands."""
        known = self._names_of(one)
        named = dict[str, str]()
        query: Any = built(one.query_type, (), ANY_TEXT) if one.query_type is not None else {}
        body: Any = None
        if one.body_type is not None and one.body_type is not bytes:
            body = built(one.body_type, (), ANY_TEXT)
        if text is not None and text.part == "path":
            named[text.steps[0]] = value
        elif text is not None and text.part == "query":
            query = built(one.query_type, text.steps, value)
        elif text is not None:
            body = built(one.body_type, text.steps, value)
        fields = {**known, **_FIELDS}
        query, body = self._known(query, fields), self._known(body, fields)
        if one.is_page and isinstance(body, dict):
            shown = {name: value for name, value in self._shown.items() if text is None or name != text.steps[0]}
            body = {**({"flow": self._flow} if one.caller is IN_FLOW else {}), **body, **shown}
        path = self._address(one, named)
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        headers = list(self.headers(one))
        if one.is_page and one.method != "GET":
            headers += [("origin", BASE_URL), ("sec-fetch-site", "same-origin")]
        return one.method, target, headers, self._encoded(one, text, body, headers)

    def _encoded(self, one: Endpoint, text: DeclaredText | None, body: Any, headers: list[tuple[str, str]]) -> bytes:
        if body is None:
            return b""
        if one.is_page and isinstance(body, dict) and (text is None or text.steps != ("form_token",)):
            body["form_token"] = self._token(one)
        match one.accepts:
            case Form() | FormOrJson():
                headers.append(("content-type", "application/x-www-form-urlencoded"))
                return urlencode(body, doseq=True).encode()
            case FormWithFile():
                headers.append(("content-type", "multipart/form-data; boundary=b"))
                parts = "".join(f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in body.items())
                return f"{parts}--b--\r\n".encode()
            case ScimJson():
                headers.append(("content-type", "application/scim+json"))
            case _:
                headers.append(("content-type", "application/json"))
        # Raw, as a hostile sender writes it: two bytes a mark, where an escape takes six.
        return msgspec.json.encode(body)

    async def cost(self, request: Request, large: int = 0) -> float:
        """In milliseconds: of this thread. One of a few threads reads a `large` body, in slices between which others work, and may take 5
        ms for each 100 KB; what it takes beyond counts, too.
        """
        method, target, headers, body = request
        here, everywhere = thread_time(), process_time()
        sent = await self._client._speak(method, target, headers, [body], leaves=False)
        took, in_all = (thread_time() - here) * 1000, (process_time() - everywhere) * 1000
        if large >= _LARGE:
            took = max(took, in_all - MOST_MS * large / 100_000)
        status = sent[0]["status"]
        assert status < 500 or status == 501, (method, target[:200], status)
        self.met[status] += 1
        return took

    async def least(self, request: Request, large: int, tries: int = TRIES) -> float:
        return min([await self.cost(request, large) for _ in range(tries)])

    async def beyond(self, worst_one: Request, plain: Callable[[], Request]) -> float:
        """What the text costs beyond a text of one letter. Most cost so little that one try tells."""
        large = len(worst_one[3])
        if (first := await self.cost(worst_one, large)) <= MOST_MS:
            return first
        least = min(first, await self.least(worst_one, large, TRIES - 1))
        # Measured in the same way: some answers take a thread some time, whatever the text, such as a new key.
        least_plain = await self.least(plain(), large)
        for _ in range(MOST_TRIES - TRIES):
            if least - least_plain <= MOST_MS:
                break
            least = min(least, await self.cost(worst_one, large))
        return least - least_plain


_FIELDS: Final[Mapping[str, str]] = {
    **{name: str(TRUST[name]) for name in ("issuer", "audience", "subject_pattern")},
    **dict.fromkeys(("email", "userName", "username", "from_email", "address"), "new@people.example"),
    **dict.fromkeys(("password", "new_password", "current_password"), "Velvet-harbour-91-lantern"),
    **dict.fromkeys(
        ("url", "endpoint_url", "base_url", "logo_url", "metadata_url", "sso_url", "acs_url", "identifier"), "https://a.example/"
    ),
    **dict.fromkeys(("primary_color", "second_color"), "#123456"),
    "role": "member",
    "language": "de",
    "currency": "usd",
    "type": "user",
    "permission": "read",
    "domain": "a.example",
    "host": "smtp.example",
    "path": "/admin",
    "provider_type": "generic",
}
"""What a field of a request has beside the text, where a letter would be refused before anything reads the text."""

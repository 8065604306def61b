"""Hostile tenants: hostile text in any field of a tenant, from callers who may send it, is stored or refused and never causes a fault. The
only redirect leads to an address from our settings.
"""

from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import msgspec
import pytest

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.routes import ROUTES
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Client
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenants
from tests.security.test_requests import HOSTILE

database_url, postern, people = http.database_url, http.postern, http.people

# Similar texts, longer than any field. The largest bodies are tried in tests without a database.
TEXTS = [text for text in HOSTILE if len(text) <= 10_000] + [
    "%",
    "_",
    "\\",
    "100%_\\%",
    "'; delete from organizations; --",
    "$$; drop table relations; $$",
    "{}",
    "null",
    "-1",
    "1e400",
    "0x7fffffffffffffff",
    str(2**63),
    "infinity",
    "9999-12-31T23:59:59+14:00",
    "0001-01-01T00:00:00-14:00",
]
# These routes would remove what the other routes need, and have no fields.
FINAL = {"DELETE /api/organizations/{org_slug}"}
WALKED = [
    one
    for one in ROUTES
    if str(one) not in FINAL and ("org_slug" in parameters(one.path) or one.caller is PLATFORM_OWNER or one.path.startswith("/api/organ"))
]


@pytest.fixture
def client(postern: Postern) -> Client:
    return unlimited(postern)


def bodies(one: Endpoint, text: str) -> list[Any]:
    """Bodies with one hostile field each, and a body with all fields hostile."""
    if one.body_type is None:
        return [None]
    if one.body_type is bytes:
        return [text.encode("utf-8", "surrogatepass")]
    fields = [field.encode_name for field in msgspec.structs.fields(one.body_type)]
    harmless = {"email": "a@example.org", "role": "member", "slug": "some-slug", "name": "Some name", "permissions": [], "reason": "why"}
    alone = [{**{name: harmless.get(name, "x") for name in fields}, field: text} for field in fields]
    return [*alone, dict.fromkeys(fields, text), {name: [text] for name in fields}]


async def test_hostile_text_from_those_who_may_send_it_is_data_or_a_refusal(client: Client, people: People, postern: Postern) -> None:
    tenants = Tenants(postern, people)
    acme = tenants.add("acme")
    owner = tenants.join(people.add("owner@acme.example", platform_owner=True), acme, "owner")
    tenants.uses(owner, tenants.service(acme, "shop"))
    token = await tenants.token(owner)
    for text in TEXTS:
        for one in WALKED:
            query = ""
            if one.query_type is not None:
                query = "&".join(f"{field.encode_name}={quote(text)}" for field in msgspec.structs.fields(one.query_type))
            path = one.path.replace("{org_slug}", "acme")
            for name in parameters(path):
                path = path.replace(f"{{{name}}}", quote(text, safe=""))
            for body in bodies(one, text):
                answer = await client.request(one.method, f"{path}?{query}", body=body, token=token)
                assert answer.status < 500, (str(one), text[:40], body, answer.body[:200])
                assert answer.status != 401, one
        # Field by field, since a refused field would hide the other fields.
        for one in WALKED:
            if one.query_type is None or parameters(one.path) not in {(), ("org_slug",)}:
                continue
            for field in msgspec.structs.fields(one.query_type):
                path = one.path.replace("{org_slug}", "acme")
                answer = await client.request(one.method, f"{path}?{field.encode_name}={quote(text)}", token=token)
                assert answer.status < 500, (str(one), field.name, text[:40])
    # The stored value is unchanged.
    assert people.rows("select slug from organizations where id = %s", acme.id) == [{"slug": "acme"}]
    relations = people.rows("select relation from relations where user_id = %s and organization_id = %s", owner.user, acme.id)
    assert relations == [{"relation": "owner"}]


async def test_names_come_back_as_they_were_given_or_not_at_all(client: Client, people: People, postern: Postern) -> None:
    tenants = Tenants(postern, people)
    owner = tenants.join(people.add("owner@acme.example"), tenants.add("acme"), "owner")
    token = await tenants.token(owner)
    for text in ("<script>alert(1)</script>", "O'Brien & Söhne", '"; drop table users; --', "{{7*7}}", "%_\\"):
        answer = await client.request("PATCH", "/api/organizations/acme", body={"name": text}, token=token)
        assert answer.status == 200
        assert answer.header("content-type") == "application/json"
        assert answer.json()["organization"]["name"] == text
    for text in ("line\nbreak", "\x1b[31mred", "right\u202eto left", "\x00"):
        answer = await client.request("PATCH", "/api/organizations/acme", body={"name": text}, token=token)
        if answer.status == 200:
            kept = answer.json()["organization"]["name"]
            assert not set(kept) & {"\n", "\x1b", "\u202e", "\x00"}, text
        else:
            assert answer.status == 400, text


REDIRECTS = [
    *HOSTILE[:10],
    "//evil.example",
    "https://evil.example",
    "https:evil.example",
    "\\\\evil.example",
    "/\\evil.example",
    "@evil.example",
    ".evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "x&next=https://evil.example",
    "x#@evil.example",
    "x?y=https://evil.example",
    "%0d%0aLocation: https://evil.example",
    "\r\nLocation: https://evil.example",
    "%2f%2fevil.example",
    "..//evil.example",
    "\u2028https://evil.example",
    "\uff0f\uff0fevil.example",
    "a" * 300,
]


# All in one test: the set-up of a test takes longer than all these requests.
async def test_the_link_of_an_invitation_leads_to_our_own_page_with_anything_in_it(client: Client, log: CapturedLog) -> None:
    configured = urlsplit(http.SETTINGS.frontend_url)
    for token in REDIRECTS:
        answer = await client.get(f"/invitations/accept?token={quote(token, safe='')}", headers=[("host", "evil.example")])
        location = answer.header("location")
        if answer.status == 400:
            assert location is None, token
            continue
        assert answer.status == 301, token
        assert location is not None
        assert location.isascii()
        assert not set(location) & set("\r\n\0 <>\"'\\"), token
        parts = urlsplit(location)
        assert (parts.scheme, parts.netloc, parts.path, parts.fragment) == (
            configured.scheme,
            configured.netloc,
            f"{configured.path}/invitations/accept",
            "",
        ), token
        assert parse_qs(parts.query, keep_blank_values=True) == {"token": [token]}
    for query in ("", "?token=", "?token=a&token=b", "?token=%ff", "?next=https://evil.example", "?token=a&next=https://evil.example"):
        answer = await client.get(f"/invitations/accept{query}")
        assert answer.status in {301, 400}, query
        assert "evil" not in (answer.header("location") or "")
    assert not log.events("request_failed")


async def test_a_token_of_any_shape_is_one_that_nobody_gave(client: Client) -> None:
    """The caller needs no credential. Real tokens have 118 characters."""
    for length in (1, 36, *range(112, 125), 1000):
        for end in ("", "!", "!!", "==", "-_", "\u00e9"):
            token = ("A" * length)[: length - len(end)] + end
            for path in ("/api/invitations/accept", "/api/invitations/decline"):
                answer = await client.post(path, {"token": token})
                assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), (length, end)

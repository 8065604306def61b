"""The built-in password pages: they work in a browser without scripts, and only from our own address."""

import re
from html.parser import HTMLParser
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from core.domain.identity.accounts import LONGEST_PASSWORD
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.machinery.accepts import LONGEST_FORM
from entrypoints.http.machinery.limits import AUTH, PAGE_LOADS
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.identity.test_account_passwords import NEW, OLD, ada, forgotten, password_is, postbox
from tests.http.machinery.limited import until_refused
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox

__all__ = ["ada", "postbox"]  # fixtures

PAGE = "/ui/reset-password"


class Form(HTMLParser):
    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.form: dict[str, str | None] = {}
        self.inputs: dict[str, dict[str, str | None]] = {}
        self.labels: set[str | None] = set()
        self.scripts = 0
        self.feed(body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert "style" not in given
        assert not [name for name in given if name.startswith("on")]
        if tag == "form":
            self.form = given
        elif tag == "input":
            self.inputs[given["name"] or ""] = given
        elif tag == "label":
            self.labels.add(given["for"])
        elif tag == "script":
            self.scripts += 1


async def send(
    client: Client, path: str = PAGE, headers: tuple[tuple[str, str], ...] = (("sec-fetch-site", "same-origin"),), **fields: str
) -> Received:
    given = [("content-type", "application/x-www-form-urlencoded"), *headers]
    return await client.request("POST", path, body=urlencode(fields).encode(), headers=given)


def is_page(answer: Received) -> bool:
    policy = answer.header("content-security-policy") or ""
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert re.search(r"form-action '(self|none)'", policy)
    assert "unsafe" not in policy
    assert (answer.header("referrer-policy"), answer.header("cache-control")) == ("no-referrer", "no-store")
    return answer.header("content-type") == "text/html; charset=utf-8"


async def test_a_person_chooses_a_new_password(client: Client, postern: Postern, postbox: Postbox, log: CapturedLog, ada: Person) -> None:
    token = await forgotten(client, postbox, ada)
    log.remember(token, NEW)
    shown = await client.get(f"{PAGE}?token={token}")
    assert shown.status == 200
    assert is_page(shown)
    assert (await client.get(f"{PAGE}?token={token}")).status == 200  # to look at the link does not use it up
    form = Form(shown.body)
    assert (form.form["method"], form.form["action"], form.scripts) == ("post", PAGE, 1)
    assert form.inputs["token"]["value"] == token
    assert form.labels == {"new_password", "repeated"}
    assert form.inputs["new_password"]["autocomplete"] == "new-password"
    answer = await send(client, token=token, new_password=NEW, repeated=NEW)
    assert (answer.status, answer.header("location")) == (303, "/ui/password-chosen")
    assert await password_is(postern, NEW)
    done = await client.get("/ui/password-chosen")
    assert done.status == 200
    assert is_page(done)
    again = await send(client, token=token, new_password=OLD, repeated=OLD)
    assert again.status == 400
    assert is_page(again)
    assert b"was replaced by a newer one" in again.body
    assert (await client.get(f"{PAGE}?token={token}")).status == 400


async def test_two_clicks_choose_it_once(client: Client, postbox: Postbox, ada: Person, people: People, log: CapturedLog) -> None:
    """After a double click, a browser drops the first answer."""
    token = await forgotten(client, postbox, ada)
    log.remember(token, NEW)

    async def choose(password: str = NEW) -> tuple[int, str | None]:
        answer = await send(client, token=token, new_password=password, repeated=password)
        return answer.status, answer.header("location")

    assert {*await all_at_once(choose, choose)} == {await choose()} == {(303, "/ui/password-chosen")}
    assert len(people.rows("select from audit_log where action = 'security.password.changed'")) == 1
    # Another password is not confirmed, and a moment later neither is the same one.
    assert (await choose(OLD))[0] == 400
    people.change("update mailed_tokens set used_at = used_at - interval '11 seconds'")
    assert (await choose())[0] == 400
    people.change("update mailed_tokens set used_at = now()")
    people.change("update users set password_changed_at = password_changed_at - interval '11 seconds'")
    assert (await choose())[0] == 400


async def test_an_invited_person_finds_the_same_page_under_another_name(client: Client, postbox: Postbox, ada: Person) -> None:
    token = await forgotten(client, postbox, ada)
    answer = await client.get(f"/ui/set-password?token={token}")
    assert Form(answer.body).form["action"] == "/ui/set-password"
    assert (await send(client, "/ui/set-password", token=token, new_password=NEW, repeated=NEW)).status == 303


@pytest.mark.parametrize(
    ("new", "repeated", "says"),
    [
        ("short", "short", "at least 8"),
        ("x" * 129, "x" * 129, "at most 128"),
        ("password1", "password1", "too common"),
        (NEW, OLD, "passwords do not match"),
        ("", "", "at least 8"),
    ],
)
async def test_a_password_that_is_refused_brings_the_form_back(
    new: str, repeated: str, says: str, client: Client, postern: Postern, postbox: Postbox, ada: Person
) -> None:
    token = await forgotten(client, postbox, ada)
    answer = await send(client, token=token, new_password=new, repeated=repeated)
    assert answer.status == 400
    assert is_page(answer)
    assert says in answer.body.decode()
    form = Form(answer.body)
    wrong = "repeated" if says == "passwords do not match" else "new_password"
    assert form.inputs[wrong]["aria-invalid"] == "true"
    assert (form.inputs[wrong]["aria-describedby"] or "").split()[0] == f"{wrong}-error"
    assert f'<a href="#{wrong}">' in answer.body.decode()
    assert "value" not in form.inputs["new_password"]
    assert await password_is(postern, OLD)
    assert (await send(client, token=token, new_password=NEW, repeated=NEW)).status == 303


@pytest.mark.parametrize(
    "token", ["", "?token=", "?token=x", "?token=%3Cscript%3Ealert(1)%3C/script%3E", "?token=%00%ff", "?token=" + "x" * 5000]
)
async def test_without_a_good_link_there_is_a_page_that_says_so(token: str, client: Client) -> None:
    answer = await client.get(PAGE + token)
    assert answer.status == 400
    assert is_page(answer)
    assert b"not valid" in answer.body
    assert b"<script" not in answer.body


@pytest.mark.parametrize(
    "headers",
    [
        (("sec-fetch-site", "cross-site"),),
        (("sec-fetch-site", "same-site"), ("origin", BASE_URL)),
        (("sec-fetch-site", "none"),),
        (("origin", "https://evil.example"),),
        (("origin", f"{BASE_URL}.evil.example"),),
    ],
)
async def test_another_sites_form_is_refused(
    headers: tuple[tuple[str, str], ...], client: Client, postern: Postern, postbox: Postbox, ada: Person
) -> None:
    token = await forgotten(client, postbox, ada)
    answer = await send(client, headers=headers, token=token, new_password=NEW, repeated=NEW)
    assert answer.status == 403
    assert is_page(answer)
    assert await password_is(postern, OLD)


@pytest.mark.parametrize(
    "headers", [(), (("origin", BASE_URL),), (("origin", "null"),), (("sec-fetch-site", "same-origin"), ("origin", "null"))]
)
async def test_our_own_form_is_taken_from_every_browser(
    headers: tuple[tuple[str, str], ...], client: Client, postbox: Postbox, ada: Person
) -> None:
    token = await forgotten(client, postbox, ada)
    assert (await send(client, headers=headers, token=token, new_password=NEW, repeated=NEW)).status == 303


@pytest.mark.parametrize("fields", [b"new_password=nul%00&repeated=nul%00", b"new_password=%ff&repeated=%ff", b"new_password=12345678"])
async def test_what_no_browser_sends_is_no_password(fields: bytes, client: Client, postern: Postern, postbox: Postbox, ada: Person) -> None:
    token = await forgotten(client, postbox, ada)
    answer = await client.request("POST", PAGE, body=b"token=%s&%s" % (token.encode(), fields), headers=OWN_FORM)
    assert answer.status == 400
    assert is_page(answer)
    assert b"is incomplete" in answer.body
    assert await password_is(postern, OLD)


async def test_nobody_tries_links_without_end(client: Client) -> None:
    statuses, refused = await until_refused(AUTH, lambda: send(client, token=f"guess{uuid4()}", new_password=NEW, repeated=NEW))
    assert set(statuses) == {400}
    assert is_page(refused)
    shown = refused.body.partition(b"<main")[2]
    assert shown.count(b"Try again in ") == 1, "once, and not twice"
    assert refused.header("retry-after") is not None


async def test_an_office_behind_one_address_opens_its_pages_and_can_still_sign_in(client: Client) -> None:
    """Two hundred people each open the page of a mailed link and one more page. After that the address gets a page that asks it to wait."""
    for number in range(200):
        assert (await client.get(f"{PAGE}?token=mailed{number}")).status == 400
        assert (await client.get("/ui/password-chosen")).status == 200
    assert (await client.post("/api/auth/login", {"email": "a@example.org", "password": "x" * 12})).status == 401
    for _ in range(PAGE_LOADS.burst - 200):
        assert (await client.get(f"{PAGE}?token=mailed")).status == 400
    load = await client.get(f"{PAGE}?token=mailed")
    while load.status == 400:  # a few more for each second that this has taken
        load = await client.get(f"{PAGE}?token=mailed")
    assert load.status == 429
    assert is_page(load)
    assert load.header("retry-after")
    # Static pages cost so little that they have no limit.
    assert (await client.get("/docs")).status == 200


async def test_without_a_database_a_page_says_to_come_back(lonely_client: Client) -> None:
    answer = await lonely_client.get(f"{PAGE}?token=x")
    assert answer.status == 503
    assert is_page(answer)
    assert b"Try again later" in answer.body
    assert answer.header("retry-after") is not None


OWN_FORM = (("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin"))


@pytest.mark.parametrize("announced", [True, False])
async def test_a_form_that_is_too_long_is_refused_before_it_is_read_as_one(client: Client, announced: bool) -> None:
    body = b"token=x&new_password=".ljust(LONGEST_FORM + 1, b"x")
    length = (("content-length", str(len(body))),) if announced else ()
    refused = await client.request("POST", PAGE, body=body, headers=OWN_FORM + length)
    assert refused.status == 413
    assert is_page(refused)
    assert (await client.request("POST", PAGE, body=body[:-1], headers=OWN_FORM)).status == 400


async def test_a_smaller_limit_of_all_bodies_holds_for_forms(postern: Postern) -> None:
    client = Client(build_application(postern, replace(SETTINGS, body_limit=1024)))
    assert (await client.request("POST", PAGE, body=b"x" * 1025, headers=OWN_FORM)).status == 413


async def test_the_longest_password_fits_in_any_characters(client: Client, postern: Postern, postbox: Postbox, ada: Person) -> None:
    longest = "\U0001f600\U0001f601" * (LONGEST_PASSWORD // 2)
    token = await forgotten(client, postbox, ada)
    assert (await send(client, token=token, new_password=longest, repeated=longest)).status == 303
    assert await password_is(postern, longest)


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x", "text/plain", ""])
async def test_what_is_no_form_is_refused_as_none(client: Client, kind: str) -> None:
    body = b'--x\r\ncontent-disposition: form-data; name="token"\r\n\r\nx\r\n--x--\r\n'
    answer = await client.request("POST", PAGE, body=body, headers=(("content-type", kind), OWN_FORM[1]))
    assert answer.status == 415
    assert is_page(answer)


@pytest.mark.parametrize("fields", ["a&" * 4_000, "token=\u00e4%41" * 500])
async def test_what_no_page_of_ours_sends_is_refused_unread(client: Client, fields: str) -> None:
    for answer in (await client.get(f"{PAGE}?{fields}"), await client.request("POST", PAGE, body=fields.encode(), headers=OWN_FORM)):
        assert answer.status == 400
        assert is_page(answer)
        assert b"is incomplete" in answer.body


async def test_of_several_fields_of_a_link_the_first_counts_and_a_form_has_each_once(client: Client, postbox: Postbox, ada: Person) -> None:
    token = await forgotten(client, postbox, ada)
    assert (await client.get(f"{PAGE}?utm=1&token={token}&token=x&flag")).status == 200
    body = urlencode([("token", token), ("new_password", NEW), ("repeated", NEW), ("token", "x")]).encode()
    refused = await client.request("POST", PAGE, body=body, headers=OWN_FORM)
    assert refused.status == 400
    assert b"is incomplete" in refused.body


async def test_nothing_else_is_done_at_its_address(lonely_client: Client) -> None:
    assert (await lonely_client.request("DELETE", PAGE)).status == 405


async def test_the_link_in_the_mail_leads_here(client: Client, postbox: Postbox, ada: Person) -> None:
    await client.post("/api/auth/forgot-password", {"email": ada.email})
    link = await postbox.link()
    assert link.startswith(f"{BASE_URL}/ui/reset-password?token=")
    assert (await client.get(link.removeprefix(BASE_URL))).status == 200

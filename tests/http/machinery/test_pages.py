"""Declared pages: their own policy, refusals as pages, only our own forms; and pages for paths that do not exist."""

from collections.abc import Callable
from typing import Any

import pytest

from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.console.pages import CONSOLE
from entrypoints.http.machinery.answers import SELF, PagePolicy, UnsafePolicy
from entrypoints.http.machinery.browsers import IN_FLOW
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.pages.kit.declaring import page
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS

Examples = Callable[..., Client]
HTML = "text/html; charset=utf-8"


def shown(answer: Received) -> tuple[int, str | None]:
    return answer.status, answer.header("content-type")


async def test_a_page_has_a_policy_of_its_own_when_it_is_good_and_when_it_is_refused(examples: Examples, log: CapturedLog) -> None:
    log.allow("request_failed")
    client = examples(rate_limits=False)
    for kind, status in (("here", 200), ("conflict", 409), ("overloaded", 503), ("bug", 500)):
        answer = await client.get(f"/pages/{kind}")
        assert shown(answer) == (status, HTML)
        policy = answer.header("content-security-policy") or ""
        assert policy == (
            "default-src 'none'; script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; style-src 'self'; img-src 'self'; "
            "base-uri 'none'; frame-ancestors 'none'"
        )
        assert answer.header("cross-origin-opener-policy") == "same-origin-allow-popups"
        assert (answer.header("cache-control"), answer.header("x-content-type-options")) == ("no-store", "nosniff")
        assert b"private" not in answer.body


async def test_a_refusal_says_what_a_person_can_do_about_it(examples: Examples) -> None:
    client = examples()
    refused = (await client.get("/pages/conflict")).body.decode()
    assert "This is already in use" in refused
    assert "to send another invitation" in refused
    assert "to send another invitation" not in (await client.get("/pages/inactive")).body.decode()
    busy = await client.get("/pages/overloaded")
    assert "Try again later" in busy.body.decode()
    assert busy.header("retry-after") == "1"
    limited = await client.get("/pages/here")
    assert shown(limited) == (429, HTML)
    assert limited.header("retry-after") is not None


async def test_with_its_hands_full_the_process_refuses_a_page_by_a_page(examples: Examples) -> None:
    assert shown(await examples(most_requests=0, rate_limits=False).get("/pages/here")) == (503, HTML)


@pytest.mark.parametrize("policy", [{}, {"scripts": (SELF,), "images": (SELF, "data:"), "form_action": (SELF, "https://sp.example.org")}])
def test_what_is_not_named_is_forbidden(policy: dict[str, Any]) -> None:
    directives = dict(one.split(" ", 1) for one in PagePolicy(**policy).content_security.decode().split("; "))
    assert directives["default-src"] == directives["base-uri"] == directives["frame-ancestors"] == "'none'"
    assert directives["form-action"] == " ".join(policy.get("form_action", ("'none'",)))
    assert directives.get("script-src") == ("'self'" if policy else None)


@pytest.mark.parametrize(
    "source",
    [
        "'unsafe-inline'",
        "'unsafe-eval'",
        "*",
        "https:",
        "data:",
        "blob:",
        "https://*.example.org",
        "self",
        "'self'; script-src *",
        "'nonce-x'",
        "",
    ],
)
@pytest.mark.parametrize("directive", ["scripts", "styles", "connections", "form_action"])
def test_a_policy_names_no_source_that_would_undo_it(directive: str, source: str) -> None:
    with pytest.raises(UnsafePolicy, match="not a source that a page may name"):
        PagePolicy(**{directive: (SELF, source)})  # type: ignore[arg-type]  # each of these is a tuple of sources


@pytest.mark.parametrize("directive", ["scripts", "connections", "workers", "frames"])
def test_a_confined_page_reaches_nothing_of_ours(directive: str) -> None:
    with pytest.raises(UnsafePolicy, match="would reach our own pages"):
        PagePolicy(**{directive: (SELF,)}, confined=True)  # type: ignore[arg-type]  # each of these is a tuple of sources


@pytest.mark.parametrize("source", ["*", "https://*", "https://*.org", "http://*.example.org", "https://a.*.example.org", "data:"])
def test_a_confined_page_may_leave_one_label_open_and_no_more(source: str) -> None:
    policy = PagePolicy(scripts=("https://*.example.org",), frames=("https://*.example.org",), confined=True)
    assert b"script-src https://*.example.org; " in policy.content_security
    assert policy.content_security.endswith(b"; sandbox allow-forms allow-same-origin allow-scripts")
    with pytest.raises(UnsafePolicy, match="not a source that a page may name"):
        PagePolicy(scripts=(source,), confined=True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("sec-fetch-site", "same-origin")], 200),
        ([("origin", "null")], 200),
        ([], 200),
        ([("sec-fetch-site", "cross-site")], 403),
        ([("sec-fetch-site", "same-site"), ("origin", SETTINGS.base_url)], 403),
        ([("origin", "https://evil.example")], 403),
    ],
)
async def test_a_form_of_another_site_does_nothing_even_where_it_has_no_fields(
    examples: Examples, headers: list[tuple[str, str]], status: int
) -> None:
    assert shown(await examples().post("/pages", headers=headers)) == (status, HTML)


async def test_a_page_is_found_with_a_slash_behind_it_and_its_head_without_its_body(examples: Examples) -> None:
    client = examples()
    assert shown(await client.get("/pages/here/")) == (200, HTML)
    assert (await client.get("/pages/here//")).status == 404
    head = await client.request("HEAD", "/pages/here")
    assert (shown(head), head.body) == ((200, HTML), b"")
    assert (await client.request("OPTIONS", "/pages")).header("allow") == "POST, OPTIONS"


ACCEPT = [("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")]


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/ui/nope", []),
        ("/ui/nope/", [("accept", "application/json")]),
        ("/ui/invitations", []),
        ("/ui//", []),
        ("/nothing-here", ACCEPT),
        ("/wp-admin.php", [("accept", "TEXT/HTML")]),
        ("/docs//", ACCEPT),
    ],
)
async def test_a_person_who_finds_nothing_is_shown_a_page(lonely_client: Client, target: str, headers: list[tuple[str, str]]) -> None:
    answer = await lonely_client.get(target, headers=headers)
    assert shown(answer) == (404, HTML)
    assert b"Page not found" in answer.body
    assert answer.header("content-security-policy") == (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )


@pytest.mark.parametrize(
    ("target", "headers"),
    [("/api/nope", ACCEPT), ("/api/", ACCEPT), ("/nothing-here", []), ("/uikit", []), ("/x", [("accept", "*/*")]), ("/scim/v2x", [])],
)
async def test_a_program_that_finds_nothing_is_told_so_in_json(lonely_client: Client, target: str, headers: list[tuple[str, str]]) -> None:
    answer = await lonely_client.get(target, headers=headers)
    assert (answer.status, answer.error_code) == (404, "NOT_FOUND")


async def test_a_method_that_a_page_does_not_take_is_refused_by_a_page_to_people(lonely_client: Client) -> None:
    refused = await lonely_client.request("DELETE", "/ui/reset-password")
    assert shown(refused) == (405, HTML)
    assert refused.header("allow") == "GET, HEAD, POST, OPTIONS"


def test_a_page_says_who_may_call_and_under_which_limits() -> None:
    async def handler(_call: Call, _postern: Postern) -> bytes:
        return b""

    with pytest.raises(KeyError, match="limit"):
        page.get("/ui/x", caller=ANYONE)(handler)  # type: ignore[call-arg]  # what the type checker finds, the start finds too
    with pytest.raises(KeyError, match="caller"):
        page.get("/ui/x", limit=())(handler)  # type: ignore[call-arg]


# An application may have opened these pages in a pop-up.
SAML = {f"/saml/{{org_slug}}/{{service_slug}}/{step}" for step in ("sso", "slo")} | {
    *("/api/organizations/{org_slug}/services/{service_slug}/saml/login", "/ui/saml", "/ui/saml/later", "/ui/saml/elsewhere"),
    "/ui/saml/sign-out",
    "/saml/sp/{connection_id}/slo",
}
BEFORE_AN_APPLICATION = SAML | {
    *("/oauth/authorize", "/ui/authorize", "/ui/choose-account", "/ui/consent", "/ui/second-factor-required", "/ui/confirm-membership"),
    "/ui/answers",
    "/ui/accept-terms",
    "/ui/passkey-offer",
    "/ui/passkey-offer/passkey",
    "/ui/passkey-upgrade",
    "/saml/{org_slug}/{service_slug}/authenticate",
    "/saml/sp/{connection_id}/acs",
    "/auth/{provider}/callback",
}


async def test_every_page_is_strict(lonely_postern: Postern) -> None:
    """Every declared page allows only our styles, images and scripts, and forms to ourselves."""
    pages = [one for one in build_application(lonely_postern, SETTINGS).endpoints if one.is_page]
    assert len(pages) == 250 + len(CONSOLE)
    for one in pages:
        assert one.policy is not None
        assert one.policy.scripts in ((), (SELF,))
        assert (one.policy.styles, one.policy.images) == ((SELF,), (SELF,))
        assert one.policy.form_action in {(), (SELF,), None}
        # No window of an application opens the device pages, the links of invitations, or the page of a test.
        in_popup = one.path in BEFORE_AN_APPLICATION or (
            one.caller is IN_FLOW and not one.path.startswith(("/ui/device", "/ui/invitations", "/ui/connections/test"))
        )
        assert one.policy.opener == ("unsafe-none" if in_popup else "same-origin"), one
    # The search of each page of the console fetches what it suggests. The scripts of the other pages fetch a challenge from us.
    suggesting = {str(one) for one in CONSOLE}
    asking = {str(one) for one in pages if one.policy is not None and one.policy.connections} - suggesting
    assert asking == {
        *(f"{method} /ui/sign-in{step}" for method in ("GET", "POST") for step in ("", "/second-factor")),
        # SAML begins with the page of every other sign-in.
        "GET /saml/{org_slug}/{service_slug}/authenticate",
        *("POST /ui/sign-in/passkey", "POST /ui/sign-in/second-factor/passkey", "POST /ui/sign-in/mail-link"),
        *("GET /ui/prove", "POST /ui/prove", "POST /ui/prove/passkey", "GET /ui/passkeys/add", "POST /ui/passkeys/add"),
        *("GET /ui/forgot-password", "POST /ui/forgot-password"),
        *(f"{method} /ui/passkey-offer{step}" for method in ("GET", "POST") for step in ("", "/passkey")),
        *("GET /ui/passkey-upgrade", "POST /ui/passkey-upgrade"),
    }
    assert {one.policy.connections for one in pages if one.policy is not None} == {(), (SELF,)}
    # A form on these pages leads to an application, and no policy can name all applications' addresses.
    leaving = {str(one) for one in pages if one.policy is not None and one.policy.form_action is None}
    assert leaving == {
        *("GET /oauth/authorize", "POST /oauth/authorize", "GET /ui/authorize"),
        *("GET /ui/confirm-membership", "POST /ui/confirm-membership", "GET /ui/answers", "POST /ui/answers"),
        *("GET /ui/accept-terms", "POST /ui/accept-terms"),
        *("POST /ui/choose-account", "POST /ui/consent", "GET /ui/second-factor-required", "POST /ui/second-factor-required"),
        *(str(one) for one in pages if one.path in SAML),
    }

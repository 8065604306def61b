"""A newcomer's first steps: the printed link, and `postern demo` beside the running server, each in its own process."""

import re
import signal
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from entrypoints.cli.demo import application, require_trial
from entrypoints.failures import StartFailed
from ops.browser.page_reader import PageReader
from ops.browser.signing import browser
from ops.free_ports import free_port
from tests.e2e.postern import Postern, environment, until
from tests.e2e.warm.processes import COMMAND, PosternProcess
from tests.places import ROOT


@pytest.fixture(scope="module")
def server(e2e_directory: Path) -> Iterator[Postern]:
    """On its first start: the link that it prints is good for minutes only, so that of a shared installation may be too old."""
    # The command finds it by its settings, so the port must be known.
    settings = {"POSTERN_BIND": f"127.0.0.1:{free_port()}"}
    server = Postern(Path(tempfile.mkdtemp(dir=e2e_directory)) / "data", settings=settings)
    try:
        server.start()
        yield server
        assert server.stop() == 0
    finally:
        server.close()


@contextmanager
def demo(server: Postern, *arguments: str) -> Iterator[str]:
    """What it says, while its application runs."""
    # A shell that runs the tests in the background has them ignore it, and what they start would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = server.data_dir.parent / "demo.out"
    with out.open("wb") as printed:
        process = PosternProcess(
            [*COMMAND, "demo", *arguments],
            env=environment(server.data_dir, server.settings),
            cwd=ROOT,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: "Ctrl-C" in out.read_text() or process.poll() is not None)
        assert process.poll() is None, out.read_text()
        yield out.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert "The demo data is kept" in out.read_text()
    finally:
        process.kill()
        process.wait()


def said(printed: str, pattern: str) -> str:
    found = re.search(pattern, printed)
    assert found is not None, printed
    return found[1]


def test_the_printed_link_leads_to_ones_account_and_so_does_the_printed_password(server: Postern) -> None:
    """Nothing has to be read: each page has one thing to do."""
    printed = server.out.read_text()
    address = f"http://127.0.0.1:{server.port}"
    link = said(printed, r"Sign in +http://[^/]+(/\S+)")
    with browser("", "") as opened:
        page = PageReader(opened.client.get(f"{address}{link}").content)
        (form,) = page.forms
        signed_in = opened.client.post(f"{address}{form.action}", data=form.fields)
        assert (signed_in.status_code, signed_in.headers["Location"]) == (303, "/ui/first-steps")
        assert "owner@postern.local" in opened.client.get(f"{address}/ui/profile").text
    with browser("owner@postern.local", said(printed, r"Password +(\S+)")) as opened:
        front = opened.client.get(f"{address}/", follow_redirects=True)
        assert "/ui" in PageReader(front.content).links
        shown = opened.client.get(f"{address}/ui", follow_redirects=True)
        # Two forms: the address, and the password.
        for known in ({"email": opened.email}, {"password": opened.password}):
            form = PageReader(shown.content).forms[0]
            shown = opened.client.post(f"{address}{form.action}", data={**form.fields, **known}, follow_redirects=True)
        assert shown.url.path == "/ui/first-steps"


def test_it_is_made_once_and_its_people_sign_in(server: Postern) -> None:
    clients = set()
    for person in ("ada", "bob"):
        with demo(server, "--port", "0") as printed:
            home, password = said(printed, r"Application +(\S+)/"), said(printed, r"Password +(\S+)")
            clients.add(said(printed, r"client id (\S+)"))
            email = f"{person}@demo.postern.example"
            assert email in printed
            token = server.post("/api/auth/login", {"email": email, "password": password}).json()["access_token"]
            # They belong there, and are not asked whether they do.
            assert [one["membership"]["own_since"] is not None for one in server.get("/api/organizations", token=token).json()] == [True]
            with browser(email, password) as opened:
                assert "Sign in with Postern" in opened.client.get(f"{home}/").text
                came = opened.arrive(f"{home}/sign-in", f"{home}/callback")
                assert opened.client.get(came).status_code == 303
                shown = opened.client.get(f"{home}/").text
                assert f"Signed in as <strong>{email}</strong>" in shown
                assert "demo" in said(shown, r"<dt>organization</dt><dd>(.+?)</dd>")
                assert opened.arrive(f"{home}/sign-out", f"{home}/") == f"{home}/"
                assert "Sign in with Postern" in opened.client.get(f"{home}/").text
    assert len(clients) == 1


def test_it_answers_for_itself(server: Postern) -> None:
    with demo(server, "--port", "0") as printed, browser("", "") as opened:
        home = said(printed, r"Application +(\S+)/")
        assert opened.client.get(f"{home}/other").status_code == 404
        for path in ("/callback?code=x&state=y", "/sign-out"):
            assert opened.client.get(f"{home}{path}").headers["Location"] == "/"
        opened.client.get(f"{home}/sign-in")
        for answer in ("code=x&state=y", "error=access_denied&error_description=<b>"):
            wrong = opened.client.get(f"{home}/callback?{answer}")
            assert wrong.status_code == 400
            assert "does not belong to your sign-in" in wrong.text
            assert "<b>" not in wrong.text


def test_all_of_it_runs_side_by_side(server: Postern) -> None:
    with demo(server, "--all", "--port", "0") as printed:
        password = said(printed, r"Password +(\S+)")
        home, assistant, wiki = [
            said(printed, rf"{name} +(http://127\.0\.0\.1:\d+)/") for name in ("Web application", "MCP client", "By SAML")
        ]
        mcp = said(printed, r"MCP server +(\S+)")
        with browser("bob@demo.postern.example", password) as opened:
            came = opened.arrive(f"{home}/sign-in", f"{home}/callback")
            assert opened.client.get(came).status_code == 303
            # The client finds out by itself where to sign in, and the tool answers for this person.
            came = opened.arrive(f"{assistant}/sign-in", f"{assistant}/callback")
            shown = opened.client.get(came, follow_redirects=True).text
            assert "the tool who_am_i says" in shown, shown
            assert re.search(r"You are [0-9a-f-]{36}, by [0-9a-f-]{36}", shown)
            # Without a token of its own, the server says where to get one.
            refused = opened.client.post(mcp, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
            assert (refused.status_code, "resource_metadata=" in refused.headers["WWW-Authenticate"]) == (401, True)
            foreign = opened.client.post(mcp, json={}, headers={"Authorization": "Bearer a.b.c"})
            assert foreign.status_code == 401
            by_hand = opened.client.get(mcp)
            assert (by_hand.status_code, "Its clients call it, and no browser" in by_hand.text) == (405, True)
            for front in (mcp.removesuffix("mcp"), f"{wiki}/", f"{assistant}/"):
                assert opened.client.get(front).status_code == 200
            # What nobody signed lets nobody in.
            for sent in ("", "PHg+", "eHh4", b64encode(_FORGED.encode()).decode()):
                assert opened.client.post(f"{wiki}/acs", data={"SAMLResponse": sent}).status_code == 400
            assert opened.client.post(f"{wiki}/other").status_code == opened.client.get(f"{wiki}/other").status_code == 404
        with browser("carol@demo.postern.example", password) as opened:
            form = opened.handed_over(f"{wiki}/sign-in", f"{wiki}/acs")
            shown = opened.client.post(f"{wiki}/acs", data=form).text
            assert "Signed in as" in shown, shown
            assert "carol@demo.postern.example" in shown
            # Once.
            assert opened.client.post(f"{wiki}/acs", data=form).status_code == 400
    with demo(server, "--all", "--port", "0") as printed:
        assert "Demo Partner" in printed


_FORGED = (
    '<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="_a"><saml:Assertion'
    ' xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_b"/></samlp:Response>'
)


def test_where_it_cannot_be(server: Postern) -> None:
    with pytest.raises(StartFailed, match="on one machine"):
        require_trial("https://sso.example.com")
    with pytest.raises(StartFailed, match="start it first"):
        require_trial(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StartFailed, match=f"Port {server.port} cannot be used"):
        application(server.port, "http://127.0.0.1")

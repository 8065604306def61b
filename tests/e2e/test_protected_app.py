"""The guide to protecting an application works as written, and a person signs in to the resulting application."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from ops.browser.page_reader import PageReader
from ops.browser.signing import browser
from ops.free_ports import free_port
from tests.e2e.conftest import Installation
from tests.e2e.postern import environment, until
from tests.e2e.test_guides import GUIDES, blocks, served
from tests.patience import PATIENCE
from tests.tools import needs

GUIDE = GUIDES / "protect-your-app.md"
PASSWORD = "three wet matches"


@needs("jq")
def test_a_person_signs_in_to_the_application_of_the_guide(installation: Installation, e2e_directory: Path) -> None:
    app, api = free_port(), free_port()
    shown = e2e_directory / "protected-app.out"
    allowed = {"POSTERN_OUTBOUND_NETWORKS": "127.0.0.1/32"}
    assert f"POSTERN_OUTBOUND_NETWORKS={allowed['POSTERN_OUTBOUND_NETWORKS']} make run" in GUIDE.read_text()
    with served(GUIDE.stem, installation, e2e_directory, **allowed) as server, shown.open("wb") as out:
        variables = {
            "POSTERN": f"http://127.0.0.1:{server.port}",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "APP_PORT": str(app),
            "API_PORT": str(api),
        }
        shell = subprocess.Popen(
            ["bash", "-euc", "\n".join(blocks(GUIDE))],
            env=environment(server.data_dir, variables),
            cwd=e2e_directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            until(lambda: f"Running on http://127.0.0.1:{app}" in shown.read_text() or shell.poll() is not None, 60)
            assert shell.poll() is None, shown.read_text()
            told = shown.read_text()
            found = re.search(r"sign in as (\S+)", told)
            assert found is not None
            with browser(found[1], PASSWORD) as ada:
                home = f"http://127.0.0.1:{app}/"
                came = ada.arrive(home, f"{home}callback")
                assert ada.client.get(came, follow_redirects=True).text.startswith(f"Hello, {found[1]}<form")
                assert ada.client.get(home).text.startswith(f"Hello, {found[1]}<form")
                sign_out_at_postern(ada.client, f"http://127.0.0.1:{server.port}")
                until(lambda: ada.client.get(home).headers.get("Location") == "/sign-in", 60)
                ada.client.get(ada.arrive(home, f"{home}callback"), follow_redirects=True)
                left = ada.client.post(f"{home}sign-out", follow_redirects=True)
                assert left.url.path == "/ui/signed-out"
                assert ada.client.get(home).headers["Location"] == "/sign-in"
                assert "email" in PageReader(ada.client.get(f"{home}sign-in", follow_redirects=True).content).forms[0].fields
                for token in ("", "x.y.z"):
                    assert ada.client.post(f"{home}ended", data={"logout_token": token}).status_code == 400
            assert '"orders of"' in told
            forged = {"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."}
            assert httpx.get(f"http://127.0.0.1:{api}/orders", headers=forged, timeout=PATIENCE).status_code == 401
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
            shell.wait()


def sign_out_at_postern(client: httpx.Client, postern: str) -> None:
    form = PageReader(client.get(f"{postern}/ui").content).forms[0]
    assert form.action == "/ui/sign-out"
    done = client.post(f"{postern}{form.action}", data=form.fields, follow_redirects=True)
    assert "You are signed out" in done.text


def test_the_applications_are_as_short_as_the_guide_says() -> None:
    api, app, leaving = re.findall(r"<<'PYTHON'\n(.*?)^PYTHON$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(api.splitlines()) <= 12
    assert len((app + leaving).splitlines()) <= 47

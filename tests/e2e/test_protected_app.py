"""The guide to protecting an application runs as it is written, and a person signs in to what comes of it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.e2e.browser import browser
from tests.e2e.conftest import Installation
from tests.e2e.postern import environment, free_port, until
from tests.e2e.test_guides import GUIDES, blocks, served
from tests.tools import needs

GUIDE = GUIDES / "protect-your-app.md"
PASSWORD = "three wet matches"


@needs("jq")
def test_a_person_signs_in_to_the_application_of_the_guide(installation: Installation, e2e_directory: Path) -> None:
    app, api = free_port(), free_port()
    shown = e2e_directory / "protected-app.out"
    with served(GUIDE.stem, installation, e2e_directory) as server, shown.open("wb") as out:
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
                assert ada.client.get(came, follow_redirects=True).text == f"Hello, {found[1]}"
                assert ada.client.get(home).text == f"Hello, {found[1]}"
            assert '"orders of"' in told
            forged = {"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."}
            assert httpx.get(f"http://127.0.0.1:{api}/orders", headers=forged).status_code == 401
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
            shell.wait()


def test_the_applications_are_as_short_as_the_guide_says() -> None:
    api, app = re.findall(r"<<'PYTHON'\n(.*?)^PYTHON$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert (len(api.splitlines()), len(app.splitlines())) <= (12, 22)

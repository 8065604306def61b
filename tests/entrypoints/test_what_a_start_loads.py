"""How many modules `postern serve` has loaded when it serves (decision 0230). Counted, because seconds and MiB depend on the machine."""

import json
import subprocess
import sys
from typing import Final

from tests.places import ROOT

_LOADED: Final = """
import json, sys
import entrypoints.cli.main, entrypoints.cli.serve, entrypoints.serving
from entrypoints.http.application import HttpSettings, PosternApplication
PosternApplication(None, HttpSettings(base_url="http://postern.test", frontend_url="http://postern.test", version="0"))
print(json.dumps(sorted(sys.modules)))
"""
_FAMILIES: Final = {"core", "ports", "adapters", "actors", "entrypoints"}
# 843 when this was written. Whoever raises it says in the commit what the new modules are for at every start.
_MOST: Final = 944
# What few installations use, or what only a command does.
_AT_FIRST_USE: Final = {
    "lxml",
    "xmlsec",
    "ua_parser",
    "adapters.ldap",
    "adapters.moving_files",
    "adapters.postgres.moving",
    "core.domain.platform.moving",
    "entrypoints.demo",
    "entrypoints.cli.moving",
    "entrypoints.cli.verbs",
}


def test_a_start_loads_no_more_than_is_said() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "entrypoints.http.application" in loaded
    assert not loaded & _AT_FIRST_USE
    ours = [name for name in loaded if name.partition(".")[0] in _FAMILIES]
    assert len(ours) <= _MOST

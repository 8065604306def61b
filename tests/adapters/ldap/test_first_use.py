"""Nothing imports the adapter before somebody asks a directory."""

import subprocess
import sys

from tests.places import ROOT


def test_no_process_loads_the_adapter_at_its_start() -> None:
    program = (
        "import sys; import entrypoints.bootstrap, entrypoints.http.application;"
        " print([name for name in sys.modules if name.startswith('adapters.ldap')])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"

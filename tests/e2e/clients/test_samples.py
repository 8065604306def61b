"""The samples in `/docs` are calls that the clients have: each argument by its name, each operation of the clients."""

import ast
import inspect
import sys
from pathlib import Path

from entrypoints.http.application import PAGES
from entrypoints.http.description import openapi
from entrypoints.http.description.documentation import has_samples, in_python, in_typescript
from entrypoints.http.routes import ROUTES
from ops.clients.document import described
from tests.e2e.clients.conftest import MadeClients
from tests.e2e.clients.test_walks import STRICTLY, TSC, needs_typescript
from tests.tools import needs

DOCUMENT = openapi.document([*ROUTES, *PAGES], base_url="https://id.example.org", version="1.0.0")
SAMPLED = [one for methods in DOCUMENT["paths"].values() for one in methods.values() if has_samples(one)]


def test_each_operation_of_the_clients_has_a_sample() -> None:
    assert {one["operationId"] for one in SAMPLED} == {one.id for one in described(DOCUMENT).operations}


def test_the_samples_in_python_are_calls_that_the_client_takes(clients: MadeClients) -> None:
    sys.path.insert(0, str(clients.python))
    try:
        from postern_client import Postern  # type: ignore[import-not-found]  # noqa: PLC0415 - it was just made
    finally:
        sys.path.remove(str(clients.python))
    for one in SAMPLED:
        (statement,) = ast.parse(in_python(one)).body
        assert isinstance(statement, ast.Expr)
        call = statement.value
        assert isinstance(call, ast.Call)
        named = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg}
        inspect.signature(getattr(Postern, one["operationId"])).bind(None, *call.args, **named)


@needs("node")
@needs_typescript
def test_the_samples_in_typescript_have_sound_types(clients: MadeClients) -> None:
    calls = "\n".join(f"{in_typescript(one)};" for one in SAMPLED)
    head = 'import { Postern } from "@postern/client"\nconst postern = new Postern("", { token: "" })\nconst content = ""\n'
    Path(clients.folder, "samples.ts").write_text(head + calls)
    clients.run("node", TSC, "--noEmit", *STRICTLY, "samples.ts")

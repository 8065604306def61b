"""What the clients have of the OpenAPI document."""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from ops.clients.document import JSON, described
from ops.clients.in_typescript import camel
from ops.generate_clients import document
from tests.e2e.clients.conftest import VERSION, MadeClients
from tests.places import ROOT

DOCUMENT = document()
OPERATIONS: Mapping[str, Mapping[str, Any]] = {
    one["operationId"]: one for methods in DOCUMENT["paths"].values() for one in methods.values()
}
# Their ways of reading on are the client's; of the others, one answer is all.
TURNED = {"after", "page", "offset"}


@pytest.fixture
def package(clients: MadeClients, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(clients.python))
    yield importlib.import_module("postern_client")
    for name in [name for name in sys.modules if name.partition(".")[0] == "postern_client"]:
        del sys.modules[name]


def is_left_out(one: Mapping[str, Any]) -> bool:
    """A page, what only leads to one, or an operation of SCIM."""
    answers = {kind for status, answer in one["responses"].items() if status[0] == "2" for kind in answer.get("content", {"nothing"})}
    return not answers or any("html" in kind for kind in answers) or one["security"] == [{"scim": []}]


def test_each_operation_for_programs_is_a_method(package: Any, clients: MadeClients) -> None:
    wanted = {name for name, one in OPERATIONS.items() if not is_left_out(one)}
    wanted |= {f"iterate_{name.partition('_')[2]}" for name, one in OPERATIONS.items() if one.get("x-paging") in TURNED}
    assert len(wanted) > 300
    for kind in (package.Postern, package.AsyncPostern):
        assert {name for name in dir(kind) if not name.startswith("_")} - {"close", "aclose"} == wanted
    for file in ("client.js", "client.d.ts"):
        text = (clients.folder / "typescript" / "src" / file).read_text()
        assert set(re.findall(r"^  ([a-z]\w+)\(", text, re.MULTILINE)) - {"constructor"} == {camel(name) for name in wanted}


def examples() -> Iterator[tuple[str, Any]]:
    for name, one in OPERATIONS.items():
        for status, answer in one["responses"].items():
            if status[0] == "2" and not is_left_out(one) and "example" in answer.get("content", {}).get(JSON, {}):
                yield name, answer["content"][JSON]["example"]


def test_each_answer_is_read_whole(package: Any) -> None:
    records = importlib.import_module("postern_client.records")
    read = 0
    for name, example in examples():
        answer = records.decode(get_type_hints(getattr(package.Postern, name))["return"], example)
        assert not isinstance(answer, dict) or name.endswith(("configuration", "metadata")), name
        # Fields of no other name, and no more: what is absent stays so. A time may be written in another way.
        assert without_times(records.encode(answer)) == without_times(
            {**example, **additional(answer)} if isinstance(example, dict) else example
        ), name
        read += 1
    assert read > 200


def additional(answer: Any) -> Mapping[str, Any]:
    return {"additional": answer.additional} if hasattr(answer, "additional") else {}


def without_times(value: Any) -> Any:
    return json.loads(re.sub(r'"(\d{4}-\d\d-\d\dT[\d:.]+)(Z|\+00:00)"', r'"\1Z"', json.dumps(value)))


def test_one_record_or_a_list_of_them_is_read_as_what_came(package: Any) -> None:
    records, types = importlib.import_module("postern_client.records"), package.types
    kind = get_type_hints(package.Postern.get_streams)["return"]
    stream = next(example for name, example in examples() if name == "create_stream")
    assert isinstance(records.decode(kind, stream), types.StreamConfiguration)
    assert [type(one) for one in records.decode(kind, [stream, stream])] == [types.StreamConfiguration] * 2


def test_a_record_is_a_value_that_hides_its_secrets(package: Any) -> None:
    records, types = importlib.import_module("postern_client.records"), package.types
    role = types.TierRecord(id="1", name="free", display_name="Free", default_max_services=1, default_max_users=5, price_cents=0)
    assert role == records.decode(types.TierRecord, {**role.__dict__, "of a later version": True})
    assert (role.display_name, len({role, role})) == ("Free", 1)
    with pytest.raises(AttributeError):
        role.name = "other"
    with pytest.raises(TypeError, match="needs name"):
        types.TierRecord(id="1")
    with pytest.raises(TypeError, match="no field slug"):
        types.TierRecord(**role.__dict__, slug="x")
    key = records.decode(types.CreatedManagementKey, {"key": "pto_secret", "name": "Pipeline"})
    assert "Pipeline" in repr(key)
    assert "pto_secret" not in repr(key)
    # A server that is older than the client does not send every field.
    with pytest.raises(AttributeError):
        _ = key.id


def test_an_error_has_a_class_for_each_code(package: Any) -> None:
    codes = set(re.findall(r'"error_code": "([A-Z_]+)"', json.dumps([one for one in OPERATIONS.values() if not is_left_out(one)])))
    assert set(package.errors.BY_CODE) == codes
    assert all(issubclass(kind, package.ApiError) and kind is not package.ApiError for kind in package.errors.BY_CODE.values())


def test_the_clients_have_the_version_and_the_licence(package: Any, clients: MadeClients) -> None:
    manifest = json.loads((clients.folder / "typescript" / "package.json").read_text())
    assert (package.__version__, manifest["version"]) == (VERSION, VERSION)
    for name in ("python", "typescript"):
        assert (clients.folder / name / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
        assert (clients.folder / name / "README.md").read_text().count("\n") < 45
    assert (clients.python / "postern_client" / "py.typed").exists()


def test_the_same_document_makes_the_same_files(clients: MadeClients, tmp_path: Path) -> None:
    write = f"from pathlib import Path; from ops.clients.build import write_clients; write_clients(Path({str(tmp_path)!r}), {VERSION!r})"
    subprocess.run([sys.executable, "-c", write], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "7"}, check=True)
    files = [file.relative_to(tmp_path) for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 20
    assert [file for file in files if (tmp_path / file).read_bytes() != (clients.folder / file).read_bytes()] == []


def test_a_list_that_could_be_read_in_two_ways_is_refused() -> None:
    (name,) = (path for path, methods in DOCUMENT["paths"].items() if any(one["operationId"] == "list_members" for one in methods.values()))
    schemas = DOCUMENT["components"]["schemas"]
    two = {**schemas["MemberListAnswer"]["properties"], "others": {"type": "array", "items": {"type": "string"}}}
    changed = {**schemas, "MemberListAnswer": {**schemas["MemberListAnswer"], "properties": two}}
    with pytest.raises(ValueError, match="unpack"):
        described({"paths": {name: {"get": DOCUMENT["paths"][name]["get"]}}, "components": {"schemas": changed}})

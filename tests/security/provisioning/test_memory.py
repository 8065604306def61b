"""Another system answers with all that it may, for as long as it is asked: this process grows by little, and the run fails in words.

The run has a process of its own, which measures itself.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import trio

from core.domain.federation.provisioning.listed import MOST_BYTES_LISTED
from ops.stand_ins.fake_remote_system import Arrived, FakeRemoteSystem, RemoteAnswer
from ops.stand_ins.remote_dialects import RemoteDialect
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.patience import PATIENCE

_MOST: Final = 40.0
_EMOJI: Final = "🔥"


def crowd(number: int, person: Callable[[int], dict[str, str]]) -> Callable[[Arrived], RemoteAnswer | None]:
    """A list that does not end, of so many a page."""

    def answer(request: Arrived) -> RemoteAnswer | None:
        if not request.query:
            return None
        start = int(request.query.get("startIndex") or request.query["cursor"] or 1)
        more = {"totalResults": 10**9} if "startIndex" in request.query else {"nextCursor": str(start + number)}
        listed = {**more, "Resources": [person(start + one) for one in range(number)]}
        return RemoteAnswer(200, json.dumps(listed, ensure_ascii=False).encode())

    return answer


HOSTILE: Final = {
    "names of a thousand emoji": crowd(
        100, lambda one: {"id": f"{one:0200}", "userName": f"{one}{_EMOJI * 990}", "externalId": f"{one}{_EMOJI * 990}"}
    ),
    "ids of two hundred emoji": crowd(100, lambda one: {"id": f"{one:07}{_EMOJI * 193}", "userName": f"{one}"}),
    "as many people as a page holds": crowd(9000, lambda one: {"id": f"{one:x}", "userName": f"{one:x}", "externalId": f"{one:x}"}),
    "people who are nobody": crowd(30_000, lambda one: {"id": f"{one:x}"}),
    "all with one name": crowd(5000, lambda one: {"id": f"{one:x}", "userName": "boss@acme.example"}),
}


@pytest.mark.parametrize(("name", "cursors"), [*((name, False) for name in HOSTILE), ("names of a thousand emoji", True)])
async def test_a_list_without_end_takes_little_memory(
    scene: ProvisioningScene, far: FakeRemoteSystem, database_url: str, tmp_path: Path, name: str, *, cursors: bool
) -> None:
    scene.active(agreed=False)
    far.dialect = RemoteDialect(cursors=cursors)
    far.answers = HOSTILE[name]
    with trio.fail_after(PATIENCE):
        ended = await trio.run_process(
            [sys.executable, "-m", "tests.security.provisioning.measured", database_url, str(tmp_path)],
            capture_stdout=True,
            stderr=subprocess.STDOUT,
        )
    before, peak = json.loads(ended.stdout.splitlines()[-1])
    run = scene.newest()
    assert (run["state"], run["why"]) == ("failed", "list_too_long")
    assert peak - before <= _MOST, f"{before:.0f} MiB became {peak:.0f}"
    assert scene.people.rows("select said from provisioning_exchanges where has_failed") == [{"said": "list_too_long"}]
    assert [one["name"] for one in scene.told() if "provisioning" in one["name"]] == ["service.provisioning.failing"]
    assert MOST_BYTES_LISTED < _MOST * (1 << 20)

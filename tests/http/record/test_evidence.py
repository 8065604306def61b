"""Evidence of who has heard of the end of a person's access: what the file states, and that the guide's script verifies it."""

import json
import re
import sys
from base64 import urlsafe_b64decode
from hashlib import sha256
from pathlib import Path
from subprocess import run
from typing import Any, Final

import jwt
import pytest
import trio

from core.domain.record.evidence import MOST_IN_EVIDENCE
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import refused
from tests.http.people import People, Person
from tests.http.record.receiving_scene import DEAD, ReceivingScene, at
from tests.http.signing_in import unlimited
from tests.places import ROOT
from tests.receiver import answering, receiving

GUIDE: Final = ROOT / "docs/guides/verify-audit-offline.md"


class HandingOver(ReceivingScene):
    async def made(self, person: Person | None = None, by: Person | None = None) -> str:
        path = f"/api/organizations/acme/users/{(person or self.ada).user}/offboarding/evidence"
        return str((await self.request("POST", path, by=by or self.owner)).ok()["file"])

    async def checked_by_guide(self, directory: Path, evidence: str, records: list[dict[str, Any]] | None = None) -> tuple[int, str]:
        """By the program in the guide, word for word."""
        (program,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        (directory / "verify.py").write_text(program)
        (directory / "keys.json").write_text(json.dumps((await self.client.get("/.well-known/audit-export-keys.json")).ok(200)))
        (directory / "evidence.jwt").write_text(evidence + "\n")
        command = [sys.executable, "-I", "verify.py", "keys.json", "evidence.jwt"]
        if records is not None:
            (directory / "records.ndjson").write_text("".join(json.dumps(one) + "\n" for one in records))
            command.insert(-1, "records.ndjson")
        done = await trio.to_thread.run_sync(lambda: run(command, cwd=directory, capture_output=True, text=True, check=False))
        assert done.stderr == ""
        return done.returncode, done.stdout


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> HandingOver:
    return HandingOver(postern, people, unlimited(postern), log)


def claims(evidence: str) -> dict[str, Any]:
    told: dict[str, Any] = jwt.decode(evidence, options={"verify_signature": False})
    return told


async def test_the_file_states_what_the_endpoint_shows_and_the_log_has_its_digest(scene: HandingOver, tmp_path: Path) -> None:
    await scene.webhook(DEAD)
    entry = await scene.removed()
    await scene.link()
    evidence = await scene.made()
    told = claims(evidence)
    newest = told["entries"][0]
    assert (newest["entry_id"], newest["action"], newest["export"], newest["is_complete"]) == (entry, "user.removed", None, True)
    numbers = scene.people.rows("select sequence from audit_links where entry_id = %s", entry)
    assert [newest["sequence"]] == [row["sequence"] for row in numbers]
    shown = await scene.receivers(entry)
    assert [(one["id"], one["state"], one["received_at"]) for one in newest["receivers"]] == [
        (one["id"], one["state"], one["received_at"]) for one in shown
    ]
    assert (told["user_id"], told["made_by"]) == (str(scene.ada.user), str(scene.owner.user))
    # No address of a receiver, and nothing of people but ids.
    assert DEAD not in str(told)
    assert "@" not in str(told)
    (logged,) = scene.people.rows("select target_id, details from audit_entries where action = 'offboarding.evidence.created'")
    assert logged["details"] == {
        "evidence_id": told["jti"],
        "entries": len(told["entries"]),
        "digest": sha256(evidence.encode()).hexdigest(),
    }
    assert logged["target_id"] == str(scene.ada.user)
    status, said = await scene.checked_by_guide(tmp_path, evidence)
    assert status == 0
    assert f"person {scene.ada.user}, {len(told['entries'])} entries" in said
    assert "webhook 'CRM': waiting" in said


async def test_beside_the_copy_of_a_siem_each_entry_is_found_at_its_place(scene: HandingOver, tmp_path: Path) -> None:
    async with receiving(answering(200)) as ours:
        siem = await scene.exported(at(ours, "/siem"))
        entry = await scene.removed()
        async with scene.delivering():
            await scene.link()
            await scene.until(entry, "siem", "received")
        records = [json.loads(line) for call in ours.calls for line in call.body.decode().splitlines()]
    evidence = await scene.made()
    (newest,) = [one for one in claims(evidence)["entries"] if one["entry_id"] == entry]
    assert newest["export"] == {"export_id": siem["id"], "sequence": newest["sequence"], "received": True}
    status, said = await scene.checked_by_guide(tmp_path, evidence, records)
    assert (status, "FAULT" in said) == (0, False)
    # A copy that has lost the entry, or has another one in its place.
    cut = [one for one in records if one.get("sequence") != newest["sequence"] or "digest" not in one]
    status, said = await scene.checked_by_guide(tmp_path, evidence, cut)
    assert status == 1
    assert f"{newest['sequence']} is not the entry of the evidence" in said


async def test_what_was_not_confirmed_by_then_says_so(scene: HandingOver) -> None:
    await scene.exported(DEAD)
    entry = await scene.removed()
    await scene.link()
    (newest,) = [one for one in claims(await scene.made())["entries"] if one["entry_id"] == entry]
    assert newest["export"]["received"] is False


async def test_a_changed_byte_is_noticed_wherever_it_is(scene: HandingOver, tmp_path: Path) -> None:
    await scene.webhook(DEAD)
    await scene.removed()
    evidence = await scene.made()
    header, body, signature = evidence.split(".")
    for part, other in ((header, "header"), (body, "claims"), (signature, "signature")):
        middle = len(part) // 2
        changed = part[:middle] + ("A" if part[middle] != "A" else "B") + part[middle + 1 :]
        assert urlsafe_b64decode(changed + "=" * (-len(changed) % 4)) != urlsafe_b64decode(part + "=" * (-len(part) % 4)), other
        status, said = await scene.checked_by_guide(tmp_path, evidence.replace(part, changed))
        assert (status, "FAULT the evidence is not signed by these keys" in said) == (1, True), other
    for broken in ("", "a.b", "a.b.c", evidence[:-4], f"{header}.{body}."):
        assert (await scene.checked_by_guide(tmp_path, broken))[0] == 1, broken
    # A head is no evidence.
    head = await scene.postern.tenancy.siem.heads.sign(claims(evidence))
    assert (await scene.checked_by_guide(tmp_path, head))[0] == 1


async def test_of_many_receivers_the_file_has_a_hundred_and_says_so(scene: HandingOver) -> None:
    entry = await scene.happens("user.removed")
    scene.people.change(
        "insert into webhooks (id, org_id, name, url, events, sealed_secret, created_at, updated_at)"
        " select gen_random_uuid(), %s, 'W' || n, 'https://w.example/', '{user.removed}', '', now() - interval '1 day', now()"
        " from generate_series(1, 150) as n",
        scene.acme.id,
    )
    (newest,) = [one for one in claims(await scene.made())["entries"] if one["entry_id"] == entry]
    assert (len(newest["receivers"]), newest["is_complete"]) == (MOST_IN_EVIDENCE, False)


async def test_a_person_whom_the_log_does_not_name_has_an_empty_file(scene: HandingOver, tmp_path: Path) -> None:
    evidence = await scene.made(scene.stranger)
    assert claims(evidence)["entries"] == []
    assert (await scene.checked_by_guide(tmp_path, evidence))[0] == 0


async def test_an_old_sign_in_is_not_enough(scene: HandingOver) -> None:
    scene.people.change("update sessions set proved_at = now() - interval '1 hour'")
    path = f"/api/organizations/acme/users/{scene.ada.user}/offboarding/evidence"
    assert refused(await scene.request("POST", path, by=scene.owner)) == (401, "REAUTHENTICATION_REQUIRED")
    assert scene.people.rows("select from audit_entries where action = 'offboarding.evidence.created'") == []

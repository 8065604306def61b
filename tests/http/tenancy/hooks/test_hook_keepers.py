"""Who keeps a hook is looked at within the transaction of each change, and nobody changes one in another person's name."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from core.domain.errors import Forbidden
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.tenancy.hooks import HookDraft, HookSilence
from core.usecases.tenancy.hooks import Hooks
from tests.http.identity.test_accounts import impersonating
from tests.http.tenancy.hooks.scene import ACME, INSTALLATION, HookScene

Change = Callable[[Hooks, Caller, Actor, str, str], Awaitable[Any]]
CHANGES: Final[dict[str, Change]] = {
    "put": lambda hooks, root, actor, digest, _: hooks.put(
        root, HookDraft(address="http://127.0.0.1:1/", silence=HookSilence.REFUSE), actor, seen=digest
    ),
    "rotate": lambda hooks, root, actor, *_: hooks.rotate_secret(root, actor),
    "count": lambda hooks, root, actor, _, seen: hooks.let_count(root, actor, seen=seen),
    "shadow": lambda hooks, root, actor, *_: hooks.put_in_shadow(root, actor),
    "try": lambda hooks, root, actor, *_: hooks.test(root, actor),
    "delete": lambda hooks, root, actor, *_: hooks.delete(root, actor),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("left", ["is_platform_owner = false", "deactivated_at = now()"])
async def test_a_platform_owner_who_has_left_meanwhile_changes_nothing(scene: HookScene, change: str, left: str) -> None:
    """The request began while the caller was a platform owner."""
    made = await scene.made(INSTALLATION)
    scene.stood()
    seen = (await scene.shown(INSTALLATION))["report"]["digest"]
    root = scene.root
    caller = Caller(UserId(root.user), Email(root.email), SessionId(root.session), True)
    scene.people.change(f"update users set {left} where id = %s", root.user)
    before = scene.people.rows("select * from hooks"), len(scene.audited())
    with pytest.raises(Forbidden):
        await CHANGES[change](scene.postern.tenancy.hooks, caller, Actor(caller.user), made["digest"], seen)
    assert (scene.people.rows("select * from hooks"), len(scene.audited())) == before
    assert scene.receiver.calls == []


STEPS: Final = (
    ("PUT", "", {"address": "http://127.0.0.1:1/", "silence": "refuse", "digest": None}),
    ("POST", "/rotate-secret", None),
    ("POST", "/count", {"digest": "a" * 64}),
    ("POST", "/shadow", None),
    ("POST", "/try", None),
    ("DELETE", "", None),
)


async def test_nobody_changes_a_hook_while_impersonating_its_owner(scene: HookScene) -> None:
    await scene.counting()
    before = scene.people.rows("select * from hooks")
    token = await impersonating(scene.people, scene.boss, scene.postern)
    for method, step, body in STEPS:
        answer = await scene.client.request(method, f"{ACME}{step}", body=body, token=token)
        assert (answer.status, "impersonat" in answer.json()["error"]) == (403, True), (step, answer.json())
    assert scene.people.rows("select * from hooks") == before
    assert scene.receiver.calls == []

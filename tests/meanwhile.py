"""Lets something happen in the middle of an operation."""

from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import pytest

from core.frozen import Frozen
from tests.changed_fields import answer_by


def meanwhile(monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, happens: Callable[[], object]) -> None:
    """From now on `happens` is called whenever `owner.method` has done its work, before the caller gets the result."""
    work = getattr(owner, method)

    async def work_and_be_overtaken(*asked: Any, **named: Any) -> Any:
        result = await work(*asked, **named)
        outcome = happens()
        if isawaitable(outcome):
            await outcome
        return result

    if isinstance(owner, Frozen):
        answer_by(monkeypatch, owner, method, work_and_be_overtaken)
    else:
        monkeypatch.setattr(owner, method, work_and_be_overtaken)

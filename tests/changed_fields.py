"""Changes what a use case works with, for one test. Use cases are frozen, so that nothing else does."""

from typing import Any

import pytest
from msgspec.structs import force_setattr


def put(frozen: Any, **fields: Any) -> None:
    """Other values in these fields of an object that lives as long as the test."""
    for name, value in fields.items():
        assert name in frozen.__struct_fields__
        force_setattr(frozen, name, value)


def answer_by(monkeypatch: pytest.MonkeyPatch, frozen: Any, method: str, function: Any) -> None:
    """A function in place of this method of its class."""
    monkeypatch.setattr(type(frozen), method, staticmethod(function))

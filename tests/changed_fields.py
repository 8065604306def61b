"""Changes the fields of a use case for one test. Use cases are frozen, so nothing else changes these fields."""

from typing import Any

import pytest
from msgspec.structs import force_setattr


def put(frozen: Any, **fields: Any) -> None:
    """Puts other values into these fields of an object that lives as long as the test."""
    for name, value in fields.items():
        assert name in frozen.__struct_fields__
        force_setattr(frozen, name, value)


def answer_by(monkeypatch: pytest.MonkeyPatch, frozen: Any, method: str, function: Any) -> None:
    """Puts a function in place of this method of the object's class."""
    monkeypatch.setattr(type(frozen), method, staticmethod(function))

"""The plans that apply to Postern, and their modules, as a file keeps them: of one commit of the suite, which stands there alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_FILE: Final = Path(__file__).with_name("modules.json")


@dataclass(frozen=True, slots=True)
class Plan:
    name: str
    title: str
    folder: str
    """Of its tests, in `tests/conformance`."""
    modules: Mapping[str, str]
    """Each with the reason why it does not apply to Postern; empty if it does."""

    @property
    def applying(self) -> list[str]:
        return [module for module, because in self.modules.items() if not because]


@cache
def commit() -> str:
    """Of the suite."""
    return str(json.loads(_FILE.read_text())["commit"])


@cache
def plans() -> list[Plan]:
    return [Plan(name, **told) for name, told in json.loads(_FILE.read_text())["plans"].items()]


def function_of(module: str) -> str:
    """The name of the module's test."""
    return f"test_{module.replace('-', '_').lower()}"


@cache
def _modules() -> Mapping[str, str]:
    return {function_of(module): module for plan in plans() for module in plan.modules}


def module_of(function: str) -> str:
    """The module that the test is of. Raises `KeyError`."""
    return _modules()[function]

"""The modules of the OpenID Foundation's plans, read from a checkout of its suite: its plans are classes that list classes."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

_SOURCES: Final = Path("src/main/java")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PLAN: Final = re.compile(r'testPlanName\s*=\s*"([^"]+)"')
_MODULE: Final = re.compile(r'testName\s*=\s*"([^"]+)"')
# In the order in which they stand: a module, modules that are taken away again, and another plan whose modules are taken over.
_STEP: Final = re.compile(
    r"\.remove(?:All\(List\.of)?\((?P<less>\s*\w+\.class[^)]*)|(?P<module>\w+)\.class"
    r"|(?P<plan>\w+TestPlan)(?:\(\)\.|\.)(?:test\w*Modules\w*)"
)
_CLASS: Final = re.compile(r"(\w+)\.class")


class Checkout:
    def __init__(self, folder: Path) -> None:
        self._folder = folder / _SOURCES
        if not self._folder.is_dir():
            raise SystemExit(f"{folder} is no checkout of the suite: it has no {_SOURCES}.")

    @cached_property
    def _files(self) -> Mapping[str, Path]:
        return {file.stem: file for file in self._folder.rglob("*.java")}

    @cached_property
    def plans(self) -> Mapping[str, str]:
        """The classes of the plans, by the plans' names."""
        found = ((_PLAN.search(self._text(name)), name) for name in self._files if "TestPlan" in name)
        return {told[1]: name for told, name in found if told}

    def modules(self, plan: str) -> Sequence[str]:
        """The names of the plan's modules, in the plan's order, each once. Raises `LookupError`."""
        return [self._name(one) for one in self._listed(self.plans[plan])]

    def _listed(self, plan: str) -> Sequence[str]:
        listed: dict[str, None] = {}
        for step in _STEP.finditer(self._text(plan)):
            if step["less"]:
                for gone in _CLASS.findall(step["less"]):
                    listed.pop(gone, None)
            elif step["plan"]:
                listed |= dict.fromkeys(self._listed(step["plan"])) if step["plan"] != plan else {}
            elif self._name(step["module"]):
                listed[step["module"]] = None
        return list(listed)

    def _name(self, module: str) -> str:
        """Empty for a class that is no module, as one of a variant."""
        told = _MODULE.search(self._text(module)) if module in self._files else None
        return told[1] if told else ""

    def _text(self, name: str) -> str:
        return _COMMENT.sub("", self._files[name].read_text())

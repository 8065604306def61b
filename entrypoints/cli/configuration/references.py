"""Secrets of a document at the command line are references, `env:NAME` and `file:/path`, which are resolved here, where the command runs.
Whoever wrote the document may be another person than the operator who applies it, so a reference counts only if the operator allows it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from core.domain.secrets import Secret
from entrypoints.failures import USAGE, StartFailed

_LARGEST_SECRET: Final = 64 << 10
_OWN: Final = "POSTERN_"
"""Begins the names of Postern's own settings: the operator's, and no organization's."""


class WrongSource(StartFailed):
    status = USAGE


class ReferredSecret(Secret):
    """A secret that knows by which reference it came. The reference is no secret: plans name it."""

    __slots__ = ("reference",)

    def __init__(self, value: str, reference: str) -> None:
        super().__init__(value)
        self.reference = reference


class AllowedSecrets:
    """What `--secrets-from` allows: names that begin with a prefix, and files in a folder."""

    def __init__(self, allowed: Sequence[str], data_folder: Path) -> None:
        """Raises `WrongSource`."""
        if not all(one.strip() for one in allowed):
            raise WrongSource("--secrets-from: write the beginning of names of environment variables, or a folder")
        folders = [one for one in allowed if os.sep in one or one in {os.curdir, os.pardir}]
        self._prefixes = tuple(one for one in allowed if one not in folders)
        self._folders = [Path(one).resolve() for one in folders]
        self._data_folder = data_folder.resolve()

    def resolve(self, steps: tuple[str, ...], value: Any) -> Secret | None:  # noqa: ARG002 - as `Resolve`
        """Raises `ValueError`, which never shows a value."""
        if value is msgspec.UNSET:
            raise LookupError
        if value is None:
            return None
        if isinstance(value, str) and value.startswith("env:"):
            return ReferredSecret(self._in_environment(value.removeprefix("env:"), value), value)
        if isinstance(value, str) and value.startswith("file:"):
            return ReferredSecret(self._in_file(value.removeprefix("file:"), value), value)
        raise ValueError("a file holds no secrets: write env:NAME or file:/path")

    def _in_environment(self, name: str, value: str) -> str:
        # Windows takes names in any case.
        if name.upper().startswith(_OWN):
            raise ValueError(f"{value}: Postern's own settings are no secrets of a document")
        if not self._prefixes or not name.startswith(self._prefixes):
            raise ValueError(f"{value}: this name is not allowed; if it should be, say --secrets-from {name}")
        if not (found := os.environ.get(name)):
            raise ValueError(f"{value}: this environment variable is not set")
        return found

    def _in_file(self, path: str, value: str) -> str:
        try:
            # What is looked at here is what is opened, wherever links lead.
            place = Path(path).resolve()
            if place.is_relative_to(self._data_folder) or place in _own_files(os.environ):
                raise ValueError(f"{value}: Postern's own files are no secrets of a document")
            if not any(place.is_relative_to(folder) for folder in self._folders):
                raise ValueError(f"{value}: this file is not allowed; if it should be, say --secrets-from {Path(path).parent}{os.sep}")
            with place.open("rb") as file:
                text = file.read(_LARGEST_SECRET + 1).decode()
        except UnicodeDecodeError:
            raise ValueError(f"{value}: the file is not UTF-8") from None
        except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError up to Python 3.12
            raise ValueError(f"{value}: {getattr(error, 'strerror', None) or 'cannot be read'}") from None
        if len(text) > _LARGEST_SECRET:
            raise ValueError(f"{value}: a secret has at most {_LARGEST_SECRET >> 10} KiB")
        # Editors and `echo` end a file with a line break.
        return text.removesuffix("\n").removesuffix("\r")


def _own_files(environment: Mapping[str, str]) -> set[Path]:
    """The files that hold secrets of the operator's settings."""
    return {Path(path).resolve() for name, path in environment.items() if name.startswith(_OWN) and name.endswith("_FILE") and path}

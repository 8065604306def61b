"""The wheel's sources under one import root: imports move, and nothing else does."""

import pytest

from ops.packaging.one_root import LAYERS, CannotMove, moved, moved_source
from tests.places import ROOT


def moved_text(source: str) -> str:
    return moved_source(source.encode(), "module.py").decode()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from core.domain.moment import Moment\n", "from postern.core.domain.moment import Moment\n"),
        ("from core import usecases\n", "from postern.core import usecases\n"),
        ("from  ports.system import (\n    Clock,  # ticks\n)\n", "from  postern.ports.system import (\n    Clock,  # ticks\n)\n"),
        ("def f():\n    x = 'ü'; from actors import mailer\n", "def f():\n    x = 'ü'; from postern.actors import mailer\n"),
        (
            "if x: from adapters import a; from adapters import b\n",
            "if x: from postern.adapters import a; from postern.adapters import b\n",
        ),
    ],
)
def test_an_import_of_ours_gets_the_root(source: str, expected: str) -> None:
    assert moved_text(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "from coreutils import ls\nfrom trio import core\nimport core_of_others\n",
        "from .core import here\nfrom . import ports\n",
        "core = 1\nprint(core.real, 'core', 'the actors. They act')\n# from core import this\n",
        '"""Run it: `python -m entrypoints.settings_page`, from core import that."""\n',
        "\r\n# only a comment\f\n",
    ],
)
def test_everything_else_stays_to_the_byte(source: str) -> None:
    assert moved_text(source) == source


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import core.frozen\n", "module.py:1: write `from … import …`"),
        ("import os, adapters as ours\n", "module.py:1: write `from … import …`"),
        ('\nload("adapters.saml.reading")\n', "module.py:2: write 'adapters.saml.reading' with `__package__`"),
        ('load(f"entrypoints.cli.{name}")\n', "module.py:1: write 'entrypoints.cli.' with `__package__`"),
        ("from\\\n    core import frozen\n", "an import is written in a form that is not understood"),
    ],
)
def test_a_form_that_cannot_move_stops_the_build(source: str, why: str) -> None:
    with pytest.raises(CannotMove) as refused:
        moved_text(source)
    assert why in str(refused.value)


@pytest.mark.slow
def test_every_module_of_the_product_can_move() -> None:
    for layer in LAYERS:
        for file in (ROOT / layer).rglob("*.py"):
            moved_source(file.read_bytes(), file.relative_to(ROOT).as_posix())


def test_metadata_name_the_root() -> None:
    files = {
        "core/__init__.py": b"",
        "adapters/schema.sql": b"from core import nothing",
        "postern-1.dist-info/entry_points.txt": b"[console_scripts]\npostern = entrypoints.cli.main:main\n",
        "postern-1.dist-info/top_level.txt": b"actors\nadapters\ncore\n",
        "postern-1.dist-info/RECORD": b"core/__init__.py,,\n",
    }
    found = dict(moved(files))
    assert found.pop("postern/__init__.py").startswith(b'"""')
    assert found == {
        "postern/core/__init__.py": b"",
        "postern/adapters/schema.sql": b"from core import nothing",
        "postern-1.dist-info/entry_points.txt": b"[console_scripts]\npostern = postern.entrypoints.cli.main:main\n",
        "postern-1.dist-info/top_level.txt": b"postern\n",
    }

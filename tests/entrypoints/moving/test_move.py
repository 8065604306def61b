"""An organization moves from one installation to another, whole."""

from tests.entrypoints.moving.conftest import Moving
from tests.entrypoints.moving.installations import Installation


def test_tour(moving: Moving, here: Installation) -> None:
    arrived = here.import_(moving.file)
    print(arrived)
    assert 0

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.backchannel.asking import Afar
from tests.http.people import People
from tests.http.signing_in import unlimited


@pytest.fixture
async def afar(postern: Postern, people: People, log: CapturedLog) -> Afar:
    """Acme has turned requests from afar on."""
    afar = Afar(postern, people, unlimited(postern), log)
    await afar.turn("on")
    return afar

"""Each module of streams and verifications that both plans have, once more."""

from tests.conformance.signals.test_streams import *  # noqa: F403
from tests.conformance.signals.test_verification import *  # noqa: F403

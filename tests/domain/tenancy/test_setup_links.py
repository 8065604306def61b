"""Set-up links: what a link is for."""

import pytest

from core.domain.errors import BadRequest
from core.domain.tenancy.setup import SetupPurpose, wanted_purposes


def test_a_link_is_for_something() -> None:
    """Such a link would count as finished at once, and its maker would need no right for it."""
    with pytest.raises(BadRequest, match="at least one"):
        wanted_purposes([])
    assert wanted_purposes([SetupPurpose.SIEM, SetupPurpose.DOMAIN, SetupPurpose.SIEM]) == (SetupPurpose.DOMAIN, SetupPurpose.SIEM)

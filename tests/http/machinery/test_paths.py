"""An organization and a service stand in a path once: every other path of theirs adds to it."""

import pytest

from entrypoints.http.machinery.fields import OrganizationPath, ServicePath
from entrypoints.http.routes import ROUTES


@pytest.mark.parametrize(("name", "path"), [("org_slug", OrganizationPath), ("service_slug", ServicePath)])
def test_no_path_says_an_organization_or_a_service_itself(name: str, path: type[OrganizationPath]) -> None:
    named = [one for one in ROUTES if one.path_type is not None and name in one.path_type.__struct_fields__]
    assert len(named) > 40
    assert [f"{one.method} {one.path}" for one in named if not issubclass(one.path_type or object, path)] == []

"""Every page of the installation opens for platform owners, and for nobody else."""

import pytest

from entrypoints.http.console.pages import OF_INSTALLATION
from tests.http.pages.console.platform.conftest import HOME, PlatformScene

_PAGES = sorted({one.path for one in OF_INSTALLATION if one.method == "GET"})


def filled(path: str, platform: PlatformScene) -> str:
    return path.format_map(
        {
            "org_id": platform.acme.id,
            "user_id": platform.ada.user,
            "key": "staff_number",
            "key_id": platform.ada.user,
            "entry_id": platform.ada.user,
            "budget_id": platform.ada.user,
            "link_id": platform.ada.user,
            "question_id": platform.ada.user,
            "resource_id": platform.ada.user,
            "place": "sign_in",
            "page": "sign_in",
            "mail": "welcome",
            "language": "en",
        }
    )


@pytest.mark.parametrize("path", _PAGES)
async def test_a_page_opens_for_platform_owners_alone(path: str, platform: PlatformScene) -> None:
    target = filled(path, platform)
    unknown = {"{key}", "{key_id}", "{entry_id}", "{link_id}", "{resource_id}", "{budget_id}"}
    # Acme has no text that could wait for a yes, and the installation no hook that somebody could let count.
    missing = any(one in path for one in ("/texts/{org_id}", "/hooks/count", "/hooks/exchanges"))
    known = not unknown & set(path.split("/")) and not missing
    tab = await platform.tab.open(target)
    assert tab.status == (200 if known else 404), tab.page.text
    assert len(tab.page.text) > 60
    assert (await platform.acmes.open(target)).status == 403


async def test_the_side_list_has_nine_entries(platform: PlatformScene) -> None:
    tab = await platform.at()
    assert len({link for link in tab.page.links if link.startswith(HOME) and link.count("/") <= 3 and "?" not in link}) >= 9


async def test_an_id_that_is_none_names_nothing(platform: PlatformScene) -> None:
    for place in ("/people/none", "/organizations/none", "/audit-log/none", "/keys/none", "/people/none/sessions"):
        assert (await platform.at(place)).status == 404, place

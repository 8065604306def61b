"""What a directory's administrator enters stands in the console, to be copied."""

from tests.http.pages.console.conftest import ConsoleScene

SCIM = "/directories/scim"
BASE = "/scim/v2"


async def test_the_base_address_stands_beside_the_tokens_and_beside_a_new_one(console: ConsoleScene) -> None:
    base = console.postern.foundation.public_url + BASE
    assert base in (await console.at(SCIM)).page.text
    await console.at(f"{SCIM}/~new")
    tab = await console.submit(f"{SCIM}/~new", name="Entra")
    assert "scim_" in tab.page.text
    assert base in tab.page.text

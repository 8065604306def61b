"""What one asker does to the requests of others, and the many spellings of one person."""

from tests.http.federation.backchannel.asking import Afar
from tests.http.federation.relying import oauth


async def test_an_organization_uses_up_nothing_of_anothers(afar: Afar) -> None:
    """Ada belongs to both by her own act. Whoever fills her page and her mails in one organization keeps the other from nothing."""
    owner = afar.resident(afar.globex, "owner")
    afar.tenants.join(afar.ada, afar.globex)
    (await afar.request("PATCH", "/api/organizations/globex/sign-in-rules", {"afar_requests": "on"}, by=owner)).ok()
    for number in range(7):
        asker = afar.application(afar.globex, f"asker{number}", secret=True)
        for _ in range(3):
            await afar.requested(asker, scope="openid", resource=None)
    waiting = await afar.waiting()
    assert len(waiting) == 20
    assert sum(await afar.tell()) == 6
    await afar.requested()
    assert [one["organization_name"] for one in await afar.waiting()].count("Acme") == 1
    assert sum(await afar.tell()) == 1


async def test_an_id_has_one_spelling(afar: Afar) -> None:
    """Otherwise each spelling would count as a person of its own."""
    usual = str(afar.ada.user)
    for odd in (f"{{{usual}}}", f"urn:uuid:{usual}", usual.replace("-", ""), f"{usual[:3]}-{usual[3:]}"):
        await afar.requested(login_hint=odd)
    assert await afar.waiting() == []
    for _ in range(5):
        await afar.requested(login_hint=usual)
    assert oauth(await afar.send(login_hint=usual.upper())) == (429, "temporarily_unavailable")


async def test_an_organization_that_is_suspended_asks_nobody(afar: Afar) -> None:
    afar.people.change("update all_organizations set status = 'suspended'")
    refused = await afar.send()
    assert (refused.status, refused.json()["error_code"]) == (403, "ORGANIZATION_NOT_ACTIVE"), refused.body
    assert afar.people.rows("select from afar_requests") == []
    assert await afar.mails() == []

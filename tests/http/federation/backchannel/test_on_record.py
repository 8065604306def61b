"""What the records say of requests from afar: the log of sign-ins, and the person's export."""

from tests.http.federation.backchannel.asking import REQUESTS, Afar


async def test_the_log_of_sign_ins_has_a_word_for_it(afar: Afar) -> None:
    await afar.fetched(afar.shop, scope="openid", resource=None)
    (event,) = afar.people.rows("select provider, service_id, success from login_events where service_id = %s", afar.shop.service.id)
    assert event == {"provider": "afar", "service_id": afar.shop.service.id, "success": True}


async def test_a_persons_export_names_blocked_clients_and_an_organizations_does_not(afar: Afar) -> None:
    await afar.requested()
    (shown,) = await afar.waiting()
    assert (await afar.request("POST", f"{REQUESTS}/{shown['id']}/block", by=afar.ada)).status == 204
    place = f"/api/privacy/export/{afar.ada.user}"
    (one,) = (await afar.request("GET", place, by=afar.ada)).ok()["blocked_clients"]
    (row,) = afar.people.rows("select blocked_at from afar_blocks")
    assert one == {
        "organization_id": str(afar.acme.id),
        "service_slug": "helper",
        "blocked_at": row["blocked_at"].isoformat().replace("+00:00", "Z"),
    }
    # What a person refuses says nothing that the organization of the application may know.
    assert (await afar.request("GET", place, by=afar.owner)).ok()["blocked_clients"] == []

"""SAML of an application: taken from metadata, set by hand, and the guided change of its certificate."""

from tests.http.pages.console.applications.conftest import made
from tests.http.pages.console.conftest import ConsoleScene

METADATA = """<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://crm.example.com/saml">
<SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">
<AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="https://crm.example.com/acs" index="0"/>
</SPSSODescriptor></EntityDescriptor>"""


def states(console: ConsoleScene) -> list[str]:
    return [str(one["state"]) for one in console.people.rows("select state from saml_certificates order by created_at")]


async def test_from_metadata_to_a_changed_certificate(console: ConsoleScene) -> None:
    crm = await made(console, "CRM", "saml", "")
    assert "/saml/acme/crm/metadata" in console.tab.page.text
    tab = await console.submit(f"{crm}/saml/metadata", text=METADATA)
    assert tab.place == f"/ui/o/acme{crm}/saml?done=saved"
    # An application that has said nothing yet is asked for its metadata; afterwards it is folded, and the end stands in the menu.
    assert '<details class="unfolds">' in tab.shown.body.decode()
    assert f"/ui/o/acme{crm}/saml/off" not in tab.page.links
    assert console.fields(f"{crm}/saml/configuration").fields["acs_url"] == "https://crm.example.com/acs"
    overview = await console.at(crm)
    assert "Metadata URL" in overview.page.text
    assert "oidc-client-ts" not in overview.page.text
    # Off until somebody turns it on, and useless without a certificate.
    assert "Turn on SAML first" in (await console.at(f"{crm}/saml-certificate")).page.text
    await console.at(f"{crm}/saml")
    tab = await console.submit(f"{crm}/saml/configuration", enabled=["yes"])
    assert "people cannot sign in yet. Create a certificate" in tab.page.text
    assert f"/ui/o/acme{crm}/saml/off" in tab.page.links
    await console.at(f"{crm}/saml-certificate")
    await console.submit(f"{crm}/saml-certificate")
    assert states(console) == ["active"]
    # The change: make the next one, let the application know it, let it sign.
    tab = await console.submit(f"{crm}/saml-certificate")
    assert states(console) == ["active", "next"]
    assert "The metadata has not been fetched since then" in tab.page.text
    assert (await console.client.get("/saml/acme/crm/metadata")).status == 200
    tab = await console.at(f"{crm}/saml-certificate")
    assert "The metadata has been fetched since then" in tab.page.text
    assert f"/ui/o/acme{crm}/saml-certificate/activate" in tab.page.links
    await console.at(f"{crm}/saml-certificate/activate")
    form = console.fields(f"{crm}/saml-certificate/activate")
    for _ in range(2):
        tab = await console.tab._go("POST", form.action, form.fields)
        assert tab.place == f"/ui/o/acme{crm}/saml-certificate?done=console.saml.activate"
        assert states(console) == ["active"]


async def test_a_stale_form_never_replaces_a_certificate_that_signs(console: ConsoleScene) -> None:
    crm = await made(console, "CRM", "saml", "")
    await console.submit(f"{crm}/saml/metadata", text=METADATA)
    await console.submit(f"{crm}/saml/configuration", enabled=["yes"])
    await console.at(f"{crm}/saml-certificate")
    form = console.fields(f"{crm}/saml-certificate")
    await console.tab._go("POST", form.action, form.fields)
    (first,) = console.people.rows("select id from saml_certificates")
    tab = await console.tab._go("POST", form.action, form.fields)
    assert tab.status == 409
    assert console.people.rows("select id from saml_certificates") == [first]


async def test_wrong_metadata_and_a_wrong_configuration_say_what_is_wrong(console: ConsoleScene) -> None:
    crm = await made(console, "CRM", "saml", "")
    tab = await console.submit(f"{crm}/saml/metadata", text="<nothing/>")
    assert tab.status == 400
    tab = await console.submit(f"{crm}/saml/metadata")
    assert tab.status == 400
    assert "Choose a file or paste the XML." in tab.page.text
    tab = await console.submit(f"{crm}/saml/configuration", enabled=["yes"])
    assert tab.status == 400
    tab = await console.submit(f"{crm}/saml/configuration", attribute_mapping="{")
    assert tab.status == 400
    await console.at(f"{crm}/saml")
    assert (await console.submit(f"{crm}/saml/configuration", attribute_mapping="")).place.endswith("?done=unchanged")


async def test_the_second_of_two_sees_what_the_first_has_changed(console: ConsoleScene) -> None:
    crm = await made(console, "CRM", "saml", "")
    await console.submit(f"{crm}/saml/metadata", text=METADATA)
    console.people.change("update saml_configurations set acs_url = 'https://crm.example.com/new'")
    tab = await console.submit(f"{crm}/saml/configuration", acs_url="https://crm.example.com/own")
    assert tab.status == 409
    assert "https://crm.example.com/new" in tab.page.text
    tab = await console.submit(f"{crm}/saml/configuration")
    assert tab.place.endswith("?done=saved")


async def test_saml_is_turned_off_after_a_question(console: ConsoleScene) -> None:
    crm = await made(console, "CRM", "saml", "")
    await console.submit(f"{crm}/saml/metadata", text=METADATA)
    await console.submit(f"{crm}/saml/configuration", enabled=["yes"])
    tab = await console.at(f"{crm}/saml")
    assert f"/ui/o/acme{crm}/saml/off" in tab.page.links
    await console.at(f"{crm}/saml/off")
    await console.submit(f"{crm}/saml/off")
    assert console.people.rows("select enabled from saml_configurations") == [{"enabled": False}]

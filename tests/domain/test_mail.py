"""A mail in the queue."""

from uuid import UUID

import pytest

from core.domain.identifiers import OrganizationId, UserId
from core.domain.languages import Language
from core.domain.mail import Mail, NoMail
from core.domain.tenancy.mail_servers import OrganizationMail


def test_a_queued_mail_is_sealed_since_it_carries_links() -> None:
    job = Mail(to="ada@example.com", subject="Hello", text="text", html="<p>text</p>").as_job()
    assert job.sealed
    assert job.kind == "mail"
    assert job.payload == {"to": "ada@example.com", "subject": "Hello", "text": "text", "html": "<p>text</p>", "language": "en"}


@pytest.mark.parametrize("account", [None, UserId(UUID(int=1))])
def test_a_mail_is_what_its_job_was_made_of(account: UserId | None) -> None:
    mail = Mail("ada@example.com", "Hello", "text", "<p>text</p>", Language.FRENCH, account)
    assert Mail.of_job(mail.as_job().payload) == mail


@pytest.mark.parametrize("account", ["", "ada", None, 1])
def test_what_is_no_account_is_none(account: str | int | None) -> None:
    payload = dict(Mail("ada@example.com", "Hello", "text", "<p>text</p>").as_job().payload)
    assert Mail.of_job({**payload, "account": account}).account is None


@pytest.mark.parametrize("missing", ["to", "subject", "text", "html"])
def test_a_payload_without_one_of_its_parts_is_no_mail(missing: str) -> None:
    payload = dict(Mail("ada@example.com", "Hello", "text", "<p>text</p>").as_job().payload)
    del payload[missing]
    with pytest.raises(NoMail):
        Mail.of_job(payload)


def test_a_mail_that_an_older_process_queued_is_in_english() -> None:
    payload = dict(Mail("ada@example.com", "Hello", "text", "<p>text</p>", Language.FRENCH).as_job().payload)
    del payload["language"]
    assert Mail.of_job(payload).language is Language.ENGLISH


@pytest.mark.parametrize("organization", ["x", "", None, 1])
def test_a_mail_of_no_organization_is_no_mail_of_an_organization(organization: str | int | None) -> None:
    mail = OrganizationMail(Mail("ada@example.com", "Hello", "text", "<p>text</p>"), OrganizationId(UUID(int=1)))
    payload = mail.as_job().payload
    assert OrganizationMail.of_job(payload) == mail
    with pytest.raises(NoMail):
        OrganizationMail.of_job({**payload, "organization": organization})

"""A mail in the queue."""

from core.domain.mail import Mail


def test_a_queued_mail_is_sealed_since_it_carries_links() -> None:
    job = Mail(to="ada@example.com", subject="Hello", text="text", html="<p>text</p>").as_job()
    assert job.sealed
    assert job.kind == "mail"
    assert job.payload == {"to": "ada@example.com", "subject": "Hello", "text": "text", "html": "<p>text</p>"}

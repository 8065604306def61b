"""From a directory's assertion to a provider's word, as every provider gives it."""

from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.claims import LONGEST_SUBJECT, Asserted, NotVouched, stated_address
from core.domain.identity.upstream.directory_factors import methods_of_assertion
from core.domain.identity.upstream.directory_visits import DirectoryVisit, name_digest
from core.domain.identity.upstream.saml.assertions import Asserting
from core.domain.identity.upstream.saml.requests import TOLERANCE


def asserted_by(provider: UpstreamProviderId, asserting: Asserting) -> Asserted:
    """The directory vouches for the address, which counts in a domain that its organization has proved. Raises `NotVouched`."""
    assertion, person = asserting.assertion, asserting.person
    if not 0 < len(person.subject) <= LONGEST_SUBJECT:
        raise NotVouched("the subject is empty or too long")
    email = stated_address(person.email)
    name = assertion.name_id
    visit = None
    if name is not None:
        visit = DirectoryVisit(
            provider=provider,
            name_digest=name_digest(provider, name.text),
            session_index=assertion.session_index or "",
            context_class=assertion.context_class or "",
            issued_at=assertion.issued_at,
            ends_at=None if assertion.session_ends_at is None else assertion.session_ends_at + TOLERANCE,
        )
    fields = {key: values[0] if len(values) == 1 else list(values) for key, values in person.fields.items() if values}
    return Asserted(
        assertion.issuer,
        person.subject,
        email,
        email != "",
        fields=fields,
        visit=visit,
        authenticated_at=assertion.authenticated_at,
        refuses_applications=assertion.refuses_applications,
        methods=methods_of_assertion(assertion),
    )

"""SAML: service providers, and the sign-ins and sign-outs that they ask for."""

from adapters.postgres.federation.facts import PostgresFacts
from adapters.postgres.federation.saml import PostgresSaml
from adapters.saml.documents import XmlDocuments
from adapters.saml.signing import RsaCertificates
from core.frozen import Frozen
from core.usecases.federation.saml.answers import SamlAnswers, SamlMessages, SamlVisits
from core.usecases.federation.saml.configurations import Saml
from core.usecases.federation.saml.logouts import SamlLogouts
from core.usecases.federation.saml.sign_in import SamlSignIn
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.identity import Identity
from entrypoints.event_loop_rounds import fair_turn
from entrypoints.settings import Settings


class SamlRoom(Frozen, kw_only=True):
    configurations: Saml
    sign_in: SamlSignIn
    logouts: SamlLogouts


def assemble_saml(settings: Settings, foundation: Foundation, identity: Identity, facts: PostgresFacts) -> SamlRoom:
    new_unit_of_work, system, clock = foundation.unit_of_work, foundation.system, foundation.clock
    lookup, documents = PostgresSaml(foundation.pool), XmlDocuments(foundation.xml_threads, fair_turn)
    messages = SamlMessages(
        new_unit_of_work,
        keyring=foundation.keyring,
        metrics=foundation.metrics,
        issuer=settings.public_url,
        system=system,
    )
    return SamlRoom(
        configurations=Saml(
            new_unit_of_work,
            lookup,
            documents,
            messages,
            maker=RsaCertificates(),
            keyring=foundation.keyring,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            system=system,
        ),
        sign_in=SamlSignIn(
            new_unit_of_work,
            lookup,
            documents,
            messages,
            SamlVisits(lookup, facts, identity.presence, system),
            SamlAnswers(new_unit_of_work, documents, messages, foundation.server_secrets, system),
            flows=identity.flows,
            server_secrets=foundation.server_secrets,
            issuer=settings.public_url,
            system=system,
        ),
        logouts=SamlLogouts(
            new_unit_of_work,
            lookup,
            documents,
            messages,
            flows=identity.flows,
            server_secrets=foundation.server_secrets,
            clock=clock,
            issuer=settings.public_url,
        ),
    )

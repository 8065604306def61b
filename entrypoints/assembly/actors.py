"""The actors that a serving process runs."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from actors.audit_log import AuditLinker, SiemForwarder
from actors.billing import BillingReconciler
from actors.dispatcher import DeliveryDispatcher
from actors.foundation import Mailbox
from actors.job_worker import Workplace
from actors.mailers import account_mailer, backchannel_request_teller, displaced_session_teller, mailer, organization_mailer, owner_notifier
from actors.provisioner import Provisioner
from actors.supervisor import SupervisedActor
from actors.sweepers import (
    connection_refresher,
    directory_keeper,
    domain_checker,
    invitation_sweeper,
    login_counter,
    own_text_comparer,
    registration_sweeper,
    saml_certificate_watcher,
    subscription_expirer,
)
from actors.upkeep import Janitor, PartitionKeeper, Purger, reencrypter
from actors.watchers import (
    DatabaseWatcher,
    ForeignHashWatcher,
    InstallationWordsReader,
    MetricsRefresher,
    OffboardingWatcher,
    OutboundWatcher,
    PasswordFilterWatcher,
    SignalPollWaker,
    StorageWatcher,
)
from adapters.postgres.upkeep import housekeeping
from adapters.postgres.upkeep.purging import (
    PostgresDeletedOrganizations,
    PostgresDeletedProfileFields,
    PostgresDeletedServices,
    PostgresForgottenPeople,
)
from core.domain.federation.provisioning.runs import PROVISIONING_TOPIC
from core.domain.identity.privacy import FORGET_JOB, forget_job
from core.domain.identity.sessions import LOGOUT_TOPIC
from core.domain.jobs import NewJob
from core.domain.record.audit import AUDIT_TOPIC
from core.domain.record.event_types import WEBHOOK_TOPIC
from core.domain.record.signals import SIGNAL_TOPIC
from core.domain.services import services as services_domain
from core.domain.services.plans import SUBSCRIPTION_TOPIC
from core.domain.tenancy import organizations as organizations_domain
from core.domain.tenancy import profile_fields as profile_fields_domain
from core.domain.texts.own_texts import INSTALLATION_TEXTS_TOPIC
from core.usecases.jobs import Purge
from entrypoints.assembly.by_name import PartsByName
from entrypoints.assembly.federation import Federation
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.identity import Identity
from entrypoints.assembly.platform import Platform
from entrypoints.assembly.record import Record
from entrypoints.assembly.services import Services
from entrypoints.assembly.tenancy import Tenancy
from ports.database import DeletedRows

SIGNAL_DISPATCHERS: Final = ("signal_dispatcher", "session_signal_dispatcher")


def assemble_actors(
    foundation: Foundation,
    record: Record,
    identity: Identity,
    tenancy: Tenancy,
    services: Services,
    *,
    federation: Federation,
    platform: Platform,
    retentions: Mapping[str, timedelta],
) -> tuple[SupervisedActor, ...]:
    pool, clock, metrics, tracing = foundation.pool, foundation.clock, foundation.metrics, foundation.tracing
    doubt = foundation.database.doubt_of_clock
    spreading: PartsByName = {"spread": foundation.secrets.spread}
    measured: PartsByName = {**spreading, "metrics": metrics}
    traces = None if tracing is None else tracing.traces
    workplace = Workplace(foundation.jobs, foundation.doorbell, clock, metrics, foundation.secrets.spread, traces)
    rung_by = partial(Mailbox.rung_by, foundation.doorbell)
    return (
        *(() if tracing is None else (tracing.recorder,)),
        DatabaseWatcher(metrics, foundation.database),
        *_workers(foundation, identity, tenancy, federation, workplace),
        InstallationWordsReader(foundation.installation_words, rung_by(INSTALLATION_TEXTS_TOPIC), **spreading),
        identity.presence,
        *(() if identity.password_filter is None else (PasswordFilterWatcher(identity.password_filter, metrics),)),
        ForeignHashWatcher(identity.foreign_hashes, **spreading),
        *_writers(identity, tenancy, services, federation),
        subscription_expirer(services.subscriptions, rung_by(SUBSCRIPTION_TOPIC), doubt=doubt, **spreading),
        *_purgers(foundation, workplace),
        AuditLinker(record.audit, rung_by(AUDIT_TOPIC), foundation.doorbell, **spreading),
        login_counter(platform.login_counter, **spreading),
        invitation_sweeper(tenancy.invitations, doubt=doubt, **spreading),
        registration_sweeper(identity.unverified_accounts, doubt=doubt, **spreading),
        *_dispatchers(tenancy, federation, rung_by, {**measured, "traces": traces}),
        own_text_comparer(tenancy.own_texts, **spreading),
        domain_checker("domain_checker", tenancy.domains, **measured),
        domain_checker("domain_route_checker", tenancy.domain_routes, **measured),
        domain_checker("resource_host_checker", services.resource_servers, **measured),
        connection_refresher(tenancy.connection_refreshes, **measured),
        directory_keeper(federation.directory_keeping, **measured),
        Provisioner(federation.provisioning_keeping, rung_by(PROVISIONING_TOPIC), **measured),
        SiemForwarder(tenancy.siem_export, foundation.doorbell, traces=traces, **measured),
        BillingReconciler(
            services.billing,
            services.billing_reconciliation,
            services.billing_inbox,
            services.billing_mailbox,
            clock=clock,
            **measured,
        ),
        OutboundWatcher(foundation.outbound_reach, foundation.hook_waits, metrics),
        OffboardingWatcher(tenancy.late_receivers, **measured),
        saml_certificate_watcher(federation.saml, **spreading),
        Janitor(housekeeping.sweeps(pool, **retentions), doubt=doubt, **measured),
        StorageWatcher(platform.storage, **measured),
        PartitionKeeper(platform.months, **measured),
        MetricsRefresher(
            database=foundation.database, gauges=platform.gauges, key_ages=foundation.key_care.ages_of, clock=clock, **measured
        ),
    )


def _workers(
    foundation: Foundation, identity: Identity, tenancy: Tenancy, federation: Federation, workplace: Workplace
) -> Sequence[SupervisedActor]:
    return (
        mailer(foundation.mail, workplace),
        organization_mailer(tenancy.mail_servers, workplace),
        account_mailer(identity.account_mails, workplace),
        displaced_session_teller(identity.displaced_sessions, workplace),
        backchannel_request_teller(federation.afar_requests, workplace),
        owner_notifier(tenancy.owner_notices, workplace),
        reencrypter(foundation.reencryption, workplace),
    )


def _writers(identity: Identity, tenancy: Tenancy, services: Services, federation: Federation) -> Sequence[SupervisedActor]:
    return (
        services.key_presence,
        services.user_key_presence,
        tenancy.management_key_presence,
        federation.scim_token_presence,
        federation.client_secret_presence,
        federation.trusted_issuer_presence,
        federation.refusal_recorder,
        identity.connection_recorder,
        identity.hooks_beside,
        federation.scim_recorder,
    )


def _purgers(foundation: Foundation, workplace: Workplace) -> Sequence[SupervisedActor]:
    pool = foundation.pool

    def purger(kind: str, remains: DeletedRows, job: Callable[[UUID], NewJob], name: str = "") -> Purger:
        return Purger(kind, Purge(foundation.unit_of_work, remains, job), workplace, name=name)

    return (
        purger(organizations_domain.PURGE_JOB, PostgresDeletedOrganizations(pool), organizations_domain.purge_job),
        purger(services_domain.PURGE_JOB, PostgresDeletedServices(pool), services_domain.purge_job),
        purger(profile_fields_domain.PURGE_JOB, PostgresDeletedProfileFields(pool), profile_fields_domain.purge_job),
        purger(FORGET_JOB, PostgresForgottenPeople(pool, foundation.keyring), forget_job, name="forgetter"),
    )


def _dispatchers(
    tenancy: Tenancy, federation: Federation, rung_by: Callable[[str], Mailbox], traced: PartsByName
) -> Sequence[SupervisedActor]:
    return (
        DeliveryDispatcher("webhook_dispatcher", tenancy.deliveries, rung_by(WEBHOOK_TOPIC), **traced),
        DeliveryDispatcher("logout_dispatcher", federation.deliveries, rung_by(LOGOUT_TOPIC), **traced),
        *(
            DeliveryDispatcher(name, deliveries, rung_by(SIGNAL_TOPIC), **traced)
            for name, deliveries in zip(SIGNAL_DISPATCHERS, federation.signal_deliveries, strict=True)
        ),
        SignalPollWaker(federation.signal_polls, rung_by(SIGNAL_TOPIC), spread=traced["spread"]),
    )

"""Accounts: their addresses, passwords and mails, which share the rules of passwords."""

from adapters.mail_domains import ListedThrowawayDomains, ListUnusable
from adapters.postgres.identity.proofs.account_passwords import PostgresPasswordStandings
from adapters.postgres.identity.proofs.sign_in import PostgresDestinations
from adapters.postgres.identity.registering import PostgresRegistrationRules
from core.domain.identity.registering import BudgetSizes, RegistrationPolicy, RegistrationRule
from core.frozen import Frozen
from core.usecases.identity.account_endings import AccountLocks
from core.usecases.identity.account_mails import AccountMails
from core.usecases.identity.account_passwords import AccountPasswords, PasswordRules
from core.usecases.identity.accounts import Accounts
from core.usecases.identity.address_proofs import AddressProofs
from core.usecases.identity.registering import MailBudgets, Registrations
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.rooms.known_passwords import KnownPasswordsRoom
from entrypoints.assembly.rooms.sign_ins import SignIns
from entrypoints.assembly.rooms.upstream import UpstreamParts
from entrypoints.settings import Settings, SettingsError
from ports.crypto import PasswordHasher


class AccountRoom(Frozen, kw_only=True):
    accounts: Accounts
    address_proofs: AddressProofs
    passwords: AccountPasswords
    locks: AccountLocks
    mails: AccountMails
    budgets: MailBudgets
    registrations: Registrations


def account_locks(foundation: Foundation) -> AccountLocks:
    return AccountLocks(foundation.unit_of_work, foundation.lock_links, foundation.mail_templates, foundation.links, foundation.system)


def assemble_accounts(
    settings: Settings,
    foundation: Foundation,
    passwords: PasswordHasher,
    known: KnownPasswordsRoom,
    *,
    sign_ins: SignIns,
    upstream: UpstreamParts,
) -> AccountRoom:
    new_unit_of_work, buckets, templates = foundation.unit_of_work, foundation.shared_buckets, foundation.mail_templates
    system, clock, links, realms = foundation.system, foundation.clock, foundation.links, upstream.realms
    rules = PasswordRules(known.passwords.common, known.passwords.breached, settings.password_length)
    budgets = MailBudgets(
        unit_of_work=new_unit_of_work,
        store=foundation.stores.mail_budgets,
        buckets=buckets,
        sizes=_sizes(settings),
        metrics=foundation.metrics,
        clock=clock,
    )
    registrations = _registrations(settings, foundation)
    accounts = Accounts(
        unit_of_work=new_unit_of_work,
        rules=rules,
        passwords=passwords,
        destinations=PostgresDestinations(foundation.pool),
        templates=templates,
        links=links,
        buckets=buckets,
        metrics=foundation.metrics,
        system=system,
        budgets=budgets,
        registrations=registrations,
        immediate_email_changes=settings.email_change == "immediate",
    )
    return AccountRoom(
        accounts=accounts,
        address_proofs=AddressProofs(
            new_unit_of_work,
            accounts=accounts,
            codes=sign_ins.mailed_codes,
            proofs=sign_ins.password_proofs,
            rules=rules,
            passwords=passwords,
            vouched_accounts=foundation.stores.vouched_accounts,
            realms=realms,
            system=system,
        ),
        passwords=AccountPasswords(
            unit_of_work=new_unit_of_work,
            rules=rules,
            passwords=passwords,
            standings=PostgresPasswordStandings(foundation.pool),
            realms=realms,
            templates=templates,
            buckets=buckets,
            clock=clock,
        ),
        locks=account_locks(foundation),
        mails=AccountMails(
            unit_of_work=new_unit_of_work,
            brandings=foundation.brandings,
            templates=templates,
            links=links,
            realms=realms,
            buckets=buckets,
            system=system,
            server_secrets=foundation.server_secrets,
            budgets=budgets,
        ),
        budgets=budgets,
        registrations=registrations,
    )


def _registrations(settings: Settings, foundation: Foundation) -> Registrations:
    """Raises `SettingsError`."""
    rule = RegistrationRule(policy=RegistrationPolicy(settings.registration), domains=settings.registration_domains)
    if rule.policy is RegistrationPolicy.DOMAINS and not rule.domains:
        raise SettingsError("POSTERN_REGISTRATION_DOMAINS must name a domain when POSTERN_REGISTRATION is domains")
    file = settings.throwaway_domains
    try:
        throwaway = ListedThrowawayDomains() if file is None else ListedThrowawayDomains(file)
    except ListUnusable as error:
        raise SettingsError(f"POSTERN_THROWAWAY_DOMAINS: the file {file} {error}") from None
    return Registrations(rule, throwaway, PostgresRegistrationRules(foundation.pool))


def _sizes(settings: Settings) -> BudgetSizes:
    """Without rate limits there are no budgets either: both are off for measurements."""
    if not settings.rate_limits:
        return BudgetSizes(0, 0, 0, 0)
    return BudgetSizes(
        settings.mails_per_network, settings.mails_per_domain, settings.mails_per_organization, settings.mails_per_installation
    )

"""What the audit log and webhooks hear of an import."""

from collections.abc import Iterator, Sequence

from core.domain.formats import Json
from core.domain.identifiers import OrganizationId
from core.domain.identity.accounts import signed_up
from core.domain.platform.imports.decisions import Decision, ImportDestination, ImportRules
from core.domain.platform.imports.reports import Outcome, Tally
from core.domain.record.events import SYSTEM, Actor, Event, Target

IMPORT_PROVIDER = "import"
_SHORT = 16


def imported(decision: Decision, source: str, digest: str, organization: OrganizationId | None) -> Event | None:
    """The entry of one person: in the organization's log, or else in the platform's. The entry of the whole import names the operator. None
    when nothing has changed.
    """
    account, listing = decision.account, decision.listing
    if decision.user is None or (account is None and (listing is None or not listing.is_new)):
        return None
    details: dict[str, Json] = {"account": "kept" if account is None else "created", "source": source, "import": digest[:_SHORT]}
    if listing is not None:
        details["role"] = listing.role.slug
    brought = [part.value for part in decision.parts]
    return Event("user.imported", SYSTEM, Target("user", str(decision.user)), organization, {**details, "brought": brought})


def heard(decision: Decision, organization: OrganizationId | None) -> Iterator[Event]:
    """What webhooks hear of one person, if the operator asks for it."""
    if decision.user is None:
        return
    if decision.account is not None:
        yield signed_up(decision.user, SYSTEM, IMPORT_PROVIDER)
    if decision.listing is not None and decision.listing.is_new and organization is not None:
        details: dict[str, Json] = {"role": decision.listing.role.slug, "account": "kept" if decision.account is None else "created"}
        yield Event("user.joined", SYSTEM, Target("user", str(decision.user)), organization, details)


def import_finished(actor: Actor, source: str, digest: str, rules: ImportRules, tally: Tally) -> Event:
    """The entry of the whole import. Its digest is of the files."""
    counts: dict[str, Json] = {outcome.value: tally.outcomes[outcome] for outcome in Outcome}
    details: dict[str, Json] = {
        "source": source,
        "digest": digest,
        "organization": rules.organization or None,
        "trust_verified": rules.trusts_verified,
        "counts": counts,
    }
    return Event("platform.import.finished", actor, Target("import", digest[:_SHORT]), details=details)


def all_of(decisions: Sequence[Decision], source: str, digest: str, to: ImportDestination, rules: ImportRules) -> Sequence[Event]:
    """All events of one batch."""
    entries = [entry for one in decisions if (entry := imported(one, source, digest, to.organization)) is not None]
    further = [event for one in decisions for event in heard(one, to.organization)] if rules.tells else []
    return [*entries, *further]

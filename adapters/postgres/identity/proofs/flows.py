"""Flows in PostgreSQL. A flow begins once, has one sign-in, and is completed once."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.branding import branded, bring, dress_of
from adapters.postgres.columns import AnswerRow, IdRow, storable, storable_text
from adapters.postgres.identity.factors.mfa import STRICTEST_TRUST
from adapters.postgres.identity.proofs.sign_in_policy import ADMITS_ANYBODY
from adapters.postgres.identity.upstream.ways import OwnRow, own
from adapters.postgres.statements import OnStatements, first, only
from adapters.postgres.ties import may_know_of_failures
from core.domain.branding import POSTERN
from core.domain.formats import Json
from core.domain.identifiers import FlowId, OrganizationId, PreauthenticationId, ServiceId, SessionId, UserId
from core.domain.identity.flows import Flow, FlowPurpose, Prompt, SignInRequirements
from core.domain.identity.passkeys import OFFERED_AGAIN_AFTER
from core.domain.identity.registering import Newcomers, RegistrationPolicy, RegistrationRule
from core.domain.services.services import SignInPolicy
from core.frozen import Frozen

_SIGNED_IN_BY: Final = "signed_in_by"
"""A key in the column `wanted`: the way in which the person has signed in."""
_PROVIDER: Final = "signed_in_at_provider"
"""A key in the column `wanted`: the provider that has vouched for the person."""
_IS_LOGGED: Final = "sign_in_is_logged"
"""A key in the column `wanted`: whether the log of the application's organization has the sign-in."""
_OWES_ANSWERS: Final = "owes_answers"
"""A key in the column `wanted`: whether a page may have fields to ask the person for."""
_OFFERS_PASSKEY: Final = "offers_passkey"
"""A key in the column `wanted`: whether a page is to offer a passkey."""
_UPGRADES: Final = "upgrades_passkey"
"""A key in the column `wanted`: whether the browser may make a passkey by itself before that."""
_OFFERED: Final = "passkey_was_offered"
"""A key in the column `wanted`: whether a page has offered a passkey."""
_ACCOUNT: Final = "account"
"""A key in the column `wanted`: the account that the flow goes on with, without a sign-in of its own."""
_OWES_TERMS: Final = "owes_terms"
"""A key in the column `wanted`: whether a page has terms to ask the person for."""
_REFUSED: Final = "refused"
"""A key in the column `wanted`: whether the person has refused the request that the flow is for."""


class FlowRow(Frozen):
    """The columns of `flow_columns`."""

    flow_purpose: str
    flow_service: UUID | None
    flow_request: Mapping[str, Json]
    flow_wanted: Mapping[str, Any]
    flow_email: str
    flow_user: UUID | None
    flow_preauthentication: UUID | None
    flow_session: UUID | None
    flow_proof_digest: bytes | None
    flow_created_at: datetime
    flow_expires_at: datetime
    flow_signed_in_at: datetime | None
    flow_completed_at: datetime | None
    flow_organization: UUID | None
    flow_brand: str | None
    flow_logo_digest: str | None
    flow_primary_color: str | None
    flow_dress: list[str | None] | None
    flow_has_authenticator: bool
    flow_has_passkey: bool
    flow_may_know: bool
    flow_trust_days: int | None
    flow_registration: str | None
    flow_admits: str | None
    flow_joins: bool
    own_clients: list[str] | None
    own_providers: list[list[str]] | None

    def flow(self, id: FlowId) -> Flow:  # noqa: A002 - the noun's own word
        return Flow(
            id,
            FlowPurpose(self.flow_purpose),
            self.flow_request,
            _wanted(self.flow_wanted),
            self.flow_created_at,
            self.flow_expires_at,
            service=None if self.flow_service is None else ServiceId(self.flow_service),
            organization=None if self.flow_organization is None else OrganizationId(self.flow_organization),
            email=self.flow_email,
            user=None if self.flow_user is None else UserId(self.flow_user),
            account=None if (account := self.flow_wanted.get(_ACCOUNT)) is None else UserId(UUID(account)),
            preauthentication=None if self.flow_preauthentication is None else PreauthenticationId(self.flow_preauthentication),
            session=None if self.flow_session is None else SessionId(self.flow_session),
            signed_in_at=self.flow_signed_in_at,
            signed_in_by=self.flow_wanted.get(_SIGNED_IN_BY, ""),
            signed_in_at_provider=self.flow_wanted.get(_PROVIDER, ""),
            sign_in_is_logged=self.flow_wanted.get(_IS_LOGGED, False),
            owes_answers=self.flow_wanted.get(_OWES_ANSWERS, False),
            offers_passkey=self.flow_wanted.get(_OFFERS_PASSKEY, False),
            upgrades=self.flow_wanted.get(_UPGRADES, False),
            owes_terms=self.flow_wanted.get(_OWES_TERMS, False),
            proof_digest=self.flow_proof_digest,
            completed_at=self.flow_completed_at,
            refused=self.flow_wanted.get(_REFUSED, False),
            branding=(
                POSTERN
                if self.flow_brand is None
                else branded(self.flow_brand, self.flow_logo_digest, self.flow_primary_color, self.flow_dress)
            ),
            has_authenticator=self.flow_has_authenticator,
            has_passkey=self.flow_has_passkey,
            may_know_of_failures=self.flow_may_know,
            trust_days=self.flow_trust_days,
            newcomers=Newcomers(
                rule=None if self.flow_registration is None else RegistrationRule(policy=RegistrationPolicy(self.flow_registration)),
                get_in=self.flow_admits is None
                or SignInPolicy(self.flow_admits).admits(is_member=self.flow_joins, is_assigned=self.flow_joins),
            ),
            own=OwnRow(own_clients=self.own_clients, own_providers=self.own_providers).own(),
        )


def _wanted(kept: Mapping[str, Any]) -> SignInRequirements:
    return SignInRequirements(
        login_hint=kept["login_hint"],
        prompt=None if kept["prompt"] is None else Prompt(kept["prompt"]),
        max_age=kept["max_age"],
        second_factor=kept["second_factor"],
        ui_locales=tuple(kept["ui_locales"]),
        organization=kept["organization"],
        service_name=kept["service_name"],
        service_slug=kept["service_slug"],
    )


def _kept(wanted: SignInRequirements) -> Mapping[str, Json]:
    return {
        "login_hint": wanted.login_hint,
        "prompt": None if wanted.prompt is None else wanted.prompt.value,
        "max_age": wanted.max_age,
        "second_factor": wanted.second_factor,
        "ui_locales": list(wanted.ui_locales),
        "organization": wanted.organization,
        "service_name": wanted.service_name,
        "service_slug": wanted.service_slug,
    }


def _chosen(account: UserId | None) -> Mapping[str, Json]:
    return {} if account is None else {_ACCOUNT: str(account)}


def _offer_parameters(flow: FlowId, user: UserId, at: datetime) -> Mapping[str, Any]:
    return {"id": flow, "user": user, "at": at, "before": at - OFFERED_AGAIN_AFTER, "owed": _OFFERS_PASSKEY, "noted": _OFFERED}


def flow_parameters(flow: Flow, browser_digest: bytes) -> Mapping[str, Any]:
    """The parameters of `ADD_FLOW`."""
    return {
        "flow": flow.id,
        "flow_browser": browser_digest,
        "flow_purpose": flow.purpose.value,
        "flow_service": flow.service,
        "flow_request": Jsonb(storable(flow.request)),
        "flow_wanted": Jsonb(storable({**_kept(flow.wanted), **_chosen(flow.account)})),
        "flow_email": storable_text(flow.email),
        "flow_created_at": flow.created_at,
        "flow_expires_at": flow.expires_at,
    }


class FlowRows(OnStatements):
    """Implements `ports.identity.sign_in.FlowStore`."""

    async def find(self, flow: FlowId, browser_digest: bytes) -> Flow | None:
        row = first(await self._statements.ask(FlowRow, _FIND, {"id": flow, "browser_digest": browser_digest}))
        if row is None:
            return None
        await bring(self._statements, row.flow_dress)
        return row.flow(flow)

    async def add(self, flow: Flow, browser_digest: bytes) -> None:
        await self._statements.tell(ADD_FLOW, flow_parameters(flow, browser_digest))

    async def name(self, flow: FlowId, email: str) -> None:
        await self._statements.tell(_NAME, {"id": flow, "email": storable_text(email)})

    async def choose(self, flow: FlowId, account: UserId, email: str) -> None:
        parameters = {"id": flow, "email": storable_text(email), "chosen": Jsonb(_chosen(account))}
        await self._statements.tell(_CHOOSE, parameters)

    async def await_second_factor(self, flow: FlowId, user: UserId, preauthentication: PreauthenticationId) -> None:
        await self._statements.tell(_AWAIT_SECOND_FACTOR, {"id": flow, "user": user, "preauthentication": preauthentication})

    async def sign_in(
        self,
        flow: FlowId,
        user: UserId,
        proof_digest: bytes,
        session: SessionId,
        at: datetime,
        *,
        by: str,
        provider: str = "",
        is_logged: bool = False,
        owes_answers: bool = False,
        owes_terms: bool = False,
        offers_passkey: bool = False,
        upgrades: bool = False,
    ) -> None:
        asked = {_OWES_ANSWERS: owes_answers, _OWES_TERMS: owes_terms, _OFFERS_PASSKEY: offers_passkey, _UPGRADES: upgrades}
        noted = {_IS_LOGGED: is_logged, **asked}
        way = Jsonb({_SIGNED_IN_BY: by, _PROVIDER: provider, **{name: True for name, holds in noted.items() if holds}})
        parameters = {"id": flow, "user": user, "proof_digest": proof_digest, "session": session, "at": at, "way": way}
        await self._statements.tell_along(_SIGN_IN, parameters)

    async def have_answered(self, flow: FlowId) -> None:
        await self._statements.tell(_HAVE_ANSWERED, {"id": flow, "owed": _OWES_ANSWERS})

    async def offer_passkey(self, flow: FlowId, user: UserId, at: datetime) -> bool:
        return only(await self._statements.ask(AnswerRow, _OFFER_PASSKEY, _offer_parameters(flow, user, at))).yes

    async def may_offer_passkey(self, flow: FlowId, user: UserId, at: datetime) -> bool:
        return only(await self._statements.ask(AnswerRow, _MAY_OFFER_PASSKEY, _offer_parameters(flow, user, at))).yes

    async def answer_offer(self, flow: FlowId, user: UserId, at: datetime, *, never_again: bool = False) -> None:
        if never_again:
            await self._statements.tell(_END_OFFERS, {"id": flow, "user": user, "at": at, "owed": _OFFERS_PASSKEY})
        await self._statements.tell(_ANSWER_OFFER, {"id": flow, "user": user, "owed": _OFFERS_PASSKEY})

    async def have_asked_terms(self, flow: FlowId) -> None:
        await self._statements.tell(_HAVE_ANSWERED, {"id": flow, "owed": _OWES_TERMS})

    async def complete(self, flow: FlowId, at: datetime, *, refused: bool = False) -> bool:
        how = Jsonb({_REFUSED: True} if refused else {})
        return bool(await self._statements.ask(IdRow, _COMPLETE, {"id": flow, "at": at, "how": how}))


_ADMITS: Final = "(select services.sign_in_policy from services where services.id = flows.service_id)"
# It only spares the look at the organization's domains: the domain decides by the policy.
_IS_CHOOSY: Final = f"exists (select from services where services.id = flows.service_id and not {ADMITS_ANYBODY})"


def flow_columns(organizations: LiteralString) -> LiteralString:
    """The columns of a flow, for a statement that reads `flows`. `organizations` is the alias under which the statement joins the flow's
    organization, if that is active.
    """
    return f"""
           flows.purpose as flow_purpose, flows.service_id as flow_service, flows.request as flow_request, flows.wanted as flow_wanted,
           flows.email as flow_email, flows.user_id as flow_user, flows.preauthentication_id as flow_preauthentication,
           flows.session_id as flow_session, flows.proof_digest as flow_proof_digest, flows.created_at as flow_created_at,
           flows.expires_at as flow_expires_at, flows.signed_in_at as flow_signed_in_at, flows.completed_at as flow_completed_at,
           {organizations}.id as flow_organization, {organizations}.name as flow_brand, {organizations}.logo_digest as flow_logo_digest,
           {organizations}.primary_color as flow_primary_color, {dress_of(organizations)} as flow_dress,
           flows.preauthentication_id is null or exists (
               select from mfa_secrets where mfa_secrets.user_id = flows.user_id and mfa_secrets.enabled_at is not null
           ) as flow_has_authenticator,
           flows.preauthentication_id is not null and exists (
               select from passkeys where passkeys.user_id = flows.user_id
           ) as flow_has_passkey,
           flows.preauthentication_id is not null and flows.service_id is not null
           and {may_know_of_failures(f"{organizations}.id", "flows.service_id", "flows.user_id")} as flow_may_know,
           case when flows.preauthentication_id is not null then ({STRICTEST_TRUST.format(user="flows.user_id")}) end as flow_trust_days,
           {organizations}.registration_policy as flow_registration, {_ADMITS} as flow_admits,
           {_IS_CHOOSY} and exists (
               select
                 from domain_routes
                where domain_routes.org_id = {organizations}.id and domain_routes.join_policy <> 'off'
                  and domain_routes.verified_at is not null
           ) as flow_joins,
           {own(organizations)}"""


FIND_FLOW: Final[LiteralString] = f"""
    select {flow_columns("organizations")}
      from flows
      left join organizations on organizations.slug = flows.wanted ->> 'organization' and organizations.status = 'active'
"""

_FIND: Final[LiteralString] = f"""
    {FIND_FLOW}
     where flows.id = %(id)s and flows.browser_digest = %(browser_digest)s and flows.expires_at > now()
"""

ADD_FLOW: Final = """
    insert into flows (id, browser_digest, purpose, service_id, request, wanted, email, created_at, expires_at)
    values (%(flow)s, %(flow_browser)s, %(flow_purpose)s, %(flow_service)s, %(flow_request)s, %(flow_wanted)s, %(flow_email)s,
            %(flow_created_at)s, %(flow_expires_at)s)
"""

_NAME: Final = """
    update flows set email = %(email)s, user_id = null, preauthentication_id = null where id = %(id)s and signed_in_at is null
"""

_CHOOSE: Final = """
    update flows
       set email = %(email)s, user_id = null, preauthentication_id = null, wanted = wanted || %(chosen)s
     where id = %(id)s and signed_in_at is null
"""

_AWAIT_SECOND_FACTOR: Final = """
    update flows set user_id = %(user)s, preauthentication_id = %(preauthentication)s where id = %(id)s and signed_in_at is null
"""

# The statement does not look at the row of the session, because PostgreSQL may create that row in the same statement.
_SIGN_IN: Final = """
    update flows
       set user_id = %(user)s, proof_digest = %(proof_digest)s, signed_in_at = %(at)s, session_id = %(session)s,
           wanted = wanted || %(way)s
     where id = %(id)s
"""

_HAVE_ANSWERED: Final = "update flows set wanted = wanted - %(owed)s::text where id = %(id)s"

# The flow whose person may be offered a passkey, as long as the person has none.
_OFFERING: Final[LiteralString] = """flow as (
             select id, wanted ? %(noted)s::text as was_offered
               from flows
              where id = %(id)s and user_id = %(user)s and signed_in_at is not null and wanted ? %(owed)s::text
                and not exists (select from passkeys where passkeys.user_id = %(user)s)
         )"""

_IS_DUE: Final[LiteralString] = """users.id = %(user)s and not flow.was_offered and users.passkey_offers_ended_at is null
                and (users.passkey_offered_at is null or users.passkey_offered_at <= %(before)s)"""

# Of two flows of one person at once, the second waits for the row of the person, and finds that the first has offered one.
_OFFER_PASSKEY: Final[LiteralString] = f"""
    with {_OFFERING},
         due as (
             update users
                set passkey_offered_at = %(at)s
               from flow
              where {_IS_DUE}
          returning flow.id
         ),
         noted as (
             update flows set wanted = wanted || jsonb_build_object(%(noted)s::text, true) from due where flows.id = due.id
         )
  select exists (select from due) or exists (select from flow where was_offered) as yes
"""

_MAY_OFFER_PASSKEY: Final[LiteralString] = f"""
    with {_OFFERING}
  select exists (select from flow where was_offered) or exists (select from flow, users where {_IS_DUE}) as yes
"""

# Only whom a page has asked can want no more of it.
_END_OFFERS: Final = """
    update users
       set passkey_offers_ended_at = %(at)s
      from flows
     where users.id = %(user)s and flows.id = %(id)s and flows.user_id = users.id and flows.wanted ? %(owed)s::text
"""

_ANSWER_OFFER: Final = "update flows set wanted = wanted - %(owed)s::text where id = %(id)s and user_id = %(user)s"

_COMPLETE: Final = """
    update flows
       set completed_at = %(at)s, wanted = wanted || %(how)s
     where id = %(id)s and completed_at is null and expires_at > %(at)s
 returning id
"""

"""Checkouts and the customer portal: pages of the payment provider, to which users are redirected."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog

from core.domain.errors import BadRequest, BillingFailed, NotFound, OrganizationNotActive, found
from core.domain.identifiers import OrganizationId, UserId
from core.domain.services.billing import CHECKOUT_LIFETIME, KEY_LIFETIME, digest_of, is_repeated, return_address
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from core.usecases.tenancy.rights import hold_members, require_owner
from ports.services.billing import (
    BegunCheckout,
    CheckoutRequest,
    OpenedCheckout,
    PaymentProvider,
    PaymentRefused,
    PaymentUnavailable,
    PlanOffer,
)
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

NOT_SET_UP: Final = "Billing is not set up on this installation"
_KEY_REFUSED: Final = "The payment provider does not accept the key of this installation"
_UNAUTHORIZED: Final = frozenset({401, 403})
_MISSING: Final = "resource_missing"
# A try fails when another request began a checkout for the same person meanwhile, when the person's last checkout had to be closed first,
# or when the customer is gone at the provider.
_TRIES: Final = 4
_UNKNOWN: Final = "The organization has no such service"


class Wish(Frozen):
    """A request to buy a plan."""

    organization_slug: str
    service_slug: str
    plan: UUID
    user: UserId
    success_url: str
    cancel_url: str

    def digest(self, price: str) -> str:
        """The digest that recognises a repeated wish. The digest covers the plan's price, which may change while the checkout is open."""
        return digest_of(str(self.plan), price, self.success_url, self.cancel_url)


class Checkouts(Frozen):
    """`pages` are our own addresses, which are also allowed as return addresses. The last is the default return address of the portal.

    Postern stores each request to the provider before sending it, with its idempotency key, so that the request can be repeated safely. No
    unit of work is open during a call to the provider.
    """

    unit_of_work: UnitOfWorkFactory
    provider: PaymentProvider | None
    pages: Sequence[str]
    system: System

    async def open(self, wish: Wish) -> OpenedCheckout:
        """Open a checkout; a repeated wish gets the same checkout. Raises `NotFound`, `BadRequest`, `OrganizationNotActive`, and
        `BillingFailed`.
        """
        for _ in range(_TRIES):
            offer, checkout, price = await self._begun(wish)
            if checkout is None:
                continue
            customer = offer.customer or await self._customer(offer.organization)
            try:
                opened = await self._opened(wish, offer, checkout, price, customer)
            except _CustomerGone:
                # The customer was deleted at the provider, and the news about that have not arrived.
                await self._forget(wish, offer, checkout, customer)
                continue
            async with self.unit_of_work() as uow:
                is_last = await uow.billing.answer_checkout(offer.service, wish.user, checkout.id, opened.id)
                await uow.commit()
            if not is_last:
                await self._abandon(opened)
                await self._require_still_offered(wish)
                break
            log.info("checkout_opened", service=str(offer.service), plan=str(wish.plan), session_id=opened.id)
            return opened
        raise BillingFailed("Other checkouts of this person are in progress: try again")

    async def _abandon(self, opened: OpenedCheckout) -> None:
        """Close a checkout that is out of date: while the provider opened this checkout, the person began another one and must pay only
        once, or the service was closed. Nobody learns this checkout's address, so a checkout that stays open does no harm.
        """
        try:
            await self._required().close_checkout(opened.id)
        except (PaymentRefused, PaymentUnavailable) as failure:
            log.info("checkout_left_open", session_id=opened.id, reason=str(failure))

    async def _require_still_offered(self, wish: Wish) -> None:
        async with self.unit_of_work() as uow:
            _require_offered(await uow.billing.offer(wish.organization_slug, wish.service_slug, wish.plan, wish.user), wish)

    async def _begun(self, wish: Wish) -> tuple[PlanOffer, BegunCheckout | None, str]:
        """The offer, the checkout to open, and the price. The checkout is None when the caller has to try again."""
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            offer = await uow.billing.offer(wish.organization_slug, wish.service_slug, wish.plan, wish.user)
            offer, price = _require_offered(offer, wish)
            if self.provider is None:
                raise BillingFailed(NOT_SET_UP)
            last = offer.last
            if last is not None and not last.has_led_somewhere and is_repeated(wish.digest(price), last.digest, last.asked_at, now):
                return offer, last, price
            if last is None or last.external_id is None or not last.digest or now - last.asked_at >= CHECKOUT_LIFETIME:
                checkout = BegunCheckout(self.system.ids.new(), wish.digest(price), None, now)
                instead_of = None if last is None else last.id
                if not await uow.billing.begin_checkout(offer.service, wish.user, checkout, instead_of=instead_of):
                    return offer, None, price
                await uow.commit()
                return offer, checkout, price
        await self._close(wish, offer, last)
        return offer, None, price

    async def _close(self, wish: Wish, offer: PlanOffer, last: BegunCheckout) -> None:
        """Close the person's last checkout, so that nobody pays twice. Raises `BadRequest` when that checkout has been paid but the news of
        its subscription have not arrived.
        """
        external_id = last.external_id or ""
        try:
            if not await self._closed(external_id) and not last.has_led_somewhere and await self._required().is_checkout_paid(external_id):
                raise BadRequest("The last checkout of this person has been completed: wait for its subscription", words="checkout_running")
        except PaymentRefused as refused:
            raise _failed(refused) from None
        except PaymentUnavailable as away:
            raise _unavailable(away) from None
        await self._forget(wish, offer, last, None)

    async def _closed(self, external_id: str) -> bool:
        """Close a checkout. Returns False when the checkout was no longer open, because it has been paid or closed meanwhile. Returns True
        also when the provider does not know the checkout.
        """
        try:
            await self._required().close_checkout(external_id)
        except PaymentRefused as refused:
            if refused.status in _UNAUTHORIZED:
                raise
            return refused.code == _MISSING
        return True

    async def _opened(self, wish: Wish, offer: PlanOffer, checkout: BegunCheckout, price: str, customer: str) -> OpenedCheckout:
        provider = self._required()
        try:
            return await provider.open_checkout(
                CheckoutRequest(
                    key=f"checkout-{checkout.id}",
                    customer=customer,
                    price=price,
                    success_url=wish.success_url,
                    cancel_url=wish.cancel_url,
                    user=wish.user,
                    metadata={
                        "org_id": str(offer.organization),
                        "service_id": str(offer.service),
                        "plan_id": str(wish.plan),
                        "user_id": str(wish.user),
                    },
                    expires_at=checkout.asked_at + CHECKOUT_LIFETIME,
                )
            )
        except PaymentRefused as refused:
            if refused.code == _MISSING and refused.about == "customer":
                raise _CustomerGone from None
            # The provider gives the same answer to the same idempotency key, so the next try needs another key.
            await self._forget(wish, offer, checkout, None)
            raise _failed(refused) from None
        except PaymentUnavailable as away:
            if away.answered:
                await self._forget(wish, offer, checkout, None)
            raise _unavailable(away) from None

    async def _forget(self, wish: Wish, offer: PlanOffer, checkout: BegunCheckout, customer: str | None) -> None:
        async with self.unit_of_work() as uow:
            await uow.billing.forget_checkout(offer.service, wish.user, checkout.id)
            if customer is not None:
                await uow.billing.end_customer(customer, self.system.clock.now())
            await uow.commit()

    async def _customer(self, organization: OrganizationId) -> str:
        """The organization's customer at the provider. The organization's first checkout creates the customer. Concurrent checkouts send
        the same idempotency key, so only one customer is created. If the provider's answer was lost and the key has expired, the customer
        is looked up before another is created.
        """
        provider, now = self._required(), self.system.clock.now()
        async with self.unit_of_work() as uow:
            known = found(await uow.billing.customer(organization, self.system.ids.new(), now), _UNKNOWN)
            if known.external_id is not None:
                return known.external_id
            attempt = known.attempt or 1
            is_uncertain = known.attempt > 0 and (known.asked_at is None or now - known.asked_at >= KEY_LIFETIME)
            if not known.attempt:
                await uow.billing.ask_for_customer(known.id, attempt, now)
            await uow.commit()
        try:
            external_id = await provider.find_customer(known.id) if is_uncertain else None
            if external_id is None:
                if is_uncertain:
                    attempt += 1
                    await self._note_attempt(known.id, attempt, now)
                external_id = await provider.create_customer(
                    f"customer-{known.id}-{attempt}", known.id, organization, known.organization_name
                )
        except PaymentRefused as refused:
            await self._note_attempt(known.id, attempt, None)
            raise _failed(refused) from None
        except PaymentUnavailable as away:
            if away.answered:
                await self._note_attempt(known.id, attempt, None)
            raise _unavailable(away) from None
        async with self.unit_of_work() as uow:
            linked = await uow.billing.link_customer(known.id, external_id)
            await uow.commit()
        log.info("billing_customer_made", organization=str(organization), customer=external_id)
        # News that arrived meanwhile may have linked another customer to the organization. Checkouts and the portal use the linked one.
        return linked or external_id

    async def _note_attempt(self, customer: UUID, attempt: int, at: datetime | None) -> None:
        async with self.unit_of_work() as uow:
            await uow.billing.ask_for_customer(customer, attempt, at)
            await uow.commit()

    async def portal(self, member: Member, return_url: str | None) -> str:
        """The address of the portal for the owner. Raises `BadRequest`, also when the organization is not a customer of the provider yet,
        and `BillingFailed`.
        """
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            await require_owner(uow, acting, self.system.clock.now())
            portal = await uow.billing.portal(member.organization)
            if acting.unconfirmed is not None:
                await uow.commit()
        return_url = return_url or self.pages[-1]
        return_address(return_url, "return_url", [*portal.redirect_uris, *self.pages])
        provider = self._required()
        if portal.customer is None:
            raise BadRequest(
                "The organization is not a customer of the payment provider yet: no checkout was started", words="no_checkout_yet"
            )
        try:
            return await provider.open_portal(portal.customer, return_url)
        except PaymentRefused as refused:
            raise _failed(refused) from None
        except PaymentUnavailable as away:
            raise _unavailable(away) from None

    def _required(self) -> PaymentProvider:
        if self.provider is None:
            raise BillingFailed(NOT_SET_UP)
        return self.provider


class _CustomerGone(Exception):
    pass


def _require_offered(offer: PlanOffer | None, wish: Wish) -> tuple[PlanOffer, str]:
    """The offer, and the price at the provider."""
    if offer is None:
        raise NotFound(_UNKNOWN)
    if not offer.is_active:
        raise OrganizationNotActive
    return_address(wish.success_url, "success_url", offer.redirect_uris, names_session=True)
    return_address(wish.cancel_url, "cancel_url", offer.redirect_uris)
    if offer.plan is None:
        raise BadRequest("plan_id: there is no such plan", words="plan_unfit")
    if offer.plan_service != offer.service:
        raise BadRequest("plan_id: the plan belongs to another service", words="plan_unfit")
    if offer.price is None:
        raise BadRequest("plan_id: the plan has no billing_price_id, so it cannot be bought", words="plan_unfit")
    if offer.has_living:
        raise BadRequest(
            "The person has a subscription to this service already: it is changed in the billing portal", words="subscribed_already"
        )
    return offer, offer.price


def _failed(refused: PaymentRefused) -> BillingFailed:
    """The refusal in our own words, because the provider's message may contain keys and customers."""
    if refused.status in _UNAUTHORIZED:
        return BillingFailed(_KEY_REFUSED, detail=f"{refused.status} {refused.code}")
    if refused.code == _MISSING and "price" in refused.about:
        return BillingFailed("The payment provider has no price with the plan's billing_price_id", detail=refused.about)
    return BillingFailed(f"The payment provider refused the request: {refused.code}", detail=f"{refused.status} {refused.about}")


def _unavailable(away: PaymentUnavailable) -> BillingFailed:
    return BillingFailed(detail=away.reason)

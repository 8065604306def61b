"""Calls to a payment provider with a hosted checkout, over HTTP. Requests are forms, answers are JSON, and each request that creates
something has an idempotency key. There are only a few calls, so the provider's own library would cost more than it saves.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode
from uuid import UUID

import trio

from core.domain.errors import BadRequest
from core.domain.formats import http_date
from core.domain.identifiers import OrganizationId
from core.domain.outbound import destination
from core.domain.secrets import Secret
from core.domain.services.billing_news import subscription_of
from ports.outbound import OperatorsOutbound, OutboundAnswer, OutboundFailed, OutboundRequest
from ports.services.billing import CheckoutRequest, OpenedCheckout, PaymentRefused, PaymentUnavailable, ProviderSubscriptions
from ports.system import Clock

# The provider allows pages of a hundred. Reading such a page takes milliseconds, and all other requests would wait meanwhile.
_PAGE: Final = 20
# In seconds, for all tries of one call together.
_PATIENCE: Final = 12.0
_TIMEOUT: Final = timedelta(seconds=8)
_PAUSES: Final = (0.2, 0.6, 1.5)
_LONGEST_WAIT: Final = timedelta(hours=1)
_TOO_MANY: Final = 429
# 409: another request with the same key is under way, or another request has locked the same object.
_BUSY: Final = frozenset({409, _TOO_MANY})
_LONGEST_CODE: Final = 60


class HostedCheckout:
    """Implements `ports.services.billing.PaymentProvider`."""

    def __init__(self, outbound: OperatorsOutbound, api_url: str, key: Secret, clock: Clock) -> None:
        self._outbound = outbound
        self._url = api_url
        self._key = key
        self._clock = clock

    async def create_customer(self, key: str, customer: UUID, organization: OrganizationId, name: str) -> str:
        fields = {"name": name, "metadata[org_id]": str(organization), "metadata[customer_key]": str(customer)}
        return _text(await self._post("/v1/customers", fields, key), "id")

    async def find_customer(self, customer: UUID) -> str | None:
        query = urlencode({"query": f"metadata['customer_key']:'{customer}'", "limit": "1"})
        found, _ = await self._call("GET", f"/v1/customers/search?{query}")
        rows = found.get("data")
        return _text(rows[0], "id") if isinstance(rows, list) and rows and isinstance(rows[0], dict) else None

    async def open_checkout(self, checkout: CheckoutRequest) -> OpenedCheckout:
        fields = {
            "mode": "subscription",
            "customer": checkout.customer,
            "client_reference_id": str(checkout.user),
            "line_items[0][price]": checkout.price,
            "line_items[0][quantity]": "1",
            "success_url": checkout.success_url,
            "cancel_url": checkout.cancel_url,
            "expires_at": str(int(checkout.expires_at.timestamp())),
        }
        for name, value in checkout.metadata.items():
            fields[f"metadata[{name}]"] = fields[f"subscription_data[metadata][{name}]"] = value
        session = await self._post("/v1/checkout/sessions", fields, checkout.key)
        return OpenedCheckout(_text(session, "id"), _text(session, "url"))

    async def close_checkout(self, checkout: str) -> None:
        await self._post(f"/v1/checkout/sessions/{quote(checkout, safe='')}/expire", {}, None)

    async def is_checkout_paid(self, checkout: str) -> bool:
        session, _ = await self._call("GET", f"/v1/checkout/sessions/{quote(checkout, safe='')}")
        return session.get("status") == "complete"

    async def open_portal(self, customer: str, return_url: str) -> str:
        session = await self._post("/v1/billing_portal/sessions", {"customer": customer, "return_url": return_url}, None)
        return _text(session, "url")

    async def subscription(self, subject: str) -> ProviderSubscriptions:
        found, at = await self._call("GET", f"/v1/subscriptions/{quote(subject, safe='')}")
        return ProviderSubscriptions(_snapshots([found]), at)

    async def subscriptions(self, cursor: str | None) -> ProviderSubscriptions:
        fields = {"status": "all", "limit": str(_PAGE)}
        if cursor is not None:
            fields["starting_after"] = cursor
        page, at = await self._call("GET", f"/v1/subscriptions?{urlencode(fields)}")
        rows = page.get("data")
        if not isinstance(rows, list):
            raise PaymentUnavailable("a page without subscriptions")
        found = [row for row in rows if isinstance(row, dict)]
        return ProviderSubscriptions(_snapshots(found), at, _text(found[-1], "id") if page.get("has_more") is True and found else None)

    async def cancel(self, subject: str) -> None:
        try:
            await self._call("DELETE", f"/v1/subscriptions/{quote(subject, safe='')}")
        except PaymentRefused as refused:
            # The subscription has ended already, or never existed.
            if refused.code != "resource_missing":
                raise

    async def _post(self, path: str, fields: Mapping[str, str], key: str | None) -> Mapping[str, Any]:
        answer, _ = await self._call("POST", path, urlencode(fields).encode(), key)
        return answer

    async def _call(self, method: str, path: str, body: bytes = b"", key: str | None = None) -> tuple[Mapping[str, Any], datetime]:
        """The answer and its time. The call is tried again if the provider is busy or no answer arrives. Each of our calls can be repeated
        without harm, because calls that create something have an idempotency key.
        """
        headers = {"authorization": f"Bearer {self._key.reveal()}"}
        if method == "POST":
            headers["content-type"] = "application/x-www-form-urlencoded"
        if key is not None:
            headers["idempotency-key"] = key
        request = OutboundRequest(destination(self._url + path), body, headers)
        ends = trio.current_time() + _PATIENCE
        for pause in (*_PAUSES, None):
            began = self._clock.now()
            failure: PaymentUnavailable | PaymentRefused
            try:
                answer = await self._outbound.call(method, request, min(_TIMEOUT, timedelta(seconds=ends - trio.current_time())))
            except OutboundFailed as failed:
                failure = PaymentUnavailable(failed.failure.value)
            else:
                refused = _failure(answer)
                if refused is None:
                    # The time is the provider's own, because the provider's events have times of the same clock.
                    return _object(answer), min(http_date(answer.headers.get("date", ""), began) or began, began)
                failure = refused
                if answer.status not in _BUSY:
                    raise failure
            if pause is None or trio.current_time() + pause >= ends or _asks_for_more(failure, pause):
                raise failure
            await trio.sleep(pause)
        raise AssertionError("the last try has no pause")


def _asks_for_more(failure: PaymentUnavailable | PaymentRefused, pause: float) -> bool:
    return isinstance(failure, PaymentUnavailable) and failure.after is not None and failure.after.total_seconds() > pause


def _failure(answer: OutboundAnswer) -> PaymentUnavailable | PaymentRefused | None:
    if answer.status < 300:
        return None
    if answer.status in _BUSY:
        return PaymentUnavailable(f"status {answer.status}", _retry_after(answer))
    if answer.status >= 500 or answer.status < 400:
        return PaymentUnavailable(f"status {answer.status}", answered=True)
    try:
        error = json.loads(answer.body).get("error")
    except (ValueError, AttributeError, RecursionError):
        error = None
    told = error if isinstance(error, dict) else {}
    return PaymentRefused(answer.status, _word(told.get("code") or told.get("type")), _word(told.get("param")))


def _word(value: Any) -> str:
    """A code of the provider's own. Other characters are dropped, because texts of the provider may quote what people typed."""
    word = value if isinstance(value, str) else ""
    return "".join(letter for letter in word[:_LONGEST_CODE] if letter.isascii() and (letter.isalnum() or letter in "_[]")) or "unknown"


def _retry_after(answer: OutboundAnswer) -> timedelta | None:
    text = answer.headers.get("retry-after", "")
    return min(timedelta(seconds=int(text)), _LONGEST_WAIT) if text.isascii() and text.isdigit() and len(text) < 7 else None


def _object(answer: OutboundAnswer) -> Mapping[str, Any]:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise PaymentUnavailable("an answer that is not JSON", answered=True) from None
    if not isinstance(found, dict):
        raise PaymentUnavailable("an answer that is no object", answered=True)
    return found


def _text(thing: Mapping[str, Any], name: str) -> str:
    value = thing.get(name)
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
        raise PaymentUnavailable(f"an answer without {name}", answered=True)
    return value


def _snapshots(rows: list[Any]) -> Mapping[str, Any]:
    try:
        return dict(subscription_of(row) for row in rows)
    except BadRequest as error:
        raise PaymentUnavailable(error.message) from None

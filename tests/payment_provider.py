"""A payment provider on loopback, written from the public documents of the best-known provider: forms in, JSON out, kept idempotency keys,
paging, and that provider's error texts. If a test says so, it answers late, wrongly or not at all. That provider's own library signs
events.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from itertools import count
from time import time
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

import stripe
import trio

from tests.receiver import Call, Receiver, receiving

KEY: Final = "sk_test_51Provider"
SECRET: Final = "whsec_provider"
MONTH: Final = 30 * 86_400

# A test's function that gets the method and the path, and names the trouble that the call meets. None: no trouble.
Trouble = Callable[[str, str], str | None]


def no_trouble(_method: str, _path: str) -> str | None:
    return None


@dataclass
class PaymentProvider:
    """`calls` are the calls that were carried out; `answers` are kept by idempotency key, and given again for the same key."""

    trouble: Trouble = no_trouble
    customers: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    subscriptions: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    repeats: int = 0
    page_size: int = 100
    new_shape: bool = True
    receiver: Receiver | None = None
    _answers: dict[str, tuple[str, int, dict[str, Any]]] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: count(1))

    @property
    def url(self) -> str:
        assert self.receiver is not None
        return f"http://127.0.0.1:{self.receiver.port}"

    def subscribe(self, customer: str, price: str, metadata: Mapping[str, str], **more: Any) -> dict[str, Any]:
        """Makes a subscription, as if somebody had paid on the hosted page."""
        number = next(self._numbers)
        began = more.pop("created", int(time()))
        end = more.pop("end", began + MONTH)
        subscription: dict[str, Any] = {
            "id": f"sub_{number:06}",
            "object": "subscription",
            "status": "active",
            "customer": customer,
            "created": began,
            "metadata": dict(metadata),
            "items": {"object": "list", "data": [{"id": f"si_{number}", "price": {"id": price, "object": "price"}}]},
            "ended_at": None,
            "livemode": False,
            **more,
        }
        self.subscriptions[subscription["id"]] = subscription
        self.until(subscription, end)
        return subscription

    def until(self, subscription: dict[str, Any], end: int) -> None:
        """The end of the period. Its place in the object depends on the version of the provider's interface."""
        if self.new_shape:
            subscription["items"]["data"][0]["current_period_end"] = end
        else:
            subscription["current_period_end"] = end

    def invoice(self, subscription: dict[str, Any], end: int) -> dict[str, Any]:
        number = next(self._numbers)
        lines = {"object": "list", "data": [{"period": {"start": end - MONTH, "end": end}}]}
        invoice = {"id": f"in_{number}", "object": "invoice", "customer": subscription["customer"], "lines": lines}
        if self.new_shape:
            details = {"subscription": subscription["id"], "metadata": {}}
            return {**invoice, "parent": {"type": "subscription_details", "subscription_details": details}}
        return {**invoice, "subscription": subscription["id"]}

    def event(self, name: str, thing: Mapping[str, Any], at: int | None = None, *, livemode: bool = False) -> dict[str, Any]:
        return {
            "id": f"evt_{next(self._numbers):08}",
            "object": "event",
            "type": name,
            "created": int(time()) if at is None else at,
            "livemode": livemode,
            # A copy, so that later changes at the provider do not change an answer that was sent.
            "data": {"object": json.loads(json.dumps(thing))},
        }

    async def answer(self, stream: trio.abc.Stream, call: Call) -> bool:
        method, path = call.method, urlsplit(call.target).path
        trouble = self.trouble(method, path)
        if trouble == "hang_up":
            return False
        if trouble == "rate_limit":
            return await self._send(stream, 429, _error("rate_limit", "rate_limit"))
        if trouble == "rest":
            return await self._send(stream, 429, _error("rate_limit", "rate_limit"), "retry-after: 3600")
        if trouble == "fail":
            return await self._send(stream, 500, _error("api_error", None))
        status, body = self._carried_out(call, method, path)
        if trouble == "lose":
            # The provider has carried the call out, but sends no answer.
            return False
        if trouble == "late":
            await trio.sleep(0.3)
        return await self._send(stream, status, body)

    def _carried_out(self, call: Call, method: str, path: str) -> tuple[int, dict[str, Any]]:
        if call.headers.get("authorization") != f"Bearer {KEY}":
            return 401, _error("invalid_request_error", None)
        key = call.headers.get("idempotency-key")
        body = call.body.decode()
        if key is not None and key in self._answers:
            said, status, given = self._answers[key]
            self.repeats += 1
            return (400, _error("idempotency_error", None)) if said != body else (status, given)
        self.calls.append((method, path))
        status, given = self._done(method, path, dict(parse_qsl(body)), parse_qs(urlsplit(call.target).query))
        if key is not None:
            self._answers[key] = (body, status, given)
        return status, given

    def _done(  # noqa: C901, PLR0911 - one case for each call
        self, method: str, path: str, form: dict[str, str], query: dict[str, list[str]]
    ) -> tuple[int, dict[str, Any]]:
        match method, path.strip("/").split("/")[1:]:
            case "POST", ["customers"]:
                customer = {"id": f"cus_{next(self._numbers):06}", "object": "customer", "metadata": _metadata(form)}
                self.customers[str(customer["id"])] = customer
                return 200, customer
            case "GET", ["customers", "search"]:
                wanted = query["query"][0].rpartition(":")[2].strip("'")
                return 200, {"data": [one for one in self.customers.values() if one["metadata"].get("customer_key") == wanted]}
            case "POST", ["checkout", "sessions"]:
                return self._session(form)
            case "POST", ["checkout", "sessions", session, "expire"]:
                found = self.sessions[str(session)]
                if found["status"] != "open":
                    return 400, _error("invalid_request_error", None)
                found["status"] = "expired"
                return 200, found
            case "GET", ["checkout", "sessions", session]:
                return 200, self.sessions[str(session)]
            case "POST", ["billing_portal", "sessions"]:
                return 200, {"id": "bps_1", "url": f"https://billing.example/{form['customer']}?back={form['return_url']}"}
            case "GET", ["subscriptions"]:
                return self._page(query)
            case "GET", ["subscriptions", subscription]:
                known = self.subscriptions.get(unquote(subscription))
                return (404, _error("invalid_request_error", "resource_missing")) if known is None else (200, known)
            case "DELETE", ["subscriptions", subscription]:
                known = self.subscriptions.get(unquote(subscription))
                if known is None or known["status"] == "canceled":
                    return 404, _error("invalid_request_error", "resource_missing")
                known.update(status="canceled", ended_at=int(time()))
                return 200, known
        return 404, _error("invalid_request_error", None)

    def _session(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if form["customer"] not in self.customers:
            return 400, _error("invalid_request_error", "resource_missing", "customer")
        if form["line_items[0][price]"] == "price_unknown":
            return 400, _error("invalid_request_error", "resource_missing", "line_items[0][price]")
        session: dict[str, Any] = {"id": f"cs_test_{next(self._numbers)}", "object": "checkout.session", "status": "open", "form": form}
        session["url"] = f"https://checkout.example/{session['id']}"
        self.sessions[session["id"]] = session
        return 200, session

    def _page(self, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        ids: list[str] = sorted(self.subscriptions, reverse=True)
        after = query.get("starting_after")
        begin = ids.index(after[0]) + 1 if after else 0
        size = min(self.page_size, int(query["limit"][0]))
        page = ids[begin : begin + size]
        return 200, {"object": "list", "data": [self.subscriptions[one] for one in page], "has_more": begin + size < len(ids)}

    @staticmethod
    async def _send(stream: trio.abc.Stream, status: int, body: dict[str, Any], *lines: str) -> bool:
        encoded = json.dumps(body).encode()
        head = [f"HTTP/1.1 {status} X", f"content-length: {len(encoded)}", f"date: {formatdate(usegmt=True)}", *lines, "", ""]
        await stream.send_all("\r\n".join(head).encode() + encoded)
        return True


def _metadata(form: Mapping[str, str]) -> dict[str, str]:
    return {name[9:-1]: value for name, value in form.items() if name.startswith("metadata[")}


def _error(kind: str, code: str | None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"type": kind, "code": code, "param": param, "message": f"Somebody's words about {KEY}"}}


def signed(body: bytes, secret: str = SECRET, at: int | None = None) -> str:
    """The signature header, made by the provider's own library."""
    stamp = int(time()) if at is None else at
    signature = stripe.WebhookSignature._compute_signature(f"{stamp}.{body.decode()}", secret)
    return f"t={stamp},v1={signature}"


@asynccontextmanager
async def providing(provider: PaymentProvider | None = None) -> AsyncIterator[PaymentProvider]:
    made = provider or PaymentProvider()
    async with receiving(made.answer) as receiver:
        made.receiver = receiver
        yield made

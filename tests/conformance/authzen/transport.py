"""The same conditions of each of the four endpoints: on methods, content types and bodies."""

from tests.conformance.kit.deciding import BROKEN, Body, Decider


def rejects_methods(decider: Decider, endpoint: str, body: Body, method: str) -> None:
    decider.is_refused(decider.ask(endpoint, body, method=method), 404, 405)


def rejects_an_array(decider: Decider, endpoint: str, body: Body) -> None:
    decider.is_refused(decider.ask(endpoint, [body]))


def rejects_plain_text(decider: Decider, endpoint: str, body: Body) -> None:
    decider.is_refused(decider.ask(endpoint, body, content_type="text/plain"), 415)


def rejects_malformed_json(decider: Decider, endpoint: str) -> None:
    decider.is_refused(decider.ask(endpoint, BROKEN))


def rejects_an_empty_body(decider: Decider, endpoint: str) -> None:
    decider.is_refused(decider.ask(endpoint, ""))

"""Collects Chromium's events of a page: the addresses that it visits, and faults that no page of ours may cause."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from ops.patience import PATIENCE

# Chromium skips a page that leaves by itself when the reader goes back, and some builds report that it led to another site. Both are right.
_AS_IT_SHOULD_BE: Final = ("NavigationEntryMarkedSkippable", "BounceTrackingIssue")

# Before a page is painted, keys and clicks on it are lost.
_READY: Final = {"load", "firstPaint"}

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A document that was loaded, or a redirect on the way to it."""

    url: str
    status: int
    location: str = ""


@dataclass
class BrowserEvents:
    loads: int = 0
    """How many documents can be used already, or could."""
    place: str = ""
    """The address of what was loaded last."""
    documents: list[Loaded] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    """Of the page's policy, of what browsers expect of a page, and errors of scripts."""
    _stages: dict[str, set[str]] = field(default_factory=dict)
    _asked: dict[str, str] = field(default_factory=dict)
    _changed: trio.Event = field(default_factory=trio.Event)

    async def until(self, true: Callable[[], object]) -> None:
        with trio.fail_after(PATIENCE):
            while not true():
                await self._changed.wait()

    def __call__(self, method: str, event: Event) -> None:
        self._went(method, event)
        self._failed(method, event)
        self._changed.set()
        self._changed = trio.Event()

    def _went(self, method: str, event: Event) -> None:
        match method:
            case "Page.lifecycleEvent" if event["name"] in _READY:
                seen = self._stages.setdefault(event["loaderId"], set())
                seen.add(event["name"])
                if seen == _READY:
                    self.loads += 1
                    self.place = self.documents[-1].url if self.documents else ""
            case "Network.requestWillBeSent" if event.get("type") == "Document":
                self._asked[event["requestId"]] = event["request"]["url"]
                if "redirectResponse" in event:
                    came = event["redirectResponse"]
                    self.documents.append(Loaded(came["url"], came["status"], event["request"]["url"]))
            case "Network.responseReceived" if event["requestId"] in self._asked:
                self.documents.append(Loaded(event["response"]["url"], event["response"]["status"]))
            case "Network.responseReceivedExtraInfo" if event["requestId"] in self._asked:
                headers = {name.lower(): value for name, value in event["headers"].items()}
                location = headers.get("location", "/")
                # A browser without the application does not follow these, so that nothing else tells of them.
                if not location.startswith(("http", "/")):
                    self.documents.append(Loaded(self._asked[event["requestId"]], event["statusCode"], location))
            case "Page.frameRequestedNavigation" if not event["url"].startswith("http"):
                self.documents.append(Loaded("", 0, event["url"]))

    def _failed(self, method: str, event: Event) -> None:
        match method:
            case "Audits.issueAdded" if not any(one in str(event["issue"]) for one in _AS_IT_SHOULD_BE):
                self.violations.append(json.dumps(event["issue"]))
            case "Log.entryAdded" if event["entry"]["level"] == "error" and event["entry"]["source"] != "network":
                self.violations.append(event["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.violations.append(json.dumps(event["exceptionDetails"]))

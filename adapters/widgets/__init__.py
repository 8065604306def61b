"""CAPTCHAs of other vendors: what the vendors publish, and the verification of answers."""

import json
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import structlog

from core.domain.errors import Overloaded
from core.domain.identity.guards.puzzles import WidgetPreset, WidgetVerdict
from core.domain.outbound import destination
from core.domain.secrets import Secret
from ports.identity.sign_in import WidgetSilent
from ports.outbound import Outbound, OutboundAnswer, OutboundFailed, OutboundRequest

log = structlog.get_logger()


_PATIENCE: Final = timedelta(seconds=3)
# A verdict has some 300 bytes.
_LONGEST_VERDICT: Final = 8 << 10
_SENT: Final = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
# A maker that is slow must not keep all requests of the process waiting.
MOST_AT_ONCE: Final = 64


class VerifyingMaker:
    """Implements `ports.identity.sign_in.WidgetMaker`.

    Asks the vendor about an answer, by the guarded client. The vendor gets the answer and our secret, and nothing about the user.
    """

    def __init__(self, outbound: Outbound, preset: WidgetPreset, site_key: str, secret: Secret) -> None:
        self.preset = preset
        self.site_key = site_key
        self._outbound = outbound
        self._secret = secret
        self._destination = destination(preset.verify)
        self._asking = 0

    async def verify(self, answer: str) -> WidgetVerdict:
        if self._asking >= MOST_AT_ONCE:
            raise Overloaded(retry_after=1, detail="too many answers of widgets are being verified")
        self._asking += 1
        try:
            answered = await self._outbound.post(OutboundRequest(self._destination, self._body(answer), _SENT), _PATIENCE)
            return self._verdict(answered)
        except OutboundFailed as failure:
            raise self._silent(failure.failure.value) from None
        finally:
            self._asking -= 1

    def _body(self, answer: str) -> bytes:
        site_key = {"sitekey": self.site_key} if self.preset.names_site_key else {}
        return urlencode({"secret": self._secret.reveal(), "response": answer, **site_key}).encode()

    def _verdict(self, answered: OutboundAnswer) -> WidgetVerdict:
        if answered.status >= 500 or 300 <= answered.status < 400:
            raise self._silent(f"status {answered.status}")
        told = _object(answered.body)
        solved = told.get(self.preset.solved)
        if not isinstance(solved, bool):
            raise self._silent(f"status {answered.status} and no verdict")
        errors = told.get(self.preset.errors)
        broken = [one for one in errors if one in self.preset.broken] if isinstance(errors, list) else []
        if not solved and broken:
            raise self._silent(broken[0])
        return WidgetVerdict(
            solved=solved, site=_text(told, self.preset.site), action=self._said(told, "action"), bound=self._said(told, "bound")
        )

    def _said(self, told: dict[str, Any], what: str) -> str | None:
        name: str = getattr(self.preset, what)
        return _text(told, name) if name else None

    def _silent(self, reason: str) -> WidgetSilent:
        log.warning("widget_silent", widget=self.preset.name, reason=reason)
        return WidgetSilent(reason)


def _object(body: bytes) -> dict[str, Any]:
    """Empty for anything else, and for what is longer than any verdict."""
    if len(body) > _LONGEST_VERDICT:
        return {}
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _text(told: dict[str, Any], name: str) -> str:
    value = told.get(name)
    return value if isinstance(value, str) else ""


def widget_presets() -> Mapping[str, WidgetPreset]:
    """Returns the CAPTCHAs that `presets.toml` describes, by their names."""
    told = tomllib.loads((Path(__file__).parent / "presets.toml").read_text("utf-8"))
    return {name: WidgetPreset(name=name, **{key: _frozen(value) for key, value in one.items()}) for name, one in told.items()}


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(value.items())
    return tuple(value) if isinstance(value, list) else value

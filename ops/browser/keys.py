"""The keys that a person without a mouse needs, in the form of the DevTools protocol."""

from collections.abc import Mapping
from typing import Any, Final

KEYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "Tab": {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
    "Enter": {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    "Space": {"key": " ", "code": "Space", "windowsVirtualKeyCode": 32, "text": " "},
    "Escape": {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27},
    "Up": {"key": "ArrowUp", "code": "ArrowUp", "windowsVirtualKeyCode": 38},
    "Down": {"key": "ArrowDown", "code": "ArrowDown", "windowsVirtualKeyCode": 40},
    "/": {"key": "/", "code": "Slash", "windowsVirtualKeyCode": 191, "text": "/"},
}

"""Pages: their templates, styles and scripts, and how they are rendered. Nothing on a page comes from another address."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

HTML: Final = "text/html; charset=utf-8"
FOREVER: Final = "public, max-age=31536000, immutable"
_FILES: Final = files(__name__)
_ASSET_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


class Pages:
    """Templates and assets, read once."""

    def __init__(self) -> None:
        self._templates = Environment(
            loader=PackageLoader(__name__, "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._assets = {file.name: file.read_bytes() for file in _FILES.iterdir() if file.name.rpartition(".")[2] in _ASSET_TYPES}
        self._templates.globals["asset"] = self.asset_url

    def page(self, template: str, **values: Any) -> bytes:
        return self._templates.get_template(template).render(**values).encode()

    def outcome(self, title: str, text: str, *, good: bool, onward: str = "") -> bytes:
        """The page that says how something went. `onward` is where a good outcome leads to."""
        return self.page("outcome.html", title=title, text=text, good=good, onward=onward)

    def asset_url(self, name: str) -> str:
        """An asset's address changes with its content, so that browsers may keep what they have."""
        return f"/assets/{sha256(self._assets[name]).hexdigest()[:16]}/{name}"

    def asset(self, digest: str, name: str) -> tuple[bytes, str] | None:
        """The asset's content and media type. None when there is no such asset, or it has changed since the page was made."""
        if name not in self._assets or self.asset_url(name) != f"/assets/{digest}/{name}":
            return None
        return self._assets[name], _ASSET_TYPES[name.rpartition(".")[2]]


@cache
def shipped_pages() -> Pages:
    """One instance for all, since the assets' addresses follow from their content alone."""
    return Pages()

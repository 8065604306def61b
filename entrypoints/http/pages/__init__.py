"""Pages: their templates, styles and scripts, and how they are made. Nothing on a page comes from another address."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from quart import Response

from entrypoints.http.headers import PAGE_POLICY

HTML: Final = "text/html; charset=utf-8"
_FILES: Final = files(__name__)
_ASSET_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_FOREVER: Final = "public, max-age=31536000, immutable"


class Pages:
    """Templates and assets, read once."""

    def __init__(self) -> None:
        self._templates = Environment(
            loader=PackageLoader(__name__, "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._assets = {file.name: file.read_bytes() for file in _FILES.iterdir() if file.name.rpartition(".")[2] in _ASSET_TYPES}
        self._templates.globals["asset"] = self.asset_url

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        return self.answer(self.encoded(template, **values), status=status)

    def encoded(self, template: str, **values: Any) -> bytes:
        """For a declared endpoint, or to be kept."""
        return self._templates.get_template(template).render(**values).encode()

    def answer(self, html: bytes, *, status: int = 200) -> Response:
        response = Response(html, status=status, content_type=HTML)
        response.headers["Content-Security-Policy"] = PAGE_POLICY
        response.headers["Cache-Control"] = "no-store"
        return response

    def asset_url(self, name: str) -> str:
        """The address changes with the content, so that a browser may keep what it has."""
        return f"/assets/{sha256(self._assets[name]).hexdigest()[:16]}/{name}"

    def asset(self, digest: str, name: str) -> Response | None:
        """None when there is no such asset, or it has changed since the page was made."""
        if name not in self._assets or self.asset_url(name) != f"/assets/{digest}/{name}":
            return None
        response = Response(self._assets[name], content_type=_ASSET_TYPES[name.rpartition(".")[2]])
        response.headers["Cache-Control"] = _FOREVER
        return response


@cache
def shipped_pages() -> Pages:
    """The same for all who need them: their assets' addresses follow from their content."""
    return Pages()

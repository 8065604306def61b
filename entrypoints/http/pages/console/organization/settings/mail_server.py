"""The organization's own mail server: set, tested by a mail to the person who asks, and removed."""

from typing import Any, Final

from entrypoints.http.pages.console.cells import Tone, code, number, plain, when
from entrypoints.http.pages.console.forms import Asked, InputKind, shape
from entrypoints.http.pages.console.organization.organization_tabs import MAIL_SERVER_TAB, SETTINGS, SETTINGS_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Resource, Section
from entrypoints.http.routes.tenancy.mail_servers import get_mail_server, remove_mail_server, set_mail_server, test_mail_server


def _set(answer: Any) -> Any:
    return answer if answer.configured else None


def _state(server: Any) -> tuple[str, Tone]:
    if server.fallback_since:
        return "console.state.replaced", Tone.BAD
    return ("console.state.fails", Tone.BAD) if server.failing_since else ("console.state.active", Tone.GOOD)


MAIL_SERVER: Final = Resource(
    name="mail_server",
    position=position(SETTINGS_ENTRY, MAIL_SERVER_TAB),
    at=f"{SETTINGS}/mail-server",
    is_single=True,
    listed=get_mail_server,
    of_record=_set,
    columns=(
        code("host"),
        number("port"),
        plain("username"),
        plain("from_email"),
        plain("from_name"),
        when("failing_since"),
        when("fallback_since"),
    ),
    state=(lambda server: server, _state),
    sections=(
        # The endpoint sets all of it at once, and asks for the password each time: a new host must not get the old password.
        Section(
            "change",
            shape(
                set_mail_server,
                Asked("host", hint="console.mail_server.host_hint"),
                Asked("port", hint="console.mail_server.port_hint"),
                Asked("username", kind=InputKind.TEXT),
                Asked("password", kind=InputKind.SECRET, hint="console.mail_server.password_hint"),
                Asked("from_email", hint="console.mail_server.from_hint"),
                Asked("from_name", hint="console.mail_server.name_hint"),
            ),
            whole=True,
        ),
    ),
    acts=(Act("test", test_mail_server, said=lambda tried: (tried.success, tried.message)),),
    ending=Ending(remove_mail_server),
)

PAGES: Final = pages(MAIL_SERVER)

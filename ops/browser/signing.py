"""A person with a browser without scripts: reads pages, and fills their forms in."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from ops.browser.page_reader import PageReader
from ops.patience import PATIENCE

_MOST_PAGES = 12


@dataclass
class SigningBrowser:
    """The browser of a person who knows address and password, and consents to every request. `pages` are the paths of the forms that the
    person had to send.
    """

    client: httpx.Client
    email: str
    password: str
    pages: list[str] = field(default_factory=list)
    answer: str = "allow"
    """What the person answers to a question."""

    def arrive(self, address: str, at: str) -> str:
        """Follows this address to the first address that begins with `at`, and returns that one."""
        self.pages.clear()
        answer = self.client.get(address)
        for _ in range(_MOST_PAGES):
            onward = self._onward(answer)
            if onward is not None:
                onward = str(answer.url.join(onward))
                if onward.startswith(at):
                    return onward
                answer = self.client.get(onward)
            else:
                answer = self._fill_in(answer)
        raise AssertionError(f"never came to {at}, but to {answer.url}: {PageReader(answer.content).text}")

    def handed_over(self, address: str, at: str) -> dict[str, str]:
        """As `arrive`, to a form that goes to `at`. Returns the form's fields."""
        answer = self.client.get(address)
        for _ in range(_MOST_PAGES):
            onward = self._onward(answer)
            forms = [] if onward is not None else PageReader(answer.content).forms
            if forms and forms[0].action == at:
                return {name: str(value) for name, value in forms[0].fields.items()}
            answer = self.client.get(str(answer.url.join(onward))) if onward is not None else self._fill_in(answer)
        raise AssertionError(f"no form to {at}, but {answer.url}: {PageReader(answer.content).text}")

    @staticmethod
    def _onward(answer: httpx.Response) -> str | None:
        if answer.has_redirect_location:
            return answer.headers["Location"]
        assert answer.status_code == 200, answer.text
        return PageReader(answer.content).refresh or None

    def _fill_in(self, answer: httpx.Response) -> httpx.Response:
        page = PageReader(answer.content)
        assert page.forms, page.text
        form = page.forms[0]
        known = {"email": self.email, "password": self.password}
        filled = {name: known.get(name, value) for name, value in form.fields.items()}
        if not known.keys() & form.fields.keys():
            filled["answer"] = self.answer
        target = answer.url.join(form.action)
        self.pages.append(target.path)
        return self.client.post(target, data=filled)


@contextmanager
def browser(email: str, password: str) -> Iterator[SigningBrowser]:
    with httpx.Client(timeout=PATIENCE, trust_env=False) as client:
        yield SigningBrowser(client, email, password)

"""Puts the list of leaked passwords together that Postern ships, from three packages of public registries:

    pip download --no-deps django zxcvbn && npm pack @zxcvbn-ts/language-common
    .venv/bin/python -m ops.leaked_passwords django-*.whl zxcvbn-*.whl zxcvbn-ts-language-common-*.tgz

Only passwords of eight characters and more are taken, since shorter ones cannot be chosen. Case never matters.
"""

import ast
import gzip
import hashlib
import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from adapters.crypto.common_passwords import key_of
from core.domain.identity.accounts import SHORTEST_PASSWORD

LIST: Final = Path(__file__).parents[1] / "adapters/crypto/known_passwords/leaked_passwords.txt"
_MIT: Final = """\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the
"Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to
the following conditions: The above copyright notice and this permission notice shall be included in all copies or substantial portions
of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE
LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""
_BSD: Final = """\
Redistribution and use in source and binary forms, with or without modification, are permitted provided that the following conditions are
met: 1. Redistributions of source code must retain the above copyright notice, this list of conditions and the following disclaimer.
2. Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the following disclaimer in the
documentation and/or other materials provided with the distribution. 3. Neither the name of Django nor the names of its contributors may
be used to endorse or promote products derived from this software without specific prior written permission. THIS SOFTWARE IS PROVIDED BY
THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED
WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT OWNER OR CONTRIBUTORS BE
LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF
SUBSTITUTE GOODS OR SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY,
WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF THIS SOFTWARE, EVEN
IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE."""


def main(django: str, zxcvbn: str, zxcvbn_ts: str) -> None:
    with zipfile.ZipFile(django) as wheel:
        first = gzip.decompress(wheel.read("django/contrib/auth/common-passwords.txt.gz")).decode().split()
    with zipfile.ZipFile(zxcvbn) as wheel:
        second = _passwords_in(wheel.read("zxcvbn/frequency_lists.py").decode())
    with tarfile.open(zxcvbn_ts) as package:
        member = package.extractfile("package/src/passwords.json")
        third = json.load(member or io.BytesIO())
    every = sorted({key_of(one) for one in (*first, *second, *third) if _is_wanted(one)})
    sources = [(path, _digest(path)) for path in (django, zxcvbn, zxcvbn_ts)]
    LIST.write_text("".join(f"{line}\n" for line in (*_head(sources), *every)), encoding="utf-8")
    print(f"{len(every)} passwords")


def _is_wanted(password: str) -> bool:
    return len(key_of(password)) >= SHORTEST_PASSWORD and not password.startswith("#") and password == password.strip()


def _passwords_in(module: str) -> Sequence[str]:
    """The list is a literal of the module: it is read, and nothing runs."""
    (lists,) = [one.value for one in ast.parse(module).body if isinstance(one, ast.Assign)]
    value = cast("ast.Dict", lists)
    (passwords,) = [text for key, text in zip(value.keys, value.values, strict=True) if key and ast.literal_eval(key) == "passwords"]
    text: Any = passwords.func.value if isinstance(passwords, ast.Call) else passwords  # type: ignore[attr-defined]
    return str(ast.literal_eval(text)).split(",")


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _head(sources: Iterable[tuple[str, str]]) -> Iterable[str]:
    yield "# Leaked passwords of eight characters and more, as `ops/leaked_passwords.py` has put them together. One on each line. From:"
    yield "#"
    for path, digest in sources:
        yield f"# {Path(path).name}"
        yield f"#   sha256 {digest}"
    yield "#"
    yield "# Django: Copyright (c) Django Software Foundation and individual contributors. BSD-3-Clause; the list is by Royce Williams."
    yield from _comment(_BSD)
    yield "#"
    yield "# zxcvbn (the lists): Copyright (c) 2012-2016 Dan Wheeler and Dropbox, Inc. MIT."
    yield "# zxcvbn (the package for Python): Copyright (c) 2016 Daniel Wolf. MIT."
    yield "# @zxcvbn-ts/language-common: Copyright (c) 2021 @zxcvbn-ts. MIT."
    yield from _comment(_MIT)
    yield ""


def _comment(text: str) -> Iterable[str]:
    return (f"#   {line}" for line in text.splitlines())


if __name__ == "__main__":
    main(*sys.argv[1:])

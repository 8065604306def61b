"""Compiled Jinja templates, kept in memory. Each language has an environment of its own, and compiling a template takes a hundred times as
long as rendering the template. So the environments share the compiled code. Environments with different escaping compile to different code,
so HTML and plain text do not share.
"""

from types import CodeType

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket


class CompiledTemplates(BytecodeCache):
    def __init__(self) -> None:
        self._code: dict[str, CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code.get(bucket.key)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._code[bucket.key] = bucket.code

"""The build of Argon2 in use. A build for another machine is never loaded."""

import json
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from adapters.crypto import passwords
from adapters.crypto.password_digests import (
    BUILD_RECORD,
    DISTRIBUTION,
    BuiltForAnotherProcessor,
    binding,
    processor_features,
    require_runnable,
)
from adapters.crypto.passwords import Argon2Parameters, Argon2Passwords, rate
from ops import build_argon2


@pytest.fixture
def processor(tmp_path: Path) -> Path:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Example  CPU\nflags\t\t: fpu sse2 avx avx2\n\nprocessor\t: 1\nflags\t\t: fpu other\n")
    return path


def record(prefix: Path, **changes: object) -> None:
    good = {"version": "1", "baseline": "native", "processor": "Example CPU", "needs": ["avx2"], "module": build_argon2._module_digest()}
    (prefix / BUILD_RECORD).write_text(json.dumps(good | changes))


@pytest.mark.parametrize(
    ("tag", "is_published", "kind"),
    [
        ("cp39-abi3-manylinux_2_28_x86_64", True, "the wheel, for any processor"),
        ("cp39-abi3-macosx_11_0_arm64", True, "the wheel, for any processor"),
        ("cp39-abi3-linux_x86_64", False, "built by hand"),
    ],
)
def test_without_a_record_the_tag_tells_the_wheel_from_a_build(
    tmp_path: Path, processor: Path, tag: str, is_published: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PathDistribution, "read_text", lambda _self, name: f"Tag: {tag}\n" if name == "WHEEL" else None)
    found = binding(tmp_path, processor)
    assert (found.baseline, found.is_published) == (None, is_published)
    assert str(found).endswith(f", {kind}")
    assert found.mend.endswith(f" {DISTRIBUTION}=={found.version}")


def test_a_build_says_for_which_processor_it_is(tmp_path: Path, processor: Path) -> None:
    record(tmp_path)
    assert str(binding(tmp_path, processor)).endswith("built for Example CPU")
    record(tmp_path, baseline="x86-64-v3")
    assert str(binding(tmp_path, processor)).endswith("built for x86-64-v3")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"module": "of another build", "needs": ["avx2"]}'])
def test_a_record_of_another_build_or_a_damaged_one_says_nothing(tmp_path: Path, processor: Path, content: str) -> None:
    (tmp_path / BUILD_RECORD).write_text(content)
    assert binding(tmp_path, processor).baseline is None


def test_what_the_processor_lacks_is_named(tmp_path: Path, processor: Path) -> None:
    record(tmp_path, needs=["avx512f", "avx2", "avx512bw"])
    found = binding(tmp_path, processor)
    assert found.missing == ("avx512bw", "avx512f")
    assert str(found).endswith("which has avx512bw, avx512f; this processor has not")


def test_where_the_system_does_not_describe_the_processor_nothing_is_compared(tmp_path: Path) -> None:
    record(tmp_path, needs=["avx512f"])
    assert processor_features(tmp_path / "none") == frozenset()
    assert binding(tmp_path, tmp_path / "none").missing == ()


def test_a_build_for_another_processor_is_refused_before_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, needs=["a_feature_of_tomorrow"])
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    # Other tests of this process have looked already.
    passwords._library.cache_clear()
    with pytest.raises(BuiltForAnotherProcessor, match=r"a_feature_of_tomorrow; this processor has not\. Run ops/build_argon2\.py"):
        require_runnable()
    with pytest.raises(BuiltForAnotherProcessor):
        rate(0.01)
    with pytest.raises(BuiltForAnotherProcessor):
        Argon2Passwords(Argon2Parameters(), 1, None)  # type: ignore[arg-type]  # it does not get that far


def test_what_is_installed_here_can_run_here() -> None:
    require_runnable()

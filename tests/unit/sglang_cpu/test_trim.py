"""What is removed from the image's packages, and that a list which fits no longer is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.sglang_cpu.image import trim

FILES = (
    "torch/include/torch/torch.h",
    "torch/bin/protoc",
    "torch/share/cmake/TorchConfig.cmake",
    "torch/lib/libtorch_cuda_linalg.so",
    "nvidia/cu13/lib/libcudart_static.a",
    "mooncake/transfer_engine_bench",
    "mooncake/mooncake_client",
    "mooncake/mooncake_master",
    "sglang/multimodal_gen/registry.py",
    "sglang/test/runners.py",
    "pip/__init__.py",
    *(f"{package}/core/tests/test_it.py" for package in ("mpmath", "networkx", "numpy", "scipy", "sympy")),
    "numpy/core/tests/tests/deeper.py",
)
KEPT = ("torch/bin/torch_shm_manager", "torch/lib/libtorch_cpu.so", "mooncake/engine.so", "numpy/testing/utils.py")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    for name in (*FILES, *KEPT):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1000)
    return tmp_path


def test_only_what_is_listed_goes(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trim.main([str(packages)])
    left = {str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file()}
    assert left == set(KEPT)
    assert "MiB removed" in capsys.readouterr().out


def test_removed_bytes_are_counted(packages: Path) -> None:
    assert trim.remove(packages / "torch") == 6000


def test_a_pattern_without_a_match_says_which(packages: Path) -> None:
    (packages / "mooncake/mooncake_master").unlink()
    with pytest.raises(LookupError, match="'mooncake/mooncake_master'"):
        trim.main([str(packages)])

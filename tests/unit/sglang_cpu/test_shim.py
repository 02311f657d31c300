"""The start-up shim, in an interpreter of its own, as SGLang meets it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.sglang_cpu import image

SHIM = Path(image.__file__).parent / "shim"


def python(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(SHIM), str(tmp_path)))}
    return subprocess.run(
        [sys.executable, "-B", "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import sgl_kernel.flash_attn, triton.language as tl, IPython.display", id="submodules"),
        pytest.param("import triton\n@triton.jit\ndef f(): return 3\nassert f() == 3", id="plain decorator"),
        pytest.param("import triton\n@triton.autotune(configs=[])\n@triton.jit\ndef f(x): pass", id="with options"),
        pytest.param("import triton\ntriton.Config({'BLOCK': 1}, num_warps=4)", id="a class is instantiated"),
        pytest.param("from triton.runtime import JITFunction\nassert not isinstance(3, JITFunction)", id="isinstance"),
        pytest.param("import triton.language as tl\ndef f(x: tl.constexpr | None): pass", id="annotation"),
        pytest.param("import triton\nfrom packaging.version import Version\nVersion(triton.__version__)", id="version"),
        pytest.param("import importlib.util as u\nassert u.find_spec('torch_of_no_one') is None", id="others missing"),
    ],
)
def test_what_sglang_does_at_import_works(code: str, tmp_path: Path) -> None:
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import sgl_kernel\nsgl_kernel.rmsnorm(1, 2)", "NotImplementedError: sgl_kernel.rmsnorm needs an accelerator"),
        ("import triton\ntriton.runtime.driver.active.get_current_target()", "RuntimeError: 0 active drivers"),
    ],
)
def test_calling_for_real_work_is_refused(code: str, error: str, tmp_path: Path) -> None:
    assert error in python(code, tmp_path).stderr


def test_the_sender_keeps_its_indices_off_the_device(tmp_path: Path) -> None:
    package = tmp_path / "sglang" / "srt" / "disaggregation" / "mooncake"
    package.mkdir(parents=True)
    (package / "conn.py").write_text("class MooncakeKVSender:\n    supports_host_tensor_indices = True\n")
    code = (
        "from sglang.srt.disaggregation.mooncake import conn\nprint(conn.MooncakeKVSender.supports_host_tensor_indices)"
    )
    assert python(code, tmp_path).stdout == "False\n"


@pytest.mark.parametrize(("asked", "used"), [("spawn", "fork"), ("forkserver", "forkserver")])
def test_processes_are_forked(asked: str, used: str, tmp_path: Path) -> None:
    code = f"import multiprocessing as mp\nmp.set_start_method({asked!r}, force=True)\nprint(mp.get_start_method())"
    assert python(code, tmp_path).stdout == f"{used}\n"

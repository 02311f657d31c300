"""Which functions of which missing CUDA libraries PyTorch wants."""

from __future__ import annotations

from e2e.sglang_cpu.image.elf_reader import SharedLibrary, Symbol
from e2e.sglang_cpu.image.stand_ins import plan

EXPORTER = SharedLibrary(needed=(), imports=(), exports=frozenset({"custom_thing", "nvtx_own"}))


def library(needed: tuple[str, ...], *imports: Symbol) -> SharedLibrary:
    return SharedLibrary(needed=needed, imports=imports, exports=frozenset())


def test_a_versioned_function_goes_to_the_library_that_the_linker_named() -> None:
    torch = library(
        ("libcublas.so.13", "libcudnn.so.9"),
        Symbol("cublasCreate", "libcublas.so.13", "libcublas.so.13"),
        Symbol("cudnnCreate", "libcudnn.so.9", "libcudnn.so.9"),
    )
    assert plan([torch]) == {
        "libcublas.so.13": {"libcublas.so.13": {"cublasCreate"}},
        "libcudnn.so.9": {"libcudnn.so.9": {"cudnnCreate"}},
    }


def test_functions_without_a_version_are_known_by_their_names() -> None:
    torch = library(("libnccl.so.2",), Symbol("ncclSend"), Symbol("PyList_New"), Symbol("_ZN5torch3addEv"))
    assert plan([torch]) == {"libnccl.so.2": {None: {"ncclSend"}}}


def test_what_another_library_offers_is_not_missing() -> None:
    torch = library(("libnccl.so.2",), Symbol("nvtx_own"), Symbol("custom_thing"))
    assert plan([EXPORTER, torch]) == {"libnccl.so.2": {}}


def test_the_runtime_and_the_driver_stay_real() -> None:
    torch = library(
        ("libcudart.so.13", "libcuda.so.1", "libc.so.6", "libtorch_cuda.so"),
        Symbol("cudaMalloc", "libcudart.so.13", "libcudart.so.13"),
        Symbol("memcpy", "GLIBC_2.14", "libc.so.6"),
    )
    assert plan([torch]) == {}


def test_a_library_that_two_need_has_what_both_want() -> None:
    first = library(("libcusparse.so.12",), Symbol("cusparseCreate", "V", "libcusparse.so.12"))
    second = library(("libcusparse.so.12",), Symbol("cusparseDestroy", "V", "libcusparse.so.12"))
    assert plan([first, second]) == {"libcusparse.so.12": {"V": {"cusparseCreate", "cusparseDestroy"}}}

"""Libraries that are written without a compiler load, answer and carry versions; real ones are read right."""

from __future__ import annotations

import _ctypes
import ctypes
import platform
from pathlib import Path

import pytest

from e2e.sglang_cpu.image.elf_reader import ElfError, read_library
from e2e.sglang_cpu.image.elf_writer import sysv_hash, write_stand_in


@pytest.mark.parametrize(("name", "expected"), [("", 0), ("printf", 0x077905A6), ("exit", 0x0006CF04)])
def test_the_hash_is_that_of_the_system_v_abi(name: str, expected: int) -> None:
    assert sysv_hash(name) == expected


@pytest.mark.parametrize("answer", [100, 0, -1])
def test_every_function_returns_the_answer(tmp_path: Path, answer: int) -> None:
    names = [f"function_{number}" for number in range(300)]
    write_stand_in(tmp_path / "libthing.so.1", "libthing.so.1", {None: names}, answer)
    library = ctypes.CDLL(str(tmp_path / "libthing.so.1"))
    assert {library[name]() for name in names} == {answer}
    assert not hasattr(library, "function_300")


def test_a_library_without_functions_loads(tmp_path: Path) -> None:
    write_stand_in(tmp_path / "libempty.so", "libempty.so", {}, 0)
    assert ctypes.CDLL(str(tmp_path / "libempty.so"))


def test_a_function_is_found_under_its_version_only(tmp_path: Path) -> None:
    path = tmp_path / "libversioned.so.13"
    write_stand_in(path, "libversioned.so.13", {"V_1": ["old"], "V_2": ["new"], None: ["plain"]}, 7)
    library = ctypes.CDLL(str(path))
    find = ctypes.CDLL(None).dlvsym
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    found = {
        (name, version): find(library._handle, name.encode(), version.encode()) is not None
        for name in ("old", "new")
        for version in ("V_1", "V_2")
    }
    assert found == {("old", "V_1"): True, ("new", "V_2"): True, ("old", "V_2"): False, ("new", "V_1"): False}
    assert library.plain() == 7


def test_it_reads_what_an_extension_module_needs_imports_and_exports() -> None:
    module = Path(_ctypes.__file__)
    library = read_library(module)
    assert any(name.startswith("libffi.so") for name in library.needed)
    assert "PyInit__ctypes" in library.exports
    imported = {symbol.name: symbol for symbol in library.imports}
    assert imported["PyErr_SetString"].version is None
    assert imported["memcpy"].library == "libc.so.6"
    assert (imported["memcpy"].version or "").startswith("GLIBC_2.")
    assert not library.exports & set(imported)


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + b"\0" * 60])
def test_what_is_no_64_bit_library_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ElfError, match="is not a 64-bit little-endian ELF file"):
        read_library(tmp_path / "file")


def test_the_stand_ins_are_for_this_machine() -> None:
    assert platform.machine() == "x86_64", "the writer emits x86-64 code; these tests cannot run elsewhere"

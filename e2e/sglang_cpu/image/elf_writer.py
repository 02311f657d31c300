"""Write a shared library whose every function answers with one constant (x86-64 ELF), without a compiler.

The file has what the dynamic loader needs and nothing else: no section headers, a System V hash table, one version
definition per symbol version, and two segments (read and execute; read and write for the dynamic table, which the
loader relocates in place).
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_PAGE = 0x1000
_ELF_HEADER_SIZE, _PROGRAM_HEADER_SIZE, _SYMBOL_SIZE = 64, 56, 24
_ET_DYN, _EM_X86_64 = 3, 62
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_R, _W, _X = 4, 2, 1
_DT_NULL, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 0, 4, 5, 6, 10, 11, 14
_DT_VERSYM, _DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_GLOBAL_FUNCTION = (1 << 4) | 2  # STB_GLOBAL, STT_FUNC
_CODE_SECTION = 1  # any index that is neither "undefined" nor reserved
_VER_FLAG_BASE = 1
_GLOBAL_VERSION = 1


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    version_index: int


def write_stand_in(path: Path, soname: str, functions: Mapping[str | None, Iterable[str]], answer: int) -> None:
    """Write a library named `soname` to `path`; `functions` lists names by symbol version (None: without one).

    Every function returns `answer` (a signed 32-bit integer).
    """
    path.write_bytes(_Image(soname, functions, answer).render())


class _Image:
    def __init__(self, soname: str, functions: Mapping[str | None, Iterable[str]], answer: int) -> None:
        self._soname = soname
        self._strings = bytearray(b"\0")
        self._versions = sorted(version for version in functions if version is not None)
        self._symbols = [
            _Symbol(name, self._version_index(version))
            for version in [None, *self._versions]
            for name in sorted(set(functions.get(version, ())))
        ]
        self._code = b"\xb8" + struct.pack("<i", answer) + b"\xc3"  # mov eax, answer; ret

    def render(self) -> bytes:
        name_offsets = [self._intern(symbol.name) for symbol in self._symbols]
        version_definitions = self._version_definitions()
        soname = self._intern(self._soname)

        layout = _Layout(start=_ELF_HEADER_SIZE + 4 * _PROGRAM_HEADER_SIZE)
        code = layout.add(self._code)
        symbol_table = layout.add(self._symbol_table(name_offsets, code))
        hash_table = layout.add(self._hash_table())
        version_table = layout.add(self._version_table())
        definitions = layout.add(version_definitions)
        strings = layout.add(bytes(self._strings))
        entries = [
            (_DT_SONAME, soname),
            (_DT_HASH, hash_table),
            (_DT_SYMTAB, symbol_table),
            (_DT_SYMENT, _SYMBOL_SIZE),
            (_DT_STRTAB, strings),
            (_DT_STRSZ, len(self._strings)),
        ]
        if self._versions:
            entries += [
                (_DT_VERSYM, version_table),
                (_DT_VERDEF, definitions),
                (_DT_VERDEFNUM, len(self._versions) + 1),
            ]
        entries.append((_DT_NULL, 0))
        dynamic = b"".join(struct.pack("<qQ", tag, value) for tag, value in entries)
        writable = -(-layout.end // _PAGE) * _PAGE
        segments = (
            _program_header(_PT_LOAD, _R | _X, 0, layout.end, _PAGE)
            + _program_header(_PT_LOAD, _R | _W, writable, len(dynamic), _PAGE)
            + _program_header(_PT_DYNAMIC, _R | _W, writable, len(dynamic), 8)
            + _program_header(_PT_GNU_STACK, _R | _W, 0, 0, 16)  # without it the loader asks for an executable stack
        )
        head = _elf_header(program_headers=4) + segments + layout.content
        return head.ljust(writable, b"\0") + dynamic

    def _intern(self, text: str) -> int:
        offset = len(self._strings)
        self._strings += text.encode() + b"\0"
        return offset

    def _version_index(self, version: str | None) -> int:
        if version is None:
            return _GLOBAL_VERSION
        return self._versions.index(version) + 2  # 0 and 1 are reserved; 1 also names the library itself

    def _symbol_table(self, name_offsets: list[int], code: int) -> bytes:
        rows = [struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)]
        rows += [
            struct.pack("<IBBHQQ", name, _GLOBAL_FUNCTION, 0, _CODE_SECTION, code, len(self._code))
            for name in name_offsets
        ]
        return b"".join(rows)

    def _hash_table(self) -> bytes:
        """Buckets of chained symbol numbers; number 0 ends a chain."""
        count = len(self._symbols) + 1
        buckets = [0] * count
        chain = [0] * count
        for number, symbol in enumerate(self._symbols, start=1):
            bucket = sysv_hash(symbol.name) % count
            chain[number] = buckets[bucket]
            buckets[bucket] = number
        return struct.pack(f"<{2 + 2 * count}I", count, count, *buckets, *chain)

    def _version_table(self) -> bytes:
        return struct.pack(f"<{len(self._symbols) + 1}H", 0, *(symbol.version_index for symbol in self._symbols))

    def _version_definitions(self) -> bytes:
        names = [self._soname, *self._versions]
        rows = []
        for index, name in enumerate(names, start=1):
            flags = _VER_FLAG_BASE if index == _GLOBAL_VERSION else 0
            following = 0 if index == len(names) else 28
            rows.append(struct.pack("<HHHHIII", 1, flags, index, 1, sysv_hash(name), 20, following))
            rows.append(struct.pack("<II", self._intern(name), 0))
        return b"".join(rows)


class _Layout:
    """Parts of a file one after the other, each on an 8-byte boundary; address and file offset are the same."""

    def __init__(self, start: int) -> None:
        self._start = start
        self.content = bytearray()

    @property
    def end(self) -> int:
        return self._start + len(self.content)

    def add(self, part: bytes) -> int:
        self.content += b"\0" * (-self.end % 8)
        address = self.end
        self.content += part
        return address


def sysv_hash(name: str) -> int:
    """The hash of the System V ABI, used for symbols and for version names."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def _elf_header(program_headers: int) -> bytes:
    identity = b"\x7fELF" + bytes([2, 1, 1]) + b"\0" * 9
    return identity + struct.pack(
        "<HHIQQQIHHHHHH",
        _ET_DYN,
        _EM_X86_64,
        1,
        0,
        _ELF_HEADER_SIZE,
        0,
        0,
        _ELF_HEADER_SIZE,
        _PROGRAM_HEADER_SIZE,
        program_headers,
        0,
        0,
        0,
    )


def _program_header(kind: int, flags: int, start: int, size: int, alignment: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, start, start, start, size, size, alignment)

"""Read what a shared library wants from other libraries and what it offers (64-bit little-endian ELF).

Only the four sections that the dynamic loader itself cares about are read, so that an image build needs neither
binutils nor a compiler.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SHT_DYNAMIC, _SHT_DYNSYM = 6, 11
_SHT_VERNEED, _SHT_VERSYM = 0x6FFFFFFE, 0x6FFFFFFF
_DT_NEEDED = 1
_SHN_UNDEF = 0
_VERSION_MASK = 0x7FFF  # the top bit only says "hidden"
_FIRST_NAMED_VERSION = 2  # 0 is local, 1 is global without a version


class ElfError(ValueError):
    """The file is not an ELF library that this reader understands."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """One dynamic symbol; `version` and `library` are known only where the linker recorded them."""

    name: str
    version: str | None = None
    library: str | None = None


@dataclass(frozen=True, slots=True)
class SharedLibrary:
    """A library's outside: the libraries it needs, the symbols it imports and the names it exports."""

    needed: tuple[str, ...]
    imports: tuple[Symbol, ...]
    exports: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int  # index of the string table that belongs to this section
    count: int  # sh_info: number of entries, where the section's kind defines it so


def read_library(path: Path) -> SharedLibrary:
    """Read `path`. Raises ElfError when it is not a 64-bit little-endian ELF file with a dynamic symbol table."""
    return _Reader(path).library()


class _Reader:
    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        if self._data[:6] != b"\x7fELF\x02\x01":
            raise ElfError(f"{path} is not a 64-bit little-endian ELF file")
        section_offset, entry_size, count = (
            struct.unpack_from("<Q", self._data, 0x28)[0],
            *struct.unpack_from("<HH", self._data, 0x3A),
        )
        self._sections = [self._section(section_offset + index * entry_size) for index in range(count)]
        if not any(section.kind == _SHT_DYNSYM for section in self._sections):
            raise ElfError(f"{path} has no dynamic symbol table")

    def library(self) -> SharedLibrary:
        names = self._version_names()
        imports: list[Symbol] = []
        exports: set[str] = set()
        for name, section_index, version_index in self._symbols():
            if section_index != _SHN_UNDEF:
                exports.add(name)
            elif name:
                version, library = names.get(version_index, (None, None))
                imports.append(Symbol(name, version, library))
        return SharedLibrary(tuple(self._needed()), tuple(imports), frozenset(exports))

    def _section(self, offset: int) -> _Section:
        _, kind, _, _, start, size, link, info = struct.unpack_from("<IIQQQQII", self._data, offset)
        return _Section(kind, start, size, link, info)

    def _find(self, kind: int) -> _Section | None:
        return next((section for section in self._sections if section.kind == kind), None)

    def _string(self, table: int, index: int) -> str:
        start = self._sections[table].offset + index
        return self._data[start : self._data.index(b"\0", start)].decode()

    def _needed(self) -> Iterator[str]:
        dynamic = self._find(_SHT_DYNAMIC)
        if dynamic is None:
            return
        for tag, value in struct.iter_unpack("<qQ", self._bytes(dynamic)):
            if tag == _DT_NEEDED:
                yield self._string(dynamic.link, value)

    def _bytes(self, section: _Section) -> bytes:
        return self._data[section.offset : section.offset + section.size]

    def _symbols(self) -> Iterator[tuple[str, int, int]]:
        """Yield (name, index of the defining section, version index) of every dynamic symbol."""
        table = self._find(_SHT_DYNSYM)
        assert table is not None  # checked on construction
        versions = self._find(_SHT_VERSYM)
        indices = struct.unpack(f"<{versions.size // 2}H", self._bytes(versions)) if versions else ()
        for number, entry in enumerate(struct.iter_unpack("<IBBHQQ", self._bytes(table))):
            name, _, _, section_index, _, _ = entry
            version = indices[number] & _VERSION_MASK if indices else 0
            yield self._string(table.link, name), section_index, version

    def _version_names(self) -> dict[int, tuple[str | None, str | None]]:
        """Map a version index to (version, file name of the library that must define it)."""
        found: dict[int, tuple[str | None, str | None]] = {}
        section = self._find(_SHT_VERNEED)
        if section is None:
            return found
        file_offset = section.offset
        for _ in range(section.count):
            _, count, file_name, first, next_file = struct.unpack_from("<HHIII", self._data, file_offset)
            library = self._string(section.link, file_name)
            offset = file_offset + first
            for _ in range(count):
                _, _, index, name, step = struct.unpack_from("<IHHII", self._data, offset)
                if index & _VERSION_MASK >= _FIRST_NAMED_VERSION:
                    found[index & _VERSION_MASK] = self._string(section.link, name), library
                offset += step
            file_offset += next_file
        return found

"""Make the CUDA libraries that PyTorch's published wheel links against loadable on a machine that has none.

The wheel on the public index is the CUDA build; its libraries refuse to load without some 4 GB of CUDA libraries,
of which a CPU run calls nothing. Each is replaced by a file of a few kilobytes in which every function that PyTorch
imports answers "no device". The CUDA runtime itself stays real (2 MB), because its answers are not only numbers.

    python3 -m image.stand_ins TORCH_LIB_FOLDER OUTPUT_FOLDER
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from .elf_reader import SharedLibrary, Symbol, read_library
from .elf_writer import write_stand_in

NO_DEVICE = 100
"""cudaErrorNoDevice and CUDA_ERROR_NO_DEVICE (cuda.h)."""

CUDA_LIBRARY = re.compile(r"lib(cu|nv|nccl)")
KEPT_REAL = re.compile(r"lib(cudart|cuda)\.so")
CUDA_FUNCTION = re.compile(r"(cu|nccl|nv)[A-Za-z]")
"""NCCL, cuSPARSELt, cuFile and NVSHMEM carry no symbol versions, so that only the name says whose they are."""

Functions = Mapping[str | None, Iterable[str]]


def plan(libraries: Iterable[SharedLibrary]) -> dict[str, Functions]:
    """Return, for every missing CUDA library by its soname, the functions by version that the others import."""
    known = list(libraries)
    exported = frozenset[str]().union(*(library.exports for library in known))
    wanted = sorted({name for library in known for name in library.needed if _is_missing(name)})
    functions: dict[str, dict[str | None, set[str]]] = {soname: defaultdict(set) for soname in wanted}
    for library in known:
        # The loader searches all libraries for a name without a version, so any one of those needed will do.
        shelf = next((name for name in library.needed if name in functions), None)
        for symbol in library.imports:
            home = symbol.library or (shelf if _belongs_to_cuda(symbol, exported) else None)
            if home in functions:
                functions[home][symbol.version].add(symbol.name)
    return {soname: dict(found) for soname, found in functions.items()}


def _is_missing(soname: str) -> bool:
    return bool(CUDA_LIBRARY.match(soname)) and not KEPT_REAL.match(soname)


def _belongs_to_cuda(symbol: Symbol, exported: frozenset[str]) -> bool:
    return symbol.version is None and symbol.name not in exported and bool(CUDA_FUNCTION.match(symbol.name))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("torch_lib_folder", type=Path)
    parser.add_argument("output_folder", type=Path)
    options = parser.parse_args(arguments)
    options.output_folder.mkdir(parents=True, exist_ok=True)
    libraries = [read_library(path) for path in sorted(options.torch_lib_folder.glob("*.so"))]
    for soname, functions in plan(libraries).items():
        write_stand_in(options.output_folder / soname, soname, functions, NO_DEVICE)
        print(f"{soname}: {sum(len(list(names)) for names in functions.values())} functions")


if __name__ == "__main__":
    main(sys.argv[1:])

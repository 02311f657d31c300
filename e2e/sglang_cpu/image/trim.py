"""Remove from an installed environment what a serving process never opens.

python3 -m image.trim SITE_PACKAGES_FOLDER
"""

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

UNUSED = (
    "torch/include",  # C++ headers
    "torch/bin/protoc*",
    "torch/share",  # CMake files
    "torch/lib/libtorch_cuda_linalg.so",  # loaded by the first linear algebra call on a GPU
    "nvidia/**/*.a",  # static libraries
    "mooncake/*_bench",  # programs: only the library is used
    "mooncake/mooncake_client",
    "mooncake/mooncake_master",
    "sglang/multimodal_gen",  # diffusion models
    "sglang/test",
    "pip",
    *(f"{package}/**/tests" for package in ("mpmath", "networkx", "numpy", "scipy", "sympy")),
)


def unused(site_packages: Path) -> Iterator[Path]:
    """Yield each file or folder to remove. Raises LookupError for a pattern that matches nothing: its package moved."""
    for pattern in UNUSED:
        found = sorted(site_packages.glob(pattern))
        if not found:
            raise LookupError(f"nothing in {site_packages} matches {pattern!r}; correct the list in trim.py")
        yield from found


def remove(path: Path) -> int:
    """Remove a file or a folder with its content; return the bytes that it held."""
    if not path.is_dir():
        size = path.stat().st_size
        path.unlink()
        return size
    size = sum(inner.stat().st_size for inner in path.rglob("*") if inner.is_file())
    shutil.rmtree(path)
    return size


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site_packages", type=Path)
    site_packages = parser.parse_args(arguments).site_packages
    removed = sum(remove(path) for path in unused(site_packages) if path.exists())
    print(f"{site_packages}: {removed / 2**20:.0f} MiB removed")


if __name__ == "__main__":
    main(sys.argv[1:])

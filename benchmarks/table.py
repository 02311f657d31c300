"""The bench's table, with the marks to beat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

#: Two other operators for prefill/decode serving, with their defaults, measured on the same kind of control plane
#: (Kubernetes 1.36, kwok, 2 cores, manager as a process beside it): 1 prefill and 3 decode pods for each service and no
#: router. Names: `lws` is DisaggregatedSet of kubernetes-sigs/lws, `rbg` is sgl-project/rbg.
_MEASURED: Final = (
    "who",
    "n",
    "children_s",
    "pods_s",
    "pods_ready_s",
    "ready_s",
    "cpu_s",
    "requests_per_service",
    "rss_mib",
    "idle_cpu_percent",
    "restart_writes",
    "restart_quiet_s",
)
PEERS: Final[tuple[dict[str, Any], ...]] = tuple(
    dict(zip(_MEASURED, row, strict=False))
    for row in (
        ("lws", 1, 0.18, 0.26, 0.31, 0.35, 0.10, 39, 56),
        ("lws", 20, 3.5, 3.6, 3.6, 4.3, 1.2, 31, 63),
        ("lws", 100, 17.7, 17.8, 17.8, 20.9, 6.0, 31, 113),
        ("lws", 200, 37.8, 37.9, 37.9, 44.5, 13.1, 31, 110, 0.08, 0, 3.9),
        ("rbg", 1, 0.46, 0.51, 0.72, 0.82, 0.25, 121, 104),
        ("rbg", 20, 2.9, 4.9, 4.9, 9.5, 2.7, 72, 114),
        ("rbg", 100, 19.1, 31.1, 31.1, 43.0, 17.3, 66, 287),
        ("rbg", 200, 40.9, 64.6, 64.6, 88.1, 43.1, 65, 302, 0.28, 0, 32),
    )
)

_COLUMNS: Final = (
    ("who", ""),
    ("n", "N"),
    ("children_s", "children s"),
    ("pods_s", "pods s"),
    ("pods_ready_s", "pods Ready s"),
    ("ready_s", "Ready s"),
    ("cpu_s", "CPU s"),
    ("rss_mib", "RSS MiB"),
    ("requests_per_service", "requests each"),
    ("idle_cpu_percent", "idle CPU %"),
    ("restart_writes", "restart writes"),
    ("restart_quiet_s", "restart quiet s"),
    ("reconcile_p50_s", "run p50 s"),
    ("reconcile_p99_s", "run p99 s"),
)


def render(results: Iterable[Mapping[str, Any]]) -> str:
    """Ours and the peers', by N, as a table of plain text."""
    rows = sorted(
        [{"who": "this", **result} for result in results] + list(PEERS), key=lambda row: (row["n"], _rank(row))
    )
    cells = [[title for _, title in _COLUMNS], *([_cell(row.get(key)) for key, _ in _COLUMNS] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_COLUMNS))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)


def _rank(row: Mapping[str, Any]) -> int:
    return ("this", "lws", "rbg").index(row["who"])


def _cell(value: Any) -> str:
    return "" if value is None else str(value)

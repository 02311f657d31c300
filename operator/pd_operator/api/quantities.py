"""Kubernetes resource quantities: parsing and comparison.

Grammar and suffixes: Kubernetes API reference, "Quantity".
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

#: What a quantity looks like; also the pattern in the CRD.
PATTERN: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]+)?$"

_SUFFIX: Final[dict[str, Decimal]] = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{s: Decimal(1000) ** i for i, s in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{s: Decimal(1024) ** i for i, s in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
_SPLIT: Final = re.compile(r"^([0-9.]+(?:e[0-9]+)?)([a-zA-Z]*)$")


def parse(quantity: str | int) -> Decimal:
    """The value of a quantity in its base unit (cores, bytes, devices).

    Raises:
        ValueError: `quantity` is not a Kubernetes quantity.
    """
    text = str(quantity)
    match = _SPLIT.match(text)
    if not re.match(PATTERN, text) or match is None or match.group(2) not in _SUFFIX:
        raise ValueError(f"{text!r} is not a Kubernetes quantity such as 2, 500m or 16Gi")
    return Decimal(match.group(1)) * _SUFFIX[match.group(2)]


def equal(left: str | int, right: str | int) -> bool:
    """Whether two quantities are the same amount (`1000m` and `1`); texts that are no quantities compare as texts."""
    try:
        return parse(left) == parse(right)
    except ValueError:
        return str(left) == str(right)

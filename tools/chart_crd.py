"""The chart's CRD template, from the generated CRD: `python -m tools.chart_crd CRD TEMPLATE`.

Helm installs what lies in a chart's `crds/` folder once and never upgrades it. As a template, the CRD is upgraded with
the chart; `crds.enabled` leaves it out and `crds.keep` keeps it when the chart is uninstalled.
"""

from __future__ import annotations

import sys
from pathlib import Path

_NAME = "\nmetadata:\n  name: pdinferenceservices.pdinference.dev\n"
_METADATA = """\
  labels:
    {{- include "pd-operator.labels" . | nindent 4 }}
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""


def template(crd: str) -> str:
    """The guarded template of a CRD document. Raises ValueError when its metadata is more than the name."""
    if f"{_NAME}spec:\n" not in crd:
        raise ValueError(f"the CRD has no metadata of this form, to which labels could be added:{_NAME}spec:")
    head, rest = _literal(crd).split(_NAME)
    return f"{{{{- if .Values.crds.enabled }}}}\n{head}{_NAME}{_METADATA}{rest}{{{{- end }}}}\n"


def _literal(text: str) -> str:
    """`text` as a template that renders to it: braces in a description are no template actions."""
    return text.replace("{{", '{{ "{{" }}')


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    target.write_text(template(source.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

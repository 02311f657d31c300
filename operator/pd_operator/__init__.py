"""pd-operator: runs prefill/decode-disaggregated SGLang services on Kubernetes."""

from typing import Final

__version__: Final = "0.1.0"

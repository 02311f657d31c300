"""pd-operator: runs prefill/decode-disaggregated SGLang services on Kubernetes."""

"""SGLang looks for a class under this name in every module of the package."""

from sglang.srt.models.llama import LlamaForCausalLM as EntryClass  # type: ignore[import-not-found]

__all__ = ["EntryClass"]

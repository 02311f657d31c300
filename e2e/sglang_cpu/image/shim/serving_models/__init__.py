"""The models that this image serves, by SGLang's own mechanism for model packages (SGLANG_EXTERNAL_MODEL_PACKAGE).

With it SGLang imports its 250 built-in models only when one of them is asked for, which halves its start-up time.
"""

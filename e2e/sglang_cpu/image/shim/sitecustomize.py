"""Let SGLang 0.5.23 from the public package index start on a machine without an accelerator.

Python imports a module of this name at start-up when its folder is on PYTHONPATH. No installed file is changed:
* Packages that only make sense on a GPU (`sgl_kernel`, `triton`) or in a notebook (`IPython`) are imported at module
  level all over SGLang. They are answered with placeholders; one that is *called* for real work raises.
* One capability flag of the KV sender is switched off after its module is imported.
* SGLang's scheduler and detokenizer are forked. With a GPU they must be new interpreters ("spawn"), and each imports
  everything again: three times the processor time and the memory at start-up, for nothing on a CPU.
"""

import importlib.abc
import importlib.machinery
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

PLACEHOLDERS = {"sgl_kernel": "0.4.10", "triton": "3.8.0", "IPython": "0"}
"""Package to the version it claims; SGLang and PyTorch compare the first two."""


class Placeholder:
    """Any attribute of a missing package. It can be a decorator, a base class or an annotation, but does no work."""

    def __init__(self, path: str) -> None:
        self.__name__ = self.__qualname__ = path
        self.__module__ = path.rpartition(".")[0]

    def __getattr__(self, name: str) -> "Placeholder":
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder(f"{self.__name__}.{name}")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self.__name__.startswith("triton.runtime.driver"):
            raise RuntimeError("0 active drivers")  # what the real package says, and what its users expect
        if self.__name__.startswith("triton."):  # @triton.jit, @triton.autotune(...), triton.cdiv(...)
            decorates = len(arguments) == 1 and not options and callable(arguments[0])
            return arguments[0] if decorates else self
        raise NotImplementedError(f"{self.__name__} needs an accelerator; this image has a placeholder for it")

    def __getitem__(self, _: object) -> "Placeholder":
        return self

    def __mro_entries__(self, _: tuple[object, ...]) -> tuple[type, ...]:
        return (object,)

    def __or__(self, _: object) -> "Placeholder":
        return self

    __ror__ = __or__


class PlaceholderClass:
    """Base of the classes of a missing package, such as `triton.Config`; an instance holds nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass


class PlaceholderFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers imports of the missing packages and of everything below them."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in PLACEHOLDERS:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, _spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        def attribute(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            # Names in CamelCase are instantiated and appear in isinstance(), which accepts nothing but a class.
            path = f"{module.__name__}.{name}"
            found = type(name, (PlaceholderClass,), {}) if name[0].isupper() else Placeholder(path)
            setattr(module, name, found)
            return found

        module.__path__ = []
        module.__version__ = PLACEHOLDERS.get(module.__name__, "0")  # type: ignore[attr-defined]
        module.__getattr__ = attribute  # type: ignore[method-assign]


class ImportHook(importlib.abc.MetaPathFinder):
    """Runs a function once, right after one module is imported."""

    def __init__(self, module_name: str, action: Callable[[ModuleType], None]) -> None:
        self._module_name = module_name
        self._action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module_name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_then_act(module: ModuleType) -> None:
            execute(module)
            self._action(module)

        spec.loader.exec_module = execute_then_act  # type: ignore[method-assign]
        return spec


def keep_transfer_indices_off_the_device(module: ModuleType) -> None:
    """With the flag on, the first request makes the prefill worker ask a GPU driver for pinned memory and die."""
    module.MooncakeKVSender.supports_host_tensor_indices = False


def fork_instead_of_spawn() -> None:
    """Answer a request for "spawn" as the process-wide way to start processes with "fork"."""
    choose = multiprocessing.set_start_method

    def choose_fork(method: str | None, force: bool = False) -> None:
        choose("fork" if method == "spawn" else method, force)

    multiprocessing.set_start_method = choose_fork


fork_instead_of_spawn()
sys.meta_path[:0] = [
    PlaceholderFinder(),
    ImportHook("sglang.srt.disaggregation.mooncake.conn", keep_transfer_indices_off_the_device),
]

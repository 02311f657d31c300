"""Which numbers of a poll are believed."""

from __future__ import annotations

from typing import Final

from pd_operator.scaling.window import RoleWindow, Window

#: No metric of one service is beyond these: larger values are nonsense, smaller ones are zero.
LARGEST: Final = 1e12
SMALLEST: Final = 1e-9


def sanitised(window: Window) -> Window:
    """The window without numbers that cannot be: NaN, infinite or negative ones are absent."""
    return Window(
        prefill=_sane_role(window.prefill),
        decode=_sane_role(window.decode),
        arrival_rate=_sane(window.arrival_rate),
        completion_rate=_sane(window.completion_rate),
        in_flight=_sane(window.in_flight),
        prompt_tokens_per_second=_sane(window.prompt_tokens_per_second),
        generation_tokens_per_second=_sane(window.generation_tokens_per_second),
        cached_share=_sane(window.cached_share),
        ttft_seconds=_sane(window.ttft_seconds),
        itl_seconds=_sane(window.itl_seconds),
        ttft_samples=_sane(window.ttft_samples),
        sample_age_seconds=window.sample_age_seconds,
        fault=window.fault,
        message=window.message,
    )


def _sane_role(role: RoleWindow) -> RoleWindow:
    return RoleWindow(
        ready=max(role.ready, 0),
        starting=max(role.starting, 0),
        draining=max(role.draining, 0),
        reporting=role.reporting,
        running=_sane(role.running),
        waiting=_sane(role.waiting),
        held=_sane(role.held),
        finished=_sane(role.finished),
        kv_usage=_sane(role.kv_usage),
        busy=_sane(role.busy),
    )


def _sane(value: float | None) -> float | None:
    if value is None or not 0.0 <= value <= LARGEST:  # false for NaN
        return None
    return value if value >= SMALLEST else 0.0

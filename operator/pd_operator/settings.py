"""Settings of the operator: from flags, else from the environment, else defaults. Read once, at start-up."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

_PREFIX: Final = "PD_"
_NAMESPACE: Final = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")


class SettingsError(ValueError):
    """A setting cannot be used. The message names it, its value, and what to write instead."""


class LogLevel(StrEnum):
    """Least severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How log lines look."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


class Settings(BaseModel):
    """All settings. The environment variable of `web_port` is `PD_WEB_PORT`, its flag `--web-port`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    watch_namespaces: Annotated[
        tuple[str, ...],
        Field(description="namespaces to watch, separated by commas; empty: all of them"),
    ] = ()
    prometheus_url: Annotated[
        str | None,
        Field(description="address of Prometheus, such as http://prometheus.monitoring:9090; needed by SLO mode"),
    ] = None
    prometheus_token_file: Annotated[
        str | None, Field(description="file with a bearer token for Prometheus, read anew for every poll")
    ] = None
    prometheus_ca_file: Annotated[
        str | None, Field(description="file with the certificate authority of Prometheus, in PEM form")
    ] = None
    poll_seconds: Annotated[
        float, Field(ge=1, le=300, description="seconds between two polls of Prometheus, from 1 to 300")
    ] = 15.0
    window_seconds: Annotated[
        int,
        Field(
            ge=5,
            le=600,
            description="time over which rates are taken, from 5 to 600; should hold four of Prometheus's scrapes",
        ),
    ] = 60
    workers: Annotated[int, Field(ge=1, le=256, description="services reconciled at the same time, from 1 to 256")] = 16
    web_host: Annotated[str, Field(min_length=1, description="address to listen on for probes and metrics")] = "0.0.0.0"
    web_port: Annotated[
        int, Field(ge=0, le=65535, description="port for probes and metrics, from 1 to 65535; 0: any free one")
    ] = 8080
    log_level: Annotated[LogLevel, Field(description="debug, info, warning or error")] = LogLevel.INFO
    log_format: Annotated[
        LogFormat, Field(description="json, text, or auto: text on a terminal and json elsewhere")
    ] = LogFormat.AUTO
    kubeconfig: Annotated[
        str | None, Field(description="path of a kubeconfig; default: the pod's service account, else ~/.kube/config")
    ] = None

    @field_validator("watch_namespaces", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("watch_namespaces")
    @classmethod
    def _check_namespaces(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [name for name in value if not _NAMESPACE.match(name)]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} cannot be the name of a namespace")
        return tuple(dict.fromkeys(value))

    @field_validator("log_level", "log_format", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("prometheus_url")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"^https?://[^/\s]+", value):
            raise ValueError("it is no http:// or https:// address")
        return value.rstrip("/") if value else None

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_default(cls, value: object, info: Any) -> object:
        return cls.model_fields[info.field_name].get_default() if value == "" else value


def load(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """The settings.

    Args:
        arguments: Command line without the program's name. `--help` prints all settings and exits.
        environment: Environment variables; `KUBECONFIG` is read like `PD_KUBECONFIG`.

    Raises:
        SettingsError: Some values cannot be used; the message has one line for each.
    """
    given = {name: value for name, value in vars(_parser().parse_args(arguments)).items() if value is not None}
    values: dict[str, str] = {}
    if environment.get("KUBECONFIG"):
        values["kubeconfig"] = environment["KUBECONFIG"]
    for name in Settings.model_fields:
        if environment.get(_variable(name)):
            values[name] = environment[_variable(name)]
    values |= given
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        lines = [
            _explain(str(problem["loc"][0]), values, problem["msg"], from_flag=problem["loc"][0] in given)
            for problem in error.errors()
        ]
        raise SettingsError("\n".join(lines)) from error


def _explain(name: str, values: Mapping[str, str], problem: str, *, from_flag: bool) -> str:
    where = _flag(name) if from_flag else _variable(name)
    words = problem.removeprefix("Value error, ")
    return f"{where}={values.get(name, '')}: {words}. Set it to: {Settings.model_fields[name].description}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pd-operator", description="Kubernetes operator for prefill/decode-disaggregated SGLang services."
    )
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, ()) else f" (default {field.default})"
        parser.add_argument(
            _flag(name), dest=name, metavar="VALUE", help=f"{field.description}{default} [{_variable(name)}]"
        )
    return parser


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _variable(name: str) -> str:
    return _PREFIX + name.upper()

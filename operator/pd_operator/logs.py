"""Logging: one JSON object a line for machines, or plain text on a terminal. Times are UTC."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from pd_operator.settings import LogFormat, LogLevel

#: Attributes of every log record; all others came in by `extra=` and are facts about the event.
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
#: Libraries that tell everything they do.
_TALKATIVE: Final = {"kopf": logging.WARNING, "asyncio": logging.WARNING, "aiohttp": logging.WARNING}


def set_up(level: LogLevel, form: LogFormat, stream: TextIO = sys.stderr) -> None:
    """Send every record to `stream`, once."""
    as_text = form == LogFormat.TEXT or (form == LogFormat.AUTO and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in _TALKATIVE.items():
        logging.getLogger(name).setLevel(logging.DEBUG if level == LogLevel.DEBUG else least)


class JsonFormatter(logging.Formatter):
    """`{"time": …, "level": …, "message": …, …}` on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line for one record."""
        fields: dict[str, Any] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """`12:00:00 info    message  key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """The lines for one record."""
        facts = "".join(f"  {name}={value}" for name, value in _extra(record).items())
        line = f"{_time_of(record)[11:19]} {record.levelname.lower():8}{record.getMessage()}{facts}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)
        for name, value in record.__dict__.items()
        if name not in _STANDARD and not name.startswith("_")
    }


def _time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

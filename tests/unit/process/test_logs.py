"""Log lines that machines can read, and people too."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from pd_operator import logs
from pd_operator.settings import LogFormat, LogLevel


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    names = {name: logging.getLogger(name).level for name in ("kopf", "asyncio", "aiohttp")}
    yield
    root.handlers[:] = before
    root.setLevel(level)
    for name, own in names.items():
        logging.getLogger(name).setLevel(own)


def lines(form: LogFormat, level: LogLevel = LogLevel.INFO) -> io.StringIO:
    stream = io.StringIO()
    logs.set_up(level, form, stream)
    return stream


def test_json_has_one_object_per_line_with_the_facts_as_fields() -> None:
    stream = lines(LogFormat.JSON)
    logging.getLogger("x").info("set %s", "up", extra={"service": "default/demo", "seconds": 1.5, "path": object})
    line = json.loads(stream.getvalue())
    assert line["message"] == "set up"
    assert line["level"] == "info"
    assert (line["service"], line["seconds"]) == ("default/demo", 1.5)
    assert line["time"].endswith("Z")


def test_traces_stay_on_the_line() -> None:
    stream = lines(LogFormat.AUTO)
    try:
        int("no\nway")
    except ValueError:
        logging.getLogger("x").exception("failed")
    assert stream.getvalue().count("\n") == 1
    assert "ValueError: invalid literal" in json.loads(stream.getvalue())["trace"]


def test_text_for_people() -> None:
    stream = lines(LogFormat.TEXT)
    logging.getLogger("x").warning("refused", extra={"service": "default/demo"})
    assert stream.getvalue()[8:] == " warning refused  service=default/demo\n"


def test_levels() -> None:
    stream = lines(LogFormat.TEXT, LogLevel.WARNING)
    logging.getLogger("x").info("quiet")
    logging.getLogger("kopf.objects").info("quiet")
    assert stream.getvalue() == ""
    logging.getLogger("kopf.objects").warning("loud")
    assert "loud" in stream.getvalue()

"""Settings: where they come from, and what is said about wrong ones."""

from __future__ import annotations

import pytest

from pd_operator.settings import LogFormat, LogLevel, Settings, SettingsError, load


def test_nothing_is_needed() -> None:
    assert load([], {}) == Settings()
    assert load([], {"PD_WORKERS": "", "PD_WATCH_NAMESPACES": "", "PATH": "/bin"}) == Settings()


def test_flags_win_over_the_environment() -> None:
    chosen = load(["--workers", "4", "--log-level=debug"], {"PD_WORKERS": "8", "PD_WEB_PORT": "9000"})
    assert (chosen.workers, chosen.web_port, chosen.log_level) == (4, 9000, LogLevel.DEBUG)


def test_every_setting_has_a_variable() -> None:
    chosen = load(
        [],
        {
            "PD_WATCH_NAMESPACES": "team-a, team-b,team-a",
            "PD_PROMETHEUS_URL": "https://prometheus.monitoring:9090/",
            "PD_LOG_FORMAT": "JSON",
            "PD_POLL_SECONDS": "2.5",
            "PD_KUBECONFIG": "/mine",
            "KUBECONFIG": "/everyones",
        },
    )
    assert chosen.watch_namespaces == ("team-a", "team-b")
    assert chosen.prometheus_url == "https://prometheus.monitoring:9090"
    assert chosen.log_format == LogFormat.JSON
    assert chosen.poll_seconds == 2.5
    assert chosen.kubeconfig == "/mine"
    assert load([], {"KUBECONFIG": "/everyones"}).kubeconfig == "/everyones"


@pytest.mark.parametrize(
    ("environment", "arguments", "words"),
    [
        ({"PD_WORKERS": "many"}, [], ["PD_WORKERS=many", "from 1 to 256"]),
        ({"PD_WORKERS": "0"}, [], ["PD_WORKERS=0", "from 1 to 256"]),
        ({}, ["--web-port=70000"], ["--web-port=70000", "from 1 to 65535"]),
        ({"PD_LOG_LEVEL": "loud"}, [], ["PD_LOG_LEVEL=loud", "debug, info, warning or error"]),
        ({"PD_PROMETHEUS_URL": "prometheus:9090"}, [], ["PD_PROMETHEUS_URL=prometheus:9090", "http://prometheus."]),
        ({"PD_WATCH_NAMESPACES": "a,B_c"}, [], ["PD_WATCH_NAMESPACES=a,B_c", "B_c cannot be the name", "commas"]),
    ],
)
def test_an_error_names_the_setting_its_value_and_the_fix(
    environment: dict[str, str], arguments: list[str], words: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(arguments, environment)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load(["--web-port=-1"], {"PD_WORKERS": "x"})
    assert len(str(caught.value).splitlines()) == 2


def test_an_unknown_flag_ends_with_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        load(["--wokers=3"], {})
    assert caught.value.code == 2
    assert "--wokers" in capsys.readouterr().err


def test_help_shows_flag_variable_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load(["--help"], {})
    text = " ".join(capsys.readouterr().out.split())
    assert "--web-port VALUE" in text
    assert "(default 8080) [PD_WEB_PORT]" in text

"""The real helm, built once per machine."""

from __future__ import annotations

import pytest

from e2e.lab import binaries
from e2e.lab.progress import Progress
from tests.chart.chart import Chart


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Chart:
    return Chart(binaries.ensure(["helm"], Progress())["helm"], tmp_path_factory.mktemp("helm"))

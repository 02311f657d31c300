"""How pip reaches its package index on this machine, for builds that run pip inside a container."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "timeout", "retries", "default-timeout")
_BUNDLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

BUNDLE_IN_CONTAINER = "/etc/ssl/certs/ca-certificates.crt"
CONFIG_IN_CONTAINER = "/etc/pip.conf"


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """What a build needs in order to use the same index as this machine; empty on most machines."""

    settings: Mapping[str, str]
    """Of pip's configuration file."""

    bundle: Path | None
    """Certificate authorities, when this machine names its own."""

    def mounts(self, scratch: Path) -> dict[Path, str]:
        """Host files to show inside the build, at their place there. Mounts leave nothing behind in an image."""
        mounts: dict[Path, str] = {}
        settings = dict(self.settings)
        if self.bundle is not None:
            mounts[self.bundle] = BUNDLE_IN_CONTAINER
            settings["cert"] = BUNDLE_IN_CONTAINER
        if settings:
            config = scratch / "pip.conf"
            config.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items()))
            mounts[config] = CONFIG_IN_CONTAINER
        return mounts


def of_this_machine(
    environment: Mapping[str, str] | None = None, files: tuple[Path, ...] | None = None
) -> PackageIndex:
    """Read from pip's configuration files, then from the environment, which wins as it does in pip."""
    variables = os.environ if environment is None else environment
    found: dict[str, str] = {}
    for file in _config_files(variables) if files is None else files:
        found |= _read(file)
    for name in (*_SETTINGS, "cert"):
        if value := variables.get(f"PIP_{name.upper().replace('-', '_')}"):
            found[name] = value
    # PIP_DEFAULT_TIMEOUT is the documented name of the variable, `timeout` of the setting.
    if timeout := found.pop("default-timeout", None):
        found.setdefault("timeout", timeout)
    certificates = found.pop("cert", None) or next((variables[name] for name in _BUNDLES if variables.get(name)), None)
    return PackageIndex(found, Path(certificates) if certificates else None)


def _config_files(variables: Mapping[str, str]) -> tuple[Path, ...]:
    """pip's own order: machine, user, the one named by PIP_CONFIG_FILE."""
    home = Path(variables.get("HOME", "/root"))
    named = variables.get("PIP_CONFIG_FILE")
    usual = (Path("/etc/pip.conf"), home / ".pip" / "pip.conf", home / ".config" / "pip" / "pip.conf")
    return (*usual, Path(named)) if named else usual


def _read(file: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    if not parser.read(file, encoding="utf-8") or not parser.has_section("global"):
        return {}
    return {name: value for name, value in parser.items("global") if name in (*_SETTINGS, "cert")}

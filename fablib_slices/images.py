# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Images of machines: those that FABRIC offers, their users, and their distributions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fablib_slices.graph import library_constants, quiet
from fablib_slices.spec import DEFAULT_IMAGE

NOT_BOOTED: Final = frozenset({DEFAULT_IMAGE})
"""Images that l4sbench chooses by itself and that no slice has booted for it yet."""

OFFERED: Final[Mapping[str, str]] = {
    "attestable_bmv2_ubuntu_20": "ubuntu",
    "default_debian_13": "debian",
    "default_fedora_41": "fedora",
    "default_rocky_10": "rocky",
    "default_ubuntu_25": "ubuntu",
    "docker_rocky_10": "rocky",
    "docker_ubuntu_24": "ubuntu",
    "docker_ubuntu_25": "ubuntu",
    "dpu_ubuntu_24": "ubuntu",
}
"""Image -> user, of images that FABRIC's list has had since July 2025 and fablib's own table lacks."""


@dataclass(frozen=True)
class Distribution:
    """A distribution, as its machines report it, and the kernel that it was released with."""

    name: str
    kernel: str


_DEBIAN_12: Final = Distribution("debian 12", "6.1")
_DEBIAN_13: Final = Distribution("debian 13", "6.12")
_UBUNTU_22: Final = Distribution("ubuntu 22.04", "5.15")
_UBUNTU_24: Final = Distribution("ubuntu 24.04", "6.8")

DISTRIBUTIONS: Final[Mapping[str, Distribution]] = {
    "default_debian_12": _DEBIAN_12,
    "default_debian_13": _DEBIAN_13,
    "default_ubuntu_22": _UBUNTU_22,
    "default_ubuntu_24": _UBUNTU_24,
    "docker_ubuntu_22": _UBUNTU_22,
    "docker_ubuntu_24": _UBUNTU_24,
}
"""Image -> distribution, of images for which kernels/images has kernels."""

_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
"""Names of users; a downloaded list must not bring options of ssh."""


def known_images() -> Mapping[str, str]:
    """Return the images that are known without a network, and their users: fablib's own table, and ours."""
    return {**OFFERED, **images_in(library_constants().IMAGE_NAMES)}


def images_in(listed: object) -> Mapping[str, str]:
    """Return the images of a list as fablib has it, and their users; malformed entries are left out."""
    if not isinstance(listed, Mapping):
        return {}
    users = {name: about.get("default_user") for name, about in listed.items() if isinstance(about, Mapping)}
    return {
        name: user
        for name, user in users.items()
        if isinstance(name, str) and isinstance(user, str) and _USER.fullmatch(user)
    }


def listed_images(fablib: Any) -> Mapping[str, str]:
    """Return the images in force, and their users: FABRIC's list, else what is known without a network."""
    with quiet():
        listed = fablib.get_os_images()
    # where fablib cannot load the list, it returns its own table
    loaded = {} if listed == library_constants().IMAGE_NAMES else images_in(listed)
    return loaded or known_images()


def user_of(image: str, images: Mapping[str, str]) -> str:
    """Return the user of an image; of one that is not listed, by its distribution, as fablib does."""
    distributions = ("ubuntu", "debian", "rocky", "fedora", "centos")
    return images.get(image) or next((name for name in distributions if name in image), "ubuntu")

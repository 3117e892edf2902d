# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The kernels of a slice's machines, before there are machines."""

from typing import Any

import pytest

from fablib_slices import SliceFile, SliceSpec, spec_of
from l4sbench.app.api import load_matrix, plan_of
from l4sbench.app.prepare import RunOptions
from l4sbench.errors import InputError
from l4sbench.testbeds.fabric.kernels import choice_of, planned_installs, require_kernel
from l4sbench.topology import topology


def spec(**wishes: Any) -> SliceSpec:
    return spec_of(topology("line6"), SliceFile(**({"slice": "l4s"} | wishes)))


@pytest.mark.parametrize(
    ("wishes", "told"),
    [
        ({"kernel": "images/debian-backport"}, "no debian-backport; did you mean debian-backports"),
        (
            {"kernel": "images/ubuntu24-hwe"},
            "ubuntu24-hwe is for ubuntu 24.04, and default_debian_13 of tx-l4s is debian 13",
        ),
        (
            {"kernel": "images/bbr3-study", "image": "default_ubuntu_22"},
            "bbr3-study is not installable: no checksum is known",
        ),
    ],
)
def test_a_kernel_that_machines_cannot_get_is_told(wishes: dict[str, str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        require_kernel(spec(**wishes))


def test_kernels_that_machines_can_get() -> None:
    require_kernel(spec(kernel="images/debian-backports"))
    assert choice_of(spec(kernel="keep")) == "keep"
    assert choice_of(spec()) == "distribution (debian-backports or debian-stock, by cell)"
    assert choice_of(spec(image="default_rocky_9")).startswith("distribution (kernels/images has none")


def test_what_will_be_installed_is_known_before_there_are_machines() -> None:
    matrix = load_matrix("quickstart").select(["aqm=dualpi2"])
    lines = planned_installs(spec(), matrix.cells, matrix.catalog)
    (router,) = [line for line in lines if "sch_dualpi2" in line]
    assert router.startswith(
        "router: debian-backports: linux-image-amd64, linux-headers-amd64 of trixie-back"
    )
    assert any(line.startswith(("rx-l4s, tx-l4s: ", "tx-l4s, rx-l4s: ")) for line in lines)
    ubuntu = planned_installs(spec(image="default_ubuntu_24"), matrix.cells, matrix.catalog)
    assert any("linux-generic-hwe-24.04" in line and "tcp_prague by DKMS" in line for line in ubuntu)
    assert not any("linux-image" in line for line in planned_installs(spec(kernel="keep"), *of(matrix)))


def of(matrix: Any) -> tuple[Any, Any]:
    return matrix.cells, matrix.catalog


def test_plan_says_what_a_run_would_install() -> None:
    planned = plan_of("quickstart", ["aqm=dualpi2"], RunOptions(on="fabric:never-made"))
    assert any("debian-backports" in line for line in planned.installs)
    assert "never-made is not reserved yet" in planned.untested

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Installable kernels: their data is whole, and nodes get those that their cells need with few restarts."""

from pathlib import Path

import pytest

from l4sbench.api import load_matrix
from l4sbench.errors import InputError
from l4sbench.matrix import Matrix
from l4sbench.testbeds.ssh.facts import HostFacts, Module
from l4sbench.testbeds.ssh.images import Image, Offers, load_images, plan_kernels
from l4sbench.topology import LINE6

IMAGES = load_images()
STOCK = HostFacts(
    kernel_release="7.3.4",
    distribution="debian 13",
    modules={"tcp_prague": Module(srcversion="A")},
    accecn=True,
)


def image(name: str, rank: int = 1, **offers: object) -> Image:
    """An image of a test's own."""
    return Image(
        name=name,
        about="",
        rank=rank,
        distributions=("debian 13",),
        release=name,
        offers=Offers.model_validate({"kernel": "7.0", "accecn": True, **offers}),
        evidence="",
    )


@pytest.fixture(scope="module")
def quickstart() -> Matrix:
    return load_matrix("quickstart")


def test_every_wanted_distribution_has_an_image_for_prague(quickstart: Matrix) -> None:
    for distribution in ("debian 12", "debian 13", "ubuntu 22.04", "ubuntu 24.04"):
        told = {node: HostFacts(kernel_release="5.4", distribution=distribution) for node in LINE6.by_name}
        found = plan_kernels(quickstart.cells, quickstart.catalog, IMAGES, told)
        assert not found.lacking
        # the ends of the L4S flow, and the router for DualPI2
        assert found.restarts == 3


def test_what_the_studies_ran_is_there_with_its_defects() -> None:
    studied = {image.name: image for image in IMAGES if image.studies}
    assert studied.keys() == {"l4steam-testing", "bbr2-study", "bbr3-study"}
    assert all(image.defects for image in studied.values())
    assert "issue 38" in " ".join(studied["l4steam-testing"].defects)


def test_hosts_that_run_what_is_needed_do_not_restart(quickstart: Matrix) -> None:
    found = plan_kernels(quickstart.cells, quickstart.catalog, IMAGES, dict.fromkeys(LINE6.by_name, STOCK))
    assert found.restarts == 0
    (group,) = found.groups
    assert set(group.images.values()) == {"as-it-is"}


def test_one_old_host_restarts_alone(quickstart: Matrix) -> None:
    old = STOCK.model_copy(update={"kernel_release": "6.12.0", "accecn": False})
    told = {**dict.fromkeys(LINE6.by_name, STOCK), "rx-l4s": old}
    found = plan_kernels(quickstart.cells, quickstart.catalog, IMAGES, told)
    assert found.restarts == 1
    assert found.groups[0].images["rx-l4s"] == "debian-backports"


def test_cells_of_one_kernel_run_together(quickstart: Matrix) -> None:
    queues = ("codel", "dualpi2")
    images = [
        image(name, builds=("tcp_prague",), not_entries=[other for other in queues if other != name])
        for name in queues
    ]
    cells = [cell for cell in quickstart.cells if cell.aqm in queues]
    shuffled = cells[::2] + cells[1::2]
    found = plan_kernels(shuffled, quickstart.catalog, images)
    assert [len(group.cells) for group in found.groups] == [4, 4]
    # all six nodes boot once; then only the router, which alone has the queue, changes
    assert [group.restarts for group in found.groups] == [6, 1]
    assert found.restarts == 7


def test_cells_for_which_there_is_no_kernel_are_told(quickstart: Matrix) -> None:
    images = [image("old", kernel="6.1", accecn=False)]
    found = plan_kernels(quickstart.cells, quickstart.catalog, images)
    assert set(found.lacking) == {"tx-l4s", "rx-l4s", "router"}
    assert len(found.lacking["tx-l4s"]) == len(quickstart.cells)
    assert not found.groups


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: other\n", "about"),
        ("name: [\n", "expected"),
        ("kernel: 7\n", "Extra inputs"),
        ("files: [{url: 'ftp://x/y.deb'}]\n", "files.0.url"),
    ],
)
def test_a_wrong_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "x.yml").write_text(text)
    with pytest.raises(InputError, match=told):
        load_images(tmp_path)


def test_an_image_is_what_the_role_takes() -> None:
    from ruamel.yaml import YAML

    spec = Path(__file__).parents[4] / "roles/kernel/meta/argument_specs.yml"
    specs = YAML(typ="safe").load(spec)["argument_specs"]
    options = specs["main"]["options"]["kernel_image"]["options"]
    for found in IMAGES:
        assert found.variables().keys() <= options.keys()
        assert {"name", "release"} <= found.variables().keys()

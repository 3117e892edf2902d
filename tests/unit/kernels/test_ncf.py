# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""NCF: kernel modules and switch mean the same by a signal, and tc the same as the module by a parameter."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from l4sbench.catalog import Catalog
from l4sbench.disk.assets import folder
from tests.p4 import reference
from tests.patience import PATIENCE_S

KERNELS, P4 = folder("kernels"), folder("p4")


def constants(file: Path) -> dict[str, int]:
    """Return the numbers that a header defines."""
    found = re.findall(r"^#define (NCF_\w+)\s+(0x[0-9a-f]+|\d+)\b", file.read_text(), re.MULTILINE)
    return {name: int(number, 0) for name, number in found}


def test_wire_format_is_that_of_the_switch() -> None:
    kernel = constants(KERNELS / "sch_ncf" / "ncf_wire.h")
    assert kernel == constants(P4 / "ncf" / "wire.h")
    assert len(kernel) == 9
    assert (kernel["NCF_OPTION_KIND"], kernel["NCF_EXID"]) == (reference.KIND, reference.EXID)


def test_sender_reads_the_queues_header() -> None:
    assert (KERNELS / "tcp_ncf" / "ncf_wire.h").samefile(KERNELS / "sch_ncf" / "ncf_wire.h")


def test_statistics_are_laid_out_as_the_catalog_says() -> None:
    header = (KERNELS / "sch_ncf" / "ncf_user.h").read_text()
    (body,) = re.findall(r"struct ncf_stats {(.*?)};", header, re.DOTALL)
    members = [(name, kind) for kind, name in re.findall(r"__(u\d+) (\w+);", body)]
    exports = Catalog.load().queue("ncf").exports
    assert exports is not None
    assert list(exports.statistics) == members


@pytest.mark.parametrize("file", ["ncf_main.c", "q_ncf.c"])
def test_every_parameter_is_known_to_kernel_and_tc(file: str) -> None:
    header = (KERNELS / "sch_ncf" / "ncf_user.h").read_text()
    attributes = set(re.findall(r"^\t(TCA_NCF_\w+),", header, re.MULTILINE)) - {"TCA_NCF_UNSPEC"}
    text = (KERNELS / "sch_ncf" / file).read_text()
    assert set(re.findall(r"\[(TCA_NCF_\w+)\] =", text)) == attributes
    names = {attribute.removeprefix("TCA_NCF_").lower() for attribute in attributes}
    assert {parameter.replace("-", "_") for parameter in Catalog.load().queue("ncf").params} == names


@pytest.mark.parametrize(
    ("compiler", "emulator"),
    [(("cc",), ()), (("s390x-linux-gnu-gcc", "-static"), ("qemu-s390x",))],
    ids=["this machine", "big endian"],
)
def test_tc_prints_values_of_both_sizes(
    tmp_path: Path, compiler: tuple[str, ...], emulator: tuple[str, ...]
) -> None:
    lacking = [tool for tool in (compiler[0], *emulator) if shutil.which(tool) is None]
    if lacking:
        pytest.skip(
            f"{', '.join(lacking)} is not installed: gcc-s390x-linux-gnu, libc6-dev-s390x-cross, qemu-user"
        )
    source, program = Path(__file__).with_name("tc_values.c"), tmp_path / "tc_values"
    options = ("-O2", "-Wall", "-Wextra", "-Werror", f"-I{KERNELS / 'sch_ncf'}")
    subprocess.run([*compiler, *options, "-o", program, source], check=True, timeout=PATIENCE_S)
    given = "limit 250000 capacity 25000000000 rho 12 gap 16 "
    argv = [*emulator, str(program), *given.split()]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert done.stdout == given

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""lab-traffic tells the negotiated ECN from what kernels of several versions report."""

import ctypes
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from l4sbench.disk import assets
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

SOURCES = ("tcpinfo.c", "text.c", "util.c")
OPTIONS_AT = 5
MODE_AT = 276
ECN = 8
"""TCPI_OPT_ECN"""


class Text(ctypes.Structure):
    """`struct text`."""

    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t), ("size", ctypes.c_size_t))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("tcpinfo")
    guest = assets.folder("kernels") / "lab" / "guest"
    name = folder / "name.c"
    name.write_text('const char *program = "tcpinfo";\n')
    sources: list[Path] = [name, *(guest / source for source in SOURCES)]
    gcc = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC"]
    subprocess.run([*gcc, "-o", folder / "tcpinfo.so", *sources], check=True, timeout=PATIENCE_S)
    return ctypes.CDLL(str(folder / "tcpinfo.so"))


def told(library: ctypes.CDLL, options: int, mode: int, length: int) -> dict[str, Any]:
    info = bytearray(280)
    info[OPTIONS_AT], info[MODE_AT] = options, mode
    text = Text()
    begin = b"{"
    library.text_add(ctypes.byref(text), begin, ctypes.c_size_t(len(begin)))
    raw = (ctypes.c_char * len(info)).from_buffer(info)
    library.tcpinfo_ecn(ctypes.byref(text), raw, ctypes.c_size_t(length))
    assert text.data is not None
    found: dict[str, Any] = json.loads(ctypes.string_at(text.data, text.length) + b"}")["ecn"]
    return found


@pytest.mark.parametrize(
    ("options", "mode", "length", "shown"),
    [
        (0, 0, 280, "off"),
        (ECN, 1, 280, "rfc3168"),
        (ECN, 2, 280, "accecn"),
        (ECN, 3, 280, "pending"),
        (0, 0, 248, "off"),
        (ECN, 0, 248, "ecn"),  # Linux before 6.18
        (ECN, 0, 280, "ecn"),  # Linux 6.18 and 6.19, which have no mode there
    ],
)
def test_negotiated_ecn(library: ctypes.CDLL, options: int, mode: int, length: int, shown: str) -> None:
    assert told(library, options, mode, length)["mode"] == shown

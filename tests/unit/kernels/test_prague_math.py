# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The integer arithmetic of kernels/tcp_prague/prague_math.c against floating point, over its whole range."""

import ctypes
import math
from collections.abc import Callable

import pytest

LOG_ONE = 1 << 24
RTT, FIXED, LINEAR, LOG, EXP = range(5)
SHAPES: dict[int, Callable[[float], float]] = {
    FIXED: lambda x: 1.0,
    LINEAR: lambda x: x,
    LOG: lambda x: math.log(1 + 4 * x) / math.log(5),
    EXP: lambda x: x**2,
}


class Sizing(ctypes.Structure):
    """struct prague_sizing"""

    _fields_ = (
        ("scheme", ctypes.c_int),
        ("low_rate", ctypes.c_uint32),
        ("high_rate", ctypes.c_uint32),
        ("least", ctypes.c_uint32),
        ("most", ctypes.c_uint32),
    )


@pytest.fixture(scope="module")
def library(compiled: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    loaded = compiled("tcp_prague/prague_math.c")
    loaded.prague_log2.argtypes = [ctypes.c_uint64]
    loaded.prague_log2.restype = ctypes.c_uint32
    loaded.prague_score_term.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_bool]
    loaded.prague_score_term.restype = ctypes.c_int32
    loaded.prague_size_by_rate.argtypes = [ctypes.POINTER(Sizing), ctypes.c_uint64]
    loaded.prague_size_by_rate.restype = ctypes.c_uint32
    return loaded


def size(library: ctypes.CDLL, rate: int, *sizing: int) -> int:
    return int(library.prague_size_by_rate(Sizing(*sizing), rate))


def test_logarithms(library: ctypes.CDLL) -> None:
    values = [*range(1, 3000), *(3**n + n for n in range(40)), 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    for value in values:
        found = library.prague_log2(value) / LOG_ONE
        assert found == pytest.approx(math.log2(value), abs=3 / LOG_ONE), value
    assert library.prague_log2(0) == 0


@pytest.mark.parametrize("scheme", SHAPES)
@pytest.mark.parametrize(
    ("low", "high", "least", "most"),
    [
        (100_000, 1_000_000, 150, 1448),
        (100_000, 1_000_000, 150, 8948),
        (0, 1, 64, 1448),
        (1, 4_294_967_295, 64, 65_000),
        (999_000, 1_000_000, 150, 150),
    ],
)
def test_sizes_within_one_percent_of_the_formulas(
    library: ctypes.CDLL, scheme: int, low: int, high: int, least: int, most: int
) -> None:
    rates = [low + (high - low) * step // 5000 for step in range(-500, 6000)]
    rates += [0, 1, low, low + 1, high - 1, high, high + 1, 2**40]
    for rate in (rate for rate in rates if rate >= 0):
        x = min(max((rate - low) / (high - low), 0), 1)
        wanted = least + (most - least) * SHAPES[scheme](x)
        found = size(library, rate, scheme, low, high, least, most)
        assert found == pytest.approx(wanted, rel=0.01), rate
        assert least <= found <= most


@pytest.mark.parametrize("scheme", [LINEAR, LOG, EXP])
@pytest.mark.parametrize(("low", "high"), [(500_000, 500_000), (900_000, 100_000)])
def test_rates_that_are_not_in_order_make_a_step(
    library: ctypes.CDLL, scheme: int, low: int, high: int
) -> None:
    assert size(library, low, scheme, low, high, 150, 1448) == 150
    assert size(library, low + 1, scheme, low, high, 150, 1448) == 1448


@pytest.mark.parametrize("reference_us", [750, 2000])
def test_terms_of_the_score(library: ctypes.CDLL, reference_us: int) -> None:
    """Half the binary logarithm of the ratio; as published, references are their 16th root."""
    for delay_us in (1, 2, 75, 749, 750, 751, 1999, 2000, 7500, 8000, 100_000, 8_388_607):
        for published, root in ((False, 1), (True, 16)):
            wanted = math.log2(delay_us / reference_us ** (1 / root)) / 2
            found = library.prague_score_term(delay_us << 8, reference_us, published) / LOG_ONE
            assert found == pytest.approx(wanted, abs=1e-6), (delay_us, published)


def test_known_answers_of_the_score(library: ctypes.CDLL) -> None:
    def term(delay_us: float, reference_us: int, published: bool = False) -> float:
        return float(library.prague_score_term(round(delay_us * 256), reference_us, published) / LOG_ONE)

    assert term(7500, 750) == pytest.approx(1.66, abs=0.005)
    assert term(75, 750) == pytest.approx(-1.66, abs=0.005)
    assert term(8000, 2000) == pytest.approx(1)
    assert term(1.513, 750, published=True) == pytest.approx(0, abs=0.001)
    assert term(1.608, 2000, published=True) == pytest.approx(0, abs=0.001)
    assert term(0, 750) == term(1, 750) == pytest.approx(-math.log2(750) / 2)

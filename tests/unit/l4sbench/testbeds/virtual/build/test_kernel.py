# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What of a kernel build can be told without building one."""

import re

from l4sbench import assets
from l4sbench.testbeds.virtual.build.kernel import missing_options

FRAGMENT = """\
# a comment
CONFIG_NET_SCH_DUALPI2=y
CONFIG_LOCALVERSION="-l4sbench"
CONFIG_TCP_CONG_BIC=n
CONFIG_CON_CHAN="null"

# ---- optional: what not every version of Linux has
CONFIG_PROC_SYSCTL=y
"""


def test_every_option_must_have_taken_effect() -> None:
    got = 'CONFIG_NET_SCH_DUALPI2=y\nCONFIG_LOCALVERSION="-l4sbench"\nCONFIG_CON_CHAN="null"\n'
    assert missing_options(FRAGMENT, got + "# CONFIG_TCP_CONG_BIC is not set\n") == ()
    assert missing_options(FRAGMENT, got) == ()  # an option nobody can choose is off as well


def test_options_that_are_off_other_or_unknown_are_named() -> None:
    got = '# CONFIG_NET_SCH_DUALPI2 is not set\nCONFIG_LOCALVERSION=""\nCONFIG_TCP_CONG_BIC=y\n'
    assert missing_options(FRAGMENT, got) == (
        "CONFIG_NET_SCH_DUALPI2=y",
        'CONFIG_LOCALVERSION="-l4sbench"',
        "CONFIG_TCP_CONG_BIC=n",
        'CONFIG_CON_CHAN="null"',
    )


def test_the_labs_own_fragment_asks_for_each_option_once() -> None:
    text = (assets.folder("kernels") / "lab" / "kernel.config").read_text(encoding="utf-8")
    names = re.findall(r"^(CONFIG_\w+)=", text, re.MULTILINE)
    assert sorted(names) == sorted(set(names))
    assert len(names) > 80
    # nothing in it that the check would pass over
    assert all(re.match(r'CONFIG_\w+=(y|n|"[^"]*"|\d+)$|#|$', line) for line in text.splitlines())

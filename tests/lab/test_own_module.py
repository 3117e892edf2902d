# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A congestion control of one's own, C source included, is one folder outside: nothing else is touched."""

from pathlib import Path

import pytest

from l4sbench.app import api
from l4sbench.testbeds.virtual.lab import Lab

pytestmark = pytest.mark.lab

ENTRY = """\
name: mine
kind: congestion-control
label: Mine
about: Reno under another name, as a kernel module.
kernel_name: mine
needs: {kernel: "7.0"}
module: {name: tcp_mine, source: true}
ecn: {default: "off", allowed: ["off"], reacts: []}
"""

SOURCE = """\
// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
#include <linux/module.h>
#include <net/tcp.h>

static struct tcp_congestion_ops mine = {
	.name		= "mine",
	.owner		= THIS_MODULE,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init mine_init(void)
{
	return tcp_register_congestion_control(&mine);
}

static void __exit mine_exit(void)
{
	tcp_unregister_congestion_control(&mine);
}

module_init(mine_init);
module_exit(mine_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Reno under another name");
"""

MATRIX = """\
matrix: mine
topology: line6
rate: 10mbit
rtt: 10ms
duration: 4s
trials: 1
aqm: fifo
flows:
  l4s:     {cc: mine}
  classic: {cc: reno}
"""


def test_a_module_from_outside_is_built_and_runs(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "catalog" / "mine"
    folder.mkdir(parents=True)
    (folder / "module.yml").write_text(ENTRY, encoding="utf-8")
    (folder / "tcp_mine.c").write_text(SOURCE, encoding="utf-8")
    (folder / "Kbuild").write_text("obj-m := tcp_mine.o\n", encoding="utf-8")
    matrix = tmp_path / "mine.yaml"
    matrix.write_text(MATRIX, encoding="utf-8")
    catalog, runs = (folder.parent,), tmp_path / "runs"
    assert api.plan_of(matrix, options=api.RunOptions(catalog=catalog, runs=runs)).plan.to_run == 1
    ended = api.run(matrix, catalog=catalog, runs=runs)
    assert ended.result.ok == 1
    assert set(api.load(ended).flows["cc"]) == {"mine", "reno"}
    assert api.plan_of(matrix, options=api.RunOptions(catalog=catalog, runs=runs)).plan.to_run == 0

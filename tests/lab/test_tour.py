# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""notebooks/tour.ipynb in a kernel of its own, as a user sees it."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from l4sbench.testbeds.virtual.lab import Lab
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.lab


def execute(notebook: Any, folder: Path) -> list[dict[str, str]]:
    """The cells of code; what each shows, by MIME type, with text that it prints."""
    own = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "IPYTHONDIR": str(folder / "ipython"),
    }
    NotebookClient(notebook, timeout=PATIENCE_S, kernel_name="python3").execute(cwd=str(folder), env=own)
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shown: dict[str, str] = {}
            for output in cell.outputs:
                for kind, text in output.get("data", {"text/plain": output.get("text", "")}).items():
                    shown[kind] = shown.get(kind, "") + text
            found.append(shown)
    return found


def test_the_tour_from_a_matrix_to_a_figure(lab: Lab, tmp_path: Path) -> None:
    tour = nbformat.read(ROOT / "notebooks" / "tour.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    imported, wrote, plan, ran, tables, goodput, decision, same, names, figure = execute(tour, tmp_path)
    assert (imported, wrote) == ({}, {})
    assert "3 cells, 9 trials (9 new)" in plan["text/html"]
    assert '<td style="text-align: left">dualpi2</td>' in plan["text/html"]
    assert "9/9 trials, 9 ok" in ran["text/html"]  # the bar's last state
    assert "<progress" not in ran["text/html"]
    assert "Is it okay to switch to Prague? " in ran["text/html"]
    assert "by rule pam25, version 1" in ran["text/html"]
    assert len(ran["text/plain"]) < 300
    assert "3 cells, 9 ok" in tables["text/html"]
    assert re.search(r">flows</td><td[^>]*>18</td>", tables["text/html"])
    assert "<th>goodput_mbps</th>" in goodput["text/html"]
    assert len(re.findall(r"<th>\d</th>", goodput["text/html"])) == 6  # three queues, two groups
    assert "by rule l4sbench1, version 1" in decision["text/html"]
    assert "0 of 1 cells worse" in same["text/plain"]
    assert "goodput_cubic" in names["text/plain"]
    assert figure["image/svg+xml"].startswith("<svg")
    assert "DualPI2" in figure["image/svg+xml"]


def test_an_error_is_short(tmp_path: Path) -> None:
    cell = nbformat.v4.new_code_cell('import l4sbench\nl4sbench.plan("quickstart", "aqn=codel")')  # type: ignore[no-untyped-call]
    with pytest.raises(CellExecutionError) as raised:
        execute(nbformat.v4.new_notebook(cells=[cell]), tmp_path)  # type: ignore[no-untyped-call]
    (output,) = cell.outputs
    assert "\n".join(output["traceback"]) == "error: aqn=codel: no cell has a factor aqn; did you mean aqm?"
    assert raised.value.ename == "InputError"

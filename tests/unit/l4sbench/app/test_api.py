# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The public functions of the package."""

from __future__ import annotations

import pkgutil
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

import l4sbench
from l4sbench.app.prepare import RunChoices, RunOptions
from l4sbench.errors import InputError

PUBLIC = ("ask", "run", "load", "plan", "decide", "report", "compare", "figures")


def test_no_module_has_the_name_of_a_public_function() -> None:
    """Importing such a module would put it in the function's place."""
    assert not {module.name for module in pkgutil.iter_modules(l4sbench.__path__)} & set(PUBLIC)


def test_a_public_function_stays_one_after_everything_is_imported() -> None:
    for name in l4sbench.__all__[1:]:
        before = getattr(l4sbench, name)
        for module in pkgutil.walk_packages(l4sbench.__path__, "l4sbench."):
            if "__main__" not in module.name:
                __import__(module.name)
        assert getattr(l4sbench, name) is before
        assert callable(before)


def test_completion_offers_the_public_names_alone() -> None:
    assert set(dir(l4sbench)) == {*PUBLIC, "__version__"}


def test_a_plan_is_shown_as_a_table(tmp_path: Path) -> None:
    planned = l4sbench.plan("quickstart", "aqm=fifo,dualpi2", trials=2, runs=tmp_path)
    assert repr(planned.plan) == "<Plan of quickstart: 16 trials of 8 cells to run>"
    text = planned._repr_html_()
    assert ">dualpi2</td>" in text
    assert "8 cells, 16 trials (16 new), " in text
    assert "note: 2 trials per cell have a wide confidence interval" in text
    assert "<table>" in planned.plan._repr_html_()  # type: ignore[attr-defined]


def test_run_and_plan_take_every_choice_and_document_it() -> None:
    choices = {field.name: field.default for field in fields(RunOptions)}
    assert RunChoices.__annotations__.keys() == choices.keys()
    for function in (l4sbench.run, l4sbench.plan):
        shown = signature(function).parameters
        assert {name: shown[name].default for name in choices} == choices
        assert all(f"\n    {name}: " in str(function.__doc__) for name in choices)
    with pytest.raises(TypeError, match="quikc"):
        l4sbench.plan("quickstart", quikc=True)  # type: ignore[call-arg]


def test_notebooks_print_errors_without_a_traceback() -> None:
    with pytest.raises(InputError) as raised:
        l4sbench.plan("quickstart", "aqn=codel")
    assert raised.value._render_traceback_() == [f"error: {raised.value}"]

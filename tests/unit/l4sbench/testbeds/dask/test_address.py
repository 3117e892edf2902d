# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Addresses of schedulers, and what happens when nobody is there."""

import socket
import sys
from pathlib import Path

import pytest

from l4sbench.app.prepare import RunOptions
from l4sbench.disk.assets import install_command
from l4sbench.errors import InputError, TestbedError

HINT = "--on dask:tcp://HOST:8786, or its file, such as dask:scheduler.json (l4sbench docs scale)"


@pytest.mark.parametrize("place", ["tcp://10.0.0.1:8786", "head:8786", "tls://head:8786", "tcp://[::1]:8786"])
def test_addresses_of_schedulers_are_taken(place: str) -> None:
    assert RunOptions(f"dask:{place}").testbed == ("dask", place)


def test_a_scheduler_file_is_taken_if_it_is_there(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    with pytest.raises(InputError) as wrong:
        _ = RunOptions(f"dask:{file}").testbed
    assert str(wrong.value) == f"there is no scheduler file {file}; {HINT}"
    file.write_text("{}")
    assert RunOptions(f"dask:{file}").testbed == ("dask", str(file))


NONE = "head http://head:8786 ws://head:8786 inproc://head:1 tcp://head tcp://:8786 head:x head:99999"


@pytest.mark.parametrize("place", NONE.split())
def test_what_cannot_be_one_is_refused(place: str) -> None:
    with pytest.raises(InputError) as wrong:
        _ = RunOptions(f"dask:{place}").testbed
    assert str(wrong.value) == f"{place!r} is not a valid address of a Dask scheduler; {HINT}"


@pytest.mark.parametrize("on", ["dask", "dask:"])
def test_an_address_is_needed(on: str) -> None:
    with pytest.raises(InputError) as wrong:
        _ = RunOptions(on).testbed
    assert str(wrong.value) == f"dask needs the address of a scheduler; {HINT}"


def test_a_scheduler_that_is_not_there_is_reported_at_once() -> None:
    pytest.importorskip("distributed", reason="needs the extra `scale`")
    from l4sbench.testbeds.dask.guests import connect

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(TestbedError, match=f"^the Dask scheduler at {address} does not answer: "):
            connect(address)


def test_where_dask_is_missing_the_command_that_adds_it_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    from l4sbench.testbeds.dask.guests import connect

    with pytest.raises(TestbedError) as missing:
        connect("tcp://127.0.0.1:1")
    assert "--on dask needs Dask, which is not installed" in str(missing.value)
    assert install_command("scale") in str(missing.value)

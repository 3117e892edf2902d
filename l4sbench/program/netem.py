# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Delay, jitter, losses and pauses on hosts, by netem where packets leave nodes, and their changes by events.

A path that has its round-trip time by itself gets no delay.

`tc qdisc change` takes what is not stated from the kernel's defaults or leaves it as it was, so every command
states all of it, also what an earlier event has set. Pauses have a netem of their own behind that of a delay,
with nothing but a slot: packets wait for its start, and then leave in order. A walk of the delay is made of
commands, each of which sets the delay of packets that come after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from l4sbench.catalog import Expectation
from l4sbench.catalog.template import write
from l4sbench.program import wires
from l4sbench.program.data import Expected, NodePauses, NodeWalk
from l4sbench.program.shapers import Shaper, port_name, qdisc_file, show_qdiscs
from l4sbench.program.wires import jittered, loss_chances, part_of_rtt
from l4sbench.text.units import Duration, Percent, Rate

if TYPE_CHECKING:
    from fractions import Fraction

    from l4sbench.facts.cell import Cell, PathEvent
    from l4sbench.program.placement import Placement

IN_ORDER: Final = Rate(100_000_000_000)
"""Rate with which netem keeps packets in order: it then sends each after the one before, 0.1 us later."""
LONGEST_JITTER: Final = Duration(2**31 - 1)
"""The kernel computes with 31 bits of ns."""
SHORTEST_PAUSE: Final = Duration(1_000_000)
"""A pause begins and ends by a command, which takes a part of this time."""
SHORTEST_STEP: Final = Duration(1_000_000)
"""A step of a walk is a command, too."""
WALK_STEPS: Final = 10
"""Steps of a walk from the middle to its bound, as in kernels/lab/wire."""
_DELAY: Final = "1:"
"""Handle of netem with a delay, where pauses are behind it."""
_PAUSES: Final = "2:"
"""Handle of netem for pauses."""
_NEVER: Final = Duration(0)
_LEAST_WITHIN: Final = 1e-9
_DIGITS: Final = 1e-5
"""Numbers of tc have six digits."""


@dataclass(frozen=True)
class _Path:
    """The values of the path that events may change, at some time of the trial."""

    rtt: Duration
    loss: Percent

    @classmethod
    def after(cls, placement: Placement, last: PathEvent | None = None) -> _Path:
        """Return the values after an event; None: those at the start."""
        cell = placement.cell
        path = cls(placement.setting.rtt, cell.path_loss)
        for event in cell.events if last is not None else ():
            path = replace(
                path,
                rtt=cast("Duration", event.changes.get("rtt", path.rtt)),
                loss=cast("Percent", event.changes.get("path.loss", path.loss)),
            )
            if event == last:
                break
        return path


def delays(placement: Placement, node: str) -> Iterator[Shaper]:
    """Yield the round-trip time in equal parts on all ports of delay nodes, and what senders add to it."""
    path = _Path.after(placement)
    for network in _delaying(placement, node):
        yield _of_port(placement, "replace", network, node, path)
    if (extra := placement.extra_delay(node)).ns:
        network = placement.topology.sender_networks[node]
        parts = [_delay(extra), _NO_JITTER, _NO_LOSS]
        yield _shaper(placement, "replace", (node, network), parts)


def _delaying(placement: Placement, node: str) -> tuple[str, ...]:
    """Return the networks of a delay node at which netem is; a path of its own delay has it for losses."""
    topology, cell = placement.topology, placement.cell
    ports = topology.delay_ports if not cell.has_own_delay else topology.data_ports if cell.has_losses else ()
    return tuple(port.network for port in ports if port.node == node)


def gates(placement: Placement, node: str) -> Iterator[Shaper]:
    """Yield what holds the packets of a node that pauses, for all that it sends; delays are set up before."""
    limit = str(placement.path_packets)
    for network in _gated(placement, node):
        where = _where(placement, node, network)
        argv = ("tc", "qdisc", "replace", "dev", port_name(network), *where, "netem", "limit", limit)
        yield Shaper(
            network,
            (argv,),
            (show_qdiscs(network),) if "root" in where else (),
            (
                Expected(
                    f"pauses at {network}",
                    qdisc_file(network),
                    (("kind", "netem"), ("handle", _PAUSES)),
                    (Expectation("options.limit", placement.path_packets),),
                ),
            ),
        )


def pauses(placement: Placement, node: str, seed: int) -> Iterator[NodePauses]:
    """Yield the pauses of a node, if it has any."""
    cell, networks = placement.cell, _gated(placement, node)
    if not networks:
        return
    yield NodePauses(
        cell.path_pause,
        cell.path_pause_every,
        int(wires.seed_of(seed, node, "pauses")),
        *(
            tuple(_slot(placement, node, network, length) for network in networks)
            for length in (cell.path_pause, _NEVER)
        ),
    )


def pauses_hosts(cell: Cell) -> bool:
    """Return True if hosts are paused for a cell; those of a profile are what hosts do by themselves."""
    return "path.pause" in cell.given and bool(cell.path_pause.ns)


def walks(placement: Placement, node: str, seed: int) -> Iterator[NodeWalk]:
    """Yield the random walks of the delays of a node's ports, if they walk."""
    cell, path = placement.cell, _Path.after(placement)
    for port in jittered(placement, node) if _walks(cell) else ():
        step_ns = cell.path_jitter.ns // WALK_STEPS
        middle_ns = part_of_rtt(placement, path.rtt).ns
        delays_ns = (middle_ns + step * step_ns for step in range(-WALK_STEPS, WALK_STEPS + 1))
        made = (
            _of_port(placement, "change", port.network, node, path, delay=Duration(ns)) for ns in delays_ns
        )
        yield NodeWalk(
            cell.path_jitter_every,
            int(wires.seed_of(seed, node, "walk", port.network)),
            tuple(command for shaper in made for command in shaper.commands),
        )


def _walks(cell: Cell) -> bool:
    return bool(cell.path_jitter.ns) and cell.path_jitter_model == "walk"


def _gated(placement: Placement, node: str) -> tuple[str, ...]:
    """Return the networks of a node that pauses."""
    if not pauses_hosts(placement.cell) or not wires.pauses(placement, node):
        return ()
    return tuple(address.network for address in placement.topology.by_name[node].addresses)


def _slot(placement: Placement, node: str, network: str, length: Duration) -> tuple[str, ...]:
    """Return the command after which packets wait for a slot of this length; 0: none waits."""
    what = ("netem", "limit", str(placement.path_packets), "slot", f"{length.ns}ns", f"{length.ns}ns")
    return ("tc", "qdisc", "change", "dev", port_name(network), *_where(placement, node, network), *what)


def _where(placement: Placement, node: str, network: str) -> tuple[str, ...]:
    """Return the place of netem for pauses: behind that of a delay, if there is one."""
    delayed = {*_delaying(placement, node)}
    if placement.extra_delay(node).ns:
        delayed.add(placement.topology.sender_networks[node])
    parent = ("parent", f"{_DELAY}1") if network in delayed else ("root",)
    return (*parent, "handle", _PAUSES)


def changed(placement: Placement, node: str, factor: str) -> tuple[str, ...]:
    """Return the networks at whose ports a node changes netem when this factor changes."""
    ports = {"rtt": placement.topology.delay_ports, "path.loss": placement.topology.data_ports}
    there = _delaying(placement, node)
    return tuple(p.network for p in ports.get(factor, ()) if p.node == node and p.network in there)


def after(placement: Placement, node: str, network: str, event: PathEvent, output: str) -> Shaper:
    """Return how a port of a delay node gets what its path is from an event on."""
    return _of_port(placement, "change", network, node, _Path.after(placement, event), output)


@dataclass(frozen=True)
class _Netem:
    """Words of netem, and what its read-back must show of them: also that what is not stated is off."""

    words: tuple[str, ...]
    shown: tuple[Expectation, ...]


def _off(key: str) -> Expectation:
    return Expectation(f"options.{key}", value=False)


def _share(key: str, share: Fraction) -> Expectation:
    value = float(share)
    return Expectation(f"options.{key}", value, max(_LEAST_WITHIN, value * _DIGITS))


_RANDOM: Final = "loss-random.loss"
_ENTER: Final = "loss-gemodel.p"
_LEAVE: Final = "loss-gemodel.r"
_JITTER: Final = "options.delay.jitter"
_NO_JITTER: Final = _Netem((), (Expectation(_JITTER, 0), _off("rate.rate")))
_NO_LOSS: Final = _Netem((), (_off(_RANDOM), _off(_ENTER), _off(_LEAVE)))


def _of_port(
    placement: Placement,
    verb: str,
    network: str,
    node: str,
    path: _Path,
    output: str = "",
    delay: Duration | None = None,
) -> Shaper:
    port = (node, network)
    jitter = _jitter(placement.cell) if port in jittered(placement, node) else _NO_JITTER
    loss = _loss(placement.cell, path.loss) if port in placement.topology.data_ports else _NO_LOSS
    if delay is None:
        delay = Duration(0) if placement.cell.has_own_delay else part_of_rtt(placement, path.rtt)
    return _shaper(placement, verb, port, [_delay(delay), jitter, loss], output)


def _delay(delay: Duration) -> _Netem:
    return _Netem(("delay", write(delay)), (Expectation("options.delay.delay", delay.s, 1e-7),))


def _jitter(cell: Cell) -> _Netem:
    """Return the jitter, whose words follow the delay; a rate above every path's keeps packets in order."""
    jitter = Duration(0) if _walks(cell) else cell.path_jitter
    how = ("distribution", "normal") if cell.path_jitter_model == "normal" else ()
    words: tuple[str, ...] = (write(jitter), *how) if jitter.ns else ()
    shown = Expectation(_JITTER, jitter.s, max(1e-7, jitter.s * _DIGITS))
    if cell.path_jitter_order == "free":
        return _Netem(words, (shown, _off("rate.rate")))
    rate = Expectation("options.rate.rate", IN_ORDER.bits_per_s // 8)
    return _Netem((*words, "rate", write(IN_ORDER)), (shown, rate))


def _loss(cell: Cell, loss: Percent) -> _Netem:
    """Return the losses: independent, or of the model of Gilbert with every packet lost in the bad state."""
    enter, leave = loss_chances(loss, cell.path_loss_burst)
    if not loss.ppb:
        return _NO_LOSS
    if enter + leave == 1:
        words: tuple[str, ...] = ("loss", "random", _percent(enter))
        return _Netem(words, (_share(_RANDOM, enter), _off(_ENTER), _off(_LEAVE)))
    words = ("loss", "gemodel", _percent(enter), _percent(leave), "100%", "0%")
    return _Netem(words, (_off(_RANDOM), _share(_ENTER, enter), _share(_LEAVE, leave)))


def _percent(share: Fraction) -> str:
    return f"{float(share * 100):.7f}%"


def _shaper(
    placement: Placement, verb: str, port: tuple[str, str], parts: Sequence[_Netem], output: str = ""
) -> Shaper:
    """Return the queuing discipline of a port; its limit holds more than any flow has in flight."""
    limit, (node, network) = placement.path_packets, port
    handle = ("handle", _DELAY) if _gated(placement, node) else ()
    file = output or qdisc_file(network)
    dev = ("dev", port_name(network))
    words = (word for part in parts for word in part.words)
    return Shaper(
        network,
        (("tc", "qdisc", verb, *dev, "root", *handle, "netem", *words, "limit", str(limit)),),
        (show_qdiscs(network, file),),
        (
            Expected(
                f"netem at {network}",
                file,
                (("kind", "netem"), ("root", True)),
                (
                    Expectation("options.limit", limit),
                    *(expectation for part in parts for expectation in part.shown),
                ),
            ),
        ),
    )

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench slice`: plan, reserve, renew and delete slices of FABRIC."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.cli.options import Subparsers, add_command, add_subcommands, count
from l4sbench.cli.terminal import answer, answer_json, answer_table, as_command, as_path, say, warn
from l4sbench.errors import InputError, TestbedError
from l4sbench.text.wording import as_duration

if TYPE_CHECKING:
    from fablib_slices import Slice, SliceFile, SliceSpec

_HOURS: Final = 24
"""Lease after a renewal if the original request is not known."""

_DAYS: Final = 7
_SITES: Final = 5
"""Sites that `when` asks about if none is named: those with the most free cores."""

_GRAPH_MARK: Final = "<!-- written by l4sbench slice plan -->"

_FILES: Final = frozenset({".yaml", ".yml"})
_WISHES: Final = ("topology", "site", "hours", "cores", "ram_gb", "disk_gb", "image", "nic", "kernel")


def add_parser(commands: Subparsers) -> None:
    """Add the command and its subcommands to the parser."""
    parser = add_command(
        commands,
        "slice",
        None,
        help="reserve machines on FABRIC for a topology, manage and delete them",
        examples=(
            "l4sbench slice plan my-slice --site STAR",
            "l4sbench slice up my-slice --hours 48",
            "l4sbench run quickstart --on fabric:my-slice",
            "l4sbench slice down my-slice",
        ),
    )
    own = add_subcommands(parser)
    planning = add_command(
        own,
        "plan",
        plan,
        help="print what would be reserved and check that it can be; reserve nothing",
        examples=(
            "l4sbench slice plan my-slice",
            "l4sbench slice plan slice.yaml --offline --graph s.graphml",
        ),
    )
    _add_wishes(planning)
    planning.add_argument("--offline", action="store_true", help="do not query FABRIC; needs no account")
    planning.add_argument("--graph", type=Path, metavar="FILE", help="write the slice as GraphML")
    planning.add_argument("--json", action="store_true", help="print the plan as JSON")
    making = add_command(
        own,
        "up",
        up,
        help="reserve the slice, or adopt an existing one, and wait until it is ready",
        examples=("l4sbench slice up my-slice", "l4sbench slice up slice.yaml --hours 48"),
    )
    _add_wishes(making)
    making.add_argument(
        "--wait-minutes", type=count, metavar="N", help="maximum time to wait (default: 30, with a switch 55)"
    )
    _add_searching(own)
    for name, command, summary in (
        ("status", status, "print state, lease and machines of a slice"),
        ("inventory", write_inventory, "write the Ansible inventory of a slice and print its path"),
        ("down", down, "delete a slice with all data on its machines"),
    ):
        below = add_command(own, name, command, help=summary, examples=(f"l4sbench slice {name} my-slice",))
        several = "+" if name == "down" else None
        below.add_argument(
            "slice", metavar="SLICE", nargs=several, help="name of the slice, or its YAML file"
        )
        if name == "status":
            below.add_argument("--json", action="store_true", help="print the state as JSON")
    renewing = add_command(
        own,
        "renew",
        renew,
        help="extend the lease of a slice",
        examples=("l4sbench slice renew my-slice --hours 48",),
    )
    renewing.add_argument("slice", metavar="SLICE", help="name of the slice, or its YAML file")
    renewing.add_argument(
        "--hours", type=count, metavar="N", help="lease from now (default: as when it was reserved)"
    )


def _add_searching(own: Subparsers) -> None:
    """Add what asks FABRIC for a time, takes a bundle there, and records its answers."""
    searching = add_command(
        own,
        "when",
        when,
        help="print when there is room for the slice, such as for a nightly sweep; reserve nothing",
        examples=("l4sbench slice when my-slice --site STAR", "l4sbench slice when slice.yaml --days 14"),
    )
    _add_wishes(searching)
    searching.add_argument(
        "--days", type=count, default=_DAYS, metavar="N", help="days to search, at most 30 (default: 7)"
    )
    publishing = add_command(
        own,
        "publish",
        publish,
        help="upload a bundle as an artifact of FABRIC, which its author alone sees",
        examples=("l4sbench slice publish quickstart.tar.gz --title 'L4S quickstart'",),
    )
    publishing.add_argument("file", metavar="FILE", type=Path, help="a bundle that l4sbench wrote")
    publishing.add_argument(
        "--title", required=True, help="title; an artifact of yours with it gets a version"
    )
    publishing.add_argument("--about", default="", metavar="TEXT", help="description (default: the title)")
    publishing.add_argument("--tag", action="append", default=[], help="a tag that FABRIC knows; repeatable")
    recording = add_command(
        own,
        "record",
        record,
        help="write FABRIC's answers and what machines are as files without secrets, names and addresses",
        examples=("l4sbench slice record my-slice fabric-answers",),
    )
    recording.add_argument("slice", metavar="SLICE", help="name of the slice, or its YAML file")
    recording.add_argument("folder", metavar="FOLDER", type=Path, help="a folder that does not exist yet")
    recording.add_argument("--no-machines", action="store_true", help="do not connect to the machines")


def _add_wishes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("slice", metavar="SLICE", help="name of the slice, or a YAML file that describes it")
    parser.add_argument("--topology", help="topology of the slice, by name or file (default: line6)")
    parser.add_argument("--site", help="FABRIC site (default: one with enough free resources)")
    parser.add_argument("--hours", type=count, metavar="N", help="lease in hours (default: 24)")
    parser.add_argument("--cores", type=count, metavar="N", help="cores of every machine (default: 4)")
    parser.add_argument("--ram-gb", type=count, metavar="N", help="memory of every machine (default: 16)")
    parser.add_argument("--disk-gb", type=count, metavar="N", help="disk of every machine (default: 50)")
    parser.add_argument("--image", help="image of every machine (default: default_debian_13)")
    parser.add_argument("--nic", help="component model of all ports (default: NIC_Basic)")
    parser.add_argument(
        "--kernel",
        help="keep, distribution (default; what cells need) or images/NAME (l4sbench docs ssh kernels)",
    )


def _wishes(args: argparse.Namespace) -> SliceFile:
    """Return the slice that a file or a name describes, updated by the options.

    Raises:
        InputError: the file or an option is not valid.
    """
    from fablib_slices import load_slice_file, slice_file

    given = {name: value for name in _WISHES if (value := getattr(args, name)) is not None}
    path = Path(args.slice)
    if path.suffix in _FILES or path.is_file():
        wishes = load_slice_file(path)
        valid = slice_file(wishes.slice, **given)
        return wishes.model_copy(update={name: getattr(valid, name) for name in given})
    return slice_file(args.slice, **given)


def _spec(args: argparse.Namespace) -> SliceSpec:
    from fablib_slices import spec_of
    from l4sbench.testbeds.fabric.kernels import require_kernel
    from l4sbench.topology import find_topology

    wishes = _wishes(args)
    spec = spec_of(find_topology(wishes.topology), wishes)
    require_kernel(spec)
    return spec


def plan(args: argparse.Namespace) -> int:
    """Print what would be reserved; raise InputError if it cannot be."""
    from fablib_slices import (
        FabricFacts,
        Slices,
        known_images,
        offered_nics,
        preflight,
        size_of,
        slice_graph,
    )
    from fablib_slices.checks import warnings
    from fablib_slices.room import rounded, site_with_room
    from l4sbench.app.reading import refuse_other
    from l4sbench.disk.files import write_whole
    from l4sbench.testbeds.fabric.kernels import choice_of

    if args.graph:
        refuse_other(args.graph, _GRAPH_MARK.encode(), "a slice's graph")
    spec = _spec(args)
    offline = FabricFacts(images=known_images(), nics=offered_nics(), size_of=size_of)
    facts = offline if args.offline else Slices.connect().facts()
    problems = preflight(spec, facts)
    if problems:
        raise InputError(problems)
    graph = slice_graph(spec)
    if args.graph:
        write_whole(args.graph, graph.replace("<graphml", f"{_GRAPH_MARK}\n<graphml", 1))
        say(f"graph: {as_path(args.graph)}")
    site = spec.site
    if facts.sites and site == "auto":
        site = site_with_room(rounded(spec, facts.size_of), facts.sites) or site
    if args.json:
        answer_json(_as_document(spec, site))
        return 0
    machines = [
        {
            "node": vm.name,
            "role": vm.role,
            "size": f"{vm.cores} cores, {vm.ram_gb} GB, {vm.disk_gb} GB",
            "image": vm.image,
        }
        for vm in spec.vms
    ]
    machines += [
        {"node": switch.name, "role": switch.role, "size": switch.kind, "image": switch.program or ""}
        for switch in spec.switches
    ]
    places = ", ".join(replace(spec, site=site).at_sites)
    place = "a site with enough free resources" if site == "auto" else places
    answer(f"slice {spec.name} at {place}, {spec.hours} h, {len(spec.nets)} networks of {spec.nets[0].nic}")
    answer_table(machines)
    answer(f"kernel: {choice_of(spec)}")
    for text in warnings(spec, facts):
        warn(text)
    say("valid in FABRIC's information model" + ("; FABRIC was not queried" if args.offline else ""))
    return 0


def _as_document(spec: SliceSpec, site: str | None) -> dict[str, object]:
    return {**asdict(spec), "site": site, "digest": spec.digest}


def when(args: argparse.Namespace) -> int:
    """Print the first time with room for the slice at its site, or at some sites."""
    from fablib_slices import Slices, size_of
    from fablib_slices.room import rounded

    spec = rounded(_spec(args), size_of)
    slices = Slices.connect()
    names = [spec.site]
    if spec.site == "auto":
        usable = [site for site in slices.sites() if site.active and not site.avoided]
        names = [site.name for site in sorted(usable, key=lambda site: -site.cores)[:_SITES]]
    found = [slot for name in names for slot in slices.actions.slots(spec, name, args.days)]
    if not found:
        within = f"within {args.days} days"
        raise TestbedError(
            f"{', '.join(names)}: no room for {spec.name} {within}", "smaller machines, or later"
        )
    for slot in sorted(found, key=lambda slot: slot.start):
        answer(f"{slot.site}: from {_when(slot.start)}, until {slot.end:%Y-%m-%d %H:%M}")
    return 0


def publish(args: argparse.Namespace) -> int:
    """Upload a bundle as an artifact and print its id."""
    from fablib_slices import Slices
    from l4sbench.disk.userfiles import is_file

    if not is_file(args.file):
        raise InputError(f"file {as_path(args.file)} does not exist", "l4sbench bundle RUN writes one")
    answer(Slices.connect().actions.publish(args.file, args.title, args.about or args.title, args.tag))
    say("only you see it; publish it in the portal (artifacts)")
    return 0


def record(args: argparse.Namespace) -> int:
    """Write what FABRIC answers about a slice, and what its machines are, for the tests of l4sbench."""
    import json

    from fablib_slices import Slices
    from fablib_slices.records import keep_inventory, kept_spec
    from l4sbench.disk.files import new_folder
    from l4sbench.testbeds.fabric.looking import looks

    name = _name(args.slice)
    slices = Slices.connect()
    answers, scrubber = slices.answers(name)
    texts = {f"{about}.json": json.dumps(told, indent=1) + "\n" for about, told in answers.items()}
    if not args.no_machines:
        inventory = keep_inventory(_found(name, slices), slices.access, kept_spec(name))
        for host, seen in looks(inventory).items():
            texts[f"machine-{host}.txt"] = scrubber.text(seen)
    if args.folder.exists():
        raise InputError(f"{as_path(args.folder)} exists", "choose a folder that does not exist")
    with new_folder(args.folder) as made:
        for file, text in texts.items():
            (made / file).write_text(text, encoding="utf-8")
    answer(str(args.folder))
    say("look through the files before you send them to anybody")
    return 0


def up(args: argparse.Namespace) -> int:
    """Reserve or adopt the slice; print the path of the inventory."""
    from fablib_slices import Slices, preflight
    from fablib_slices.checks import warnings
    from fablib_slices.records import bastion_hosts, keep, keep_inventory

    spec = _spec(args)
    slices = Slices.connect()
    try:
        slices.access.check(bastion_hosts(spec.name))
    except TestbedError as error:  # reserving works without access, reaching the machines does not
        warn(str(error))
    if slices.find(spec.name) is None:
        facts = slices.facts()
        problems = preflight(spec, facts)
        if problems:
            raise InputError(problems)
        for text in warnings(spec, facts):
            warn(text)
        keep(spec)  # runs find the request even if this command ends before the slice is ready
    found = slices.up(
        spec,
        limit_s=args.wait_minutes * 60.0 if args.wait_minutes else None,
        on_state=lambda state: say(f"{spec.name}: {state}"),
    )
    if spec.pin:
        for name, done in slices.actions.pin(found):
            say(f"{name}: {done}")
    keep(spec, found)
    path = keep_inventory(found, slices.access, spec)
    say(f"lease ends {_when(found.lease_end)}; extend it with l4sbench slice renew {spec.name}")
    answer(str(path))
    return 0


def status(args: argparse.Namespace) -> int:
    """Print the state of a slice."""
    found = _found(args.slice)
    if args.json:
        answer_json(_state_document(found))
        return 0
    answer(f"{found.name}: {found.state}, lease ends {_when(found.lease_end)}, id {found.id}")
    rows = [
        {
            "node": one.name,
            "role": one.role,
            "site": one.site,
            "address": one.address or "none yet",
            "user": one.user,
        }
        for one in found.machines
    ]
    answer_table(rows)
    for notice in found.notices:
        warn(notice)
    return 0


def _when(end: datetime) -> str:
    """Return an instant with the time left until then."""
    left_s = (end - datetime.now(UTC)).total_seconds()
    return f"{end:%Y-%m-%d %H:%M} UTC" + (f", in {as_duration(left_s)}" if left_s > 0 else "")


def _state_document(found: Slice) -> dict[str, object]:
    return {
        "slice": found.name,
        "id": found.id,
        "state": found.state,
        "lease_end": found.lease_end.isoformat(),
        "machines": [
            {
                "node": one.name,
                "role": one.role,
                "site": one.site,
                "address": one.address,
                "ports": dict(one.ports),
            }
            for one in found.machines
        ],
        "notices": list(found.notices),
    }


def write_inventory(args: argparse.Namespace) -> int:
    """Rewrite the inventory, because addresses may have changed; print its path."""
    from fablib_slices import Slices
    from fablib_slices.records import keep_inventory, kept_spec

    slices = Slices.connect()
    found = _found(args.slice, slices)
    answer(str(keep_inventory(found, slices.access, kept_spec(found.name))))
    return 0


def renew(args: argparse.Namespace) -> int:
    """Renew the lease and print its end."""
    from fablib_slices import Slices
    from fablib_slices.records import kept_spec

    name = _name(args.slice)
    kept = kept_spec(name)
    renewal = Slices.connect().renew(name, args.hours or (kept.hours if kept else _HOURS))
    answer(f"lease ends {_when(renewal.lease_end)}")
    if not renewal.exact:
        warn(f"requested {renewal.asked:%Y-%m-%d %H:%M}, but FABRIC shortened it")
    return 0


def down(args: argparse.Namespace) -> int:
    """Delete slices; slices that do not exist are no error."""
    from fablib_slices import Slices
    from fablib_slices.records import numbered

    slices = Slices.connect()
    names = [_name(given) for given in args.slice]
    for name in names:
        say(f"deleted slice {name}" if slices.down(name) else f"slice {name} does not exist")
        left = [one for one in numbered(name) if one not in names and slices.find(one)]
        if left:
            exist = f"{', '.join(left)} still {'exists' if len(left) == 1 else 'exist'}"
            warn(f"{exist}; delete with {as_command('l4sbench', 'slice', 'down', *left)}")
    return 0


def _name(given: str) -> str:
    """Return the name of a slice from its name or the file that describes it."""
    from fablib_slices import load_slice_file, slice_file

    return (load_slice_file(Path(given)) if Path(given).suffix in _FILES else slice_file(given)).slice


def _found(given: str, slices: object = None) -> Slice:
    from fablib_slices import Slices

    name = _name(given)
    own = slices if isinstance(slices, Slices) else Slices.connect()
    found = own.find(name)
    if found is None:
        raise TestbedError(
            f"slice {name} does not exist", f"reserve it with {as_command('l4sbench', 'slice', 'up', name)}"
        )
    return found

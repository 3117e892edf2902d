# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A stand-in for FABRIC's control plane (orchestrator, credential manager, core API), a process of its own.

It answers the calls that l4sbench and fablib make, in the shapes of the orchestrator's published interface
(openapi 1.0.1), keeps slices in memory, and validates them with the same library as the real one. Faults are
set by POST /_faults. What it cannot show: brokers, placement, policies beyond tags, machines that boot.

    python tests/fabric/standin.py [--host H] [--port P] [--tls CERT KEY] [--machines FILE]

`--machines` is a JSON file, node -> {"address": management address, "ports": {network: MAC}}: what machines
get instead of made-up addresses; or such a map for every slice by its name. The first line on stdout is the
URL.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import ssl
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fim.graph.abc_property_graph import ABCPropertyGraph, PropertyGraphQueryException
from fim.graph.networkx_mixin import NetworkXMixin
from fim.slivers.capacities_labels import Labels, ReservationInfo
from fim.user.topology import ExperimentTopology

TIME_FORMAT = "%Y-%m-%d %H:%M:%S %z"
STABLE = ("StableOK", "StableError", "ModifyOK", "ModifyError")
GONE = ("Closing", "Dead")
SITES = ("STAR", "NCSA", "TACC")
HOST = "star-w1.fabric-testbed.net"
HOSTS = 2
"""Hosts of a site, which share out its resources equally."""
LEASE = timedelta(days=14, minutes=5)
"""Longest lease that the policy permits without the tag Slice.NoLimitLifetime."""


def find_node(self: NetworkXMixin, *, node_id: str, graph_id: str | None = None) -> int:
    """Return a node's number in its graph, as fim does by general queries, which take most of its time."""
    graph_id = graph_id or self.graph_id
    wanted = (node_id, graph_id)
    keys = (ABCPropertyGraph.NODE_ID, ABCPropertyGraph.GRAPH_ID)
    nodes = self.storage.get_graph(graph_id).nodes(data=True)
    found = [number for number, data in nodes if tuple(map(data.get, keys)) == wanted]
    if len(found) != 1:
        raise PropertyGraphQueryException(
            graph_id=graph_id, node_id=node_id, msg=f"{len(found)} nodes of this ID"
        )
    return int(found[0])


NetworkXMixin._find_node = find_node


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@dataclass
class Faults:
    """Faults to inject; numbers count down, the others stay until they are set again.

    create_refused: creates that are answered with 500 and do nothing; create_lost: creates that are done and
    whose answer never comes; sliver_fails: notice by node; configure_s: how long a slice takes, at least;
    token_expired: every call but the token's is refused; token_s: how long the token lives; epoch: tokens
    that were handed out in another one have expired; refresh_refused: refresh tokens are not taken any more;
    renew_refused: renewals that are refused; longest_s: leases are shortened to this, before the policy
    sees them; addresses_in_slivers: graphs lack management addresses, and only slivers have them;
    vanish_after_s: seconds after which a ready slice is removed; vanish: slices that are removed now, with
    what is said of their machines; breaks: slices that become StableError now, likewise; forgotten: slices
    that are not known any more; lease_over: slices whose lease ends now; no_room: sites are full; echo:
    errors quote the request with its headers, and this text; refresh_token: the one that is handed out;
    unanswered: queries for known slices that are refused;
    poa_fails: why operational actions fail; room_in_h: hours until there is room for a slice.
    """

    create_refused: int = 0
    create_lost: int = 0
    unanswered: int = 0
    sliver_fails: dict[str, str] = field(default_factory=dict)
    configure_s: float = 0.0
    token_expired: bool = False
    token_s: int = 4 * 3600
    epoch: int = 0
    refresh_refused: bool = False
    renew_refused: int = 0
    longest_s: float = 15 * 86400.0
    vanish_after_s: float | None = None
    vanish: dict[str, str] = field(default_factory=dict)
    breaks: dict[str, str] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)
    lease_over: list[str] = field(default_factory=list)
    no_room: bool = False
    addresses_in_slivers: bool = False
    echo: str = ""
    refresh_token: str = "refresh"
    poa_fails: str = ""
    room_in_h: float = 5.0
    tags: list[str] = field(default_factory=lambda: ["VM.NoLimit", "Switch.P4"])


class RefusedError(Exception):
    def __init__(self, status: int, details: str) -> None:
        super().__init__(details)
        self.status, self.details = status, details


class AnswerLostError(Exception):
    pass


@dataclass
class Slice:
    id: str
    name: str
    topology: Any
    lease_end: datetime
    keys: list[str]
    ends_as: str
    began: float = field(default_factory=time.monotonic)
    state: str = "Configuring"
    seen: bool = False
    start: datetime = field(default_factory=now)
    slivers: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    notice: str = ""


class Fabric:
    """The state of the stand-in, and the effect of each call."""

    def __init__(self, machines: dict[str, Any]) -> None:
        self.faults = Faults()
        self.machines = machines
        self.slices: dict[str, Slice] = {}
        self.calls: list[list[Any]] = []
        self.lock = threading.RLock()
        self.poas: dict[str, dict[str, Any]] = {}
        self.pinned: dict[str, list[dict[str, str]]] = {}
        self.acted: list[list[Any]] = []
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.project, self.user = str(uuid.uuid4()), str(uuid.uuid4())

    # ---- calls

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: str, auth: str) -> Any:
        with self.lock:
            for pattern, verb, do in self.routes():
                found = re.fullmatch(pattern, path)
                if found and verb == method:
                    if not pattern.startswith(("/_", "/credmgr", "/whoami", "/people")):
                        self.authorised(auth)
                    return do(query, body, *found.groups())
        raise RefusedError(404, f"{method} {path}")

    def routes(self) -> list[tuple[str, str, Callable[..., Any]]]:
        one = r"/slices/{}([0-9a-f-]{{36}})"
        return [
            ("/_faults", "POST", self.set_faults),
            ("/_state", "GET", self.state_of_all),
            ("/_token", "GET", lambda *_: {"token": self.token(), "project": self.project}),
            ("/credmgr/tokens/validate", "POST", lambda *_: {"token": self.claims()}),
            ("/credmgr/tokens/refresh", "POST", self.refresh),
            ("/whoami", "GET", lambda *_: {"results": [{"uuid": self.user}]}),
            ("/people/.*", "GET", self.person),
            ("/version", "GET", lambda *_: listed("version", [{"version": "stand-in"}])),
            ("/resources/summary", "GET", lambda *_: listed("resources", [self.summary()])),
            ("/slices/creates", "POST", self.create),
            ("/slices", "GET", self.list_slices),
            (one.format(""), "GET", self.show),
            ("/slivers", "GET", self.list_slivers),
            (one.format("renew/"), "POST", self.renew),
            (one.format("delete/"), "DELETE", self.delete),
            (r"/poas/create/([0-9a-f-]{36})", "POST", self.act),
            (r"/poas/([0-9a-f-]{36})", "GET", lambda _, __, own: listed("poas", [self.poas[own]])),
            ("/resources/find-slot", "POST", self.find_slot),
            ("/api/artifacts", "GET", self.list_artifacts),
            ("/api/artifacts", "POST", self.make_artifact),
            (r"/api/artifacts/([0-9a-f-]{36})", "GET", lambda _, __, own: self.artifacts[own]),
            (r"/api/artifacts/([0-9a-f-]{36})", "PUT", lambda _, __, own: self.artifacts[own]),
            ("/api/contents", "POST", self.upload),
        ]

    def authorised(self, auth: str) -> None:
        if self.faults.token_expired or self.epoch_of(auth.removeprefix("Bearer ")) != self.faults.epoch:
            # The real one answers 500 as well; only the text tells.
            raise RefusedError(500, "Provided token is not valid: Signature has expired")

    @staticmethod
    def epoch_of(token: str) -> int | None:
        try:
            claims = token.split(".")[1]
            return int(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["epoch"])
        except (LookupError, ValueError):
            return None

    def set_faults(self, _: Any, body: str) -> dict[str, Any]:
        self.faults = Faults(**json.loads(body))
        return {}

    def state_of_all(self, *_: Any) -> dict[str, Any]:
        slices = {
            one.id: {"name": one.name, "state": self.state(one), "lease_end": one.lease_end.isoformat()}
            for one in self.slices.values()
            if one.name not in self.faults.forgotten
        }
        keys = [one.keys for one in self.slices.values()]
        state = {"calls": self.calls, "slices": slices, "keys": keys, "acted": self.acted}
        return state | {"artifacts": list(self.artifacts.values())}

    def refresh(self, *_: Any) -> dict[str, Any]:
        if self.faults.refresh_refused:
            raise RefusedError(500, "The refresh token has expired")
        expires = (now() + timedelta(hours=4)).strftime(TIME_FORMAT)
        token = {"id_token": self.token(), "refresh_token": self.faults.refresh_token, "expires_at": expires}
        return listed("tokens", [token | {"created_at": now().strftime(TIME_FORMAT)}])

    def person(self, *_: Any) -> dict[str, Any]:
        who = {"uuid": self.user, "email": "tester@example.org", "bastion_login": "tester_0000000000"}
        return {"results": [who | {"sshkeys": []}]}

    def create(self, query: dict[str, list[str]], body: str) -> Any:
        if self.faults.create_refused:
            self.faults.create_refused -= 1
            raise RefusedError(500, "Unable to determine broker proxy for this controller.")
        name, sent = query["name"][-1], json.loads(body)
        if any(one.name == name and self.state(one) not in GONE for one in self.slices.values()):
            raise RefusedError(500, f"Slice {name} already exists")
        topology = ExperimentTopology(graph_string=sent["graph_model"])
        topology.validate()
        kinds = {node.type.name for node in topology.nodes.values()}
        if "Switch" in kinds and "Switch.P4" not in self.faults.tags:
            raise RefusedError(
                500, "Policy Violation: Your project is lacking Switch.P4 tag to provision a P4 switch."
            )
        sites = {node.site for node in topology.nodes.values()}
        if len(sites) > 1 and "Slice.Multisite" not in self.faults.tags:
            raise RefusedError(
                500, "Policy Violation: Your project is lacking Slice.Multisite tag to use several sites."
            )
        end = self.lease_end(query["lease_end_time"][-1])
        made = Slice(
            id=str(uuid.uuid4()),
            name=name,
            topology=topology,
            lease_end=end,
            keys=sent["ssh_keys"],
            ends_as="StableError" if self.faults.sliver_fails else "StableOK",
        )
        self.slices[made.id] = made
        self.provision(made)
        if self.faults.create_lost:
            self.faults.create_lost -= 1
            raise AnswerLostError
        return listed("slivers", self.slivers(made))

    def lease_end(self, asked: str) -> datetime:
        """Return the end of a lease: shortened without a word, and then subject to the policy."""
        end = datetime.strptime(asked, TIME_FORMAT).astimezone(UTC)
        end = min(end, now() + timedelta(seconds=self.faults.longest_s))
        if end > now() + LEASE and "Slice.NoLimitLifetime" not in self.faults.tags:
            raise RefusedError(
                500, "Policy Violation: Your project is lacking Slice.NoLimitLifetime tag for this lease."
            )
        return end

    def list_slices(self, query: dict[str, list[str]], _: str) -> Any:
        names, states = query.get("name"), query.get("states")
        found = [
            one
            for one in self.slices.values()
            if (not names or one.name in names)
            and (not states or self.state(one) in states)
            and one.name not in self.faults.forgotten
        ]
        if self.faults.unanswered and any(one.seen for one in found):
            self.faults.unanswered -= 1
            raise RefusedError(408, "the database is busy")  # which the library does not repeat
        views = [self.view(one, with_model=False) for one in found]
        for one in found:
            one.seen = True
        return listed("slices", views)

    def show(self, query: dict[str, list[str]], _: str, own: str) -> Any:
        with_model = query.get("graph_format", ["GRAPHML"])[-1] != "NONE"
        return listed("slice_details", [self.view(self.get(own), with_model=with_model)])

    def list_slivers(self, query: dict[str, list[str]], _: str) -> Any:
        return listed("slivers", self.slivers(self.get(query["slice_id"][-1])))

    def renew(self, query: dict[str, list[str]], _: str, own: str) -> Any:
        one = self.get(own)
        if self.faults.renew_refused:
            self.faults.renew_refused -= 1
            raise RefusedError(500, "Policy Violation: project lease limit")
        if self.state(one) not in STABLE:
            raise RefusedError(500, f"Unable to renew Slice# {own} that is not yet stable, try again later")
        end = self.lease_end(query["lease_end_time"][-1])
        if end < one.lease_end:
            raise RefusedError(500, "Attempted new term end time is shorter than current slice end time")
        one.lease_end, one.began = end, time.monotonic()
        one.state, one.seen = "Configuring", False
        return listed("no_content", [{"details": f"Slice '{own}' has been successfully renewed"}])

    def delete(self, _: Any, __: str, own: str) -> Any:
        self.get(own).state = "Closing"
        return listed("no_content", [{"details": "deleted"}])

    # ---- operational actions, room, artifacts

    def act(self, _: Any, body: str, sliver: str) -> Any:
        """Do an action, in the shapes that fablib's documentation shows: hosts of two NUMA nodes."""
        asked = json.loads(body)
        operation, data = asked["operation"], asked.get("data") or {}
        ((one, name),) = [
            (one, name)
            for one in self.slices.values()
            for name, own in one.slivers.items()
            if own == sliver and self.state(one) in STABLE
        ]
        poa = {"poa_id": str(uuid.uuid4()), "operation": operation, "sliver_id": sliver, "slice_id": one.id}
        poa |= {"state": "Failed", "error": self.faults.poa_fails} if self.faults.poa_fails else {}
        poa = {"state": "Success", "error": "", "info": {}} | poa
        info: dict[str, Any] = {}
        if operation == "cpupin":
            self.pinned[sliver] = data["vcpu_cpu_map"]
        elif operation == "cpuinfo":
            info = self.cpuinfo(sliver, name, cores=int(one.topology.nodes[name].capacities.core))
        elif operation == "numainfo":
            free = {f"node {node}": {"free": "61574 MB", "size": "64466 MB"} for node in range(2)}
            own = {f"Node {node}": {"Private": "100", "Total": "100"} for node in range(2)}
            info = {HOST: {"available": "2 nodes (0-1)", **free}, f"instance-{name}": own}
        if info:
            poa["info"] = {operation: info}
        self.acted.append([name, operation, data])
        self.poas[str(poa["poa_id"])] = poa
        return listed("poas", [{**poa, "state": "Nascent", "info": {}}])

    def cpuinfo(self, sliver: str, name: str, cores: int) -> dict[str, Any]:
        taken = [pair["cpu"] for pairs in self.pinned.values() for pair in pairs]
        bound = {pair["vcpu"]: pair["cpu"] for pair in self.pinned.get(sliver, ())}
        every = ",".join(map(str, range(128)))
        own = [
            {"CPU": "3", "CPU Affinity": bound.get(str(cpu), every), "State": "running", "VCPU": str(cpu)}
            for cpu in range(cores)
        ]
        nodes = {"NUMA node0 CPU(s):": "0-31,64-95", "NUMA node1 CPU(s):": "32-63,96-127"}
        return {HOST: {"CPU(s):": "128", "pinned_cpus": taken, **nodes}, f"instance-{name}": own}

    def find_slot(self, _: Any, body: str) -> Any:
        """Answer with a time; FABRIC publishes no names of the parts of its answer."""
        asked = json.loads(body)
        first = datetime.strptime(asked["start"], TIME_FORMAT).astimezone(UTC) + timedelta(
            hours=self.faults.room_in_h
        )
        last = first + timedelta(hours=asked["duration"])
        found = [{"start": first.isoformat(), "end": last.isoformat()}]
        fits = last <= datetime.strptime(asked["end"], TIME_FORMAT).astimezone(UTC)
        return listed("slots", [{"slots": found if fits else [], "resources": asked["resources"]}])

    def list_artifacts(self, query: dict[str, list[str]], _: str) -> Any:
        wanted = query.get("search", [""])[-1]
        found = [one for one in self.artifacts.values() if wanted in one["title"]]
        return {"count": len(found), "next": None, "results": found}

    def make_artifact(self, _: Any, body: str) -> Any:
        sent = json.loads(body)
        made = {**sent, "uuid": str(uuid.uuid4()), "authors": [{"uuid": own} for own in sent["authors"]]}
        self.artifacts[made["uuid"]] = {**made, "versions": []}
        return made

    def upload(self, _: Any, body: str) -> Any:
        about = re.search(r'\{"artifact": "([0-9a-f-]{36})"', body)
        name = re.search(r'filename="([^"]+)"', body)
        if about is None or name is None:
            raise RefusedError(400, "no file")
        self.artifacts[about[1]]["versions"].append({"filename": name[1]})
        return {"urn": f"urn:fabric:contents:renci:{uuid.uuid4()}"}

    # ---- state

    def get(self, own: str) -> Slice:
        if own not in self.slices or self.slices[own].name in self.faults.forgotten:
            raise RefusedError(404, f"Slice# {own} not found")
        return self.slices[own]

    def state(self, one: Slice) -> str:
        """Return a slice's state; `Configuring` lasts until it was listed, however slow the client is."""
        age = time.monotonic() - one.began
        if one.state == "Configuring" and one.seen and age >= self.faults.configure_s:
            one.state = one.ends_as
            self.provision(one)
        vanish = self.faults.vanish_after_s
        if vanish is not None and one.state in STABLE and age > vanish:
            one.state = "Dead"
        if one.name in self.faults.lease_over:
            one.lease_end = min(one.lease_end, now())
        if one.state in STABLE and (one.name in self.faults.vanish or one.lease_end <= now()):
            one.state, one.notice = "Dead", self.faults.vanish.get(one.name, "")
        if one.state in STABLE and one.name in self.faults.breaks:
            one.state, one.notice = "StableError", self.faults.breaks[one.name]
        return one.state

    def provision(self, one: Slice) -> None:
        """Writes reservations, addresses and MACs into the slice's graph, as far as it has come."""
        ready, failed = one.state == "StableOK", one.state == "StableError"
        kept = "Active" if ready else "Closed" if failed else "Ticketed"
        consequence = "Closing reservation due to failure in slice"
        networks = {
            port.node_id: name
            for name, network in one.topology.network_services.items()
            for end in network.interface_list
            for port in end.get_peers() or ()
        }
        for place, (name, node) in enumerate(sorted(one.topology.nodes.items())):
            own = one.slivers.setdefault(name, str(uuid.uuid4()))
            notice = self.faults.sliver_fails.get(name, consequence) if failed else ""
            node.set_properties(
                reservation_info=ReservationInfo(
                    reservation_id=own, reservation_state=kept, error_message=notice
                )
            )
            if not ready:
                continue
            known = self.machines.get(one.name, self.machines).get(name, {})
            default = "2001:db8:5" if node.type.name == "Switch" else "2001:db8"
            one.addresses[name] = str(known.get("address", f"{default}::{place + 1}"))
            if node.type.name == "VM":
                at_host = Labels(instance=f"instance-{name}", instance_parent=HOST)
                node.set_properties(label_allocations=at_host)
            for component in node.components.values():
                component.set_properties(label_allocations=Labels(numa="1"))
            if not self.faults.addresses_in_slivers:
                node.set_properties(management_ip=one.addresses[name])
            ports = [port for component in node.components.values() for port in component.interface_list]
            for nth, port in enumerate(sorted(ports, key=lambda port: str(port.name))):
                network = networks.get(port.node_id, "")
                mac = known.get("ports", {}).get(network, f"02:00:00:00:{place:02x}:{nth:02x}")
                port.set_properties(label_allocations=Labels(mac=mac))

    def slivers(self, one: Slice) -> list[dict[str, Any]]:
        self.state(one)
        found = []
        for name, node in one.topology.nodes.items():
            info = node.get_property("reservation_info")
            found.append(
                {
                    "sliver_id": one.slivers[name],
                    "slice_id": one.id,
                    "graph_node_id": node.node_id,
                    "sliver_type": "NodeSliver",
                    "state": info.reservation_state,
                    "pending_state": "None_",
                    "notice": info.error_message or one.notice,
                    "lease_start_time": one.start.strftime(TIME_FORMAT),
                    "lease_end_time": one.lease_end.strftime(TIME_FORMAT),
                    "sliver": {
                        "Name": name,
                        "Site": node.site,
                        "Type": node.type.name,
                        "MgmtIp": one.addresses.get(name),
                    },
                }
            )
        return found

    def view(self, one: Slice, *, with_model: bool) -> dict[str, Any]:
        shown = {
            "slice_id": one.id,
            "name": one.name,
            "state": self.state(one),
            "graph_id": one.id,
            "lease_start_time": one.start.strftime(TIME_FORMAT),
            "lease_end_time": one.lease_end.strftime(TIME_FORMAT),
            "project_id": self.project,
            "project_name": "L4S",
            "owner_user_id": self.user,
            "owner_email": "tester@example.org",
        }
        return shown | ({"model": one.topology.serialize()} if with_model else {})

    def claims(self) -> dict[str, Any]:
        project = {"uuid": self.project, "name": "L4S", "active": True, "tags": self.faults.tags}
        member = {"memberships": {"is_token_holder": True}}
        expires = int(time.time()) + self.faults.token_s
        return {
            "uuid": self.user,
            "email": "tester@example.org",
            "exp": expires,
            "epoch": self.faults.epoch,
            "projects": [project | member],
        }

    def token(self) -> str:
        def part(value: dict[str, Any]) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

        return f"{part({'alg': 'none'})}.{part(self.claims())}.x"

    def summary(self) -> dict[str, Any]:
        used = 0.99 if self.faults.no_room else 0.1

        def counts(capacity: int) -> dict[str, int]:
            return {"capacity": capacity, "allocated": int(capacity * used)}

        def place(name: str, share: int) -> dict[str, Any]:
            own: dict[str, Any] = {"name": name, "state": "Active"}
            for kind, capacity in {"cores": 128, "ram": 512, "disk": 4000}.items():
                own |= {f"{kind}_{what}": number for what, number in counts(capacity // share).items()}
            cards = {"SharedNIC-ConnectX-6": 381, "SmartNIC-ConnectX-6": 2}
            own["components"] = {model: counts(number // share) for model, number in cards.items()}
            return own

        def site(name: str) -> dict[str, Any]:
            switches = {"STAR": [{"name": "star-p4", "capacity": 1, "allocated": 0}]}
            more = {"ipv4_management": name == "NCSA", "p4_switches": switches.get(name, [])}
            return {**place(name, 1), **more}

        hosts = [
            {**place(f"{name.lower()}-w{number}.fabric-testbed.net", HOSTS), "site": name}
            for name in SITES
            for number in range(1, HOSTS + 1)
        ]
        sites = [site(name) for name in SITES]
        return {"sites": sites, "hosts": hosts, "links": [], "facility_ports": []}


def listed(kind: str, data: list[Any]) -> dict[str, Any]:
    return {"type": kind, "size": len(data), "status": 200, "data": data}


def handler(fabric: Fabric) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def respond(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")
            status = 200
            try:
                auth = self.headers.get("Authorization") or ""
                said = fabric.answer(self.command, url.path, parse_qs(url.query), body, auth)
            except RefusedError as refused:
                details = refused.details
                if fabric.faults.echo:
                    details = (
                        f"{details}; {fabric.faults.echo} {self.headers} {self.command} {self.path} {body}"
                    )
                status, said = refused.status, self.error(refused.status, details)
            except AnswerLostError:
                fabric.calls.append([self.command, url.path, "lost"])
                self.connection.shutdown(2)
                self.close_connection = True
                return
            except Exception as error:  # noqa: BLE001  (an invalid topology, as the real one answers it)
                status, said = 500, self.error(500, str(error))
            if not url.path.startswith("/_"):
                fabric.calls.append([self.command, url.path, status])
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def error(self, status: int, details: str) -> dict[str, Any]:
            told = [{"message": "Internal Server Error", "details": details}]
            return {"type": "error", "size": 1, "status": status, "errors": told}

        do_GET = do_POST = do_PUT = do_DELETE = respond  # noqa: N815  (http.server's own names)

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"))
    parser.add_argument("--machines", type=Path)
    args = parser.parse_args()
    machines = json.loads(args.machines.read_text()) if args.machines else {}
    server = ThreadingHTTPServer((args.host, args.port), handler(Fabric(machines)))
    server.daemon_threads = True
    if args.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*args.tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https" if args.tls else "http"
    sys.stdout.write(f"{scheme}://{args.host}:{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()

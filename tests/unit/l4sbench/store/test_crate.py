# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A bundle is an RO-Crate: a library of theirs reads it, and it has what version 1.1 demands."""

from __future__ import annotations

import json
import tarfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rocrate.rocrate import ROCrate

from l4sbench.cli import main
from l4sbench.store.bundle import write_bundle
from l4sbench.store.crate import CRATE
from tests.attack.hostile import make_run


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a reported run as tar unpacks it."""
    home = tmp_path_factory.mktemp("crate")
    run = make_run(home / "runs")
    assert main(["report", str(run)]) == 0
    assert main(["bundle", str(run), "-o", str(home / "run.tar.gz")]) == 0
    with tarfile.open(home / "run.tar.gz") as archive:
        archive.extractall(home / "out", filter="data")
    return home / "out" / "base" / run.name


@pytest.fixture(scope="module")
def graph(unpacked: Path) -> dict[str, dict[str, Any]]:
    """Entities of the description by their ids."""
    document = json.loads((unpacked / CRATE).read_bytes())
    assert document["@context"] == "https://w3id.org/ro/crate/1.1/context"
    ids = [entity["@id"] for entity in document["@graph"]]
    assert len(ids) == len(set(ids))
    return {entity["@id"]: entity for entity in document["@graph"]}


def test_a_library_reads_it(unpacked: Path) -> None:
    crate = ROCrate(unpacked)
    assert str(crate.name).startswith("Run of the matrix base, 20")
    assert crate.description
    parts = {part.id: part for part in crate.root_dataset["hasPart"]}
    assert {"matrix.yaml", "manifest.json", "cells/", "tables/trials.parquet", "report/index.html"} <= set(
        parts
    )
    assert parts["tables/flows.parquet"]["encodingFormat"] == "application/vnd.apache.parquet"
    (made,) = (entity for entity in crate.contextual_entities if entity.type == "CreateAction")
    assert made["instrument"]["softwareVersion"] == "0.1.0"
    assert [used.id for used in made["object"]] == ["matrix.yaml"]


def test_it_has_what_the_specification_demands(unpacked: Path, graph: dict[str, dict[str, Any]]) -> None:
    # RO-Crate 1.1, "Root Data Entity": the descriptor, and the properties that a root must have
    assert graph[CRATE]["about"] == {"@id": "./"}
    assert graph[CRATE]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    root = graph["./"]
    assert root["@type"] == "Dataset"
    assert root["name"]
    assert root["description"]
    assert root["license"]
    assert datetime.fromisoformat(root["datePublished"]).tzinfo
    # "Data Entities": each is linked from the root, and is there with its size
    data = {own for own, entity in graph.items() if entity["@type"] in ("File", "Dataset")} - {"./"}
    assert {part["@id"] for part in root["hasPart"]} == data
    for own in data:
        assert (unpacked / own).exists(), own
        if graph[own]["@type"] == "File":
            assert int(graph[own]["contentSize"]) == (unpacked / own).stat().st_size
            assert graph[own]["encodingFormat"].count("/") == 1
        else:
            assert own.endswith("/")
    # every reference leads to an entity, or out of the crate
    for entity in graph.values():
        for value in entity.values():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, dict):
                    assert one["@id"] in graph or one["@id"].startswith("https://")


def test_damaged_files_are_described_by_the_name_of_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs")
    (run / "matrix.yaml").write_text("matrix: [", encoding="utf-8")
    (run / "manifest.json").write_text("[]", encoding="utf-8")
    contents = write_bundle(run, tmp_path / "run.tar.gz")
    with tarfile.open(tmp_path / "run.tar.gz") as archive:
        member = archive.extractfile(f"{contents.run}/{CRATE}")
        assert member is not None
        found = {entity["@id"]: entity for entity in json.load(member)["@graph"]}
    assert found["./"]["description"] == "A run of the matrix base by l4sbench."
    assert "softwareVersion" not in found["#l4sbench"]

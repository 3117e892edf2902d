# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Write the vectors anew from `scenarios`, with the reference's outcomes: `python -m tests.p4.make`."""

from tests.p4.scenarios import SCENARIOS
from tests.p4.vectors import FOLDER, Reference, Vector, drive, stored, to_json


def made() -> list[Vector]:
    """Return all vectors."""
    vectors = []
    for make in SCENARIOS:
        scenario = make()
        outcomes = drive(Reference(), scenario.events, cleared=scenario.cleared)
        name = make.__name__.replace("_", "-")
        vectors.append(Vector(name, scenario.about, scenario.cleared, scenario.events, outcomes))
    return vectors


def main() -> None:
    """Write all files."""
    FOLDER.mkdir(exist_ok=True)
    for old in stored():
        old.unlink()
    for vector in made():
        (FOLDER / f"{vector.name}.json").write_text(to_json(vector), encoding="utf-8")


if __name__ == "__main__":
    main()

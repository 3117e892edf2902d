# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Write our kernel modules as packages of DKMS, and print how to install them.

Each is a folder without links, whose version changes with the source.
"""

import argparse
from pathlib import Path

from l4sbench.disk import assets
from l4sbench.disk.files import new_folder
from l4sbench.disk.trust import read_code
from l4sbench.testbeds.ssh.dkms import DkmsPackage, package


def packages() -> list[DkmsPackage]:
    """Return the packages of all modules below `kernels/`, by name."""
    kernels = assets.folder("kernels")
    folders = sorted(conf.parent for conf in kernels.glob("*/dkms.conf"))
    found = (package(read_code(folder, links_below=kernels)) for folder in folders)
    return [one for one in found if one is not None]


def main() -> None:
    """Write the packages, and print how each is installed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--into", type=Path, default=Path("build/dkms"), help="folder; default: build/dkms")
    into = parser.parse_args().into
    into.mkdir(parents=True, exist_ok=True)
    for one in packages():
        place = into / f"{one.name}-{one.version}"
        with new_folder(place, replace=True) as partial:
            one.code.write(partial)
        print(f"sudo dkms add {place} && sudo dkms install {one.name}/{one.version}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`python -m l4sbench` is `l4sbench`."""

import sys

from l4sbench.cli import main

if __name__ == "__main__":
    sys.exit(main())

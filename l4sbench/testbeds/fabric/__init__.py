# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The fabric testbed: slices of FABRIC, reserved when a run needs them, then used like other hosts."""

from l4sbench.testbeds.fabric.testbed import FabricTestbed, traits

__all__ = ["FabricTestbed", "traits"]

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The virtual testbed: real Linux kernels in user mode, in virtual time."""

from l4sbench.testbeds.virtual.testbed import TRAITS, VirtualTestbed

__all__ = ["TRAITS", "VirtualTestbed"]

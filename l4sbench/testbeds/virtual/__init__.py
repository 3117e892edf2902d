# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The virtual testbed: real Linux kernels in user mode, in virtual time.

`traits` and `testbed` are imported apart, as plans need only the former.
"""

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Testbeds, where trials run. Each package here implements `l4sbench.engine.testbed.Testbed`."""

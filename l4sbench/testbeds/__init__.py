# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Testbeds: the places where trials run. Each is a package here and implements `l4sbench.engine.testbed.Testbed`."""

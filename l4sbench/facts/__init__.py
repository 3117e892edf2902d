# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A cell and all that it consists of: factors and their names, groups of flows, events, traits, faults."""

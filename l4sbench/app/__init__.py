# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The application: picks a testbed, collectors and reports for the engine, which knows none of them."""

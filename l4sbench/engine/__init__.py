# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The engine: one loop that runs trials, its workers, and the protocol that testbeds implement."""

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Planning: what a run would do and why, which inputs decide on a trial, and what trials cost."""

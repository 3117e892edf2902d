# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Guests of the virtual testbed on the workers of a Dask cluster.

`guests` is imported only when a cluster is used: it needs the extra `scale`.
"""

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The ssh testbed: any hosts of an Ansible inventory."""

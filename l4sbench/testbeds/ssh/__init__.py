# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The ssh testbed: any hosts of an Ansible inventory."""

from l4sbench.testbeds.ssh.testbed import TRAITS, SshTestbed

__all__ = ["TRAITS", "SshTestbed"]

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Files: reading those of users and strangers safely, writing whole or not at all, and code a user trusts."""

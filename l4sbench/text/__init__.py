# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Values and their texts: units, parameters, expressions, and how messages quote a user's words."""

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Write the JSON Schema: `python -m l4sbench.matrix > matrices/matrix.schema.json`."""

from __future__ import annotations

import json
import sys

from l4sbench.matrix import json_schema

sys.stdout.write(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n")

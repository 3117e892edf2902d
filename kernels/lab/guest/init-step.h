/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* The instructions of a script. Formats: docs/guest.md. */
#ifndef LAB_INIT_STEP_H
#define LAB_INIT_STEP_H

#define NETNS_DIR  "/run/netns"
#define MAX_FIELDS 256

/* Execute the instruction in the @count fields of script line @line. */
void step(int line, char **fields, int count);

#endif

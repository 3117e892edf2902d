/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* Which cells of a history are shown. */

startFilter("section.course", null);

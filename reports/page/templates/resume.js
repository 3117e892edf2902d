/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* The page of a run that has ended takes the place of one that reloaded itself. */

resume();

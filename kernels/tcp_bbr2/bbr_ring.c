// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP BBR: bursts as they were sent
 *
 * A ring has room for four bursts, and grows fourfold, up to 1,024, where it
 * would have to forget one that is not acknowledged. So a connection without
 * traffic costs nothing, and one with traffic at most 16 B times four for each
 * burst in flight. Where there is no memory, or no more room, the ring forgets
 * the oldest burst, and a search for it finds nothing.
 *
 * Sequence numbers of bursts usually rise: first transmissions always do, and
 * so does each pass over what was lost. A search in such a run halves it, which
 * also ends a search for what the ring does not have after a few comparisons;
 * only retransmissions of earlier passes are compared one by one.
 */
#ifdef __KERNEL__
#include <linux/minmax.h>
#include <linux/slab.h>
#include <net/tcp.h>
#endif

#include "bbr_ring.h"

static struct bbr_sent *bbr_ring_at(const struct bbr_ring *ring, u64 number)
{
	return &ring->entries[number & (ring->size - 1)];
}

void bbr_ring_init(struct bbr_ring *ring)
{
	ring->entries = ring->own;
	ring->size = BBR_RING_OWN;
	ring->head = 0;
	ring->oldest = 0;
	ring->run = 0;
	ring->retry = 0;
}

/* Forgets all bursts, and gives memory back. */
void bbr_ring_clear(struct bbr_ring *ring)
{
	if (ring->entries != ring->own)
		kfree(ring->entries);
	bbr_ring_init(ring);
}

/* Runs in softirq for most packets. It may fail: no reserves are touched, and
 * the next attempt comes when as many bursts again were sent.
 */
static void bbr_ring_grow(struct bbr_ring *ring)
{
	u32 size = ring->size * BBR_RING_GROWTH;
	struct bbr_sent *entries;
	u64 number;

	entries = kmalloc_array(size, sizeof(*entries),
				GFP_NOWAIT | __GFP_NOWARN | __GFP_ACCOUNT);
	if (!entries) {
		ring->retry = ring->head + ring->size;
		return;
	}
	for (number = ring->oldest; number < ring->head; number++)
		entries[number & (size - 1)] = *bbr_ring_at(ring, number);
	if (ring->entries != ring->own)
		kfree(ring->entries);
	ring->entries = entries;
	ring->size = size;
}

static bool bbr_ring_full(const struct bbr_ring *ring)
{
	return ring->head - ring->oldest == ring->size;
}

/* Adds a burst, and gives up the oldest ones as far as @una acknowledges them. */
void bbr_ring_add(struct bbr_ring *ring, const struct bbr_sent *sent, u32 una)
{
	struct bbr_sent *last = NULL;

	while (ring->oldest < ring->head &&
	       !after(bbr_ring_at(ring, ring->oldest)->end, una))
		ring->oldest++;
	if (ring->head > ring->oldest)
		last = bbr_ring_at(ring, ring->head - 1);
	/* Sent once more at once, as the device's queue had no room */
	if (last && sent->seq == last->seq && !before(sent->end, last->end)) {
		*last = *sent;
		return;
	}
	if (!last || before(sent->seq, last->end))
		ring->run = ring->head;

	if (bbr_ring_full(ring) && ring->size < BBR_RING_MOST &&
	    ring->head >= ring->retry)
		bbr_ring_grow(ring);
	if (bbr_ring_full(ring))
		ring->oldest++;
	*bbr_ring_at(ring, ring->head++) = *sent;
}

static bool bbr_ring_has(const struct bbr_ring *ring, u64 number, u32 end)
{
	const struct bbr_sent *sent = bbr_ring_at(ring, number);

	return after(end, sent->seq) && !after(end, sent->end);
}

/* The last burst with the byte before @end; NULL if the ring has none */
const struct bbr_sent *bbr_ring_find(const struct bbr_ring *ring, u32 end)
{
	u64 begin = max(ring->run, ring->oldest);
	u64 number = begin, behind = ring->head, middle;

	/* How many of the present run begin before that byte ends? */
	while (number < behind) {
		middle = number + ((behind - number) >> 1);
		if (after(end, bbr_ring_at(ring, middle)->seq))
			number = middle + 1;
		else
			behind = middle;
	}
	/* The last of these has it, or no other one of the run. */
	if (number > begin && bbr_ring_has(ring, number - 1, end))
		return bbr_ring_at(ring, number - 1);
	for (number = begin; number-- > ring->oldest;) {
		if (bbr_ring_has(ring, number, end))
			return bbr_ring_at(ring, number);
	}
	return NULL;
}

// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague: a logarithm, segment sizes from rates, terms of a score */
#include "prague_math.h"

#define PRAGUE_LOG_K		4	/* log scheme: ln(1 + K x) / ln(1 + K) */
#define PRAGUE_PUBLISHED_SHIFT	4	/* 2^-24 against 2^-20 */

/**
 * prague_log2() - logarithm to base 2
 * @value: at least 1
 *
 * The integer part is the place of the highest bit. Squaring the rest, which
 * is in [1, 2), doubles its logarithm: where that leaves [1, 2) the next
 * binary digit is 1.
 *
 * Return: in 2^-24, too small by less than 2^-24 or so; 0 for a value of 0.
 */
u32 prague_log2(u64 value)
{
	int place = fls64(value) - 1;
	u32 log, digit;
	u64 rest;

	if (place < 0)
		return 0;
	/* 2^-31, below 2^32: its square fits */
	rest = place > 31 ? value >> (place - 31) : value << (31 - place);
	log = place << PRAGUE_LOG_BITS;
	for (digit = PRAGUE_LOG_ONE >> 1; digit; digit >>= 1) {
		rest = (rest * rest) >> 31;
		if (rest >> 32) {
			rest >>= 1;
			log |= digit;
		}
	}
	return log;
}

/* 2^-24: x, where a rate is on the way from low to high. Below 2^32 bit/s the
 * product is below 2^56. Rates that are not in order make a step of it.
 */
static u32 prague_place(const struct prague_sizing *sizing, u64 rate)
{
	if (rate <= sizing->low_rate)
		return 0;
	if (rate >= sizing->high_rate)
		return PRAGUE_LOG_ONE;
	return div_u64((rate - sizing->low_rate) << PRAGUE_LOG_BITS,
		       sizing->high_rate - sizing->low_rate);
}

/**
 * prague_size_by_rate() - the segment size for a rate
 * @sizing: a scheme other than PRAGUE_SEGSIZE_RTT, and its limits
 * @rate: bit/s
 *
 * With x in [0, 1] for the place of the rate between the limits:
 *
 *	linear	least + (most - least) * x
 *	log	least + (most - least) * ln(1 + 4 x) / ln 5
 *	exp	least + (most - least) * x^2
 *
 * Return: bytes, rounded to nearest.
 */
u32 prague_size_by_rate(const struct prague_sizing *sizing, u64 rate)
{
	u64 x = prague_place(sizing, rate);
	u32 unit = PRAGUE_LOG_ONE;
	u64 part;

	switch (sizing->scheme) {
	case PRAGUE_SEGSIZE_LINEAR:
		part = x;
		break;
	case PRAGUE_SEGSIZE_LOG:
		/* 2^-24 within the logarithm: subtract that of 2^24 */
		part = prague_log2(unit + PRAGUE_LOG_K * x) - prague_log2(unit);
		part = div_u64(part << PRAGUE_LOG_BITS,
			       prague_log2(1 + PRAGUE_LOG_K));
		break;
	case PRAGUE_SEGSIZE_EXP:
		part = (x * x) >> PRAGUE_LOG_BITS;
		break;
	default:
		return sizing->most;
	}
	if (part > unit)
		part = unit;
	part = (sizing->most - sizing->least) * part + unit / 2;
	return sizing->least + (u32)(part >> PRAGUE_LOG_BITS);
}

/**
 * prague_score_term() - what a delay adds to the score of a classic queue
 * @delay: 2^-8 us; less than 1 us counts as that
 * @reference: us
 * @published: take the logarithm of @reference for one of 2^-20, see
 *	prague_fallback.c
 *
 * Return: log2(delay / reference) / 2, in 2^-24.
 */
s32 prague_score_term(u64 delay, u32 reference, bool published)
{
	s32 log = prague_log2(reference);
	s32 least = PRAGUE_DELAY_BITS << PRAGUE_LOG_BITS;
	s32 found = prague_log2(delay);

	if (published)
		log >>= PRAGUE_PUBLISHED_SHIFT;
	if (found < least)
		found = least;
	return (found - least - log) / 2;
}

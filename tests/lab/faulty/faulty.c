// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* One error of each kind that a kernel for debugging reports, committed while the module loads. */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static DEFINE_SPINLOCK(first);
static DEFINE_SPINLOCK(second);
static DEFINE_SPINLOCK(last);

static void use_after_free(void)
{
	int *volatile freed = kzalloc(64, GFP_KERNEL);

	if (!freed)
		return;
	kfree(freed);
	pr_info("faulty: %d\n", READ_ONCE(*freed));
}

static void leak(void)
{
	/* many, as the allocator's own lists keep the addresses of the last ones that it gave */
	for (int i = 0; i < 1000; i++) {
		void *volatile lost = kzalloc(1000, GFP_KERNEL);

		pr_debug("faulty: %d\n", !!lost);
		lost = NULL;
	}
}

static void deadlock(void)
{
	spin_lock(&first);
	spin_lock(&second);
	spin_unlock(&second);
	spin_unlock(&first);
	spin_lock(&second);
	spin_lock(&first);
	spin_unlock(&first);
	spin_unlock(&second);
}

static void sleep_with_a_lock(void)
{
	spin_lock(&last);
	might_sleep();
	spin_unlock(&last);
}

static int __init faulty_init(void)
{
	deadlock(); /* first: lockdep ends with the first report of anything */
	sleep_with_a_lock();
	leak();
	use_after_free();
	return 0;
}
module_init(faulty_init);

static void __exit faulty_exit(void)
{
}
module_exit(faulty_exit);

MODULE_DESCRIPTION("Errors for a kernel that looks for them");
MODULE_LICENSE("GPL");

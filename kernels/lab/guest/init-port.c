// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

#include "init-port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/ethtool.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <netinet/ether.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init-trial.h"
#include "util.h"

void set_sysctl(int line, const char *name, const char *value)
{
	char path[512];
	int error;
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		fail(line, "no sysctl %s: %s", name, strerror(errno));
	error = write_all(fd, value, strlen(value));
	if (error)
		fail(line, "sysctl %s = %s: %s", name, value, strerror(-error));
	close(fd);
}

/* A socket of the namespace that lab-init is in, for one or a few requests. */
static int control_of(int line, int family)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail(line, "socket: %s", strerror(errno));
	return fd;
}

static int control(int line)
{
	return control_of(line, AF_INET);
}

static void request(int line, int fd, unsigned long what, void *data, const char *subject)
{
	if (ioctl(fd, what, data) < 0)
		fail(line, "%s: %s", subject, strerror(errno));
}

/* -- addresses ------------------------------------------------------------------- */

static struct sockaddr in_sockaddr(struct in_addr address)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = address };
	struct sockaddr any;

	memcpy(&any, &in, sizeof(any));
	return any;
}

static struct in_addr parse_address(int line, const char *text)
{
	struct in_addr address;

	if (inet_pton(AF_INET, text, &address) != 1)
		fail(line, "%s is not an IPv4 address", text);
	return address;
}

static struct in6_addr parse_address6(int line, const char *text)
{
	struct in6_addr address;

	if (inet_pton(AF_INET6, text, &address) != 1)
		fail(line, "%s is not an IPv6 address", text);
	return address;
}

static bool is_ipv6(const char *text)
{
	return strchr(text, ':') != NULL;
}

/* Copy the address of ADDRESS/LENGTH to @address and return LENGTH, at most @most. */
static int split_prefix(int line, const char *text, char address[INET6_ADDRSTRLEN], int most)
{
	const char *slash = strchr(text, '/');
	int64_t length;

	if (!slash || slash - text >= INET6_ADDRSTRLEN || !parse_int64(slash + 1, &length) ||
	    length < 0 || length > most)
		fail(line, "%s is not an address with a prefix length", text);
	memcpy(address, text, slash - text);
	address[slash - text] = '\0';
	return length;
}

/* Parse A.B.C.D/LENGTH; the mask of LENGTH bits goes to @mask. */
static struct in_addr parse_prefix(int line, const char *text, struct in_addr *mask)
{
	char address[INET6_ADDRSTRLEN];
	int length = split_prefix(line, text, address, 32);

	mask->s_addr = htonl(length ? UINT32_MAX << (32 - length) : 0);
	return parse_address(line, address);
}

static struct in6_addr parse_prefix6(int line, const char *text, int *length)
{
	char address[INET6_ADDRSTRLEN];

	*length = split_prefix(line, text, address, 128);
	return parse_address6(line, address);
}

static struct sockaddr parse_mac(int line, const char *text)
{
	struct sockaddr mac = { .sa_family = ARPHRD_ETHER };

	if (!ether_aton_r(text, (struct ether_addr *)mac.sa_data))
		fail(line, "%s is not a hardware address", text);
	return mac;
}

/* -- ports ----------------------------------------------------------------------- */

static struct ifreq ifreq_of(int line, const char *ifname)
{
	struct ifreq req = { 0 };

	if (strlen(ifname) >= sizeof(req.ifr_name))
		fail(line, "%s is too long for an interface", ifname);
	strcpy(req.ifr_name, ifname);
	return req;
}

static void bring_up(int line, int fd, const char *ifname)
{
	struct ifreq req = ifreq_of(line, ifname);

	request(line, fd, SIOCGIFFLAGS, &req, ifname);
	req.ifr_flags |= IFF_UP;
	request(line, fd, SIOCSIFFLAGS, &req, ifname);
}

void link_up(int line, const char *ifname)
{
	int fd = control(line);

	bring_up(line, fd, ifname);
	close(fd);
}

static void set_address(int line, int fd, const char *ifname, struct in_addr own,
			struct in_addr mask)
{
	struct ifreq req = ifreq_of(line, ifname);

	req.ifr_addr = in_sockaddr(own);
	request(line, fd, SIOCSIFADDR, &req, ifname);
	req.ifr_netmask = in_sockaddr(mask);
	request(line, fd, SIOCSIFNETMASK, &req, ifname);
}

/* The request of SIOCSIFADDR; <linux/ipv6.h> has it, and clashes with <netinet/in.h>. */
struct ifreq6 {
	struct in6_addr address;
	uint32_t length;
	int index;
};

/* Nobody has the address, so it is there at once: without duplicate address detection. */
static void add_address6(int line, const char *ifname, const char *address)
{
	struct ifreq6 req = { .index = if_nametoindex(ifname) };
	int fd = control_of(line, AF_INET6);
	char name[64];
	int length;

	req.address = parse_prefix6(line, address, &length);
	req.length = length;
	snprintf(name, sizeof(name), "net/ipv6/conf/%s/accept_dad", ifname);
	set_sysctl(line, name, "0");
	request(line, fd, SIOCSIFADDR, &req, address);
	close(fd);
}

/*
 * An IPv4 address comes before the interface is up: the kernel first gives it the
 * mask of its class, and would make a route of that for a moment. An IPv6 address
 * comes after it, as its route needs the interface.
 */
void port_up(int line, const char *ifname, const char *mac, const char *address)
{
	struct ifreq req = ifreq_of(line, ifname);
	bool ipv6 = is_ipv6(address);
	struct in_addr own = { 0 }, mask = { 0 };
	int fd;

	if (!ipv6)
		own = parse_prefix(line, address, &mask);
	fd = control(line);
	req.ifr_hwaddr = parse_mac(line, mac);
	request(line, fd, SIOCSIFHWADDR, &req, ifname);
	if (!ipv6)
		set_address(line, fd, ifname, own, mask);
	bring_up(line, fd, ifname);
	if (ipv6)
		add_address6(line, ifname, address);
	close(fd);
}

/* -- offloads -------------------------------------------------------------------- */

/* An offload as `ethtool -K` and `ethtool -k` name it, and the kernel's features that it consists
 * of. */
static const struct offload {
	const char *name, *printed;
	const char *features; /* a pattern for their names */
} offloads[] = {
	{ "tso", "tcp-segmentation-offload", "tx-tcp*-segmentation" },
	{ "gso", "generic-segmentation-offload", "tx-generic-segmentation" },
	{ "gro", "generic-receive-offload", "rx-gro" },
	{ "lro", "large-receive-offload", "rx-lro" },
};

#define MAX_FEATURES 128
#define BLOCKS	     (MAX_FEATURES / 32)

/* The names of all features; the same for every device. */
struct names {
	struct ethtool_gstrings head;
	char name[MAX_FEATURES][ETH_GSTRING_LEN];
};

struct state {
	struct ethtool_gfeatures head;
	struct ethtool_get_features_block block[BLOCKS];
};

struct wanted {
	struct ethtool_sfeatures head;
	struct ethtool_set_features_block block[BLOCKS];
};

static void ethtool(int line, int fd, const char *ifname, void *data)
{
	struct ifreq req = ifreq_of(line, ifname);

	req.ifr_data = data;
	request(line, fd, SIOCETHTOOL, &req, ifname);
}

static const struct names *feature_names(int line, int fd, const char *ifname)
{
	static struct names names;
	struct {
		struct ethtool_sset_info head;
		uint32_t count;
	} set = { .head = { .cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ULL << ETH_SS_FEATURES } };

	if (names.head.len)
		return &names;
	ethtool(line, fd, ifname, &set);
	if (set.count > MAX_FEATURES)
		fail(line, "%s has %u features, more than %d", ifname, set.count, MAX_FEATURES);
	names.head.cmd = ETHTOOL_GSTRINGS;
	names.head.string_set = ETH_SS_FEATURES;
	ethtool(line, fd, ifname, &names);
	return &names;
}

/* True if any feature of @offload is active; those that can be switched go to @changeable. */
static bool is_on(int line, int fd, const char *ifname, const struct offload *offload,
		  uint32_t changeable[BLOCKS])
{
	const struct names *names = feature_names(line, fd, ifname);
	struct state state = { .head = { .cmd = ETHTOOL_GFEATURES, .size = BLOCKS } };
	bool on = false;

	ethtool(line, fd, ifname, &state);
	memset(changeable, 0, BLOCKS * sizeof(*changeable));
	for (uint32_t i = 0; i < names->head.len; i++) {
		uint32_t bit = 1U << i % 32;

		if (fnmatch(offload->features, names->name[i], 0))
			continue;
		on = on || state.block[i / 32].active & bit;
		changeable[i / 32] |= state.block[i / 32].available & bit;
	}
	return on;
}

static void set_offload(int line, int fd, const char *ifname, const struct offload *offload,
			bool on)
{
	struct wanted wanted = { .head = { .cmd = ETHTOOL_SFEATURES } };
	uint32_t changeable[BLOCKS];

	if (is_on(line, fd, ifname, offload, changeable) == on)
		return;
	wanted.head.size = (feature_names(line, fd, ifname)->head.len + 31) / 32;
	for (uint32_t i = 0; i < wanted.head.size; i++) {
		wanted.block[i].valid = changeable[i];
		wanted.block[i].requested = on ? changeable[i] : 0;
	}
	ethtool(line, fd, ifname, &wanted);
	if (is_on(line, fd, ifname, offload, changeable) != on)
		fail(line, "%s cannot switch %s %s", ifname, offload->name, on ? "on" : "off");
}

static const struct offload *find_offload(int line, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(offloads); i++)
		if (!strcmp(offloads[i].name, name))
			return &offloads[i];
	fail(line, "unknown offload %s", name);
}

void set_offloads(int line, const char *ifname, char **words)
{
	int fd = control(line);

	for (; *words; words += 2) {
		if (!words[1] || (strcmp(words[1], "on") && strcmp(words[1], "off")))
			fail(line, "%s must be on or off", *words);
		set_offload(line, fd, ifname, find_offload(line, *words), !strcmp(words[1], "on"));
	}
	close(fd);
}

void print_offloads(int line, const char *ifname, struct text *out)
{
	uint32_t changeable[BLOCKS];
	int fd = control(line);

	text_printf(out, "Features for %s:\n", ifname);
	for (size_t i = 0; i < ARRAY_SIZE(offloads); i++)
		text_printf(out, "%s: %s\n", offloads[i].printed,
			    is_on(line, fd, ifname, &offloads[i], changeable) ? "on" : "off");
	close(fd);
}

/* -- neighbours and routes --------------------------------------------------------- */

/* There is no ioctl for a neighbour by IPv6. */
static void add_neighbour6(int line, const char *ifname, const char *address, const char *mac)
{
	struct sockaddr hardware = parse_mac(line, mac);
	struct {
		struct nlmsghdr header;
		struct ndmsg body;
		struct rtattr address_head;
		struct in6_addr address;
		struct rtattr mac_head;
		unsigned char mac[8]; /* 6, and padding */
	} req = {
		.header = { .nlmsg_len = sizeof(req),
			    .nlmsg_type = RTM_NEWNEIGH,
			    .nlmsg_flags =
				    NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE },
		.body = { .ndm_family = AF_INET6,
			  .ndm_ifindex = if_nametoindex(ifname),
			  .ndm_state = NUD_PERMANENT },
		.address_head = { RTA_LENGTH(sizeof(struct in6_addr)), NDA_DST },
		.address = parse_address6(line, address),
		.mac_head = { RTA_LENGTH(ETH_ALEN), NDA_LLADDR },
	};
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	memcpy(req.mac, hardware.sa_data, ETH_ALEN);
	if (fd < 0 || send(fd, &req, sizeof(req), 0) < 0 ||
	    recv(fd, &answer, sizeof(answer), 0) < (ssize_t)sizeof(answer.header))
		fail(line, "rtnetlink: %s", strerror(errno));
	if (answer.header.nlmsg_type != NLMSG_ERROR || answer.error.error)
		fail(line, "%s: %s", address, strerror(-answer.error.error));
	close(fd);
}

static void add_neighbour4(int line, const char *ifname, const char *address, const char *mac)
{
	struct arpreq req = {
		.arp_pa = in_sockaddr(parse_address(line, address)),
		.arp_ha = parse_mac(line, mac),
		.arp_flags = ATF_PERM | ATF_COM,
	};
	int fd = control(line);

	if (strlen(ifname) >= sizeof(req.arp_dev))
		fail(line, "%s is too long for an interface", ifname);
	strcpy(req.arp_dev, ifname);
	request(line, fd, SIOCSARP, &req, address);
	close(fd);
}

void add_neighbour(int line, const char *ifname, const char *address, const char *mac)
{
	if (is_ipv6(address))
		add_neighbour6(line, ifname, address, mac);
	else
		add_neighbour4(line, ifname, address, mac);
}

/* The kernel finds the interface by the address @via. */
static void add_route6(int line, const char *to, const char *via)
{
	struct in6_rtmsg route = { .rtmsg_flags = RTF_UP | RTF_GATEWAY };
	int fd = control_of(line, AF_INET6);
	int length;

	route.rtmsg_dst = parse_prefix6(line, to, &length);
	route.rtmsg_dst_len = length;
	route.rtmsg_gateway = parse_address6(line, via);
	request(line, fd, SIOCADDRT, &route, to);
	close(fd);
}

static void add_route4(int line, const char *to, const char *via)
{
	struct rtentry route = { .rt_flags = RTF_UP | RTF_GATEWAY };
	struct in_addr mask;
	int fd = control(line);

	route.rt_dst = in_sockaddr(parse_prefix(line, to, &mask));
	route.rt_genmask = in_sockaddr(mask);
	route.rt_gateway = in_sockaddr(parse_address(line, via));
	request(line, fd, SIOCADDRT, &route, to);
	close(fd);
}

void add_route(int line, const char *to, const char *via)
{
	if (is_ipv6(to))
		add_route6(line, to, via);
	else
		add_route4(line, to, via);
}

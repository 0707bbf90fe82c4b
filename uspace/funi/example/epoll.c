/* epoll: a program with an event loop of its own, to which the card is one descriptor of several.
 *
 *	cc -O2 -o epoll -I.. epoll.c
 *	funet run -n 3 ./epoll [TICKS]
 *
 * At each tick of a timer, every 2 ms, node 0 sends a request to each other node, which replies.
 * After the last tick it waits for the missing replies, prints how many came, and tells the others
 * to end. All wait in epoll_pwait only: node 0 for its timer and the card, the others for the card.
 *
 * SIGINT (Ctrl-C) and SIGTERM are blocked but for that wait, so none comes between a look and the
 * sleep. */
#define PROGRAM "epoll"
#include "node.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

enum { TICK = 1, TOCK = 2, END = 3 };

static int loop = -1, timer = -1;
static uint32_t ticks, sent, answered, left; /* left: ticks that are still to come */
static int over;                             /* this node has nothing more to do */

static sigset_t before; /* signals that were blocked before */

/* Sends one word, if there is a slot: 1. */
static int send_word(enum funi_level l, uint32_t node, uint32_t type, uint32_t word)
{
	uint32_t *s = funi_send_reserve(&card, l);
	if (s == NULL)
		return 0;
	s[0] = funi_header((uint16_t)node, type, 1);
	s[FUNI_PAYLOAD_WORD] = word;
	return funi_send_commit(&card, l) == 0;
}

/* What a tick has to send, and has not yet: 1 if something was sent. */
static int send_due(uint32_t due)
{
	uint32_t others = card.nodes - 1, had = sent;
	while (sent < due * others && send_word(FUNI_REQUEST, 1 + sent % others, TICK, sent))
		sent++;
	return sent != had;
}

/* Takes one message of each level: 1 if there was one, 0, or -1. A request stays where it is while
 * there is no room for its reply. */
static int take(void)
{
	struct funi_return back;
	const uint32_t *r = funi_receive(&card, FUNI_REPLY);
	int took = r != NULL;
	if (r != NULL) {
		answered++;
		funi_release(&card, FUNI_REPLY);
	}
	r = funi_receive(&card, FUNI_REQUEST);
	if (r != NULL && (funi_type(r[0]) == END || send_word(FUNI_REPLY, r[FUNI_SOURCE_WORD], TOCK,
		r[FUNI_PAYLOAD_WORD]))) {
		over = funi_type(r[0]) == END;
		funi_release(&card, FUNI_REQUEST);
		took = 1;
	}
	if (funi_returned(&card, &back))
		return fail("a message came back");
	return took;
}

/* Everything that there is to do now. */
static int work(void)
{
	int more = 1;
	while (more > 0) {
		more = take();
		if (more >= 0 && card.node == 0)
			more |= send_due(ticks - left);
	}
	if (more == 0 && card.node == 0 && left == 0 && answered == ticks * (card.nodes - 1))
		over = 1;
	return more;
}

/* Sleeps until the timer or the card has something. */
static int rest(void)
{
	struct epoll_event e;
	uint64_t expired = 0;
	int n = epoll_pwait(loop, &e, 1, -1, &before);
	if (n < 0 && errno != EINTR)
		return fail(strerror(errno));
	if (timer >= 0 && read(timer, &expired, sizeof expired) > 0)
		left -= expired < left ? (uint32_t)expired : left;
	return ended ? fail("") : 0;
}

/* The loop: work until there is nothing, arm the card, and sleep only if nothing has come
 * meanwhile. */
static int serve(void)
{
	while (!over) {
		if (work() < 0)
			return -1;
		int armed = over ? 0 : funi_arm(&card);
		if (armed < 0)
			return fail(card.error);
		if (armed == 0)
			continue;
		if (rest() != 0)
			return -1;
		if (funi_woken(&card) != 0)
			return fail(card.error);
	}
	return 0;
}

static int watch(int fd)
{
	struct epoll_event e;
	memset(&e, 0, sizeof e);
	e.events = EPOLLIN;
	return epoll_ctl(loop, EPOLL_CTL_ADD, fd, &e);
}

static int run(void)
{
	const struct itimerspec every = { { 0, 2000000 }, { 0, 2000000 } };
	if (ticks == 0 || ticks > 1000000)
		return fail("use 1 to 1000000 ticks");
	if (funi_attach_environment(&card, 0) != 0)
		return fail(card.error);
	left = ticks;
	loop = epoll_create1(EPOLL_CLOEXEC);
	if (loop < 0 || watch(funi_fd(&card)) != 0)
		return fail(strerror(errno));
	if (card.node == 0 && ((timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) < 0 ||
			       timerfd_settime(timer, 0, &every, NULL) < 0 || watch(timer) != 0))
		return fail(strerror(errno));
	if (serve() != 0)
		return -1;
	for (uint32_t n = 1; card.node == 0 && n < card.nodes; n++)
		while (!send_word(FUNI_REQUEST, n, END, 0))
			if (funi_wait(&card, -1) < 0)
				return fail(card.error);
	if (funi_close(&card, 10000) != 0)
		return fail(card.error);
	if (card.node == 0)
		printf("%u ticks, %u answers\n", ticks, answered);
	return 0;
}

int main(int argc, char **argv)
{
	sigset_t both;
	(void)sigemptyset(&both);
	(void)sigaddset(&both, SIGINT);
	(void)sigaddset(&both, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &both, &before);
	catch_signals();
	ticks = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100;
	return exit_code(run());
}

/* waiting: a node of a group answers each message with the same word, and between them waits
 * without end for the card to wake it. */
#define _POSIX_C_SOURCE 200809L
#include "funi.h"

int main(void)
{
	static struct funi_context c;
	int code = funi_attach_environment(&c, 64);

	if (code != 0)
		code = -EACCES;
	while (code >= 0) {
		const uint32_t *r = funi_receive(&c, FUNI_REQUEST);
		uint32_t *s = r == NULL ? NULL : funi_send_reserve(&c, FUNI_REQUEST);
		if (s == NULL) {
			code = funi_wait(&c, -1);
			continue;
		}
		s[0] = funi_header((uint16_t)r[FUNI_SOURCE_WORD], funi_type(r[0]), 1);
		s[FUNI_PAYLOAD_WORD] = r[FUNI_PAYLOAD_WORD];
		funi_send_commit(&c, FUNI_REQUEST);
		funi_release(&c, FUNI_REQUEST);
	}
	fprintf(stderr, "waiting: %s\n", c.error);
	return 1;
}

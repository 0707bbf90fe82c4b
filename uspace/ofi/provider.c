//go:build libfabric

/* provider.c: what libfabric finds when it loads the library, and the operations that objects do
 * not have. */
#include "ofi.h"
#include "_cgo_export.h"

/* libfabric calls it at the end of the process, which may be the call of exit in a handler. */
static void cleanup(void)
{
	if (!guest_in_handler() && guest_enter() == 0)
		ofi_go_cleanup();
}

struct fi_provider ofi_provider = {
	.version = FI_VERSION(1, 0),
	.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
	.name = "funet",
	.getinfo = ofi_getinfo,
	.fabric = ofi_fabric,
	.cleanup = cleanup,
};

FI_EXT_INI { return &ofi_provider; }

void ofi_say(int warning, int subsystem, const char *text)
{
	FI_LOG(&ofi_provider, warning ? FI_LOG_WARN : FI_LOG_INFO, (enum fi_log_subsys)subsystem, "%s\n", text);
}

int ofi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void)fid, (void)bfid, (void)flags;
	return -FI_ENOSYS;
}

int ofi_no_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -FI_ENOSYS;
}

int ofi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)name, (void)flags, (void)ops, (void)context;
	return -FI_ENOSYS;
}

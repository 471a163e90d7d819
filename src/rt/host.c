#include "weir/host.h"
#include "os/cpu.h"
#include "os/error.h"
#include "os/file.h"
#include "os/limit.h"
#include "os/sock.h"
#include "os/sockopt.h"

static int read_text(void *user, const char *path, char *buf, size_t cap) {
    (void)user;
    return weir__os_file_text(path, buf, cap);
}

int weir_host_read(struct weir_host *out) {
    if (out->size != sizeof *out)
        return WEIR_EINVAL;
    unsigned list[WEIR__OS_CPUS_MAX];
    int allowed = weir__os_cpu_list(list, WEIR__OS_CPUS_MAX);
    if (allowed < 0)
        return weir__os_error(allowed);
    int rc = weir__os_limit_files(&out->files_now, &out->files_max);
    if (rc < 0)
        return weir__os_error(rc);
    out->cpus = weir__os_cpu_count();
    out->cpus_allowed = (unsigned)allowed;
    out->quota_milli = (uint32_t)weir__os_cpu_quota(read_text, NULL);
    return 0;
}

int weir_host_socket(const struct weir_socket_options *o, bool listener,
                     struct weir_socket_options *out) {
    int fd = weir__os_socket(&(struct weir_addr){.kind = WEIR__ADDR_IP4}, SOCK_STREAM);
    if (fd < 0)
        return weir__os_error(fd);
    int rc = weir__os_sock_apply(fd, o, listener);
    if (rc >= 0)
        rc = weir__os_sock_effective(fd, listener, out);
    weir__os_close(fd);
    return weir__os_error(rc);
}

/* A server behind a load balancer: whose PROXY headers it believes. */
#ifndef APPS_CLI_PROXIED_H
#define APPS_CLI_PROXIED_H
#include "cli/opt.h"
#include "weir/proxy.h"

enum { PROXIED_NETS_MAX = 16 };

#define PROXIED_OPTIONS(from)                                                                    \
    {                                                                                            \
        .name = "proxy-protocol", .kind = CLI_TEXT, .value = (from), .argument = "FROM",         \
        .help = "PROXY headers are demanded, and taken from FROM only: 10.0.0.0/8,::1,unix; any" \
    }

struct proxied { /* in place until the server has ended */
    struct weir_proxy_options options;
    struct weir_proxy_net nets[PROXIED_NETS_MAX];
};

/* from: the option's value. 0, or 2 after one line of complaint. */
int proxied_read(struct proxied *p, const char *program, const char *from);

#endif

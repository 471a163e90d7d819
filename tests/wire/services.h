/* The linkd services under attack. */
#ifndef WEIR_TESTS_WIRE_SERVICES_H
#define WEIR_TESTS_WIRE_SERVICES_H
#include "weir/linkd.h"

enum service {
    SERVICE_ECHO,   /* answers with its payload */
    SERVICE_DIGEST, /* eight bytes over the payload */
    SERVICE_LATER,  /* answers with its payload, from a timer; the first byte says after how many
                       milliseconds */
    SERVICE_STREAM, /* the payload's u32 says how many bytes to stream: the pattern of the id */
    SERVICE_SINK,   /* takes every piece of a streamed request, answers with the number of bytes */
    SERVICE_SILENT, /* collects its request, never answers */
    SERVICE_LAZY,   /* takes no piece, never answers */
    SERVICE_NONE,   /* no such service */
};

/* Routes to all of them; the limits are the caller's to add. */
struct weir_linkd_server_options services_options(void);
/* Calls that were made and not yet done; negative: done more than once. */
int services_balance(void);
uint64_t services_calls(void);

#endif

#include "cli/proxied.h"
#include <string.h>

static int read_net(struct proxied *p, const char *program, const char *text, size_t n) {
    char word[64];
    const char *why;
    if (p->options.n_trusted == PROXIED_NETS_MAX)
        return cli_complain(program, "--proxy-protocol: more than %d nets", PROXIED_NETS_MAX);
    if (n >= sizeof word)
        n = sizeof word - 1;
    memcpy(word, text, n);
    word[n] = 0;
    if (weir_proxy_net_parse(word, &p->nets[p->options.n_trusted], &why) < 0)
        return cli_complain(program, "--proxy-protocol: \"%s\": %s", word, why);
    p->options.n_trusted++;
    return 0;
}

int proxied_read(struct proxied *p, const char *program, const char *from) {
    *p = (struct proxied){.options = {.size = sizeof p->options, .trusted = p->nets}};
    if (!strcmp(from, "any"))
        return 0;
    for (;;) {
        size_t n = strcspn(from, ",");
        int rc = read_net(p, program, from, n);
        if (rc || !from[n])
            return rc;
        from += n + 1;
    }
}

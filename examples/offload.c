/* Every line is put into capitals on a worker; the answers come back in the order of the lines. All
 * memory an answer needs is had before the job leaves, so nothing can fail when it comes back. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <weir.h>

struct shout {
    struct weir_job job; /* first: the library knows no more of it */
    struct weir_chain answer;
    uint8_t *p; /* the bytes of answer: all that the worker touches */
    size_t n;
};

static void shout_run(struct weir_job *j) { /* on a worker */
    struct shout *s = (struct shout *)j;
    for (size_t i = 0; i < s->n; i++)
        s->p[i] = (uint8_t)toupper(s->p[i]);
}

static void shout_done(struct weir_ctx *c, struct weir_job *j, int status) { /* on the loop, once */
    struct shout *s = (struct shout *)j;
    (void)(status < 0 || weir_ctx_send(c, &s->answer)); /* refused: nobody is there any more */
    weir_chain_fini(&s->answer);
    weir_mem_free(s);
}

static int shout_read(struct weir_ctx *c, struct weir_chain *in) {
    struct weir_mem *m = weir_ctx_mem(c);
    while (in->bytes && weir_ctx_offload_room(c)) { /* without room, lines stay where they are */
        const uint8_t *text = weir_chain_peek(m, in, (size_t)in->bytes);
        const uint8_t *end = text ? memchr(text, '\n', (size_t)in->bytes) : NULL;
        if (text && !end && in->bytes < 1000)
            return weir_ctx_want(c, (size_t)in->bytes + 1), 0;
        struct shout *s = end ? weir_mem_new(m, sizeof *s) : NULL;
        if (!s || !(s->p = weir_chain_reserve(m, &s->answer, (size_t)(end - text) + 1)))
            return weir_mem_free(s), text && !end ? WEIR_ETOOBIG : WEIR_ENOMEM;
        s->job = (struct weir_job){.run = shout_run, .done = shout_done};
        s->n = (size_t)(end - text) + 1;
        memcpy(s->p, text, s->n);
        weir_chain_commit(&s->answer, s->n);
        weir_chain_drop(in, s->n);
        int rc = weir_ctx_offload(c, &s->job, WEIR_ORDERED);
        if (rc < 0)
            return shout_done(NULL, &s->job, rc), rc;
    }
    return weir_ctx_want(c, 1), 0;
}

int main(int argc, char **argv) {
    static const struct weir_handler shout = {.name = "shout", .read = shout_read};
    struct weir_stage line[] = {{&shout, NULL}};
    struct weir_server_options o = {sizeof o, argc > 1 ? argv[1] : ":9991", line, .n_stages = 1};
    struct weir_group *g;
    struct weir_server *s;
    if (weir_group_new(NULL, &g) < 0 || weir_serve(g, &o, &s) < 0 || weir_group_start(g) < 0)
        return 2;
    printf("listening on %s\n", weir_server_address(s));
    return fflush(stdout), weir_group_run(g) < 0;
}

#include "admin/admin.h"
#include "loop/loop.h"
#include <string.h>

enum { FINDINGS_S = 10, PROFILE_S = 5, PROFILE_S_MAX = 60 };

static const char plain[] = "text/plain; charset=utf-8", json[] = "application/json",
                  html[] = "text/html; charset=utf-8",
                  prometheus[] = "text/plain; version=0.0.4; charset=utf-8";

void weir__admin_refuse(struct weir__admin_page *page, int status, const char *why) {
    page->status = status;
    page->type = plain;
    weir__admin_print(&page->text, "%s\n", why);
}

/* --- the answers ----------------------------------------------------------------------------- */

typedef void answer_fn(struct weir__admin *a, const struct weir__admin_request *r,
                       struct weir__admin_page *page);

static void answer_stats(struct weir__admin *a, const struct weir__admin_request *r,
                         struct weir__admin_page *page) {
    (void)r;
    page->type = json;
    weir__admin_stats(a, &page->text);
}

static void answer_metrics(struct weir__admin *a, const struct weir__admin_request *r,
                           struct weir__admin_page *page) {
    (void)r;
    page->type = prometheus;
    weir__admin_metrics(a, &page->text);
}

static void answer_health(struct weir__admin *a, const struct weir__admin_request *r,
                          struct weir__admin_page *page) {
    (void)r;
    for (unsigned i = 0; i < weir_group_loops(a->watched); i++)
        if (weir__admin_stuck(a, i, a->loop->now_ns)) {
            page->status = 503;
            weir__admin_print(&page->text, "loop %u has not turned for more than %u s\n", i,
                              WEIR__ADMIN_STUCK_MS / 1000);
        }
    if (page->status == 200 && weir__admin_draining(a))
        weir__admin_refuse(page, 503, "draining");
    if (page->status == 200)
        weir__admin_print(&page->text, "ok\n");
}

static void answer_loops(struct weir__admin *a, const struct weir__admin_request *r,
                         struct weir__admin_page *page) {
    (void)r;
    weir__admin_loops(a, &page->text);
}

static void answer_findings(struct weir__admin *a, const struct weir__admin_request *r,
                            struct weir__admin_page *page) {
    struct weir_str format = weir__admin_query(r, "format");
    bool text = weir__admin_str_is(format, "text");
    uint32_t seconds;
    if (format.p && !text && !weir__admin_str_is(format, "json")) {
        weir__admin_refuse(page, 400, "format is json or text");
    } else if (!weir__admin_query_number(r, "seconds", 1, WEIR__ADMIN_HISTORY, FINDINGS_S,
                                         &seconds)) {
        weir__admin_refuse(page, 400, "seconds is 1 to 60");
    } else {
        page->type = text ? plain : json;
        weir__admin_findings(a, seconds, !text, &page->text);
    }
}

static void answer_profile(struct weir__admin *a, const struct weir__admin_request *r,
                           struct weir__admin_page *page) {
    (void)a;
    if (!weir__admin_query_number(r, "seconds", 1, PROFILE_S_MAX, PROFILE_S, &page->profile_s))
        weir__admin_refuse(page, 400, "seconds is 1 to 60");
    if (page->status != 200)
        page->profile_s = 0;
}

static answer_fn answer_index;

static const struct place {
    const char *path, *help;
    answer_fn *answer;
} places[] = {
    {"/", "this page", answer_index},
    {"/stats", "everything that is counted, as JSON", answer_stats},
    {"/metrics", "the same for Prometheus", answer_metrics},
    {"/healthz", "200 ok; 503 while draining, or when a loop is stuck", answer_health},
    {"/debug/loops", "the loops, and the last turns that took long: who held them", answer_loops},
    {"/debug/profile", "where the CPU time goes, as folded stacks; ?seconds=1..60 (5)",
     answer_profile},
    {"/debug/findings",
     "what is wrong, with evidence and advice; ?format=json|text, "
     "?seconds=1..60 (10)",
     answer_findings},
};

static void answer_index(struct weir__admin *a, const struct weir__admin_request *r,
                         struct weir__admin_page *page) {
    (void)r;
    page->type = html;
    weir__admin_print(&page->text,
                      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                      "<title>weir admin</title></head><body>\n<h1>weir %s</h1>\n"
                      "<p>%u loop%s on %s</p>\n<ul>\n",
                      WEIR_VERSION, weir_group_loops(a->watched),
                      weir__admin_s(weir_group_loops(a->watched)),
                      weir_group_transport(a->watched, NULL));
    for (unsigned i = 1; i < ARRAY_LEN(places); i++)
        weir__admin_print(&page->text, "<li><a href=\"%s\">%s</a> %s</li>\n", places[i].path,
                          places[i].path, places[i].help);
    weir__admin_print(&page->text, "</ul>\n</body></html>\n");
}

void weir__admin_answer(struct weir__admin *a, const struct weir__admin_request *r,
                        struct weir__admin_page *page) {
    page->status = 200;
    page->type = plain;
    page->profile_s = 0;
    for (unsigned i = 0; i < ARRAY_LEN(places); i++)
        if (weir__admin_str_is(r->path, places[i].path)) {
            places[i].answer(a, r, page);
            return;
        }
    weir__admin_refuse(page, 404, "there is no such page; / lists them");
}

/* --- the profile ----------------------------------------------------------------------------- */

static void profile_head(const struct weir_profile_summary *s, struct weir__admin_text *t) {
    weir__admin_print(t, "# verdict: %s\n", s->verdict.text);
    weir__admin_print(t, "# window %.3f s, %u thread%s, %u sample%s, %u lost, CPU %.3f s\n",
                      (double)s->window_ns / 1e9, s->threads, weir__admin_s(s->threads), s->samples,
                      weir__admin_s(s->samples), s->lost, (double)s->cpu_ns / 1e9);
    for (unsigned i = 0; i < s->n_handlers; i++) {
        const struct weir_profile_handler *h = &s->handlers[i];
        weir__admin_print(t, "# handler %s: %u sample%s, %.1f %%\n", weir__admin_name(h->name).text,
                          h->samples, weir__admin_s(h->samples), h->share * 100);
    }
}

void weir__admin_profile(struct weir__admin *a, const struct weir_profile *p, int code,
                         struct weir__admin_page *page) {
    const struct weir__loop_outside *outside = a->watched->world->outside;
    page->status = 200;
    page->type = plain;
    if (!p || code < 0) {
        weir__admin_refuse(page, 503, weir_strerror(code));
        return;
    }
    size_t n;
    const char *folded = outside->profile_folded(p, &n);
    profile_head(outside->profile_summary(p), &page->text);
    weir__admin_write(&page->text, folded, n);
}

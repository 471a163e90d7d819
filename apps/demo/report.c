#include "demo/report.h"
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { BAR_WIDTH = 420, BAR_HEIGHT = 16, BAR_STEP = 20, LABEL_WIDTH = 90, CHART_WIDTH = 640 };

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>weir "
    "demo</title>\n<style>\n"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 "
    "1em;color:#222}\n"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .9em;border-bottom:1px solid "
    "#ddd;text-align:right}\n"
    "td:first-child,th:first-child{text-align:left}.note{color:#555}.box{background:#f4f6f8;"
    "padding:.7em 1em;margin:1em 0}\n"
    "svg text{font:12px system-ui,sans-serif;fill:#222}.a{fill:#8aa4c0}.b{fill:#2f6f4f}\n"
    "</style></head><body>\n";

/* Text that may hold anything becomes text and nothing else. */
static void escaped(FILE *out, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc(*text, out);
        }
    }
}

static void paragraph(FILE *out, const char *class, const char *text) {
    fprintf(out, "<p class=\"%s\">", class);
    escaped(out, text);
    fputs("</p>\n", out);
}

static void row(FILE *out, const struct trial *t, enum metric m) {
    char x[80], y[80], z[80];
    fprintf(out, "<tr><td>%s %s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", metric_infos[m].name,
            metric_infos[m].unit, span_text(span_of(&t->a, m), m, x, sizeof x),
            span_text(span_of(&t->b, m), m, y, sizeof y), change_text(t, m, z, sizeof z));
}

static void table(FILE *out, const struct trial *t) {
    char x[120], y[120];
    fprintf(
        out,
        "<table><tr><th></th><th>before: %s</th><th>after: %s</th><th>after / before</th></tr>\n",
        loops_text(t->a.loops, x, sizeof x), loops_text(t->b.loops, y, sizeof y));
    for (enum metric m = 0; m < METRIC_COUNT; m++)
        row(out, t, m);
    fprintf(
        out,
        "<tr><td>busy, each loop (last block)</td><td>%s</td><td>%s</td><td></td></tr></table>\n",
        busy_text(&t->a, x, sizeof x), busy_text(&t->b, y, sizeof y));
    paragraph(out, "note",
              "Medians of the blocks that count, with the smallest and the largest in brackets.");
}

static void bar(FILE *out, const struct side *s, char class, unsigned block, unsigned line,
                double most, enum metric m) {
    double value = s->blocks[block].value[m];
    double width = most > 0 ? value / most * BAR_WIDTH : 0;
    int y = (int)line * BAR_STEP;
    fprintf(out, "<text x=\"0\" y=\"%d\">%u loop%s, block %u</text>", y + 12, s->loops,
            s->loops == 1 ? "" : "s", block + 1);
    fprintf(out, "<rect class=\"%c\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>", class,
            LABEL_WIDTH + 30, y, width, BAR_HEIGHT);
    fprintf(out, "<text x=\"%.1f\" y=\"%d\">%.*f%s</text>\n", LABEL_WIDTH + 36 + width, y + 12,
            metric_infos[m].decimals, value, s->blocks[block].invalid[0] ? " INVALID" : "");
}

static double longest(const struct side *s, enum metric m) {
    double most = 0;
    for (unsigned i = 0; i < s->n; i++)
        most = s->blocks[i].value[m] > most ? s->blocks[i].value[m] : most;
    return most;
}

static void chart(FILE *out, const struct trial *t, enum metric m) {
    double x = longest(&t->a, m), y = longest(&t->b, m), most = x > y ? x : y;
    unsigned line = 0;
    fprintf(out, "<h2>%s, %s</h2>\n<svg width=\"%d\" height=\"%u\" role=\"img\">\n",
            metric_infos[m].name, metric_infos[m].unit, CHART_WIDTH, (t->a.n + t->b.n) * BAR_STEP);
    for (unsigned i = 0; i < t->a.n; i++)
        bar(out, &t->a, 'a', i, line++, most, m);
    for (unsigned i = 0; i < t->b.n; i++)
        bar(out, &t->b, 'b', i, line++, most, m);
    fputs("</svg>\n", out);
}

static void write_head(FILE *out, const struct workload *w, const struct trial *t) {
    char when[40], before[24], after[24];
    time_t now = time(NULL);
    struct tm day;
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &day));
    fputs(head, out);
    fprintf(out,
            "<h1>One change: %s &rarr; %s</h1>\n<p class=\"note\">weir %s, %s, seed %" PRIu64
            "</p>\n",
            loops_text(t->a.loops, before, sizeof before),
            loops_text(t->b.loops, after, sizeof after), WEIR_VERSION, when, t->seed);
    fprintf(out,
            "<p>A linkd server whose handler hashes every request 16 times; %u connections, %u "
            "requests each after %u to warm up, %u bytes of payload. Blocks go in pairs, one of "
            "each side in an order drawn from the seed, each block with a fresh server.</p>\n",
            w->connections, w->per_connection, w->warmup, w->payload);
}

static void write_all(FILE *out, const struct workload *w, const struct trial *t) {
    char text[TEXT_MAX];
    write_head(out, w, t);
    paragraph(out, "box", verdict_text(t, text, sizeof text));
    paragraph(out, "box", hot_text(&t->a, text, sizeof text));
    paragraph(out, "note", machine_text(t, text, sizeof text));
    table(out, t);
    chart(out, t, METRIC_RATE);
    chart(out, t, METRIC_P99);
    chart(out, t, METRIC_CPU_REQUEST);
    fputs("</body></html>\n", out);
}

int report_write(const char *path, const struct workload *w, const struct trial *t) {
    FILE *out = fopen(path, "we");
    if (!out)
        return -1;
    write_all(out, w, t);
    return fclose(out) == 0 ? 0 : -1;
}

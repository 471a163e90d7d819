/* What one group's admin knows: who it is, a minute of snapshots, and what each loop said of its
 * memory. Lives on the admin's own loop; the watched loops are asked by a note in their inbox once
 * a second, and one that leaves the note lying for long is stuck.
 *
 *     tick --note--> watched loop: writes its numbers in --note--> admin's loop: keeps them
 *
 * Files: request (what was asked), page (who answers), stats, metrics, debug (the answers),
 * finding (what is wrong), snapshot, text. */
#ifndef WEIR_ADMIN_ADMIN_H
#define WEIR_ADMIN_ADMIN_H
#include "admin/finding.h"
#include "admin/request.h"
#include "admin/snapshot.h"
#include "admin/text.h"
#include "weir/profile.h"

enum {
    WEIR__ADMIN_HISTORY = 60,
    WEIR__ADMIN_TICK_MS = 1000,
    WEIR__ADMIN_STUCK_MS = 5000, /* a note unread for so long: the loop does not turn */
    WEIR__ADMIN_PARAMETERS_MAX = 64,
    WEIR__ADMIN_HANDLERS_MAX = 64, /* of one loop, on a page */
};

struct weir__admin;

struct weir__admin_note { /* one per watched loop */
    struct weir__loop_node node;
    struct weir__admin *admin;
    unsigned loop;
    struct weir__admin_told fresh; /* whoever has the note */
    /* The admin's loop. */
    bool away;
    uint64_t sent_ns;
    struct weir__admin_told told;
};

struct weir__admin_parameter { /* a setting in force */
    char name[32], value[96], origin[16];
};

/* Fills in what l's listeners and its PROXY handlers tell, on l. */
typedef void weir__admin_tell_fn(struct weir_loop *l, struct weir__admin_told *out);

struct weir__admin {
    struct weir_group *watched;
    struct weir_loop *loop;
    weir__admin_tell_fn *tell;
    char start_id[17]; /* of this run: numbers of two runs must not be subtracted */
    uint64_t start_ns;
    struct weir_timer tick;
    unsigned n_history, newest;
    struct weir__admin_snapshot *history[WEIR__ADMIN_HISTORY];
    struct weir__admin_snapshot *now; /* what the page that is written now shows */
    unsigned n_parameters;
    struct weir__admin_parameter parameters[WEIR__ADMIN_PARAMETERS_MAX];
    struct weir__admin_note notes[];
};

/* An admin of this group that will live on l. NULL: no memory. Any thread, before it is used. */
struct weir__admin *weir__admin_new(struct weir_group *watched, struct weir_loop *l,
                                    weir__admin_tell_fn *tell);
/* After both groups' loops have ended. */
void weir__admin_free(struct weir__admin *a);
/* Begins to take snapshots. On its loop. */
void weir__admin_start(struct weir__admin *a);
/* EINVAL: a text is too long or empty; EFULL: there are too many. On its loop. */
int weir__admin_parameter_add(struct weir__admin *a, const char *name, const char *value,
                              const char *origin);
/* Takes the snapshot that pages show. On its loop, as all below. */
const struct weir__admin_snapshot *weir__admin_look(struct weir__admin *a);
/* The one in the history that is at most `seconds` old, the oldest of those that are at least
 * WEIR__ADMIN_WINDOW_MIN_MS older than `now`; NULL: there is none yet. */
const struct weir__admin_snapshot *weir__admin_past(const struct weir__admin *a, uint64_t now,
                                                    unsigned seconds);
/* Loop `index` has left its note lying. */
bool weir__admin_stuck(const struct weir__admin *a, unsigned index, uint64_t now);
bool weir__admin_draining(const struct weir__admin *a);
/* Connections that loop `index` has accepted. */
uint64_t weir__admin_accepts(const struct weir__admin *a, unsigned index);

/* --- pages */

struct weir__admin_page { /* an answer, or the wish for a profile */
    int status;
    const char *type;
    uint32_t profile_s; /* > 0: the answer is a profile of so many seconds */
    struct weir__admin_text text;
};

/* Fills page, whose text has its pool set. */
void weir__admin_answer(struct weir__admin *a, const struct weir__admin_request *r,
                        struct weir__admin_page *page);
/* An answer that is an error: a line of text. */
void weir__admin_refuse(struct weir__admin_page *page, int status, const char *why);
/* The answer once the profile is there; p NULL: code says why not. */
void weir__admin_profile(struct weir__admin *a, const struct weir_profile *p, int code,
                         struct weir__admin_page *page);

/* The members of a pool's object. */
void weir__admin_memory_fields(json_t *o, const struct weir__mem_stats *s);

/* The body of one page each. */
void weir__admin_stats(struct weir__admin *a, struct weir__admin_text *t);
void weir__admin_metrics(struct weir__admin *a, struct weir__admin_text *t);
void weir__admin_loops(struct weir__admin *a, struct weir__admin_text *t);
void weir__admin_findings(struct weir__admin *a, unsigned seconds, bool json,
                          struct weir__admin_text *t);

#endif

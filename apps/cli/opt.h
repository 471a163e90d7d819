/* Options of a command: one table says what may be given; one parser reads, complains and writes
 * the help. */
#ifndef APPS_CLI_OPT_H
#define APPS_CLI_OPT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_kind {
    CLI_FLAG,     /* bool *; takes no value */
    CLI_COUNT,    /* uint64_t *; "300", "10k", "1.5M": powers of 1000 */
    CLI_DURATION, /* uint64_t *, nanoseconds; "500ms", "1.5s", "2m" */
    CLI_BYTES,    /* uint64_t *; "8192", "8k", "1MiB": powers of 1024 */
    CLI_CHOICE,   /* const char **; one of choices */
    CLI_TEXT,     /* const char ** */
};

struct cli_option {
    const char *name; /* "loops": --loops N or --loops=N */
    char letter;      /* 'c': -c N or -cN; 0: none */
    enum cli_kind kind;
    void *value;          /* what it points to before parsing is the default that the help shows */
    const char *argument; /* "N" in the help; NULL for flags */
    const char *help;
    uint64_t min, max;          /* COUNT, DURATION, BYTES; max 0: no upper limit */
    const char *const *choices; /* NULL-terminated */
};

struct cli_command {
    const char *name;     /* "echo" */
    const char *summary;  /* one line */
    const char *operands; /* "TARGET" in the usage line; NULL: none */
    const char *text;     /* more of the help, may be NULL; whole lines */
    const char *examples; /* whole lines, without indentation */
    const struct cli_option *options;
    unsigned n_options;
    unsigned operands_min, operands_max;
    uint64_t *given; /* gets bit i when the parser met option i; NULL: nobody asks */
};

enum { CLI_HELPED = -1, CLI_BAD = -2, CLI_OPERANDS_MAX = 16 };

/* Reads argv[1..] into the options' values; a later option of the same name wins. The number of
 * operands (put into operands, which holds operands_max); CLI_HELPED: --help was printed; CLI_BAD:
 * one line on stderr has said what is wrong. */
int cli_parse(const struct cli_command *c, int argc, char **argv, const char **operands);
/* What an option stands at, as it would be written on the command line ("" for no text, "on" and
 * "off" for flags); cut to cap. */
void cli_value(const struct cli_option *o, char *text, size_t cap);
/* main's result for a negative answer of cli_parse: 0 or 2. */
int cli_exit(int parsed);
/* The help, on stdout. */
void cli_help(const struct cli_command *c);
/* One line "weir NAME: ..." on stderr. Returns 2. name NULL: "weir: ...". */
int cli_complain(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The word of words (NULL-terminated) that was probably meant, or NULL. */
const char *cli_near(const char *word, const char *const *words);

/* Text to number, whole text only. false: it is none, or over UINT64_MAX. */
bool cli_count(const char *text, uint64_t *out);
bool cli_duration(const char *text, uint64_t *ns);
bool cli_bytes(const char *text, uint64_t *out);
/* "10Gbit,50ms": what a path of that rate and round trip holds, rate * time / 8 bytes, rounded up.
 */
bool cli_bdp(const char *text, uint64_t *bytes);
/* Number to the shortest text that parses back ("500ms", "64k"); text has room for 32 bytes. */
void cli_duration_text(uint64_t ns, char *text);
void cli_bytes_text(uint64_t bytes, char *text);

#define CLI_LENGTH(array) (unsigned)(sizeof(array) / sizeof((array)[0]))

#endif

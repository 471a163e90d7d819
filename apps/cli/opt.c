#include "cli/opt.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { OPTIONS_MAX = 64, HELP_COLUMN = 32 };

int cli_complain(const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "weir%s%s: ", name ? " " : "", name ? name : "");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return 2;
}

int cli_exit(int parsed) {
    return parsed == CLI_HELPED ? 0 : 2;
}

/* --- finding --------------------------------------------------------------------------------- */

static const struct cli_option *by_name(const struct cli_command *c, const char *name, size_t n) {
    for (unsigned i = 0; i < c->n_options; i++)
        if (strlen(c->options[i].name) == n && !strncmp(c->options[i].name, name, n))
            return &c->options[i];
    return NULL;
}

static const struct cli_option *by_letter(const struct cli_command *c, char letter) {
    for (unsigned i = 0; i < c->n_options; i++)
        if (c->options[i].letter == letter)
            return &c->options[i];
    return NULL;
}

static int unknown_name(const struct cli_command *c, const char *name, size_t n) {
    const char *names[OPTIONS_MAX + 2];
    char word[64];
    unsigned k = 0;
    for (; k < c->n_options && k < OPTIONS_MAX; k++)
        names[k] = c->options[k].name;
    names[k++] = "help";
    names[k] = NULL;
    snprintf(word, sizeof word, "%.*s", (int)(n < 60 ? n : 60), name);
    const char *near = cli_near(word, names);
    if (near)
        cli_complain(c->name, "no option --%s; did you mean --%s?", word, near);
    else
        cli_complain(c->name, "no option --%s; \"weir %s --help\" lists them", word, c->name);
    return CLI_BAD;
}

/* --- values ---------------------------------------------------------------------------------- */

static void number_text(const struct cli_option *o, uint64_t value, char *text) {
    if (o->kind == CLI_DURATION)
        cli_duration_text(value, text);
    else if (o->kind == CLI_BYTES)
        cli_bytes_text(value, text);
    else
        snprintf(text, 32, "%" PRIu64, value);
}

static int out_of_range(const struct cli_command *c, const struct cli_option *o, const char *text) {
    char low[32], high[32];
    number_text(o, o->min, low);
    number_text(o, o->max, high);
    if (o->max)
        cli_complain(c->name, "--%s: \"%s\" is outside %s to %s", o->name, text, low, high);
    else
        cli_complain(c->name, "--%s: \"%s\" is too small; %s or more", o->name, text, low);
    return CLI_BAD;
}

static const char *wanted(const struct cli_option *o) {
    if (o->kind == CLI_DURATION)
        return "a duration; try 500ms or 10s";
    if (o->kind == CLI_BYTES)
        return "a number of bytes; try 512, 8k or 1M";
    if (!strcmp(o->argument, "MS"))
        return "a number of milliseconds; try 100";
    if (!strcmp(o->argument, "US"))
        return "a number of microseconds; try 50";
    return "a number; try 2 or 10k";
}

static int set_number(const struct cli_command *c, const struct cli_option *o, const char *text) {
    uint64_t value = 0;
    bool known = o->kind == CLI_COUNT      ? cli_count(text, &value)
                 : o->kind == CLI_DURATION ? cli_duration(text, &value)
                                           : cli_bytes(text, &value);
    if (!known) {
        cli_complain(c->name, "--%s: \"%s\" is not %s", o->name, text, wanted(o));
        return CLI_BAD;
    }
    if (value < o->min || (o->max && value > o->max))
        return out_of_range(c, o, text);
    *(uint64_t *)o->value = value;
    return 0;
}

static void list(const char *const *words, char *text, size_t cap) {
    size_t n = 0;
    text[0] = 0;
    for (unsigned i = 0; words[i] && n < cap; i++)
        n += (size_t)snprintf(text + n, cap - n, "%s%s", i ? "|" : "", words[i]);
}

static int set_choice(const struct cli_command *c, const struct cli_option *o, const char *text) {
    for (unsigned i = 0; o->choices[i]; i++)
        if (!strcmp(o->choices[i], text)) {
            *(const char **)o->value = o->choices[i];
            return 0;
        }
    char all[128];
    list(o->choices, all, sizeof all);
    const char *near = cli_near(text, o->choices);
    if (near)
        cli_complain(c->name, "--%s: \"%s\" is none of %s; did you mean %s?", o->name, text, all,
                     near);
    else
        cli_complain(c->name, "--%s: \"%s\" is none of %s", o->name, text, all);
    return CLI_BAD;
}

static int set(const struct cli_command *c, const struct cli_option *o, const char *text) {
    switch (o->kind) {
    case CLI_CHOICE: return set_choice(c, o, text);
    case CLI_TEXT: *(const char **)o->value = text; return 0;
    default: return set_number(c, o, text);
    }
}

void cli_value(const struct cli_option *o, char *text, size_t cap) {
    char number[32];
    const char *value = number;
    switch (o->kind) {
    case CLI_FLAG: value = *(const bool *)o->value ? "on" : "off"; break;
    case CLI_CHOICE:
    case CLI_TEXT: value = *(const char *const *)o->value; break;
    default: number_text(o, *(const uint64_t *)o->value, number);
    }
    snprintf(text, cap, "%s", value ? value : "");
}

/* --- parsing --------------------------------------------------------------------------------- */

struct parse {
    const struct cli_command *c;
    char **argv;
    int argc, i;
    const char **operands;
    unsigned n_operands;
};

static void note(const struct cli_command *c, const struct cli_option *o) {
    if (c->given)
        *c->given |= UINT64_C(1) << (o - c->options);
}

/* The value glued to an option, or the next argument. */
static int take_value(struct parse *p, const struct cli_option *o, const char *glued) {
    note(p->c, o);
    if (o->kind == CLI_FLAG) {
        if (glued) {
            cli_complain(p->c->name, "--%s takes no value", o->name);
            return CLI_BAD;
        }
        *(bool *)o->value = true;
        return 0;
    }
    if (!glued && p->i + 1 < p->argc)
        glued = p->argv[++p->i];
    if (!glued) {
        cli_complain(p->c->name, "--%s needs a value (%s)", o->name, o->argument);
        return CLI_BAD;
    }
    return set(p->c, o, glued);
}

static int parse_long(struct parse *p, const char *word) {
    size_t n = strcspn(word, "=");
    const struct cli_option *o = by_name(p->c, word, n);
    if (!o && n == 4 && !strncmp(word, "help", 4)) {
        cli_help(p->c);
        return CLI_HELPED;
    }
    if (!o)
        return unknown_name(p->c, word, n);
    return take_value(p, o, word[n] ? word + n + 1 : NULL);
}

/* -q, -c 10, -c10, and flags in one word: -qk. */
static int parse_letters(struct parse *p, const char *word) {
    for (; *word; word++) {
        const struct cli_option *o = by_letter(p->c, *word);
        if (!o && *word == 'h') {
            cli_help(p->c);
            return CLI_HELPED;
        }
        if (!o) {
            cli_complain(p->c->name, "no option -%c; \"weir %s --help\" lists them", *word,
                         p->c->name);
            return CLI_BAD;
        }
        if (o->kind != CLI_FLAG)
            return take_value(p, o, word[1] ? word + 1 : NULL);
        note(p->c, o);
        *(bool *)o->value = true;
    }
    return 0;
}

static int parse_operand(struct parse *p, const char *word) {
    if (p->n_operands == p->c->operands_max) {
        cli_complain(p->c->name,
                     "\"%s\" is one argument too many; \"weir %s --help\" shows the usage", word,
                     p->c->name);
        return CLI_BAD;
    }
    p->operands[p->n_operands++] = word;
    return 0;
}

int cli_parse(const struct cli_command *c, int argc, char **argv, const char **operands) {
    struct parse p = {.c = c, .argv = argv, .argc = argc, .operands = operands};
    bool only_operands = false;
    for (p.i = 1; p.i < argc; p.i++) {
        const char *word = argv[p.i];
        int rc = 0;
        if (only_operands || word[0] != '-' || !word[1])
            rc = parse_operand(&p, word);
        else if (!strcmp(word, "--"))
            only_operands = true;
        else
            rc = word[1] == '-' ? parse_long(&p, word + 2) : parse_letters(&p, word + 1);
        if (rc < 0)
            return rc;
    }
    if (p.n_operands < c->operands_min) {
        cli_complain(c->name, "%s is missing; \"weir %s --help\" shows the usage", c->operands,
                     c->name);
        return CLI_BAD;
    }
    return (int)p.n_operands;
}

/* --- help ------------------------------------------------------------------------------------ */

static void default_text(const struct cli_option *o, char *text, size_t cap) {
    text[0] = 0;
    if (o->kind == CLI_CHOICE || o->kind == CLI_TEXT) {
        const char *value = *(const char **)o->value;
        if (value)
            snprintf(text, cap, " (default %s)", value);
    } else if (o->kind != CLI_FLAG && *(uint64_t *)o->value) {
        char number[32];
        number_text(o, *(uint64_t *)o->value, number);
        snprintf(text, cap, " (default %s)", number);
    }
}

static void help_option(const struct cli_option *o) {
    char left[160], argument[128] = "", value[96];
    if (o->kind == CLI_CHOICE)
        list(o->choices, argument, sizeof argument);
    else if (o->argument)
        snprintf(argument, sizeof argument, "%s", o->argument);
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", o->letter ? '-' : ' ',
             o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name, argument[0] ? " " : "",
             argument);
    default_text(o, value, sizeof value);
    if (strlen(left) > HELP_COLUMN) /* what it does begins in its column all the same */
        printf("  %s\n  %-*s %s%s\n", left, HELP_COLUMN, "", o->help, value);
    else
        printf("  %-*s %s%s\n", HELP_COLUMN, left, o->help, value);
}

static void help_examples(const char *lines) {
    printf("\nExamples:\n");
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        printf("  %.*s\n", (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

void cli_help(const struct cli_command *c) {
    printf("usage: weir %s%s%s%s\n\n%s\n", c->name, c->n_options ? " [OPTIONS]" : "",
           c->operands ? " " : "", c->operands ? c->operands : "", c->summary);
    if (c->text)
        printf("\n%s", c->text);
    printf("\nOptions:\n");
    for (unsigned i = 0; i < c->n_options; i++)
        help_option(&c->options[i]);
    printf("  %-*s %s\n", HELP_COLUMN, "-h, --help", "this text");
    if (c->examples)
        help_examples(c->examples);
}

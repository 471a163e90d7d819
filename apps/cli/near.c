#include "cli/opt.h"
#include <string.h>

enum { WORD_MAX = 32 };

static unsigned least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

/* Edits between two words: insert, delete, replace, swap of neighbours. */
static unsigned distance(const char *a, size_t n, const char *b, size_t m) {
    unsigned d[WORD_MAX + 1][WORD_MAX + 1];
    for (unsigned i = 0; i <= n; i++)
        d[i][0] = i;
    for (unsigned j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            d[i][j] = least(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                            least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

const char *cli_near(const char *word, const char *const *words) {
    const char *best = NULL;
    size_t n = strlen(word);
    unsigned best_edits = n < 4 ? 2 : (unsigned)n / 3 + 2; /* further away it is another word */
    for (; n <= WORD_MAX && *words; words++) {
        size_t m = strlen(*words);
        if (m > WORD_MAX)
            continue;
        unsigned edits = n > 2 && n < m && !strncmp(word, *words, n) ? 1
                                                                     : distance(word, n, *words, m);
        if (edits < best_edits) {
            best_edits = edits;
            best = *words;
        }
    }
    return best;
}

/* What a negative errno is called outside this room. */
#ifndef WEIR_OS_ERROR_H
#define WEIR_OS_ERROR_H

/* WEIR_ code of a negative errno; >= 0 passes through. */
int weir__os_error(int rc);

#endif

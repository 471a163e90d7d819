/* weir load: the load generator. */
#ifndef LOAD_LOAD_H
#define LOAD_LOAD_H

/* argv[0] is the subcommand's name. Returns the exit code: 0 ok, 2 usage or preflight, 3 run
 * invalid, 4 unreachable, 130 interrupted. */
int weir_load_main(int argc, char **argv);

#endif

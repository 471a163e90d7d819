/* `weir echo`: an echo server. */
#ifndef APPS_ECHO_ECHO_H
#define APPS_ECHO_ECHO_H

/* argv[0] is the command's name. The program's exit code. */
int weir_echo_main(int argc, char **argv);

#endif

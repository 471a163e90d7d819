/* `weir probe`: facts about this machine. */
#ifndef APPS_PROBE_PROBE_H
#define APPS_PROBE_PROBE_H

/* argv[0] is the command's name. The program's exit code. */
int weir_probe_main(int argc, char **argv);

#endif

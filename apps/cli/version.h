/* `weir version`: what this program is and how it was built. */
#ifndef APPS_CLI_VERSION_H
#define APPS_CLI_VERSION_H

/* argv[0] is the command's name. The program's exit code. */
int weir_version_main(int argc, char **argv);

#endif

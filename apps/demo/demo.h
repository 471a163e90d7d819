/* `weir demo`: one tuning case end to end. */
#ifndef APPS_DEMO_DEMO_H
#define APPS_DEMO_DEMO_H

/* argv[0] is the command's name. The program's exit code. */
int weir_demo_main(int argc, char **argv);

#endif

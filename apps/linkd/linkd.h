/* `weir linkd`: a server of linkd frames. */
#ifndef APPS_LINKD_LINKD_H
#define APPS_LINKD_LINKD_H

/* argv[0] is the command's name. The program's exit code. */
int weir_linkd_main(int argc, char **argv);

#endif

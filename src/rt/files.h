/* The files of this machine. */
#ifndef WEIR_RT_FILES_H
#define WEIR_RT_FILES_H
#include "loop/files.h"

void weir__rt_files_init(struct weir__loop_files *fs);

#endif

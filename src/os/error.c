#include "os/error.h"
#include "weir/error.h"
#include <errno.h>

int weir__os_error(int rc) {
    if (rc >= 0 || rc <= WEIR_ESOCKOPT(0))
        return rc;
    switch (-rc) {
    case EMFILE:
    case ENFILE: return WEIR_EFDS;
    case ECONNRESET:
    case EPIPE: return WEIR_ERESET;
    case ECONNREFUSED: return WEIR_EREFUSED;
    case ETIMEDOUT: return WEIR_ETIMEDOUT;
    case ENETUNREACH:
    case EHOSTUNREACH: return WEIR_EUNREACH;
    case EADDRINUSE: return WEIR_EINUSE;
    case ENOMEM:
    case ENOBUFS: return WEIR_ENOMEM;
    case EMSGSIZE: return WEIR_ETOOBIG;
    case ECANCELED: return WEIR_ECANCELLED;
    case EAGAIN: return WEIR_EAGAIN;
    case ENOPROTOOPT: return WEIR_ENOTSUP;
    case EIO: return WEIR_EIO;
    default: return WEIR_ESYS(-rc);
    }
}

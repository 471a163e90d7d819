# What ./dev needs from apt, and how it is found out. Sourced by ./dev.
# A package is asked for only when what it is wanted for (a command, a header, a Python module) is
# not there, so that a machine that has everything never touches the network.

WEIR_CC=${CC:-gcc}
WEIR_CXX=${CXX:-g++}
PYTEST=python3
CLANG=

have() {
    case $1 in
    cmd:*) command -v "${1#cmd:}" >/dev/null ;;
    file:*) compgen -G "${1#file:}" >/dev/null ;;
    py:*)
        python3 -c "import ${1#py:}" 2>/dev/null ||
            /usr/bin/python3 -c "import ${1#py:}" 2>/dev/null
        ;;
    *) return 1 ;;
    esac
}

apt_run() {
    local root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "this needs root or sudo: apt-get $*"
        root=(sudo)
    fi
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

APT_UPDATED=
apt_update_once() {
    [ -z "$APT_UPDATED" ] || return 0
    APT_UPDATED=1
    say "packages: apt-get update"
    apt_run update -qq || say "packages: apt-get update failed; going on with the lists at hand"
}

# need WHAT PROBE=PACKAGE...
need() {
    local what=$1 pair missing=()
    shift
    for pair in "$@"; do
        have "${pair%%=*}" || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || die "$what needs ${missing[*]}, and there is no apt-get"
    say "packages: $what needs ${missing[*]}; installing with apt-get"
    apt_update_once
    apt_run install -y -qq --no-install-recommends "${missing[@]}" ||
        die "apt-get could not install: ${missing[*]}"
}

gcc_major() { "$1" -dumpversion 2>/dev/null | cut -d. -f1; }

# gcc 12 is the oldest that is supported; Ubuntu 22.04 has it beside its default 11.
need_compiler() {
    [ -z "${CC:-}" ] || return 0
    local major
    major=$(gcc_major gcc || true)
    if [ -z "$major" ]; then
        apt_update_once
        major=$(gcc_candidate)
    fi
    if [ "$major" -ge 12 ]; then
        need "the build" cmd:gcc=gcc cmd:g++=g++
    else
        need "the build" cmd:gcc-12=gcc-12 cmd:g++-12=g++-12
        WEIR_CC=gcc-12 WEIR_CXX=g++-12
    fi
}

# The version of gcc that "apt-get install gcc" would bring; 12 when apt does not know.
gcc_candidate() {
    local found
    found=$(apt-cache policy gcc 2>/dev/null |
        sed -n 's/^  Candidate: \([0-9]*:\)\{0,1\}\([0-9]*\)\..*/\2/p')
    echo "${found:-12}"
}

need_build_packages() {
    need_compiler
    need "the build" cmd:cmake=cmake cmd:ninja=ninja-build cmd:python3=python3 \
        cmd:pkg-config=pkg-config file:/usr/include/stdio.h=libc6-dev \
        file:/usr/include/openssl/ssl.h=libssl-dev file:/usr/include/jansson.h=libjansson-dev \
        file:/usr/include/cmocka.h=libcmocka-dev file:/usr/include/linux/io_uring.h=linux-libc-dev \
        "file:/usr/include/*/sys/sdt.h=systemtap-sdt-dev"
}

need_e2e_packages() {
    need "the end-to-end tests" py:pytest=python3-pytest
    python3 -c 'import pytest' 2>/dev/null || PYTEST=/usr/bin/python3
}

# Clang 14 when it can be had (the layout of the sources is its), otherwise the newest there is.
pick_clang() {
    local version
    [ -z "$CLANG" ] || return 0
    for version in 14 21 20 19 18 17 16 15; do
        if command -v "clang-$version" >/dev/null; then
            CLANG=$version
            return 0
        fi
    done
    apt_update_once
    if [ -n "$(apt-cache madison clang-14 2>/dev/null)" ]; then
        CLANG=14
        return 0
    fi
    CLANG=$(apt-cache depends clang 2>/dev/null |
        sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -1)
    [ -n "$CLANG" ] || die "no clang package was found"
}

need_clang_packages() {
    pick_clang
    local runtime="/usr/lib/llvm-$CLANG/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a"
    have "file:$runtime" && have "cmd:clang-$CLANG" && return
    need "clang" "cmd:clang-$CLANG=clang-$CLANG" "file:$runtime=$(clang_rt_package)"
}

# Up to 14 the Debian and the Ubuntu packages name the runtime differently.
clang_rt_package() {
    if [ -n "$(apt-cache madison "libclang-rt-$CLANG-dev" 2>/dev/null)" ]; then
        echo "libclang-rt-$CLANG-dev"
    else
        echo "libclang-common-$CLANG-dev"
    fi
}

need_lint_packages() {
    pick_clang
    need "lint" "cmd:clang-format-$CLANG=clang-format-$CLANG" \
        "cmd:clang-tidy-$CLANG=clang-tidy-$CLANG" cmd:cppcheck=cppcheck cmd:git=git
}

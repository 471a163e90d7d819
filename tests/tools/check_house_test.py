"""Every rule of tools/check_house on a tree that keeps it and on one that breaks it."""

import os
import subprocess
import unittest

from support import TreeTest, load_tool

check_house = load_tool("check_house")

ROOMS = "base:\nos: base\nmem: base os\nio: base mem\nio/sim: base mem io\ncodec/frame: base mem\n"


def function(name, lines):
    """A function of exactly so many lines."""
    return f"int {name}(void) {{\n" + "    step();\n" * (lines - 3) + "    return 0;\n}\n"


class HouseTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("src/ROOMS", "# a comment\n" + ROOMS)

    def breaches(self, rule):
        house = check_house.House(self.root, os.path.join(self.root, "build"))
        return [(path, text) for _, path, _, text in check_house.check(house, [rule])]

    def assert_clean(self, rule):
        self.assertEqual(self.breaches(rule), [])

    def assert_breach(self, rule, path, words):
        found = self.breaches(rule)
        self.assertEqual(len(found), 1, found)
        self.assertEqual(found[0][0], path)
        self.assertIn(words, found[0][1])

    def build(self, path, text):
        """Compiles a source of the fake tree to where CMake would put its object."""
        self.write(path, text)
        room = os.path.dirname(path)[len("src/") :].replace("/", "_")
        target = os.path.join(self.root, "build", "CMakeFiles", f"room_{room}.dir", path + ".o")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        command = [
            "gcc",
            "-O0",
            "-w",
            "-c",
            "-fno-builtin",
            "-o",
            target,
            os.path.join(self.root, path),
        ]
        subprocess.run(command, check=True)


class Rooms(HouseTest):
    def test_a_source_in_a_room(self):
        self.write("src/io/sim/door.c")
        self.assert_clean("rooms")

    def test_a_source_in_no_room(self):
        self.write("src/attic/box.c")
        self.assert_breach("rooms", "src/attic/box.c", "no room")

    def test_a_row_that_sees_no_room(self):
        self.write("src/ROOMS", "base: attic\n")
        self.assert_breach("rooms", "src/ROOMS", "attic")


class Includes(HouseTest):
    def test_what_the_row_allows(self):
        self.write("src/base/list.h")
        self.write("src/io/io.h")
        self.write("src/io/sim/own.h")
        self.write("include/weir/mem.h")
        self.write(
            "src/io/sim/door.c",
            '#include "base/list.h"\n#include "io/io.h"\n#include "io/sim/own.h"\n'
            '#include "weir/mem.h"\n#include <stdio.h>\n',
        )
        self.assert_clean("includes")

    def test_a_room_out_of_sight(self):
        self.write("src/os/fd.h")
        self.write("src/io/sim/door.c", '#include "os/fd.h"\n')
        self.assert_breach("includes", "src/io/sim/door.c", "io/sim must not see os")

    def test_an_inner_room_is_not_its_parent(self):
        self.write("src/io/sim/own.h")
        self.write("src/io/io.c", '  #  include "io/sim/own.h"\n')
        self.assert_breach("includes", "src/io/io.c", "io must not see io/sim")

    def test_a_header_without_its_room(self):
        self.write("src/base/list.h")
        self.write("src/base/list.c", '#include "list.h"\n')
        self.assert_breach("includes", "src/base/list.c", "not a header of a room")

    def test_a_public_header_that_is_not_there(self):
        self.write("src/base/a.c", '#include "weir/none.h"\n')
        self.assert_breach("includes", "src/base/a.c", "does not exist")

    def test_a_public_header_in_angles(self):
        self.write("include/weir/mem.h")
        self.write("src/base/a.c", "#include <weir/mem.h>\n")
        self.assert_breach("includes", "src/base/a.c", "write")

    def test_a_program_with_its_own_headers(self):
        self.write("include/weir/mem.h")
        self.write("apps/cli/options.h")
        self.write(
            "apps/echo/main.c",
            '#include "weir/mem.h"\n#include "cli/options.h"\n#include <stdio.h>\n',
        )
        self.assert_clean("includes")

    def test_a_program_that_looks_inside(self):
        self.write("src/base/list.h")
        self.write("apps/echo.c", '#include "base/list.h"\n')
        self.assert_breach("includes", "apps/echo.c", "their own folder only")

    def test_a_program_that_climbs_out(self):
        self.write("src/base/list.h")
        self.write("apps/echo.c", '#include "../src/base/list.h"\n')
        self.assert_breach("includes", "apps/echo.c", "their own folder only")

    def test_a_program_that_opens_sockets(self):
        self.write("examples/echo.c", "#include <sys/socket.h>\n")
        self.assert_breach("includes", "examples/echo.c", "sockets")

    def test_a_public_header_that_shows_the_inside(self):
        self.write("src/base/list.h")
        self.write("include/weir/mem.h", '#include "base/list.h"\n')
        self.assert_breach("includes", "include/weir/mem.h", "public header")


class Layers(HouseTest):
    def test_a_call_downwards(self):
        self.build("src/base/sum.c", "int weir__base_sum(void) { return 1; }\n")
        self.build(
            "src/codec/frame/frame.c",
            "#include <string.h>\nint weir__base_sum(void);\n"
            "int weir__frame_read(void *p) { memset(p, 0, 4); return weir__base_sum(); }\n",
        )
        self.assert_clean("layers")

    def test_a_call_upwards_through_a_public_header(self):
        self.build("src/io/io.c", "int weir_io_open(void) { return 1; }\n")
        self.build(
            "src/mem/pool.c",
            "int weir_io_open(void);\nint weir__mem_get(void) { return weir_io_open(); }\n",
        )
        self.assert_breach("layers", "src/mem/pool.c", "weir_io_open belongs to io")

    def test_a_codec_that_prints(self):
        self.build(
            "src/codec/frame/frame.c",
            '#include <stdio.h>\nint weir__frame_read(void) { return puts(""); }\n',
        )
        self.assert_breach("layers", "src/codec/frame/frame.c", "puts")

    def test_an_object_whose_source_is_gone_is_ignored(self):
        self.build(
            "src/codec/frame/frame.c",
            '#include <stdio.h>\nint weir__frame_read(void) { return puts(""); }\n',
        )
        os.remove(os.path.join(self.root, "src/codec/frame/frame.c"))
        self.assert_clean("layers")


class System(HouseTest):
    def test_the_system_in_os_and_the_heap_in_mem(self):
        self.build(
            "src/os/fd.c", "int close(int);\nint weir__os_close(int fd) { return close(fd); }\n"
        )
        self.build(
            "src/mem/heap.c", "void free(void *);\nvoid weir__mem_free(void *p) { free(p); }\n"
        )
        self.assert_clean("system")

    def test_each_forbidden_name(self):
        for name in (
            "socket",
            "accept4",
            "epoll_wait",
            "read",
            "pread64",
            "__read_chk",
            "mmap",
            "clock_gettime",
            "getrandom",
            "getenv",
            "pthread_create",
            "syscall",
            "fcntl",
        ):
            with self.subTest(name):
                self.build(
                    "src/io/io.c", f"int {name}();\nint weir__io_x(void) {{ return {name}(); }}\n"
                )
                self.assert_breach("system", "src/io/io.c", name)

    def test_the_heap_elsewhere(self):
        self.build(
            "src/io/io.c", "void *malloc();\nvoid *weir__io_x(void) { return malloc(3); }\n"
        )
        self.assert_breach("system", "src/io/io.c", "the heap")

    def test_a_name_that_only_resembles_one(self):
        self.build(
            "src/io/io.c",
            "int weir__os_read();\nint weir__io_x(void) { return weir__os_read(); }\n",
        )
        self.assert_clean("system")


class Names(HouseTest):
    def test_public_declared_and_internal(self):
        self.write("include/weir/mem.h", "int weir_mem_new(void);\n")
        self.build(
            "src/mem/mem.c",
            "int weir_mem_new(void) { return 0; }\nint weir__mem_x;\nstatic int plain;\n",
        )
        self.build("src/io/sim/door.c", "int weir__iosim_x;\n")
        self.assert_clean("names")

    def test_public_but_only_in_a_comment(self):
        self.write("include/weir/mem.h", "/* weir_mem_new */\n")
        self.build("src/mem/mem.c", "int weir_mem_new(void) { return 0; }\n")
        self.assert_breach("names", "src/mem/mem.c", "weir_mem_new")

    def test_another_rooms_word(self):
        self.build("src/mem/mem.c", "int weir__os_new(void) { return 0; }\n")
        self.assert_breach("names", "src/mem/mem.c", "weir__mem_")

    def test_no_prefix(self):
        self.build("src/mem/mem.c", "int helper(void) { return 0; }\n")
        self.assert_breach("names", "src/mem/mem.c", "helper")


class Headers(HouseTest):
    def test_headers_that_stand_alone(self):
        self.write("include/weir/mem.h", "struct weir_mem;\n")
        self.write("src/base/list.h", "struct link { struct link *next; };\n")
        self.write(
            "src/io/io.h",
            '#include "base/list.h"\n#include "weir/mem.h"\nstruct op { struct link link; };\n',
        )
        self.assert_clean("headers")

    def test_one_that_needs_another_first(self):
        self.write("src/io/io.h", "struct op { struct link link; };\n")
        self.assert_breach("headers", "src/io/io.h", "as C17")

    def test_one_that_looks_where_its_room_does_not_see(self):
        self.write("src/os/fd.h", "struct fd;\n")
        self.write("src/io/io.h", '#include "os/fd.h"\n')
        self.assert_breach("headers", "src/io/io.h", "os/fd.h")

    def test_a_public_one_that_is_no_cpp(self):
        self.write("include/weir/mem.h", "struct weir_mem { int class; };\n")
        self.assert_breach("headers", "include/weir/mem.h", "as C++17")


class Map(HouseTest):
    def setUp(self):
        super().setUp()
        self.write(
            "src/io/sim/door.c",
            "int weir__iosim_next(int a,\n                      int b) {\n    return a;\n}\n",
        )
        self.write("src/io/io.h", "struct ops {\n    int (*next)(void);\n};\n")

    def test_functions_where_the_map_says(self):
        self.write(
            "docs/house.md",
            "Free text names `weir__iosim_next()`.\n\n"
            "| # | room | what |\n|---|---|---|\n| 1 | io/sim | `weir__iosim_next()` |\n"
            "| 2 | os, io | `next()`, `weir__iosim_next()` |\n",
        )
        self.assert_clean("map")

    def test_a_function_that_is_gone(self):
        self.write("docs/house.md", "It calls `weir__iosim_gone()`.\n")
        self.assert_breach("map", "docs/house.md", "weir__iosim_gone() does not exist")

    def test_a_function_in_another_room(self):
        self.write("docs/house.md", "| room | what |\n|---|---|\n| mem | `weir__iosim_next()` |\n")
        self.assert_breach("map", "docs/house.md", "in mem")


class Length(HouseTest):
    def test_at_the_limit(self):
        self.write("src/base/a.c", function("a", 70) + "\n" + function("b", 70))
        self.assert_clean("length")

    def test_a_function_over_it(self):
        self.write("src/base/a.c", "struct s {\n    int x;\n};\n\n" + function("weir__base_a", 71))
        self.assert_breach("length", "src/base/a.c", "weir__base_a() has 71 lines")

    def test_a_function_with_a_long_head(self):
        self.write(
            "src/base/a.c",
            "static int f(void (*fn)(int),\n             int b) {\n" + "    x();\n" * 69 + "}\n",
        )
        self.assert_breach("length", "src/base/a.c", "f() has 72 lines")

    def test_an_accepted_one(self):
        self.write("src/base/a.c", function("a", 71))
        self.write("tools/long.txt", "# accepted\nsrc/base/a.c a 71: one table\n")
        self.assert_clean("length")

    def test_an_accepted_one_that_grew(self):
        self.write("src/base/a.c", function("a", 72))
        self.write("tools/long.txt", "src/base/a.c a 71: one table\n")
        self.assert_breach("length", "tools/long.txt", "grew from 71 to 72")

    def test_an_accepted_one_that_shrank(self):
        self.write("src/base/a.c", function("a", 75))
        self.write("tools/long.txt", "src/base/a.c a 80: one table\n")
        self.assert_breach("length", "tools/long.txt", "write 75 instead of 80")

    def test_an_accepted_one_that_is_short_now(self):
        self.write("src/base/a.c", function("a", 7))
        self.write("tools/long.txt", "src/base/a.c a 80: one table\n")
        self.assert_breach("length", "tools/long.txt", "remove this line")

    def test_an_accepted_one_without_a_reason(self):
        self.write("src/base/a.c", function("a", 71))
        self.write("tools/long.txt", "src/base/a.c a 71\n")
        found = self.breaches("length")
        self.assertIn("reason", found[0][1])

    def test_a_long_file(self):
        self.write("src/base/a.c", "int x;\n" * 801)
        self.assert_breach("length", "src/base/a.c", "the file has 801 lines")

    def test_a_file_over_the_hard_limit_even_if_accepted(self):
        self.write("src/base/a.c", "int x;\n" * 1501)
        self.write("tools/long.txt", "src/base/a.c 1501: generated\n")
        self.assert_breach("length", "src/base/a.c", "hard limit")


class Mirror(HouseTest):
    def test_a_source_with_its_test(self):
        self.write("src/io/sim/door.c")
        self.write("tests/unit/io/sim/door_test.c")
        self.assert_clean("mirror")

    def test_a_source_without(self):
        self.write("src/io/sim/door.c")
        self.assert_breach("mirror", "src/io/sim/door.c", "tests/unit/io/sim/door_test.c")

    def test_an_excused_one(self):
        self.write("src/io/sim/door.c")
        self.write("tools/untested.txt", "src/io/sim/door.c: the suite runs over it\n")
        self.assert_clean("mirror")

    def test_an_excuse_without_a_reason(self):
        self.write("src/io/sim/door.c")
        self.write("tools/untested.txt", "src/io/sim/door.c:\n")
        self.assert_breach("mirror", "tools/untested.txt", "reason")

    def test_an_excuse_that_is_not_needed_any_more(self):
        self.write("src/io/sim/door.c")
        self.write("tests/unit/io/sim/door_test.c")
        self.write("tools/untested.txt", "src/io/sim/door.c: the suite runs over it\n")
        self.assert_breach("mirror", "tools/untested.txt", "has its test")

    def test_an_excuse_for_nothing(self):
        self.write("tools/untested.txt", "src/io/sim/door.c: the suite runs over it\n")
        self.assert_breach("mirror", "tools/untested.txt", "does not exist")


class Program(HouseTest):
    def test_exit_codes(self):
        self.assertEqual(self.run_tool("check_house", "--root", self.root).returncode, 0)
        self.write("src/attic/box.c")
        result = self.run_tool("check_house", "--root", self.root, "--rule", "rooms")
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/attic/box.c: [rooms]", result.stdout)

    def test_rules_that_need_objects_say_that_they_were_left_out(self):
        result = self.run_tool("check_house", "--root", self.root)
        self.assertIn("names not checked", result.stdout)


if __name__ == "__main__":
    unittest.main()

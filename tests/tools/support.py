"""Loads a tool that has no .py ending, and builds small fake trees to run it on."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))


def load_tool(name):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(ROOT, "tools", name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class TreeTest(unittest.TestCase):
    """self.root is an empty folder that goes away with the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir_tools")
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def write(self, path, text=""):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def run_tool(self, name, *arguments):
        command = [sys.executable, os.path.join(ROOT, "tools", name), *arguments]
        return subprocess.run(command, capture_output=True, text=True)

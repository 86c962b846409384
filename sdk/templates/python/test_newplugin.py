"""The quick checks, without launch: `python -m unittest`. `launch plugins test .` makes all of them."""

import os
import unittest

from launch_plugin import testing

from launch_plugin_newplugin import SCRIPT, Family

PROJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recipes", "defaults")


class TestFamily(unittest.TestCase):
    def test_promises(self) -> None:
        command = testing.command(["python3", SCRIPT, "-b", "8"], PROJECT)
        ladders = testing.check(Family(), command)
        self.assertEqual([8, 1], list(ladders.values.values()))


if __name__ == "__main__":
    unittest.main()

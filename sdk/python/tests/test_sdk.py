import contextlib
import dataclasses
import importlib.machinery
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

import launch_plugin
from launch_plugin import (
    Absent, Argv, Batch, Caution, Command, Counted, CountedPart, Edit, Formula, Item, Job, LadderSet, Manifest, Need,
    NotMine, Option, Plugin, Recipe, Rung, Signs, WrongCommand, formula, parse, show, testing,
)
from launch_plugin._json import TooLarge, json_name
from launch_plugin._wire import Keeper, answer, protocol, unwrap, wrap

HERE = os.path.dirname(os.path.abspath(__file__))


def example(name):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(HERE, f"../examples/{name}/launch-plugin-{name}"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class Documents(unittest.TestCase):
    def test_round_trip(self):
        edit = Edit("micro-batch", "argv", "-b", None, "4")
        self.assertEqual(edit.to_json()["from"], None)
        self.assertEqual(Edit.from_json(edit.to_json()), edit)
        read = Job.from_json({"batch": {"micro": 3, "new": 1}, "files": None, "new": {}, "merged": "YQ=="})
        self.assertEqual((read.batch.micro, read.files, read.merged), (3, (), b"a"))

    def test_mistakes_have_a_path(self):
        for value in (1.5, True, 1 << 63, "1"):
            with self.assertRaisesRegex(TypeError, r"Job.*|Item.bytes"):
                Item("saved tensors", "x", value).to_json()
        for job in (Job(batch=Batch(1 << 63)), Job(signs=Signs(codes={1: "x"}, every=-(1 << 63) - 1)), Job(steps=10**9999)):
            with self.assertRaisesRegex(TooLarge, r"^Job\.[a-z.]+ is .*64 bits"):
                job.to_json()
        for slowdown in (float("nan"), float("inf"), 10**400):
            with self.assertRaisesRegex(TooLarge, "Rung.slowdown"):
                Rung("x", slowdown=slowdown).to_json()
        with self.assertRaisesRegex(ValueError, "Command.args"):
            Command.from_json({"args": [1]})

    def test_units(self):
        self.assertEqual((parse("8GiB"), parse("1.5k"), show(1536)), (8 << 30, 1536, "1.50 KiB"))
        for text in ("", "GiB", "-1GiB", "8XB"):
            with self.assertRaises(ValueError):
                parse(text)


class Arguments(unittest.TestCase):
    OPTIONS = (Option(("--batch-size", "-b")), Option(("--betas",), 4), Option(("--amp",), 1))

    def test_reads(self):
        for args in (["-b", "4"], ["-b4"], ["--batch-size=4"], ["--batch", "4"], ["-b", "2", "--batch-size", "4"]):
            self.assertEqual(Argv(args, self.OPTIONS).integer("--batch-size"), 4, args)
        argv = Argv(["x", "--betas", "1", "-2", "--amp", "--other", "y"], self.OPTIONS)
        self.assertEqual((argv.values("--betas"), argv.has("--amp"), argv.positionals), (["1", "-2"], True, ["x", "y"]))
        self.assertEqual(argv.edit("-b", 2, "micro-batch", "speed", "").from_, None)

    def test_refused(self):
        for args in (["-b"], ["--amp=1"], ["--b", "4"]):
            with self.assertRaises(Caution):
                Argv(args, self.OPTIONS)
        for text in ("four", "1e3", "nan", str(1 << 63), "-" + "9" * 30, "9" * 9999):
            with self.assertRaisesRegex(Caution, "^--batch-size is "):
                Argv(["-b", text], self.OPTIONS).integer("--batch-size")
        self.assertEqual(Argv(["-b", str((1 << 63) - 1)], self.OPTIONS).integer("-b"), (1 << 63) - 1)


class Recipes(unittest.TestCase):
    def test_checked(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "r.json"), "w", encoding="utf-8") as f:
                json.dump({"a": {"whole": 3, "large": 1 << 63, "half": 1.5, "true": True, "word": "x"}}, f)
            recipe = Recipe("r.json", folder, "-c")
        self.assertEqual((recipe.integer("a", "whole"), recipe.integer("a", "no", default=7)), (3, 7))
        self.assertEqual((recipe.text("a", "word"), recipe.text("b", default="y")), ("x", "y"))
        with self.assertRaisesRegex(Caution, r"^r\.json: a\.large is .* 64 bits"):
            recipe.integer("a", "large")
        for read, name in ((recipe.integer, "half"), (recipe.integer, "true"), (recipe.integer, "word"), (recipe.text, "whole")):
            with self.assertRaisesRegex(WrongCommand, rf"^r\.json: a\.{name} is "):
                read("a", name)


class Wire(unittest.TestCase):
    def test_bytes_value(self):
        for size in (0, 1, 127, 128, 70_000):
            self.assertEqual(unwrap(wrap(b"x" * size)), b"x" * size)
        self.assertEqual(unwrap(b"\x10\x05" + wrap(b"y") + b"\x1d1234"), b"y")
        for bad in (b"\x0a\x05x", b"\x0a", b"\x0b", b"\x80" * 20):
            with self.assertRaises(ValueError):
                unwrap(bad)

    def test_protocol(self):
        self.assertEqual([protocol(v) for v in ("1", "3,1,2", "", "2", "x")], [1] * 5)

    def test_recognised_once(self):
        asked = []

        class P(Plugin):
            manifest = Manifest("p", "1", "p")

            def recognize(self, command):
                asked.append(command.args)
                if command.args[0] == "need":
                    raise Need(devices=True)
                return Job(own=command.args)

            def ladders(self, job, device):
                return LadderSet(values={a: 1 for a in job.own})

        k = Keeper(P())
        one, two = {"args": ["1"], "dir": "/"}, {"args": ["2"], "dir": "/"}
        k.recognize(one)
        self.assertEqual(k.ladders({"job": {"command": one}})["values"], {"1": 1})
        self.assertEqual(k.ladders({"job": {"command": two}})["values"], {"2": 1})
        self.assertEqual(asked, [("1",), ("2",)])
        self.assertEqual(k.recognize({"args": ["need"]}), {"need": {"devices": True}})
        self.assertRegex(k.manifest({})["sdk"], r"^python \d+\.\d+\.\d+$")
        for question in (None, {}, {"job": {"command": {"args": 3}}}):
            with self.assertRaises(WrongCommand):
                k.ladders(question)

    def test_numbers_that_the_wire_cannot_hold(self):
        class P(Plugin):
            manifest = Manifest("p", "1", "p")

            def recognize(self, command):
                return Job(batch=Batch(int(command.args[0])))

            def ladders(self, job, device):
                return LadderSet(values={"micro-batch": 1 << 70})

        class Context:
            def abort(self, code, why):
                raise RuntimeError(f"{code.name}: {why}")

        methods = Keeper(P()).methods()
        self.assertRegex(methods["Recognize"]({"args": [str(1 << 64)]})["caution"], r"^Job\.batch\.micro is \d+, which")
        question = wrap(json.dumps({"job": {"command": {"args": ["1"]}}}).encode())
        with self.assertRaisesRegex(RuntimeError, r"^OUT_OF_RANGE: LadderSet\.values\['micro-batch'\] is \d+, which"):
            answer(methods["Ladders"], question, Context())

    def test_prints_do_not_break_the_handshake(self):
        program = "print('early'); import launch_plugin; print('late'); import os; os.system('echo child')\n" \
            "from launch_plugin import _stdout; _stdout.handshake('1|1|x'); print('after')"
        env = {**os.environ, "LAUNCH_PLUGIN": "launch-plugin-v1", "PYTHONPATH": os.path.join(HERE, "../src")}
        env.pop("PYTHONUNBUFFERED", None)  # with it, what is printed before the import is out
        ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
        self.assertEqual(ran.stdout, "1|1|x\n")
        for word in ("early", "late", "child", "after"):
            self.assertIn(word, ran.stderr)

    def test_by_hand(self):
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
            from launch_plugin import serve

            serve(Plugin())
        self.assertIn("plugin of launch", said.getvalue())


class Examples(unittest.TestCase):
    def test_promises(self):
        for name, args in (("tinytext", ["train_text.py", "-c", "run.json"]), ("tinynet", ["train_net.py", "-b", "8"])):
            module = example(name)
            plugin = next(v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Plugin) and v is not Plugin)
            folder = os.path.join(HERE, f"../examples/{name}/project")
            ladders = testing.check(plugin(), testing.command(["python3", *args], os.path.abspath(folder)))
            unknown = ladders.phases[0].rungs[0].estimates[0].unknown
            self.assertEqual(bool(unknown), name == "tinynet", unknown)

    def test_torch_is_noticed(self):
        class P(Plugin):
            manifest = Manifest("p", "1", "p")

            def recognize(self, command):
                if not command.args[1].endswith("x.py"):
                    raise NotMine
                sys.modules["torch"] = sys
                return Job()

        try:
            with self.assertRaisesRegex(AssertionError, "torch was imported"):
                testing.check(P(), testing.command(["python3", "x.py"], "/"))
        finally:
            del sys.modules["torch"]


class Formulas(unittest.TestCase):
    PART = CountedPart("net", 100, 400, 100, 400, 0, 0, 1000)

    def counted(self, **fields):
        return Counted(Formula("/f.py", "build"), torch="2.5.1+cu124", parts=(self.PART,), input_bytes=50, **fields)

    def test_sums_to_the_peak(self):
        c = self.counted(saved_bytes=1000, forward_peak_bytes=1500, peak_bytes=2000, peak_saved_bytes=600, peak_gradient_bytes=100)
        self.assertEqual(formula.training(c, "adamw").total, 400 + 800 + 50 + 2000)
        self.assertEqual(formula.training(c, "adamw", accumulation=2).total, 400 + 800 + 50 + 2000 - 100 + 400)
        self.assertEqual(formula.inference(c).total, 400 + 50 + 1500)

    def test_unknown_is_not_zero(self):
        for c in (None, Counted(Formula("/f.py", "build"), problem="no torch")):
            self.assertTrue(formula.training(c).unknown)
            self.assertTrue(formula.inference(c).unknown)
        self.assertTrue(formula.training(self.counted(peak_bytes=1), "unheard-of").unknown)


class Within(unittest.TestCase):
    """Ladders stand within ladders."""

    def test_absent(self):
        ladders = LadderSet(absent=Absent("bitsandbytes", LadderSet(values={"a": 1})))
        document = json.loads(json.dumps(ladders.to_json()))
        self.assertEqual(document["absent"]["set"]["values"], {"a": 1})
        self.assertEqual(LadderSet.from_json(document), ladders)
        self.assertIsNone(LadderSet.from_json({}).absent)


class Schemas(unittest.TestCase):
    """The dataclasses have exactly the fields of the schemas, which a test in Go takes from the types there."""

    NAMES = {"Set": "LadderSet", "Bytes": "BytesAt", "Text": "ShellScript"}

    def test_fields(self):
        folder = os.path.join(HERE, "../../../docs/protocol")
        seen = set()
        for file in sorted(os.listdir(folder)):
            with open(os.path.join(folder, file), encoding="utf-8") as text:
                definitions = json.load(text).get("$defs", {})
            for name, definition in definitions.items():
                kind = getattr(launch_plugin, self.NAMES.get(name, name), None)
                if "properties" not in definition or name in seen or kind is Need:
                    continue
                seen.add(name)
                if kind is None:
                    self.assertIn(name, ("Recognition", "LaddersQuestion", "EstimateQuestion"))
                    continue
                fields = {json_name(f): f for f in dataclasses.fields(kind) if json_name(f)}
                self.assertEqual(set(fields), set(definition["properties"]), name)
                written = set(kind.from_json({}).to_json())
                self.assertLessEqual(set(definition.get("required", [])), written, name)
        self.assertGreater(len(seen), 35)


if __name__ == "__main__":
    unittest.main()

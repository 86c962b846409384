package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/room"
)

// The test binary is launch: as "launch" on the scripts' PATH, and as its keeper, its plugins and its view of the driver.
func TestMain(m *testing.M) {
	host.ServeMain(builtins...)
	drivers.ChildMain()
	testscript.Main(m, map[string]func(){"launch": func() {
		if dir := os.Getenv(claimsForTest); dir != "" {
			room.ClaimsWithin(dir)
		}
		if root := os.Getenv(kernelForTest); root != "" {
			drivers.Root = root
		}
		if mib, err := strconv.ParseInt(os.Getenv(allowanceForTest), 10, 64); err == nil {
			host.Allow(mib << 20)
		}
		if limit, err := time.ParseDuration(os.Getenv(noticeLimitForTest)); err == nil {
			result.NoticeLimit = limit
		}
		main()
	}})
}

// claimsForTest names the folder of the claims of launches that must not meet those of the machine.
const claimsForTest = "CLAIMS_FOR_TEST"

// kernelForTest names the folder in which the kernel's files of the cards lie.
const kernelForTest = "KERNEL_FOR_TEST"

// allowanceForTest is the host memory that a plugin's processes may take, in MiB.
const allowanceForTest = "ALLOWANCE_FOR_TEST"

// noticeLimitForTest is how long sending a notice may take.
const noticeLimitForTest = "NOTICE_LIMIT_FOR_TEST"

// python is the interpreter that the end-to-end tests run, with torch, PyYAML and Pillow: `make deps` installs them.
func testPython() string {
	if p := os.Getenv("LAUNCH_TEST_PYTHON"); p != "" {
		return p
	}
	return "/usr/bin/python3"
}

// TestScripts runs launch as a user does. Every script has an empty HOME.
func TestScripts(t *testing.T) {
	bad, fake := buildPlugin(t, "./testdata/badplugin"), buildFakeDriver(t)
	faulty := buildPlugin(t, "./"+kitData+"/launch-plugin-faulty")
	example, err := filepath.Abs(filepath.Join("..", "..", "examples", "sisr"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(testPython(), "-c", "import torch, yaml, PIL").CombinedOutput(); err != nil {
		t.Fatalf("%s lacks what the end-to-end tests run on; `make deps` installs it: %v\n%s", testPython(), err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("BADPLUGIN", bad)
			e.Setenv("FAULTY", faulty)
			e.Setenv("RECIPES", filepath.Join(mustAbs(kitData), "recipes"))
			e.Setenv("FAKEDRIVER", fake)
			e.Setenv("FAKESOURCE", mustAbs(fakeSource))
			e.Setenv("PYTHON", testPython())
			e.Setenv("EXAMPLE", example)
			e.Setenv("FAILURES", filepath.Join(filepath.Dir(filepath.Dir(example)), "tools", "failures", "failures.py"))
			e.Setenv("CHECKOUT", filepath.Join(mustAbs("testdata"), "checkout"))
			return os.Mkdir(filepath.Join(e.WorkDir, "home"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code, "validate": validate,
			"tree": tree},
		Condition: condition,
	})
}

// condition answers [jail]: this machine's kernel gives namespaces, in which a trace runs.
func condition(name string) (bool, error) {
	if name != "jail" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	c := exec.Command("true")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}}
	return c.Run() == nil, nil
}

// kitData is the folder of the plugin that breaks promises, and of its recipes.
const kitData = "../../core/plugin/kit/testdata"

// buildPlugin builds a plugin that misbehaves as its name, or a variable, asks it to.
func buildPlugin(t *testing.T, pkg string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := exec.Command("go", "build", "-o", program, pkg).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return program
}

// trustPlugin lets launch run a plugin that lies in the plugin folder.
func trustPlugin(t *testing.T, launch, name string, env []string) {
	t.Helper()
	c := exec.Command(launch, "plugins", "trust", name)
	c.Env = env
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("trusting plugin %s: %v\n%s", name, err, out)
	}
}

const fakeSource = "../../core/gpu/drivers/testdata/fakenvml.c"

// buildFakeDriver builds the driver that reads $FAKE_NVML_STATE, and returns its folder.
func buildFakeDriver(t *testing.T) string {
	t.Helper()
	fake := filepath.Join(t.TempDir(), "lib")
	if err := os.Mkdir(fake, 0o755); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(fake, "libnvidia-ml.so.1")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, fakeSource).CombinedOutput(); err != nil {
		t.Fatalf("building the fake driver: %v\n%s", err, out)
	}
	return fake
}

func mustAbs(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return abs
}

// tree writes a recorded tree of the kernel's files into a folder, from which launch then reads them: `tree NAME`.
func tree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tree NAME")
	}
	a, err := txtar.ParseFile(filepath.Join(trees, args[0]+".txtar"))
	ts.Check(err)
	root := ts.MkAbs("kernel-" + args[0])
	for _, f := range a.Files {
		path, text := filepath.Join(root, f.Name), strings.TrimSuffix(string(f.Data), "\n")
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case filepath.Base(filepath.Dir(path)) == "fd":
			ts.Check(os.Symlink(text, path))
		default:
			ts.Check(os.WriteFile(path, []byte(strings.ReplaceAll(text, "|", "\x00")), 0o644))
		}
	}
	ts.Setenv(kernelForTest, root)
}

// trees is the folder of the recorded trees, from this package's own.
const trees = "../../core/gpu/drivers/testdata/trees"

// code runs a command and demands an exit code: `code 78 launch plan -- …`. What it prints is matched by stdout and
// stderr as after exec.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command [arg ...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exitText(exit)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

func exitText(e *exec.ExitError) string {
	if e.ExitCode() < 0 {
		return e.String()
	}
	return strconv.Itoa(e.ExitCode())
}

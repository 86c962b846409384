package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// opened returns a function that lists which files of folders were opened since.
func opened(t *testing.T, dirs ...string) func() []string {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must(t, err)
	for _, dir := range dirs {
		_, err := unix.InotifyAddWatch(fd, dir, unix.IN_OPEN)
		must(t, err)
	}
	return func() (names []string) {
		defer unix.Close(fd)
		buffer := make([]byte, 1<<20)
		n, err := unix.Read(fd, buffer)
		if err != nil {
			return nil
		}
		for at := 0; at < n; {
			size := int(buffer[at+12]) // of the name, which is short
			name := string(buffer[at+unix.SizeofInotifyEvent : at+unix.SizeofInotifyEvent+size])
			if name = strings.TrimRight(name, "\x00"); name != "" && buffer[at+7]&0x40 == 0 { // IN_ISDIR
				names = append(names, name)
			}
			at += unix.SizeofInotifyEvent + size
		}
		return names
	}
}

// Twelve installed plugins cost a start no more than one: no process but that of the one which is asked, and none of
// their files.
func TestTwelvePlugins(t *testing.T) {
	launch, err := exec.LookPath("launch")
	must(t, err)
	bad, dir := buildPlugin(t, "./testdata/badplugin"), t.TempDir()
	home := filepath.Join(dir, "home")
	config := filepath.Join(home, ".config", "launch")
	started := filepath.Join(dir, "started")
	env := append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=", "XDG_DATA_HOME=",
		"XDG_STATE_HOME="+filepath.Join(dir, "state"))
	run := func(args ...string) string {
		t.Helper()
		must(t, os.WriteFile(started, nil, 0o644))
		c := exec.Command(launch, args...)
		c.Dir, c.Env = dir, env
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("launch %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	var folders []string
	for i := range 12 {
		name := fmt.Sprintf("p%d", i)
		path := filepath.Join(dir, "launch-plugin-"+name)
		text := fmt.Sprintf("#!/bin/bash\necho %s >>%s\nexec -a \"$0\" %s\n", name, started, bad)
		must(t, os.WriteFile(path, []byte(text), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name+".py"), []byte("print('it ran')\n"), 0o644))
		run("plugins", "install", path)
		folders = append(folders, filepath.Join(home, ".local/share/launch/plugins", name), filepath.Join(home,
			".local/share/launch/plugins", name, "1"))
	}
	must(t, os.WriteFile(filepath.Join(dir, "other.py"), []byte("print('it ran')\n"), 0o644))
	for script, want := range map[string]string{"p7.py": "p7\n", "other.py": ""} {
		index, files := opened(t, config), opened(t, folders...)
		if out := run("--vram", "12GiB", "--", testPython(), script); !strings.Contains(out, "it ran") {
			t.Errorf("%s: %s", script, out)
		}
		b, err := os.ReadFile(started)
		must(t, err)
		if string(b) != want {
			t.Errorf("%s: it started %q, want %q", script, b, want)
		}
		if got := index(); len(got) != 1 || got[0] != "plugins.json" {
			t.Errorf("%s: of the settings' folder it opened %v", script, got)
		}
		touched := files()
		if slices.Contains(touched, "launch-plugin-p7") != (want != "") {
			t.Errorf("%s: of the plugins it opened %v", script, touched)
		}
		for _, name := range touched {
			if want == "" || name != "launch-plugin-p7" && name != "1.json" {
				t.Errorf("%s: it opened %s", script, name)
			}
		}
	}
}

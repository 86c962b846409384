package keep

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// sweep kills the program and all that descends from it, sessions of their own or not, until nobody is left: whoever
// loses its parent becomes our child, so nobody gets away by forking faster. It passes on the program's own death.
//
// A cgroup of the program's own (cgroup.kill) was left: it would kill nobody else, and the program would find itself in
// another cgroup than bare, without the files of the limits that it may go by, which Slurm then could not remove.
func (w *warden) sweep(deaths <-chan death) {
	program := w.pid
	if program != 0 && w.tty >= 0 {
		_ = syscall.Kill(-program, syscall.SIGKILL) // most of them in one go
	}
	pause := time.Millisecond
	for deaths != nil {
		for _, pid := range Descendants(os.Getpid(), nil) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case d, ok := <-deaths:
			if !ok {
				return
			}
			if d.pid == program && !d.status.Stopped() {
				w.died(d)
			}
		case <-time.After(pause): // somebody may have forked while we looked, or is stuck in the kernel
			pause = min(2*pause, time.Second)
		}
	}
}

// Descendants lists all processes that descend from pid, from one reading of /proc, without the children that spare
// names and what descends from them; spare may be nil.
func Descendants(pid int, spare func(child int) bool) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	children := map[int][]int{}
	for _, name := range names {
		p, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if state, parent, ok := StatOf(p); ok && state != 'Z' && state != 'X' {
			children[parent] = append(children[parent], p)
		}
	}
	var all []int
	if spare != nil {
		children[pid] = slices.DeleteFunc(children[pid], spare)
	}
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		all = append(all, children[todo[0]]...)
		todo = append(todo, children[todo[0]]...)
	}
	return all
}

// StatOf reads the state and the parent of a process.
func StatOf(pid int) (state byte, parent int, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	i := bytes.LastIndexByte(stat, ')') // the name before it may hold anything
	fields := bytes.Fields(stat[i+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}

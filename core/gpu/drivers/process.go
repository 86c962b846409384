package drivers

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// process is a process that holds so much memory on a card; -1: the driver does not report how much.
func process(pid int, used unit.Bytes) gpu.Process {
	p := gpu.Process{PID: pid, Used: used}
	if p.Name = text("proc", strconv.Itoa(pid), "comm"); p.Name != "" {
		if info, err := os.Stat(filepath.Join(Root, "proc", strconv.Itoa(pid))); err == nil {
			p.User = owner(info)
		}
	}
	return p
}

// owners are the names of users by their number, each asked for once: behind a name may stand a server that is far away.
var owners struct {
	sync.Mutex
	names map[uint32]string
}

func owner(info os.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	owners.Lock()
	defer owners.Unlock()
	name, asked := owners.names[stat.Uid]
	if !asked {
		if u, err := user.LookupId(strconv.FormatUint(uint64(stat.Uid), 10)); err == nil {
			name = u.Username
		}
		if owners.names == nil {
			owners.names = map[uint32]string{}
		}
		owners.names[stat.Uid] = name
	}
	return name
}

package drivers

import (
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// process is a process that holds so much memory on a card; -1: the driver does not report how much.
func process(pid int, used unit.Bytes) gpu.Process {
	p := gpu.Process{PID: pid, Used: used}
	if comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); err == nil {
		p.Name = strings.TrimSpace(string(comm))
		if info, err := os.Stat("/proc/" + strconv.Itoa(pid)); err == nil {
			p.User = owner(info)
		}
	}
	return p
}

// owners are the names of users by their number, each asked for once: behind a name may stand a server that is far away.
var owners = map[uint32]string{}

func owner(info os.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	name, asked := owners[stat.Uid]
	if !asked {
		if u, err := user.LookupId(strconv.FormatUint(uint64(stat.Uid), 10)); err == nil {
			name = u.Username
		}
		owners[stat.Uid] = name
	}
	return name
}

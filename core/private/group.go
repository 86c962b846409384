package private

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Others reports whether an account that is neither this user nor root can write a file, by its mode, its group and its access
// list; nil: it has none. It is the one place that decides this, for settings, plugins and launch's own files.
func Others(mode uint32, gid int, list []byte) bool {
	switch {
	case mode&0o002 != 0:
		return true
	case mode&0o020 == 0: // nor can an access list grant it: these bits are then its mask
		return false
	case len(list) > 0:
		return grants(list, gid, os.Geteuid(), ownGroup)
	}
	return !ownGroup(gid)
}

// AccessList is the attribute that holds a file's (acl(5)).
const AccessList = "system.posix_acl_access"

// grants reports whether an access list lets others write. It has a version of four bytes, then entries of a tag, permissions and an
// id (include/uapi/linux/posix_acl_xattr.h).
func grants(list []byte, gid, uid int, own func(gid int) bool) bool {
	const user, groupOwner, group, write = 0x02, 0x04, 0x08, 2
	for at := 4; at+8 <= len(list); at += 8 {
		tag, may, id := binary.LittleEndian.Uint16(list[at:]), binary.LittleEndian.Uint16(list[at+2:])&write != 0, int(binary.LittleEndian.Uint32(list[at+4:]))
		if may && (tag == user && id != uid && id != 0 || tag == groupOwner && !own(gid) || tag == group && !own(id)) {
			return true
		}
	}
	return false
}

// othersWrite reports whether another account can write to what lies at a path and is no link.
func othersWrite(path string, info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	var list []byte
	if s.Mode&0o020 != 0 {
		buffer := make([]byte, 4<<10)
		if n, err := syscall.Getxattr(path, AccessList, buffer); err == nil {
			list = buffer[:n]
		} else if errors.Is(err, syscall.ERANGE) { // for so many that nobody knows who they are
			return true
		}
	}
	return Others(s.Mode, int(s.Gid), list)
}

var groups sync.Map // of ownGroup, as the files of /etc do not change while launch runs

// ownGroup reports whether nobody can use a group but root and this user: root's, or this user's alone, as many systems give every
// user a group of the same number, and a umask by which it may write.
func ownGroup(gid int) bool {
	if known, ok := groups.Load(gid); ok {
		return known.(bool)
	}
	own := (gid == 0 || gid == os.Getegid() || gid == os.Geteuid()) && alone(os.DirFS("/etc"), gid, os.Geteuid())
	groups.Store(gid, own)
	return own
}

// alone reports whether an account is the only one of a group, beside root. A group of another number than the account's counts
// only where the files of /etc are all that knows accounts: as in most containers, whose volumes are often writable for a group.
func alone(etc fs.FS, gid, uid int) bool {
	const sources = "files compat systemd" // and none of a directory service's (nsswitch.conf(5))
	sole := true
	each := func(name, separator string, see func(f []string)) {
		text, err := fs.ReadFile(etc, name)
		if err != nil {
			sole = sole && (errors.Is(err, fs.ErrNotExist) || gid == 0 || gid == uid)
			return
		}
		for line := range strings.Lines(string(text)) {
			see(strings.Split(strings.TrimSpace(line), separator))
		}
	}
	if gid != 0 && gid != uid {
		each("nsswitch.conf", ":", func(f []string) {
			if f[0] == "passwd" || f[0] == "group" || f[0] == "initgroups" {
				for _, source := range strings.Fields(strings.Join(f[1:], " ")) {
					sole = sole && slices.Contains(strings.Fields(sources), source)
				}
			}
		})
	}
	name := "root"
	each("passwd", ":", func(f []string) {
		if len(f) > 3 && f[2] == strconv.Itoa(uid) {
			name = f[0]
		} else if len(f) > 3 && f[3] == strconv.Itoa(gid) && gid != 0 { // root's is that of system accounts nobody logs in as
			sole = false
		}
	})
	each("group", ":", func(f []string) {
		if len(f) > 3 && f[2] == strconv.Itoa(gid) {
			for member := range strings.SplitSeq(f[3], ",") {
				sole = sole && (member == "" || member == name || member == "root")
			}
		}
	})
	return sole
}

package keep

import "syscall"

// WriteAll writes to a descriptor that others share: it may or may not block, and that is not ours to change.
func WriteAll(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := syscall.Write(fd, p)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			writable(fd, -1)
		case err != nil:
			return err
		default:
			p = p[n:]
		}
	}
	return nil
}

package private

import "os"

// Save writes a whole document or nothing, where the user wants it: into a file of its own that then takes the name. What is no ordinary
// file (a device, a pipe, /dev/fd/3) is written to, and a link is followed.
//
// In a folder that everybody can write to it follows no link of another account's, as the kernel does where it is hardened.
func Save(path string, b []byte) error {
	path, err := Follow(path)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
		return WriteFile(path, b, 0o644)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

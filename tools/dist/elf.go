package main

import (
	"debug/elf"
	"fmt"
	"strconv"
	"strings"
)

// oldest is the version of glibc that the carried program needs at most: 2.17, of the year 2012.
const oldest = 17

// startsAnywhere reports an error unless the program is static.
func startsAnywhere(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("%s is not static", path)
		}
	}
	return nil
}

// startsSince reports an error if the program needs a glibc later than 2.minor.
func startsSince(path string, minor int) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		version, isGlibc := strings.CutPrefix(s.Version, "GLIBC_2.")
		major, _, _ := strings.Cut(version, ".") // 2.2.5
		if n, err := strconv.Atoi(major); isGlibc && (err != nil || n > minor) {
			return fmt.Errorf("%s needs %s of %s", path, s.Name, s.Version)
		}
	}
	return nil
}

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A file is one of an installation, below its prefix: bin/launch, share/man/man1/launch.1.
type file struct {
	path string
	mode fs.FileMode
	data []byte
	link string // what the path is a link to, instead of a file
}

// tarball packs the files below one folder, so that `tar --strip-components=1` installs them.
func tarball(folder string, files []file, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zipped)
	for _, f := range files {
		h := &tar.Header{Name: folder + "/" + f.path, Mode: int64(f.mode), Size: int64(len(f.data)),
			ModTime: date, Typeflag: tar.TypeReg}
		if f.link != "" {
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.link, 0o777
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err = zipped.Close()
	return out.Bytes(), err
}

// deb writes the Debian package.
func (d *dist) deb(ctx context.Context, to string, a architecture, files []file) error {
	root, err := os.MkdirTemp(filepath.Dir(d.src), "deb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	contents := []map[string]any{}
	for _, f := range files {
		at := map[string]any{"dst": debianPath(f.path)}
		if f.link != "" {
			at["type"], at["src"] = "symlink", f.link
		} else {
			src := filepath.Join(root, filepath.FromSlash(f.path))
			if err := os.MkdirAll(filepath.Dir(src), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(src, f.data, f.mode); err != nil {
				return err
			}
			at["src"], at["file_info"] = src, map[string]any{"mode": f.mode, "owner": "root", "group": "root",
				"mtime": d.release.date}
		}
		contents = append(contents, at)
	}
	config, err := json.Marshal(map[string]any{ // which is YAML, too
		"name": name, "arch": a.goarch, "platform": "linux", "version": d.release.debian(), "version_schema": "none",
		"section": "science", "priority": "optional", "maintainer": "launch-ml <launch-ml@users.noreply.github.com>",
		"description": summary, "homepage": home, "license": "Apache-2.0", "mtime": d.release.date, "contents": contents,
	})
	if err != nil {
		return err
	}
	path := filepath.Join(root, "nfpm.yaml")
	if err := os.WriteFile(path, config, 0o644); err != nil {
		return err
	}
	env := []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", d.release.date.Unix())}
	return run(ctx, root, env, d.nfpm, "package", "--packager", "deb", "--config", path,
		"--target", filepath.Join(to, fmt.Sprintf("%s_%s_%s.deb", name, d.release.debian(), a.goarch)))
}

const home = "https://github.com/launch-ml/launch"

// debianPath is where Debian has the file.
func debianPath(path string) string {
	path = strings.Replace(path, "zsh/site-functions/", "zsh/vendor-completions/", 1)
	return "/usr/" + strings.Replace(path, "/"+name+"/LICENSE", "/"+name+"/copyright", 1)
}

// A wheel packs the files for pip: the programs as scripts, the rest as data. It has no Python module.
type wheel struct {
	name, version, summary, license string
	tags                            []string // platforms
	date                            time.Time
	files                           []file
}

func (w wheel) stem() string { return strings.ReplaceAll(w.name, "-", "_") + "-" + w.version }

func (w wheel) file() string { return w.stem() + "-py3-none-" + strings.Join(w.tags, ".") + ".whl" }

// alias is a script, which is smaller than a second copy: a wheel has no links.
const alias = "#!/bin/sh\nexec \"$(dirname \"$(readlink -f \"$0\")\")/%s\" \"$@\"\n"

func (w wheel) pack() ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(to,
			flate.BestCompression)
	})
	var record strings.Builder
	add := func(path string, mode fs.FileMode, data []byte) error {
		h := &zip.FileHeader{Name: path, Method: zip.Deflate, Modified: w.date}
		h.SetMode(mode) // with the type of the file: without it pip drops the permission to execute
		at, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
		_, err = at.Write(data)
		return err
	}
	info := w.stem() + ".dist-info/"
	for _, f := range w.files {
		path := w.stem() + ".data/data/" + f.path
		switch base, isProgram := strings.CutPrefix(f.path, "bin/"); {
		case isProgram && f.link != "":
			path, f.mode, f.data = w.stem()+".data/scripts/"+base, 0o755, fmt.Appendf(nil, alias, f.link)
		case isProgram:
			path = w.stem() + ".data/scripts/" + base
		case strings.HasSuffix(f.path, "LICENSE"), strings.HasSuffix(f.path, "LICENSES"):
			path = info + "licenses/" + filepath.Base(f.path)
		}
		if err := add(path, f.mode, f.data); err != nil {
			return nil, err
		}
	}
	tags := ""
	for _, t := range slices.Sorted(slices.Values(w.tags)) {
		tags += "Tag: py3-none-" + t + "\n"
	}
	for _, f := range []file{
		{path: "WHEEL", data: []byte("Wheel-Version: 1.0\nGenerator: launch-dist\nRoot-Is-Purelib: false\n" + tags)},
		{path: "METADATA",
			data: []byte("Metadata-Version: 2.1\nName: " + w.name + "\nVersion: " + w.version + "\nSummary: " + w.summary +
				"\nHome-page: " + home + "\nLicense: " + w.license + "\nClassifier: Environment :: Console\n" +
				"Classifier: License :: OSI Approved :: Apache Software License\nClassifier: Operating System :: POSIX :: Linux\n" +
				"Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence\nRequires-Python: >=3.6\n")},
	} {
		if err := add(info+f.path, 0o644, f.data); err != nil {
			return nil, err
		}
	}
	record.WriteString(info + "RECORD,,\n")
	if err := add(info+"RECORD", 0o644, []byte(record.String())); err != nil {
		return nil, err
	}
	err := z.Close()
	return out.Bytes(), err
}

// sdk writes the wheel of the Python SDK, a distribution of its own.
func (d *dist) sdk(ctx context.Context, to string) error {
	pinned := filepath.Join(d.src, "tools/dist/sdk.txt") // what builds it writes its own version into it
	env := []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", d.release.date.Unix()), "PIP_DISABLE_PIP_VERSION_CHECK=1",
		"PIP_CONSTRAINT=" + pinned, "PIP_BUILD_CONSTRAINT=" + pinned} // the second is pip's from 25.3 on
	return run(ctx, d.src, env, d.python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", to, "./sdk/python")
}

// writeSums writes SHA256SUMS, which `sha256sum -c` reads.
func writeSums(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range all {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

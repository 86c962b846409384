package states

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"
)

// noise are bytes that no compression shortens, always the same ones.
func noise(n int) string {
	b := make([]byte, n)
	rand.New(rand.NewSource(1)).Read(b)
	return string(b)
}

// pickled are pickle.dumps({'step': 3, 'w': bytes}) and the object, keys and storages of torch.save before version 1.6.
func pickled(protocol byte) string {
	return "\x80" + string(protocol) + "}q\x00(X\x04\x00\x00\x00stepq\x01K\x03X\x01\x00\x00\x00wq\x02B\x40\x00\x00\x00" +
		noise(64) + "q\x03u."
}

func torchLegacy() string {
	object := "\x80\x02}q\x00X\x01\x00\x00\x00aq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02(" +
		"(X\x07\x00\x00\x00storageq\x03ctorch\nHalfStorage\nq\x04X\x02\x00\x00\x0070q\x05X\x03\x00\x00\x00cpuq\x06K\x03Nt" +
		"q\x07QK\x00tq\x08Rq\x09s."
	return "\x80\x02" + legacy + "\x80\x02M\xe9\x03." + "\x80\x02}q\x00." + object +
		"\x80\x02]q\x00X\x02\x00\x00\x0070q\x01a." + "\x03\x00\x00\x00\x00\x00\x00\x00" + noise(6)
}

// zipped is an archive of members that are stored, as torch and numpy store them.
func zipped(t *testing.T, members ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i, text := range members {
		w, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("archive/data/%d", i)})
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

func tarred(text string) string {
	var b bytes.Buffer
	z := tar.NewWriter(&b)
	z.WriteHeader(&tar.Header{Name: "a", Mode: 0o600, Size: int64(len(text)), Format: tar.FormatUSTAR})
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

func hdf(size int) string {
	b := []byte("\x89HDF\r\n\x1a\n\x02\x08\x08" + noise(size-11))
	binary.LittleEndian.PutUint64(b[28:], uint64(size))
	return string(b)
}

// A state of a format that programs use is whole as it was written, and torn wherever it is cut.
func TestTornFormats(t *testing.T) {
	for name, text := range map[string]string{
		"a.pkl": pickled(2), "b.pt": pickled(4), "two.pt": pickled(2) + pickled(2), "legacy.pth": torchLegacy(),
		"a.json": `{"step": 3, "loss": NaN, "s": "}\"]"}`, "json.pt": `{"step": 3, "trail": [1, 2]}`,
		"list.ckpt": `[1, {"a": 2}]`, "a.msgpack": "\x82\xa4step\x03\xa1w\xc4\x20" + noise(32),
		"checkpoint_3": "\x82\xa4step\xcd\x01\x00\xa1w\xdc\x00\x02\x01\xcb" + noise(8), "a.npz": zipped(t, noise(900)),
		"a.h5": hdf(500),
		"a.npy": "\x93NUMPY\x01\x00\x3b\x00" +
			fmt.Sprintf("%-58s\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}") + noise(48),
		"a.pt.gz": gzipped(noise(300)), "a.tar": tarred(noise(512)),
	} {
		dir := t.TempDir()
		if err := whole(write(t, filepath.Join(dir, name), text)); err != nil {
			t.Errorf("%s: whole, but %v", name, err)
		}
		begin, end := 16, len(text)
		if name == "a.tar" {
			begin, end = 300, 1024 // the rest is padding
		}
		for n := begin; n < end; n += 1 + len(text)/61 {
			if name == "two.pt" && n == len(text)/2 {
				continue // one of the two is whole
			}
			if wholeFile(write(t, filepath.Join(dir, "cut", name), text[:n])) == nil {
				t.Errorf("%s: whole, though only %d of %d bytes are there", name, n, len(text))
				break
			}
		}
	}
	for name, text := range map[string]string{
		"raw.bin": noise(900), "ini.pt": "[train]\nlr = 1\n", "repr.pt": "{'a': 1, 'b", "few.pt": "3", "text.pt": "3 runs/a",
		"joblib.pkl": "\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x12joblib.numpy_pickle" + noise(90) + ".",
	} {
		if err := wholeFile(write(t, filepath.Join(t.TempDir(), name), text)); err != nil {
			t.Errorf("%s: nothing is known of its format, but %v", name, err)
		}
	}
}

// What a file system leaves of a file that was never completely written: zeros in place of pages, or of everything.
func TestHoles(t *testing.T) {
	hole := func(text string, at, n int) string { return text[:at] + strings.Repeat("\x00", n) + text[at+n:] }
	small, large := zipped(t, noise(200_000)), zipped(t, "3", noise(3<<20), noise(1000))
	zeros := zipped(t, "3", strings.Repeat("\x00", 3<<20)) // tensors may be zeros
	for name, tt := range map[string]struct {
		text string
		torn bool
	}{
		"empty":                             {"", true},
		"zeros":                             {strings.Repeat("\x00", 9000), true},
		"many zeros":                        {strings.Repeat("\x00", 9<<20), true},
		"an archive of zeros":               {hole(small, 0, len(small)), true},
		"a whole archive":                   {small, false},
		"a hole in its member":              {hole(small, 8192, 100_000), true},
		"its beginning is zeros":            {hole(small, 0, 4096), true},
		"a large archive":                   {large, false},
		"a hole in a large member":          {hole(large, 1<<20, 1<<20), true},
		"a header is damaged":               {hole(large, strings.LastIndex(large, "PK\x03\x04"), 20), true},
		"tensors of zeros":                  {zeros, false},
		"cut to whole pages":                {large[:len(large)/2/4096*4096], true},
		"pickled, the second half is zeros": {hole(pickled(2), 50, len(pickled(2))-50), true},
	} {
		if err := wholeFile(write(t, t.TempDir()+"/a.pt", tt.text)); (err != nil) != tt.torn {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := whole(t.TempDir() + "/none.pt"); err == nil {
		t.Error("a file that does not exist is whole")
	}
}

// Tensors that are missing: a storage that the pickle of an archive names, a shard of an index, a tensor of a shard.
func TestMissingTensors(t *testing.T) {
	object := strings.Split(torchLegacy(), "\x80\x02")[4]
	torch := func(members ...string) string {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, name := range members {
			w, _ := z.Create("a/" + name)
			w.Write([]byte("\x80\x02" + object))
		}
		z.Close()
		return b.String()
	}
	dir := t.TempDir()
	if err := wholeFile(write(t, dir+"/a.pt", torch("data.pkl", "data/70"))); err != nil {
		t.Errorf("a whole archive: %v", err)
	}
	if err := wholeFile(write(t, dir+"/b.pt", torch("data.pkl", "data/71"))); err == nil {
		t.Error("a storage is missing, but the archive is whole")
	}
	shard := func(name string) string {
		header := `{"` + name + `":{"data_offsets":[0,4]}}`
		return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + "four"
	}
	index := write(t, dir+"/ck/model.safetensors.index.json",
		`{"weight_map": {"w": "1.safetensors", "b": "2.safetensors"}}`)
	write(t, dir+"/ck/1.safetensors", shard("w"))
	for _, text := range []string{"", shard("c"), shard("b")} {
		want := text == shard("b")
		if text != "" {
			write(t, dir+"/ck/2.safetensors", text)
		}
		if err := wholeNow(filepath.Dir(index)); (err == nil) != want {
			t.Errorf("the second shard is %q: %v", text, err)
		}
	}
}

// torch writes archives without checksums, if it is told so; a hole in one member is found all the same where the
// others have theirs.
func TestNoChecksums(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"a/data.pkl", "a/data/0", "a/version"} {
		w, err := z.CreateRaw(&zip.FileHeader{Name: name, CRC32: 7, CompressedSize64: 100, UncompressedSize64: 100})
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(noise(100)))
	}
	z.Close()
	if err := wholeFile(write(t, t.TempDir()+"/a.pt", b.String())); err != nil {
		t.Errorf("no checksum is right: %v", err)
	}
}

// A digest is of the content: neither a name, a place nor a time changes it, and any other content does.
func TestDigest(t *testing.T) {
	dir := t.TempDir()
	of := func(path string) string {
		t.Helper()
		d, err := Digest(path)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	big := noise(5 << 20)
	for name, tt := range map[string]struct {
		text  string
		other []string
	}{
		"small": {"3 a", []string{"3 b", "3 a\n", ""}},
		"large": {big, []string{big + "x", "x" + big[1:], big[:5<<20-1] + "x"}},
		"zip":   {zipped(t, big, "3"), []string{zipped(t, big, "4"), zipped(t, big[:3<<20]+"x"+big[3<<20+1:], "3")}},
	} {
		was := of(write(t, dir+"/"+name+"/a.pt", tt.text))
		if now := of(write(t, dir+"/"+name+"/b/c.pt", tt.text)); now != was {
			t.Errorf("%s: the same content, and %s is not %s", name, now, was)
		}
		for i, text := range tt.other {
			path := write(t, dir+"/"+name+"/other.pt", text)
			if of(path) == was || Changed(path, was) == "" {
				t.Errorf("%s: other content %d has the same digest", name, i)
			}
		}
	}
	folder := func(name, weights string) string {
		write(t, dir+"/"+name+"/model.bin", weights)
		write(t, dir+"/"+name+"/sub/optim.bin", "adam")
		return dir + "/" + name
	}
	a := of(folder("checkpoint-1", "w"))
	if a != of(folder("copy", "w")) || a == of(folder("other", "v")) {
		t.Error("a folder is its files")
	}
	if why := Changed(dir+"/none", a); why != "no longer exists" {
		t.Errorf("nothing is there: %q", why)
	}
	if why := Changed(dir+"/none", ""); why != "" {
		t.Errorf("nothing is known of a record without a digest, but %q", why)
	}
	torn := write(t, dir+"/torn.pt", small(t))
	if why := Changed(torn, of(torn)); !strings.Contains(why, "cannot be read") {
		t.Errorf("a torn state: %q", why)
	}
}

func small(t *testing.T) string { text := zipped(t, noise(900)); return text[:500] }

package dualattn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"testing"

	"github.com/launch-ml/launch/core/config"
)

func TestUp(t *testing.T) {
	for _, c := range []string{"6d5161d", "3687bff", "227722e", "b0bf256", "9b6147a", "6a4e6b6"} {
		text, err := os.ReadFile("/tmp/up/dcal_" + c + "/dual_cross_attention/models/dual_vit.py")
		if err != nil {
			t.Skip(err)
		}
		h := sha256.Sum256(text)
		src := &config.PythonSource{Path: "dual_vit.py", Text: text, SHA256: hex.EncodeToString(h[:])}
		fmt.Printf("%s %+v\n   %+v\n", c, features(src), read(src))
		fs, _ := closure("/tmp/up/dcal_" + c + "/train.py")
		fmt.Println(len(fs), fs)
	}
}

package record

import (
	"strings"
	"testing"
)

func TestMaskText(t *testing.T) {
	m := Mask{Home: "/cluster/ann", User: "ann"}
	for text, want := range map[string]string{
		"RuntimeError: CUDA out of memory":               "RuntimeError: CUDA out of memory",
		"WANDB_API_KEY=0123456789abcdef python train.py": "WANDB_API_KEY=*** python train.py",
		`{"api_key": "abc def", "lr": 0.1}`:              `{"api_key": ***, "lr": 0.1}`,
		"args: token=abc123":                             "args: token=***",
		"password: hunter2, user: x":                     "password: ***, user: x",
		"--hf-token abc --lr 0.1":                        "--hf-token *** --lr 0.1",
		"git clone https://ann:s3cret@host/x":            "git clone https://USER:***@host/x",
		"Authorization: Bearer abcdefghijklmnop":         "Authorization: ***",
		"using hf_abcdefghijklmnopqrstuv here":           "using *** here",
		"key AKIAABCDEFGHIJKLMNOP":                       "key ***",
		"saved /home/bob/x.pth and /Users/bob/x":         "saved ~/x.pth and ~/x",
		"/cluster/ann/run /cluster/anna/run":             "~/run /cluster/anna/run",
		"in /root/project, not /rooted":                  "in ~/project, not /rooted",
		"/data/home/bob/x":                               "~/x",
		"/mnt/c/Users/bob/x":                             "~/x",
		"/scratch/ann/data of ann@host":                  "/scratch/USER/data of ann@host",
		"num_tokens: 512, pad_token=0, --use-token x":    "num_tokens: 512, pad_token=0, --use-token x",
		"iter: 1, loss: 0.5":                             "iter: 1, loss: 0.5",
		"at 0123456789abcdef0123456789abcdef01234567":    "at 0123456789abcdef0123456789abcdef01234567",
		`File "/home/bob/train.py", line 3`:              `File "~/train.py", line 3`,
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdef":    "***",
		"db_password='a b' rest":                         "db_password=*** rest",
		"api_key=":                                       "api_key=",
	} {
		if got := m.Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if once := m.Text(text); m.Text(once) != once {
			t.Errorf("%q changes when it is masked again: %q", once, m.Text(once))
		}
	}
}

func FuzzMaskText(f *testing.F) {
	f.Add("x", "api_key=")
	f.Add("--token ", "\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "hf_abcdefghijklmnopqrstuvwxyz"
		if got := (Mask{Home: "/h", User: "u"}).Text(before + " " + secret + " " + after); strings.Contains(got, secret) {
			t.Errorf("%q", got)
		}
	})
}

package python

import "testing"

// A program of trl's own has the fields of its classes, and those of the class that they extend.
func TestRecorded(t *testing.T) {
	l := Options{Options: RecordedOptions(HF, "trl.ScriptArguments", "trl.SFTConfig", "trl.ModelConfig", "nobody.Knows")}
	for name, want := range map[string]string{"--max-length": "1024", "--per_device_train_batch_size": "8",
		"--lora_r":                    "16",
		"--no_gradient_checkpointing": "True", "--dataset_name": "None"} {
		if o, ok := l.Lookup(name); !ok || o.Default != want {
			t.Errorf("%s: default %q, want %q", name, o.Default, want)
		}
	}
	if _, ok := l.Lookup("--beta"); ok {
		t.Error("SFTConfig has no --beta")
	}
}

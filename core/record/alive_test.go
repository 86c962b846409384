package record

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A process that has ended and was not fetched by its parent is not alive.
func TestAlive(t *testing.T) {
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); Running(c.Process.Pid); {
		if time.Now().After(deadline) {
			t.Fatal("a zombie is alive")
		}
		time.Sleep(time.Millisecond)
	}
	c.Wait()
	if Running(c.Process.Pid) || Running(0) || !Running(os.Getpid()) || !Running(1) {
		t.Error("of none, of this one and of the first process it is known whether they are alive")
	}
}

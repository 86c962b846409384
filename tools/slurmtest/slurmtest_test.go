package slurmtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A job runs, and one that is preempted is requeued and runs again.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	gpus := 2
	if os.Geteuid() != 0 {
		gpus = 0
	}
	c := Start(t, Nodes{Count: 2, CPUs: 1, MemoryMB: 1000, GPUs: gpus})
	dir := t.TempDir()
	script := filepath.Join(dir, "job.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho "+
		"\"$SLURM_RESTART_COUNT on $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES\" >> "+
		dir+"/ran\n[ -n \"$SLURM_RESTART_COUNT\" ] || sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{"--parsable", "-n1", "--mem=100", "-o", dir + "/%j.out"}
	if gpus > 0 {
		args = append(args, "--gres=gpu:2")
	}
	c.Run(t, "sbatch", append(args, "--requeue", "-N2", "-n2", script)...)
	read := func() string { text, _ := os.ReadFile(dir + "/ran"); return string(text) }
	c.await(t, "the job", func() bool { return strings.Contains(read(), " on n") })
	began := time.Now()
	c.Run(t, "sbatch", append(args, "-p", "high", "-N2", "-n2", "--wrap=true")...)
	c.await(t, "the job after it was preempted", func() bool { return strings.Contains(read(), "1 on n") })
	t.Logf("requeued after %v: %s", time.Since(began), read())
}

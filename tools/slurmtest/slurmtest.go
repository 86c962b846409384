// Package slurmtest starts a real Slurm for tests: munged, slurmctld and one slurmd for each node, on this machine,
// below a temporary folder. It needs Debian's packages slurmctld, slurmd, slurm-client and munge, no systemd and no
// configuration of the machine.
package slurmtest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"
)

// A Cluster is a running Slurm.
type Cluster struct {
	Dir string   // its configuration, logs and state
	Env []string // with which sbatch and the like reach it: this process's, and SLURM_CONF
}

// Nodes describe the cluster's machines, all of them this one.
type Nodes struct {
	Count    int // named n1, n2, …
	CPUs     int // of each
	MemoryMB int
	GPUs     int // of each, made of null devices; 0: none. Only root can make them
}

// Programs are what a cluster is made of.
var Programs = []string{"munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel"}

// Missing returns the program that is not installed here; "" if none.
func Missing() string {
	for _, p := range Programs {
		if _, err := exec.LookPath(p); err != nil {
			if _, err := os.Stat("/usr/sbin/" + p); err != nil {
				return p
			}
		}
	}
	return ""
}

// Need skips a test where Slurm is not installed, except where LAUNCH_TEST_SLURM is set: there it fails.
func Need(t testing.TB) {
	t.Helper()
	missing := Missing()
	switch {
	case missing == "":
	case os.Getenv("LAUNCH_TEST_SLURM") != "":
		t.Fatalf("%s is not installed: apt-get install slurmctld slurmd slurm-client munge", missing)
	default:
		t.Skipf("%s is not installed: apt-get install slurmctld slurmd slurm-client munge", missing)
	}
}

// conf is Slurm's configuration. cred_expire: a job that is requeued would otherwise wait two minutes for its old
// credential. Two partitions: a job in "high" takes the nodes of one in "low", which is requeued.
var conf = template.Must(template.New("slurm.conf").Parse(`ClusterName=launch
SlurmctldHost={{.Host}}(127.0.0.1)
SlurmctldPort={{.Port}}
SlurmUser={{.User}}
SlurmdUser={{.User}}
AuthType=auth/munge
AuthInfo=socket={{.Dir}}/munge.sock,cred_expire=5
CredType=cred/munge
StateSaveLocation={{.Dir}}/state
SlurmdSpoolDir={{.Dir}}/spool-%n
SlurmctldPidFile={{.Dir}}/slurmctld.pid
SlurmdPidFile={{.Dir}}/slurmd-%n.pid
SlurmctldLogFile={{.Dir}}/slurmctld.log
SlurmdLogFile={{.Dir}}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
JobCompType=jobcomp/filetxt
JobCompLoc={{.Dir}}/jobcomp.txt
ReturnToService=2
KillWait=5
MinJobAge=300
InactiveLimit=0
OverTimeLimit=0
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
{{if .GPUs}}GresTypes=gpu
{{end}}{{range .Names}}NodeName={{.Name}} NodeHostname={{$.Host}} NodeAddr=127.0.0.1 Port={{.Port}} CPUs={{$.CPUs}} ` +
	`RealMemory={{$.MemoryMB}}{{if $.GPUs}} Gres=gpu:{{$.GPUs}}{{end}} State=UNKNOWN
{{end}}PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
`))

type node struct {
	Name string
	Port int
}

// Start starts a cluster, which ends with the test. It returns when all nodes take jobs.
func Start(t testing.TB, n Nodes) *Cluster {
	t.Helper()
	Need(t)
	dir, err := os.MkdirTemp("", "slurm-") // a short path: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &Cluster{Dir: dir, Env: append(os.Environ(), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"),
		"PATH="+os.Getenv("PATH")+":/usr/sbin")}
	if err := c.configure(n); err != nil {
		t.Fatalf("configuring Slurm: %v", err)
	}
	c.daemon(t, "munged", "--foreground", "--force", "--key-file", dir+"/munge.key", "--socket", dir+"/munge.sock",
		"--pid-file", dir+"/munged.pid", "--log-file", dir+"/munged.log", "--seed-file", dir+"/munge.seed")
	c.await(t, "munged", func() bool { _, err := os.Stat(dir + "/munge.sock"); return err == nil })
	c.daemon(t, "slurmctld", "-D", "-c", "-i", "-f", dir+"/slurm.conf")
	for i := range n.Count {
		c.daemon(t, "slurmd", "-D", "-c", "-f", dir+"/slurm.conf", "-N", fmt.Sprintf("n%d", i+1))
	}
	c.await(t, "the nodes", func() bool {
		out, err := c.Command("sinfo", "-h", "-p", "low", "-o", "%t %D").Output()
		return err == nil && strings.TrimSpace(string(out)) == fmt.Sprintf("idle %d", n.Count)
	})
	return c
}

// configure writes the cluster's files.
func (c *Cluster) configure(n Nodes) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	host, _, _ = strings.Cut(host, ".") // as Slurm calls a machine
	who, err := user.Current()
	if err != nil {
		return err
	}
	data := struct {
		Nodes
		Dir, Host, User string
		Port            int
		Names           []node
	}{n, c.Dir, host, who.Username, 0, nil}
	ports, err := free(n.Count + 1)
	if err != nil {
		return err
	}
	data.Port = ports[0]
	for i := range n.Count {
		data.Names = append(data.Names, node{fmt.Sprintf("n%d", i+1), ports[i+1]})
	}
	var text bytes.Buffer
	if err := conf.Execute(&text, data); err != nil {
		return err
	}
	key := make([]byte, 128)
	rand.Read(key)
	files := map[string][]byte{"slurm.conf": text.Bytes(), "munge.key": key,
		"cgroup.conf": []byte("CgroupPlugin=cgroup/v1\n")}
	for i := range n.GPUs {
		if err := syscall.Mknod(filepath.Join(c.Dir, "gpu"+strconv.Itoa(i)), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
			return fmt.Errorf("making a device for a GPU: %w", err)
		}
	}
	if n.GPUs > 0 {
		files["gres.conf"] = fmt.Appendf(nil, "NodeName=n[1-%d] Name=gpu File=%s/gpu[0-%d]\n", n.Count, c.Dir, n.GPUs-1)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(c.Dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return os.Mkdir(filepath.Join(c.Dir, "state"), 0o700)
}

// free finds free TCP ports.
func free(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// daemon starts a program that runs as long as the test.
func (c *Cluster) daemon(t testing.TB, name string, args ...string) {
	t.Helper()
	cmd := c.Command(name, args...)
	log, err := os.Create(filepath.Join(c.Dir, name+fmt.Sprintf("-%d.out", time.Now().UnixNano())))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
	})
}

// await waits until done; the limit only stops a test that would never end.
func (c *Cluster) await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("Slurm: %s did not come up:\n%s", what, c.Logs())
		}
	}
}

// Command is a command that speaks to this cluster.
func (c *Cluster) Command(name string, args ...string) *exec.Cmd {
	if path := "/usr/sbin/" + name; !strings.Contains(name, "/") {
		if _, err := exec.LookPath(name); err != nil {
			name = path
		}
	}
	cmd := exec.Command(name, args...)
	cmd.Env = c.Env
	return cmd
}

// Run runs a command that speaks to this cluster, and returns what it prints.
func (c *Cluster) Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := c.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s\n%s", name, strings.Join(args, " "), err, out, c.Logs())
	}
	return strings.TrimSpace(string(out))
}

// Logs are the ends of the cluster's logs.
func (c *Cluster) Logs() string {
	var out strings.Builder
	paths, _ := filepath.Glob(filepath.Join(c.Dir, "*.log"))
	more, _ := filepath.Glob(filepath.Join(c.Dir, "*.out"))
	for _, path := range append(paths, more...) {
		text, _ := os.ReadFile(path)
		fmt.Fprintf(&out, "== %s\n%s\n", filepath.Base(path), text[max(0, len(text)-1500):])
	}
	return out.String()
}

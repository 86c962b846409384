// Package top collects what runs on this machine now, and shows it: runs and their statuses, cards, host memory, and
// the other processes that hold memory of a card. It only reads.
//
// A [Snapshot] goes in, text comes out. A [Screen] is a value without a terminal: what it shows follows from the
// snapshot, the size and the keys alone. [Show] puts it on a terminal, and [Table] prints one snapshot where there is
// none.
package top

import (
	"encoding/json"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

// Version of [Snapshot]. Fields are added within a version and never change their meaning.
const Version = 1

// A Snapshot is the machine at one moment. Its texts come from files and processes: they may contain escape sequences.
type Snapshot struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	Machine string    `json:"machine"`
	Runs    []Run     `json:"runs"`  // the oldest first
	Cards   []Card    `json:"cards"` // with MIG slices behind their cards
	// NoCards is why no card is listed: "no NVIDIA driver". Absent if the driver answered.
	NoCards string `json:"no_cards,omitempty"`
	Host    *Host  `json:"host_memory"` // null: not known
	// Others are the processes that hold memory of a card and are not known to be of a run.
	Others []Process `json:"other_processes"`
	// Waiting is how many launches wait for memory, and Elsewhere how many runs of the same records are on other machines.
	Waiting   int `json:"waiting"`
	Elsewhere int `json:"runs_elsewhere"`
	// Problems are what could not be read.
	Problems []string `json:"problems"`
}

// The states of a run.
const (
	Running = "running"
	CutOff  = "cut off" // its launch was killed
)

// A Run is a run that a launch carries now, or one that was cut off within the last day.
type Run struct {
	ID      string    `json:"id"`
	State   string    `json:"state"`
	Title   string    `json:"title"` // its experiment, or its command
	Plugin  string    `json:"plugin,omitempty"`
	Command []string  `json:"command"`
	Began   time.Time `json:"began"`
	PID     int       `json:"pid"` // of its launch, in that launch's namespace
	// Status is what the launch published last; null: nothing, as between two attempts.
	Status *record.Status `json:"status"`
	// Expected is the estimate of the phase that runs; absent: not known.
	Expected unit.Bytes `json:"estimate_bytes,omitempty"`
	// Left is the time that the training still takes; absent: not known.
	Left *float64 `json:"time_left_seconds,omitempty"`
	// OnCards is what the driver counts for its processes now, on all cards; absent: it lists none of them.
	OnCards unit.Bytes `json:"on_cards_bytes,omitempty"`
	// Cards are the indices, in the snapshot's list, of the cards that it uses.
	Cards []int `json:"cards,omitempty"`
}

// Silent returns for how long a running launch has published nothing, if that is longer than it should be.
func (r Run) Silent(now time.Time) (age time.Duration, silent bool) {
	if r.State != Running || r.Status == nil {
		return 0, false
	}
	age = now.Sub(r.Status.Time)
	return age, age > silence
}

// silence is the age from which a status is called old: a busy machine may be late by some seconds.
const silence = 10 * record.StatusEvery

// A Card is a device, and who uses it.
type Card struct {
	gpu.Device
	// Busy is for how much of the driver's last sample period a kernel ran, in percent; absent: not known.
	Busy *int     `json:"busy_percent,omitempty"`
	Runs []string `json:"runs,omitempty"`
	// Others is what processes of no run hold, as far as the driver lists them.
	Others unit.Bytes `json:"others_bytes,omitempty"`
}

// MarshalJSON writes the device's fields, and the card's own behind them.
func (c Card) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		gpu.Written
		Busy   *int       `json:"busy_percent,omitempty"`
		Runs   []string   `json:"runs,omitempty"`
		Others unit.Bytes `json:"others_bytes,omitempty"`
	}{c.Written(), c.Busy, c.Runs, c.Others})
}

// A Process holds memory of a card.
type Process struct {
	Card int `json:"card"` // its index in the snapshot's list
	gpu.Process
}

// Host is this machine's memory, or what this process's cgroup may take of it.
type Host struct {
	Total unit.Bytes `json:"total_bytes,omitempty"` // absent: not known
	Free  unit.Bytes `json:"free_bytes"`
}

package ui

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/room"
)

// A Card is a device with what launches have claimed of it.
type Card struct {
	gpu.Device
	Claims []room.Held `json:"claims,omitempty"`
}

// MarshalJSON writes the device's fields, and the card's own behind them.
func (c Card) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		gpu.Written
		Claims []room.Held `json:"claims,omitempty"`
	}{c.Written(), c.Claims})
}

// CardsOf puts the claims that are held on devices beside them.
func CardsOf(all []gpu.Device, held []room.Held) []Card {
	cards := []Card{}
	for _, d := range all {
		c := Card{Device: d}
		for _, h := range held {
			if h.Resource == room.Of(d) && !h.Waiting {
				c.Claims = append(c.Claims, h)
			}
		}
		cards = append(cards, c)
	}
	return cards
}

// GPUs writes the list of devices.
func (p Printer) GPUs(all []Card) {
	var rows []tableRow
	for _, d := range all {
		name := OneLine(d.Name)
		if d.Parent != "" {
			name = "  " + name
		}
		amount := fmt.Sprintf("%10v free of %-10v", d.Free(), d.Total)
		switch {
		case d.Fault != "":
			amount = "does not answer the driver: " + d.Fault
		case d.Total == 0 && d.Used == 0:
			amount = "memory not known"
		case d.Shared:
			amount = fmt.Sprintf("%10v free of %v, shared with the machine", d.Free(), d.Total)
		case d.Total == 0:
			amount = fmt.Sprintf("%10v in use, of an amount that is not known", d.Used)
		}
		row := tableRow{line: fmt.Sprintf("%d  %-32s %s %s", d.Index, name, amount, d.UUID),
			title:  fmt.Sprintf("%d  %s", d.Index, name),
			fields: []string{strings.TrimSpace(amount), d.UUID}}
		if d.Fault != "" {
			row.below = append(row.below, "   "+d.Mend())
		}
		if d.Unlisted {
			row.below = append(row.below, "   the driver does not list its processes")
		}
		for _, proc := range d.Processes {
			used := proc.Used.String()
			if proc.Used < 0 {
				used = "unknown"
			}
			row.below = append(row.below, fmt.Sprintf("   process %-8d %10s  %s", proc.PID, used,
				OneLine(strings.TrimSpace(proc.User+"  "+proc.Name))))
		}
		for _, h := range d.Claims {
			what := "claimed"
			if h.Open {
				what = "claimed: what was free, for a job whose memory is not known"
			}
			row.below = append(row.below, fmt.Sprintf("   launch  %-8d %10v  %s (uid %d)", h.PID, h.Bytes, what, h.UID))
		}
		rows = append(rows, row)
	}
	p.grid("", rows)
}

// OtherClaims writes the claims on anything but these devices, and the launches that wait.
func (p Printer) OtherClaims(all []gpu.Device, held []room.Held) {
	listed := map[room.Resource]bool{}
	for _, d := range all {
		listed[room.Of(d)] = true
	}
	for _, h := range held {
		of := h.Kind
		if h.ID != "" {
			of += " " + OneLine(h.ID)
		}
		switch {
		case h.Waiting && h.Open:
			p.line("launch %d (uid %d) waits for a card that no other launch uses", h.PID, h.UID)
		case h.Waiting:
			p.line("launch %d (uid %d) waits for %v of %s", h.PID, h.UID, h.Bytes, of)
		case !listed[h.Resource]:
			p.line("%v of %s claimed by process %d (uid %d)", h.Bytes, of, h.PID, h.UID)
		}
	}
}

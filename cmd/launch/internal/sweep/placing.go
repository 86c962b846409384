package sweep

import (
	"syscall"

	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/sweep/pack"
)

// placing is how trials are placed on cards.
type placing struct {
	room  settings.Room
	fill  bool             // use as much of a card as fits
	leave []attempt.Notice // how a trial is asked to save
	nodes string           // where the nodes of a trial meet; "": it has one
}

func placingOf(s settings.Values) placing {
	return placing{s.Room, s.Limits.Fill, s.Program.Leave, s.Nodes.At}
}

// policy is what the user has set of the placement.
func (p placing) policy() pack.Policy {
	return pack.Policy{Headroom: max(pack.DefaultHeadroom, p.room.Reserve)}
}

// saveOn is how trials that share cards are asked to save their state and to stop.
const saveOn = "USR2=60s"

// onCards has trials run on the cards that the sweep chooses for them, if the user did not name one.
func (p placing) onCards(o *local.Options) {
	before := []string{"--yield"}
	if o.SaveOn = syscall.SIGUSR2; len(p.leave) > 0 {
		o.SaveOn = p.leave[0].Signal
	} else {
		before = append(before, "--save-on="+saveOn)
	}
	if p.room.Wait == 0 {
		before = append(before, "--wait") // the room may be there a moment later
	}
	if p.room.Device == "auto" {
		o.Pricing = []string{"--device=" + room.Any} // for the card that fits best, not for the first
	}
	o.OnCard = func(c *sweep.Card) []string {
		if p.room.Device != "auto" && !p.room.Chooses() {
			return before
		}
		// A list: then the program sees this card alone. A card that is named without a list is only watched.
		return append(before[:len(before):len(before)], "--device="+c.UUID+",")
	}
}
